"""Edits of pods themselves: their spec, labels, placement, queue and owners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from arranger.api import annotations as keys
from arranger.daemon.config.schema import GangConfig
from tests.builders import PodBuilder, a_node, a_pod, expr
from tests.project.crds.samples import SAMPLES
from tests.queueing import CARD, a_queue_manifest, gpu_node, inference, training
from tests.simulation.edits.edit import (
    PODS,
    Edits,
    NoMeaning,
    Refused,
    Step,
    TakesEffect,
    create,
    evicted,
    json_patch,
    label,
    nodes_of,
    note,
    patch,
    placed,
    steps,
)
from tests.simulation.edits.fields import Field
from tests.simulation.edits.gangs import MADE_BY_JOB
from tests.simulation.harnesses.queues import CONFIG
from tests.simulation.harnesses.simulation import Object

#: What is asked of a node when a pod is placed.
PLACED: Final = NoMeaning("the pod has its node; this is asked when it is placed")
ONE: Final = create(a_pod("p").needs(cpu=1))
UNGATED: Final = patch(f"{PODS}p", {"spec": {"schedulingGates": None}})


def _replace(path: str, value: Any) -> list[Object]:
    return [{"op": "add", "path": path, "value": value}]


def refused(field: str, value: Any) -> Refused:
    """A field of a pod's spec that nobody may change."""
    return Refused(ONE, f"{PODS}p", _replace(f"/spec/{field}", value))


def gated(edit: Step, expected: str, otherwise: str, *nodes: Any, **more: Any) -> TakesEffect:
    """Of two nodes another one is taken, by an edit that is made before the gate opens."""
    made = more.pop("made", a_pod("p").needs(cpu=1)).gated("g")
    return TakesEffect(
        given=create(*nodes, made),
        edit=edit,
        later=UNGATED,
        look=nodes_of("p"),
        without=otherwise,
        seen=expected,
        **more,
    )


# --- where it may go -----------------------------------------------------------------------------

_TWO: Final = a_node("n1").offers(cpu=4), a_node("n2").offers(cpu=2)
_BUSY: Final = (*_TWO, a_pod("old").needs(cpu=2).on("n1"))
_IMAGE: Final = "registry/large:1"
_HOLDER: Final = a_node("n2").offers(cpu=4).holding(_IMAGE, 900 << 20)

CONTAINERS: Final = gated(
    json_patch(f"{PODS}p", "replace", "/spec/containers/0/image", _IMAGE),
    "n2",
    "n1",
    a_node("n1").offers(cpu=5),
    _HOLDER,
    made=a_pod("p"),
)
SELECTOR: Final = gated(
    patch(f"{PODS}p", {"spec": {"nodeSelector": {"kubernetes.io/hostname": "n2"}}}),
    "n2",
    "n1",
    *_TWO,
)
_ON_N2: Final = {"matchExpressions": [expr("kubernetes.io/hostname", "In", "n2")]}
_AFFINITY: Final = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_ON_N2]}
    }
}
AFFINITY: Final = gated(patch(f"{PODS}p", {"spec": {"affinity": _AFFINITY}}), "n2", "n1", *_TWO)
TOLERATIONS: Final = TakesEffect(
    given=create(a_node("n1").tainted("kept"), a_pod("p")),
    edit=json_patch(f"{PODS}p", "add", "/spec/tolerations/-", {"operator": "Exists"}),
    look=nodes_of("p"),
    without="",
    seen="n1",
)
GATES: Final = TakesEffect(
    given=create(a_node("n1"), a_pod("p").gated("g")),
    edit=UNGATED,
    look=nodes_of("p"),
    without="",
    seen="n1",
)
PLACEMENT: Final = gated(note(keys.PLACEMENT, "BinPack", "p"), "n1", "n2", *_BUSY)
ROLE: Final = gated(
    note(keys.ROLE, "leader", "p"),
    "n2",
    "n1",
    *_BUSY,
    made=a_pod("p").needs(cpu=1).annotated({keys.PLACEMENT: "LeaderFirst", keys.ROLE: "worker"}),
)

# --- labels and deadlines ------------------------------------------------------------------------

_WEB: Final = {"app": "web"}
_HOST: Final = "kubernetes.io/hostname"


def _labels(edited: str, *pods: PodBuilder) -> TakesEffect:
    """A pod that must not be beside another for its label, until that has another label."""
    return TakesEffect(
        given=create(a_node("n1"), *pods),
        edit=label("app", "db", edited),
        look=nodes_of("p"),
        without="",
        seen="n1",
    )


LABELS: Final = Edits(
    _labels("p", a_pod("old").apart(_HOST, _WEB).on("n1"), a_pod("p").labelled(_WEB)),
    _labels("old", a_pod("old").labelled(_WEB).on("n1"), a_pod("p").apart(_HOST, _WEB)),
)
_STARVING: Final = CONFIG.model_copy(
    update={"gangs": GangConfig(starvation_after_seconds=5, reservation_seconds=3600)}
)


def starving(*pods: PodBuilder) -> Step:
    """A gang of two has waited so long that the node of two is kept free for it."""
    runs = a_pod("runs").needs(cpu=1).on("n1").with_spec(activeDeadlineSeconds=7200)
    gang = (a_pod(f"g-{n}").needs(cpu=1).in_gang("g", 2) for n in range(2))
    return create(a_node("n1").offers(cpu=2), runs, *gang, *pods)


DEADLINES: Final = Edits(
    TakesEffect(
        given=starving(a_pod("p").needs(cpu=1).gated("g")),
        edit=patch(f"{PODS}p", {"spec": {"activeDeadlineSeconds": 60}}),
        later=UNGATED,
        look=nodes_of("p"),
        without="",
        seen="n1",
        settles=400,
        config=_STARVING,
    ),
    TakesEffect(
        given=starving(),
        edit=patch(f"{PODS}runs", {"spec": {"activeDeadlineSeconds": 3000}}),
        later=create(a_pod("p").needs(cpu=1).with_spec(activeDeadlineSeconds=3600)),
        look=nodes_of("p"),
        without="n1",
        seen="",
        settles=400,
        pause=320,  # until the gang is tried again, and what is kept for it is worked out anew
        config=_STARVING,
    ),
)

MAX_RUN_TIME: Final = Edits(
    replace(DEADLINES.waiting, edit=note(keys.MAX_RUN_TIME, "60s", "p")),
    replace(DEADLINES.running, edit=note(keys.MAX_RUN_TIME, "50m", "runs")),
)

#: A pod that has its node, and then another that may take it.
_TAKEN: Final = TakesEffect(
    given=create(a_node("n0").offers(cpu=1), a_pod("low").needs(cpu=1)),
    edit=note(keys.CHECKPOINT_BEFORE_EVICTION, "60s", "low"),
    later=create(a_pod("high").needs(cpu=1).with_spec(priorityClassName="system-cluster-critical")),
    look=evicted,
    without={"low"},
    seen=set(),
)
CHECKPOINT: Final = Edits(NoMeaning("it is asked when the pod has to leave its node"), _TAKEN)
CHECKPOINTED: Final = Edits(
    NoMeaning("it has nothing to lose while it does not run"),
    replace(
        _TAKEN,
        given=create(
            a_node("n0").offers(cpu=1),
            a_pod("low").needs(cpu=1).annotated({keys.CHECKPOINT_BEFORE_EVICTION: "20m"}),
        ),
        edit=note(keys.CHECKPOINTED_AT, "2999-01-01T00:00:00Z", "low"),
        without=set(),
        seen={"low"},
    ),
)

# --- queues --------------------------------------------------------------------------------------


def tide(victim: PodBuilder | None = None) -> Step:
    """The two queues of the examples, and a node whose eight cards a training pod has."""
    runs = (victim or training("t", 8)).on("n0")
    node = gpu_node("n0").offers(memory="512Gi", pods=110)
    return steps(lambda sim: sim.queues(), create(node, runs))


def _unmarked(made: PodBuilder) -> PodBuilder:
    return made.annotated({keys.SERVICE_TYPE: ""})


def _owned_by(kind: str, name: str) -> Step:
    """A pod gets an owner, which controllers do that take pods over."""
    api = "batch/v1" if kind == "Job" else "apps/v1"
    meta = {"name": "o", "namespace": "default"}

    def step(sim: Any) -> None:
        owner = sim.cluster.create({"apiVersion": api, "kind": kind, "metadata": meta, "spec": {}})
        uid = owner["metadata"]["uid"]
        found = {"apiVersion": api, "kind": kind, "name": "o", "uid": uid, "controller": True}
        patch(PODS + name, {"metadata": {"ownerReferences": [found]}})(sim)

    return step


def takes(given: Step, edit: Step, later: Step | None = None) -> TakesEffect:
    """Training is evicted after the edit alone."""
    story = TakesEffect(given, edit, evicted, set(), {"t"})
    return story if later is None else replace(story, later=later)


SERVICE: Final = Edits(
    takes(
        steps(tide(), create(_unmarked(inference("i", 8)))),
        note(keys.SERVICE_TYPE, "inference", "i"),
    ),
    takes(
        tide(training("t", 8).annotated({keys.SERVICE_TYPE: "inference"})),
        note(keys.SERVICE_TYPE, "training", "t"),
        create(inference("i", 8)),
    ),
)
OWNERS: Final = Edits(
    takes(steps(tide(), create(_unmarked(inference("i", 8)))), _owned_by("ReplicaSet", "i")),
    takes(tide(_unmarked(training("t", 8))), _owned_by("Job", "t"), create(inference("i", 8))),
)
PREEMPTABLE: Final = Edits(
    NoMeaning("it says who may be evicted, and a pod without a node is not"),
    takes(
        tide(training("t", 8).annotated({keys.PREEMPTABLE: "false"})),
        note(keys.PREEMPTABLE, "true", "t"),
        create(inference("i", 8)),
    ),
)


def _two_queues() -> Step:
    """``full`` may use one CPU and ``roomy`` four."""
    return create(
        a_node("n1").offers(cpu=4),
        a_queue_manifest("full", capability={"cpu": 1}),
        a_queue_manifest("roomy", capability={"cpu": 4}),
    )


QUEUE: Final = Edits(
    TakesEffect(
        given=steps(_two_queues(), create(a_pod("p").needs(cpu=2).in_queue("full"))),
        edit=note(keys.QUEUE_NAME, "roomy", "p"),
        look=nodes_of("p"),
        without="",
        seen="n1",
    ),
    TakesEffect(
        given=steps(_two_queues(), create(a_pod("p").needs(cpu=1).in_queue("full"))),
        edit=note(keys.QUEUE_NAME, "roomy", "p"),
        later=create(a_pod("next").needs(cpu=1).in_queue("full")),
        look=nodes_of("next"),
        without="",
        seen="n1",
    ),
)
CARDS: Final = TakesEffect(
    given=steps(
        lambda sim: sim.queues(),
        create(
            gpu_node("n0").offers(pods=110),
            training("t", 1).annotated({keys.CARD_NAME: "NVIDIA-H200"}),
        ),
    ),
    edit=note(keys.CARD_NAME, CARD, "t"),
    look=nodes_of("t"),
    without="",
    seen="n0",
)

# --- the order of jobs ---------------------------------------------------------------------------


def _first(*pods: PodBuilder, edit: Step) -> TakesEffect:
    """Which of two pods gets the place that comes."""
    return TakesEffect(
        given=create(*pods),
        edit=edit,
        later=create(a_node("n1").offers(cpu=1)),
        look=placed("a", "b"),
        without={"a"},
        seen={"b"},
    )


_PRIORITY: Final = {keys.JOB_PRIORITY: "5"}


def _pods_of_tyjob(sim: Any) -> None:
    """Two pods of a TYJob that is there, without a controller that would make others."""
    little = SAMPLES["a TYJob that says little"]
    manifest = little.manifest(little.spec, "job")
    manifest["metadata"]["namespace"] = "default"
    sim.cluster.create(manifest)
    [job] = sim.cluster.objects("tyjobs", "arranger.io")
    for name in ("a", "b"):
        pod = a_pod(name).of_tyjob().needs(cpu=1).annotated(_PRIORITY).manifest()
        pod["metadata"]["ownerReferences"][0]["uid"] = job["metadata"]["uid"]
        sim.create(PodBuilder(pod))


JOB_PRIORITY: Final = replace(_first(edit=note(keys.JOB_PRIORITY, "9", "b")), given=_pods_of_tyjob)

ROWS: Final[dict[Field, Edits]] = {
    ("pod", "spec.containers"): Edits(CONTAINERS, PLACED),
    ("pod", "spec.nodeSelector"): Edits(SELECTOR, refused("nodeSelector", {"a": "b"})),
    ("pod", "spec.affinity"): Edits(AFFINITY, refused("affinity", _AFFINITY)),
    ("pod", "spec.tolerations"): Edits(TOLERATIONS, PLACED),
    ("pod", "spec.schedulingGates"): Edits(GATES, refused("schedulingGates", [{"name": "late"}])),
    ("pod", "spec.activeDeadlineSeconds"): DEADLINES,
    **{
        ("pod", f"spec.{field}"): Edits.both(refused(field, value))
        for field, value in {
            "initContainers": [{"name": "i", "image": "img"}],
            "nodeName": "n1",
            "schedulerName": "other",
            "priority": 5,
            "priorityClassName": "p5",
            "preemptionPolicy": "Never",
            "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}],
            "overhead": {"cpu": "1"},
            "resources": {"requests": {"cpu": "1"}},
            "volumes": [{"name": "v", "emptyDir": {}}],
            "hostNetwork": True,
            "hostUsers": False,
            "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
            "schedulingGroup": {"podGroupName": "g"},
            "terminationGracePeriodSeconds": 60,
        }.items()
    },
    ("pod", "metadata.labels"): LABELS,
    ("pod", "metadata.annotations"): Edits.both(NoMeaning("others than those of this table")),
    ("pod", "metadata.finalizers"): Edits.both(NoMeaning("they only keep the object")),
    ("pod", "metadata.ownerReferences"): OWNERS,
    ("pod", keys.PLACEMENT): Edits(PLACEMENT, PLACED),
    ("pod", keys.MAX_RUN_TIME): MAX_RUN_TIME,
    ("pod", keys.CHECKPOINT_BEFORE_EVICTION): CHECKPOINT,
    ("pod", keys.CHECKPOINTED_AT): CHECKPOINTED,
    ("pod", keys.EVICTION_DEADLINE): Edits.both(NoMeaning("we write it, and keep to our clock")),
    ("pod", keys.ROLE): Edits(ROLE, PLACED),
    ("pod", keys.QUEUE_NAME): QUEUE,
    ("pod", keys.CARD_NAME): Edits(CARDS, NoMeaning("it is charged for the card that it has")),
    ("pod", keys.SERVICE_TYPE): SERVICE,
    ("pod", keys.PREEMPTABLE): PREEMPTABLE,
    ("TYJob's pod", keys.JOB_PRIORITY): Edits(JOB_PRIORITY, PLACED),
    ("TYJob's pod", keys.JOB_QUEUE_POLICY): MADE_BY_JOB,
    **{
        ("TYJob's pod", key): MADE_BY_JOB
        for key in (keys.TYJOB, keys.WORKER_SET, keys.RESTARTS, keys.SPEC_HASH)
    },
    ("TYJob's worker", keys.LEADER_UID): MADE_BY_JOB,
    **{
        ("Volcano Job's pod", key): MADE_BY_JOB
        for key in (
            keys.JOB_NAME,
            keys.JOB_NAMESPACE,
            keys.JOB_VERSION_KEY,
            keys.JOB_RETRIES,
            keys.TASK_INDEX,
            keys.JOB_QUEUE_NAME,
            keys.TEMPLATE_UID,
        )
    },
}
