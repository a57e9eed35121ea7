"""Edits of queues, and of what PodGroups say to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from arranger.api import annotations as keys
from tests.builders import PodBuilder, a_node, a_pod
from tests.queueing import CARD, a_queue_manifest, gpu_node, inference, training
from tests.simulation.edits.edit import (
    QUEUES,
    Edits,
    Look,
    NoMeaning,
    Step,
    TakesEffect,
    annotate,
    create,
    evicted,
    opens,
    patch,
    placed,
    steps,
)
from tests.simulation.edits.fields import Field
from tests.simulation.edits.gangs import group_path
from tests.simulation.harnesses.simulation import Object

_NODES: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_VOLCANO: Final = "scheduling.volcano.sh/v1beta1"


def spec(queue: str, **fields: Any) -> Step:
    """A queue's spec is edited."""
    return patch(QUEUES + queue, {"spec": fields})


def limited(pods: PodBuilder | None, **fields: Any) -> Step:
    """The queue ``q``, a node of four CPUs, and pods."""
    made = [a_node("n1").offers(cpu=4), a_queue_manifest("q", **fields)]
    return create(*made, *([pods] if pods is not None else []))


P: Final = a_pod("p").needs(cpu=2).in_queue("q")
OLD: Final = a_pod("old").needs(cpu=1).in_queue("q")


def both_ways(field: Step, **fields: Any) -> Edits:
    """The edit opens the queue for a pod that waits, and for one that comes while others run."""
    return Edits(
        opens(limited(P, **fields), field),
        opens(
            steps(limited(None, **fields), create(OLD)),
            field,
            create(a_pod("p").needs(cpu=2).in_queue("q")),
        ),
    )


# --- order ---------------------------------------------------------------------------------------


def first(queues: list[Object], edit: Step, *more: PodBuilder) -> TakesEffect:
    """Which of two pods of two queues gets the place that comes."""
    pods = (a_pod(name).needs(cpu=1).in_queue(name) for name in ("a", "b"))
    return TakesEffect(
        given=create(*queues, *more, *pods),
        edit=edit,
        later=create(a_node("n9").offers(cpu=1)),
        look=placed("a", "b"),
        without={"a"},
        seen={"b"},
    )


def _used() -> list[PodBuilder]:
    """Queue ``a`` uses one CPU of its node, queue ``b`` two of another."""
    return [
        a_pod("a-old").needs(cpu=1).in_queue("a").on("n1"),
        a_pod("b-old").needs(cpu=2).in_queue("b").on("n2"),
    ]


def _shared(**fields: Any) -> list[Any]:
    nodes = [a_node("n1").offers(cpu=1), a_node("n2").offers(cpu=2)]
    return [*nodes, *(a_queue_manifest(name, **fields) for name in ("a", "b"))]


PRIORITY: Final = first(
    [a_queue_manifest("a", priority=5), a_queue_manifest("b", priority=4)], spec("b", priority=6)
)
WEIGHT: Final = first(_shared(), spec("b", weight=10), *_used())
DESERVED: Final = first(_shared(deserved={"cpu": 4}), spec("b", deserved={"cpu": 40}), *_used())

# --- who gives way -------------------------------------------------------------------------------


def taken(edit: Step, *, before: bool = False, **training_queue: Any) -> TakesEffect:
    """Inference takes from training by the edit; ``before``: it waits already by then."""
    queues = [
        a_queue_manifest("inference", cards={CARD: 8}, priority=80000, reclaimable=False),
        a_queue_manifest(
            "training",
            cards={CARD: 8},
            **{"priority": 20000, "reclaimable": True, **training_queue},
        ),
    ]
    node = gpu_node("n0").offers(memory="512Gi", pods=110)
    held = create(*queues, node, training("t", 8).on("n0"))
    comes = create(inference("i", 8))
    story = TakesEffect(held, edit, evicted, set(), {"t"})
    if before:
        return replace(story, given=steps(held, comes))
    return replace(story, later=comes)


def gives_way(edit: Step, **training_queue: Any) -> Edits:
    """To one that waits at the edit, and to one that comes after it."""
    return Edits(taken(edit, before=True, **training_queue), taken(edit, **training_queue))


_KEPT: Final = {"resource": {"nvidia.com/gpu": 8}}
QUOTA: Final = {keys.CARD_QUOTA: f'{{"{CARD}": 4}}'}
MORE: Final = annotate(f"{QUEUES}q", **{keys.CARD_QUOTA: f'{{"{CARD}": 16}}'})


def _cards(*pods: PodBuilder) -> Step:
    queue = a_queue_manifest("q", cards={CARD: 4})
    return create(queue, gpu_node("n1"), *pods)


def _card_pod(name: str, cards: int) -> PodBuilder:
    return a_pod(name).needs({"nvidia.com/gpu": cards}).in_queue("q")


# --- who may use it, and what it believes --------------------------------------------------------

NOBODY: Final = {"matchLabels": {"team": "nobody"}}
WANTED: Final = {"key": "team", "operator": "In", "values": ["default"]}


def _with_priority(name: str, priority: int) -> PodBuilder:
    pod = a_pod(name).needs(cpu=1).in_queue("q").with_priority(priority)
    return pod.with_spec(priorityClassName=f"pc-{priority}")


MAX_PRIORITY: Final = Edits(
    TakesEffect(
        given=create(
            a_queue_manifest("q", maxPriority=60000),
            _with_priority("a", 60000),
            _with_priority("b", 80000),
        ),
        edit=spec("q", maxPriority=None),
        later=create(a_node("n9").offers(cpu=1)),
        look=placed("a", "b"),
        without={"a"},
        seen={"b"},
    ),
    TakesEffect(
        given=create(
            a_queue_manifest("inference", cards={CARD: 8}),
            a_queue_manifest("training", cards={CARD: 8}),
            gpu_node("n0").offers(memory="512Gi", pods=110),
            training("t", 8, 80000).on("n0"),
        ),
        edit=spec("training", maxPriority=20000),
        later=create(inference("i", 8, 80000)),
        look=evicted,
        without=set(),
        seen={"t"},
    ),
)

# --- PodGroups -----------------------------------------------------------------------------------


def _group(**more: Any) -> Object:
    meta = {"name": "g", "namespace": "default", "annotations": more.pop("notes", {})}
    return {
        "apiVersion": _VOLCANO,
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": 1, **more},
    }


def _of_group(name: str, **needs: int) -> PodBuilder:
    return a_pod(name).needs(**needs).annotated({keys.VOLCANO_GROUP: "g"})


GROUP_QUEUE: Final = Edits(
    opens(
        create(
            a_node("n1").offers(cpu=4),
            a_queue_manifest("q", capability={"cpu": 1}),
            a_queue_manifest("roomy"),
            _group(queue="q"),
            _of_group("p", cpu=2),
        ),
        patch(group_path(_VOLCANO), {"spec": {"queue": "roomy"}}),
    ),
    opens(
        create(
            a_node("n1").offers(cpu=4),
            a_queue_manifest("q", capability={"cpu": 1}),
            a_queue_manifest("roomy"),
            _group(queue="q"),
            _of_group("old", cpu=1),
        ),
        patch(group_path(_VOLCANO), {"spec": {"queue": "roomy"}}),
        create(a_pod("p").needs(cpu=1).in_queue("q")),
    ),
)
GROUP_TASKS: Final = Edits(
    TakesEffect(
        given=create(
            a_node("n1").offers(cpu=4),
            _group(minTaskMember={"w": 3}),
            *(_of_group(f"w-{n}", cpu=1).annotated({keys.TASK_SPEC: "w"}) for n in range(2)),
        ),
        edit=patch(group_path(_VOLCANO), {"spec": {"minTaskMember": {"w": 2}}}),
        look=placed("w-0", "w-1"),
        without=set(),
        seen={"w-0", "w-1"},
    ),
    NoMeaning("the gang has had its minimum; it counts again when it begins anew"),
)


def _min_resources(version: str, member: dict[str, str]) -> Edits:
    """A PodGroup that wants more than there is, until it wants less."""
    head = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}}
    pod = a_pod("p").needs(cpu=1)
    pod = pod.annotated(member) if version == _VOLCANO else pod.labelled(member)
    return Edits(
        opens(
            create(
                a_node("n1").offers(cpu=4),
                {**head, "spec": {"minMember": 1, "minResources": {"cpu": 30}}},
                pod,
            ),
            patch(group_path(version), {"spec": {"minResources": {"cpu": 4}}}),
        ),
        NoMeaning("its pods are there; what they lack is kept from other PodGroups from then on"),
    )


def _requests(cards: int) -> dict[str, str]:
    return {keys.CARD_REQUEST: f'{{"{CARD}": {cards}}}'}


CARD_REQUEST: Final = Edits(
    opens(
        create(
            a_queue_manifest("q", cards={CARD: 4}),
            gpu_node("n1"),
            _group(queue="q", notes=_requests(12)),
            _of_group("p").needs({"nvidia.com/gpu": 2}),
        ),
        annotate(group_path(_VOLCANO), **_requests(2)),
    ),
    NoMeaning("its pods are there and are charged what they have"),
)


def _typed(service: str) -> PodBuilder:
    """The pod ``t`` or ``i``, whose service type its PodGroup says."""
    made = training("t", 8).on("n0") if service == "training" else inference("i", 8)
    return made.annotated({keys.SERVICE_TYPE: "", keys.VOLCANO_GROUP: "g"})


def _group_service(given: PodBuilder, other: PodBuilder, edit: str, *, first: bool) -> TakesEffect:
    base: Step = steps(
        lambda sim: sim.queues(),
        create(gpu_node("n0").offers(memory="512Gi", pods=110), _group(), given),
    )
    change = annotate(group_path(_VOLCANO), **{keys.SERVICE_TYPE: edit})
    story = TakesEffect(base, change, evicted, set(), {"t"})
    return (
        replace(story, given=steps(base, create(other)))
        if first
        else replace(story, later=create(other))
    )


GROUP_SERVICE: Final = Edits(
    _group_service(training("t", 8).on("n0"), _typed("inference"), "inference", first=True),
    _group_service(_typed("training"), inference("i", 8), "training", first=False),
)

GROUP_PREEMPTABLE: Final = Edits(
    NoMeaning("it says who may be evicted, and a pod without a node is not"),
    TakesEffect(
        given=steps(
            lambda sim: sim.queues(),
            create(
                gpu_node("n0").offers(memory="512Gi", pods=110),
                _group(notes={keys.PREEMPTABLE: "false"}),
                training("t", 8).annotated({keys.VOLCANO_GROUP: "g"}).on("n0"),
            ),
        ),
        edit=annotate(group_path(_VOLCANO), **{keys.PREEMPTABLE: "true"}),
        later=create(inference("i", 8)),
        look=evicted,
        without=set(),
        seen={"t"},
    ),
)

# --- what the queue is told ----------------------------------------------------------------------


def _invalid(name: str) -> Look:
    def look(sim: Any) -> object:
        events = sim.cluster.objects("events", "events.k8s.io")
        return any(e["reason"] == "InvalidQueue" and e["regarding"]["name"] == name for e in events)

    return look


def told(edit: Step) -> TakesEffect:
    """The queue is told that this is not supported."""
    return TakesEffect(create(a_queue_manifest("q")), edit, _invalid("q"), False, True)


_DEVICES: Final = {"gpu.example.com": {"count": 1}}
_AFFINITY: Final = (
    "spec.affinity.nodeGroup{}Affinity.requiredDuringSchedulingIgnoredDuringExecution"
)
STATE: Final = annotate(f"{QUEUES}q", **{keys.QUEUE_STATE: "Open"})
CLOSED: Final = {keys.QUEUE_STATE: "Closed"}
_STARTED: Final = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
_MAX_RUN_TIME: Final = TakesEffect(
    given=steps(
        create(a_queue_manifest("q", notes={keys.QUEUE_MAX_RUN_TIME: "1h"}), a_node("n1")),
        create(a_pod("p").needs(cpu=1).in_queue("q").on("n1").with_status(**_STARTED)),
    ),
    edit=annotate(f"{QUEUES}q", **{keys.QUEUE_MAX_RUN_TIME: "20s"}),
    look=evicted,
    without=set(),
    seen={"p"},
)
ROWS: Final[dict[Field, Edits]] = {
    ("Queue", "spec.capability"): both_ways(
        spec("q", capability={"cpu": 4}), capability={"cpu": 1}
    ),
    ("Queue", "spec.parent"): Edits(
        opens(
            steps(
                create(a_queue_manifest("small", capability={"cpu": 1})), limited(P, parent="small")
            ),
            spec("q", parent=None),
        ),
        opens(
            steps(
                create(a_queue_manifest("small", capability={"cpu": 1})),
                limited(OLD, parent="small"),
            ),
            spec("q", parent=None),
            create(a_pod("p").needs(cpu=2).in_queue("q")),
        ),
    ),
    ("Queue", "spec.namespaceSelector.matchLabels"): both_ways(
        spec("q", namespaceSelector=None), namespaceSelector=NOBODY
    ),
    **{
        ("Queue", f"spec.namespaceSelector.matchExpressions[].{part}"): both_ways(
            spec("q", namespaceSelector={"matchExpressions": [{**WANTED, **change}]}),
            namespaceSelector={"matchExpressions": [WANTED]},
        )
        for part, change in {
            "key": {"key": "kubernetes.io/metadata.name"},
            "operator": {"operator": "NotIn"},
            "values": {"key": "kubernetes.io/metadata.name", "values": ["default"]},
        }.items()
    },
    ("Queue", "spec.serviceTypes"): gives_way(
        spec("training", serviceTypes=None), serviceTypes=["inference"]
    ),
    ("Queue", "spec.maxPriority"): MAX_PRIORITY,
    ("Queue", _AFFINITY.format("")): Edits(
        opens(
            limited(P, affinity={"nodeGroupAffinity": {_NODES: ["blue"]}}),
            spec("q", affinity=None),
        ),
        NoMeaning("what runs stays where it is"),
    ),
    ("Queue", _AFFINITY.format("Anti")): Edits(
        opens(
            steps(
                limited(P, affinity={"nodeGroupAntiAffinity": {_NODES: ["blue"]}}),
                patch("/api/v1/nodes/n1", {"metadata": {"labels": {keys.NODE_GROUP: "blue"}}}),
            ),
            spec("q", affinity=None),
        ),
        NoMeaning("what runs stays where it is"),
    ),
    ("Queue", "spec.priority"): Edits(
        PRIORITY,
        NoMeaning("among the queues that lose, the least important loses first: as of now"),
    ),
    ("Queue", "spec.weight"): Edits.both(WEIGHT),
    ("Queue", "spec.deserved"): Edits.both(DESERVED),
    ("Queue", "spec.reclaimable"): gives_way(spec("training", reclaimable=True), reclaimable=False),
    ("Queue", "spec.guarantee.resource"): gives_way(
        spec("training", guarantee=None), guarantee=_KEPT
    ),
    ("Queue", "spec.dequeueStrategy"): Edits.both(told(spec("q", dequeueStrategy="fifo"))),
    ("Queue", keys.CARD_QUOTA): Edits(
        opens(_cards(_card_pod("p", 6)), MORE),
        opens(_cards(_card_pod("old", 2)), MORE, create(_card_pod("p", 3))),
    ),
    ("Queue", keys.QUEUE_MAX_RUN_TIME): Edits(_MAX_RUN_TIME, _MAX_RUN_TIME),
    ("Queue", keys.QUEUE_STATE): both_ways(STATE, notes=CLOSED),
    ("PodGroup of scheduling.volcano.sh", "spec.queue"): GROUP_QUEUE,
    ("PodGroup of scheduling.volcano.sh", "spec.minTaskMember"): GROUP_TASKS,
    ("PodGroup of scheduling.volcano.sh", "spec.minResources"): _min_resources(
        _VOLCANO, {keys.VOLCANO_GROUP: "g"}
    ),
    ("PodGroup of scheduling.x-k8s.io", "spec.minResources"): _min_resources(
        "scheduling.x-k8s.io/v1alpha1", {"scheduling.x-k8s.io/pod-group": "g"}
    ),
    ("PodGroup of scheduling.sigs.k8s.io", "spec.minResources"): _min_resources(
        "scheduling.sigs.k8s.io/v1alpha1", {"pod-group.scheduling.sigs.k8s.io": "g"}
    ),
    ("Queue", keys.CLOSED_BY_PARENT): Edits.both(
        NoMeaning("the controllers write it; who closes a queue himself sets its state")
    ),
    ("PodGroup of scheduling.volcano.sh", "spec.priorityClassName"): Edits.both(
        NoMeaning("the pods' own priority counts; the controllers write both from the job's")
    ),
    ("PodGroup", keys.CARD_REQUEST): CARD_REQUEST,
    ("PodGroup", keys.SERVICE_TYPE): GROUP_SERVICE,
    ("PodGroup", keys.PREEMPTABLE): GROUP_PREEMPTABLE,
    **{
        ("Queue", f"spec.dra.{part}"): Edits.both(told(spec("q", dra={part: _DEVICES})))
        for part in ("capability", "deserved", "guarantee")
    },
}
