"""Edits of what there is around the pods: nodes, budgets, namespaces, priorities, owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from arranger.api import annotations as keys
from tests.builders import PodBuilder, a_node, a_pod
from tests.queueing import CARD, GPU, a_queue_manifest, gpu_node, inference, training
from tests.simulation.edits.edit import (
    NODES,
    Edits,
    NoMeaning,
    Refused,
    Step,
    TakesEffect,
    annotate,
    create,
    evicted,
    nodes_of,
    opens,
    patch,
    placed,
    steps,
)
from tests.simulation.edits.fields import Field
from tests.simulation.edits.gangs import DONE, group_path
from tests.simulation.edits.pods import UNGATED
from tests.simulation.harnesses.preemption import BUDGETS, pod
from tests.simulation.harnesses.simulation import Object

STAYS: Final = NoMeaning("what runs stays where it is: this is asked when a pod is placed")


def node(change: Object, sub: str = "", name: str = "n1") -> Step:
    """A node is edited."""
    return patch(NODES + name, change, sub=sub)


LABELS: Final = opens(
    create(a_node("n1"), a_pod("p").selects(disk="ssd")),
    node({"metadata": {"labels": {"disk": "ssd"}}}),
)
OTHER_CARD: Final = "NVIDIA-H200"


def _card_quota(*pods: PodBuilder) -> Step:
    """A queue of eight cards, which one of two nodes has."""
    queue = a_queue_manifest("training", cards={CARD: 8, OTHER_CARD: 8})
    return create(queue, gpu_node("n0"), gpu_node("n1"), *pods)


CARD_LABELS: Final = TakesEffect(
    given=_card_quota(training("t", 8).annotated({keys.CARD_NAME: CARD}).on("n0")),
    edit=node({"metadata": {"labels": {f"{GPU}.product": OTHER_CARD}}}, name="n0"),
    later=create(training("p", 8).annotated({keys.CARD_NAME: CARD})),
    look=nodes_of("p"),
    without="",
    seen="n1",
)
TAINTS: Final = opens(
    create(a_node("n1").tainted("kept"), a_pod("p")), node({"spec": {"taints": None}})
)
CORDON: Final = opens(
    create(a_node("n1").with_spec(unschedulable=True), a_pod("p")),
    node({"spec": {"unschedulable": False}}),
)
ALLOCATABLE: Final = opens(
    create(a_node("n1").offers(cpu=1), a_pod("p").needs(cpu=2)),
    node({"status": {"allocatable": {"cpu": "2"}}}, "/status"),
)
_FEATURE: Final = "UserNamespacesHostNetworkSupport"
FEATURES: Final = opens(
    create(a_node("n1"), a_pod("p").with_spec(hostNetwork=True, hostUsers=False)),
    node({"status": {"declaredFeatures": [_FEATURE]}}, "/status"),
)
_IMAGES: Final = [{"names": ["registry/large:1"], "sizeBytes": 900 << 20}]
IMAGES: Final = TakesEffect(
    given=create(
        a_node("n1").offers(cpu=5),
        a_node("n2").offers(cpu=4),
        a_pod("p").running("registry/large:1").gated("g"),
    ),
    edit=node({"status": {"images": _IMAGES}}, "/status", "n2"),
    later=UNGATED,
    look=nodes_of("p"),
    without="n1",
    seen="n2",
)
_ONLY: Final = "requiredDuringSchedulingIgnoredDuringExecution"
NODE_GROUP: Final = opens(
    create(
        a_queue_manifest("q", affinity={"nodeGroupAffinity": {_ONLY: ["blue"]}}),
        a_node("n1"),
        a_pod("p").in_queue("q"),
    ),
    node({"metadata": {"labels": {keys.NODE_GROUP: "blue"}}}),
)

# --- budgets -------------------------------------------------------------------------------------


def _guarded(sim: Any) -> None:
    """Two nodes with one victim each, of which a budget protects the first."""
    victims = [pod(f"v{n}").labelled(app=f"v{n}").on(f"n{n}") for n in (0, 1)]
    create(*(a_node(f"n{n}").offers(cpu=1) for n in (0, 1)), *victims)(sim)
    sim.budget(0, app="v0")


_SPARED: Final = TakesEffect(
    given=_guarded,
    edit=patch(f"{BUDGETS}/b", {"spec": {"selector": {"matchLabels": {"app": "v1"}}}}),
    later=create(pod("high", 9)),
    look=evicted,
    without={"v1"},
    seen={"v0"},
)


def _allowed(sim: Any) -> None:
    """The same, but that the protected one is the least important."""
    victims = [pod("v0", 0).labelled(app="v0").on("n0"), pod("v1", 1).on("n1")]
    create(*(a_node(f"n{n}").offers(cpu=1) for n in (0, 1)), *victims)(sim)
    sim.budget(0, app="v0")


_ALLOWED: Final = replace(
    _SPARED,
    given=_allowed,
    edit=patch(f"{BUDGETS}/b/status", {"status": {"disruptionsAllowed": 1}}),
)

# --- the rest ------------------------------------------------------------------------------------


def _elsewhere(sim: Any) -> None:
    sim.namespaces("other")
    near = a_pod("near").in_namespace("other").labelled(app="db").on("n1")
    selects = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    wants = a_pod("p").near("kubernetes.io/hostname", {"app": "db"}, **selects)
    create(a_node("n1"), near, wants)(sim)


NAMESPACE: Final = opens(
    _elsewhere, patch("/api/v1/namespaces/other", {"metadata": {"labels": {"team": "a"}}})
)
_CLASS: Final = "/apis/scheduling.k8s.io/v1/priorityclasses/p5"


def _nothing(sim: Any) -> None:
    """The PriorityClasses that every simulation of queues has."""


_APPS: Final = "/apis/apps/v1/namespaces/default/deployments/d"


def _owned(manifest: Object, kind: str, owner: Object | None) -> Object:
    """An object of the Deployment ``d``, or of its ReplicaSet."""
    if owner is not None:
        found = {"apiVersion": "apps/v1", "kind": kind, "controller": True}
        meta = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        manifest["metadata"]["ownerReferences"] = [{**found, **meta}]
    return manifest


def deployed(made: PodBuilder, notes: Mapping[str, str]) -> Step:
    """A pod of a Deployment with annotations; its own say nothing of its service."""

    def step(sim: Any) -> None:
        head = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}}
        meta = {"name": "d", "namespace": "default", "annotations": dict(notes)}
        deployment = sim.cluster.create({**head, "metadata": meta})
        head = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {}}
        inner: Object = {**head, "metadata": {"name": "d-1", "namespace": "default"}}
        replicas = sim.cluster.create(_owned(inner, "Deployment", deployment))
        manifest = made.annotated({keys.SERVICE_TYPE: ""}).manifest()
        del manifest["metadata"]["uid"]
        sim.cluster.create(_owned(manifest, "ReplicaSet", replicas))

    return step


_CARDS: Final = steps(
    lambda sim: sim.queues(), create(gpu_node("n0").offers(memory="512Gi", pods=110))
)
_WAITING_INFERENCE: Final = deployed(inference("i", 8), {keys.SERVICE_TYPE: "training"})
_RUNNING_TRAINING: Final = deployed(training("t", 8).on("n0"), {keys.SERVICE_TYPE: "inference"})
_KEPT_TRAINING: Final = deployed(
    training("t", 8).on("n0"), {keys.SERVICE_TYPE: "training", keys.PREEMPTABLE: "false"}
)
DEPLOYMENT_SERVICE: Final = Edits(
    TakesEffect(
        given=steps(_CARDS, create(training("t", 8).on("n0")), _WAITING_INFERENCE),
        edit=annotate(_APPS, **{keys.SERVICE_TYPE: "inference"}),
        look=evicted,
        without=set(),
        seen={"t"},
    ),
    TakesEffect(
        given=steps(_CARDS, _RUNNING_TRAINING),
        edit=annotate(_APPS, **{keys.SERVICE_TYPE: "training"}),
        later=create(inference("i", 8)),
        look=evicted,
        without=set(),
        seen={"t"},
    ),
)
DEPLOYMENT_PREEMPTABLE: Final = Edits(
    NoMeaning("it says who may be evicted, and a pod without a node is not"),
    TakesEffect(
        given=steps(_CARDS, _KEPT_TRAINING),
        edit=annotate(_APPS, **{keys.PREEMPTABLE: "true"}),
        later=create(inference("i", 8)),
        look=evicted,
        without=set(),
        seen={"t"},
    ),
)

# --- the PodGroup of Kubernetes ------------------------------------------------------------------

_NATIVE: Final = "scheduling.k8s.io/v1beta1"


def _served() -> Object:
    """The kind as the API server serves it; the embedded one needs a definition."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
    }
    approved = {"api-approved.kubernetes.io": "https://example.com"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduling.k8s.io", "annotations": approved},
        "spec": {
            "group": "scheduling.k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "PodGroup", "plural": "podgroups"},
            "versions": [version],
        },
    }


def native(count: int, cpus: int, *more: Any, least: int = 2, **spec: Any) -> Step:
    """The gang ``g`` of a PodGroup of Kubernetes', and a node."""
    group = {
        "apiVersion": _NATIVE,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}, **spec},
    }
    member = {"schedulingGroup": {"podGroupName": "g"}}
    pods = (pod(f"g-{n}").with_spec(**member) for n in range(count))
    return create(_served(), a_node("n1").in_zone("z1").offers(cpu=cpus), group, *pods, *more)


def _edit(**fields: Any) -> Step:
    return patch(group_path(_NATIVE), {"spec": fields})


def _victims(sim: Any) -> object:
    return len(evicted(sim))


def _high(value: int = 50) -> Step:
    return create(pod("high", value))


_FULL: Final = pod("old", 5, 2).on("n1")
_LEAST: Final = {"schedulingPolicy": {"gang": {"minCount": 2}}}
NATIVE: Final[dict[str, Edits]] = {
    "schedulingPolicy": Edits(
        TakesEffect(
            native(2, 2, least=3), _edit(**_LEAST), placed("g-0", "g-1"), set(), {"g-0", "g-1"}
        ),
        TakesEffect(native(3, 3, least=3), _edit(**_LEAST), _victims, 3, 1, later=_high()),
    ),
    "schedulingConstraints": Edits(
        TakesEffect(
            native(
                2,
                1,
                a_node("n2").in_zone("z2").offers(cpu=1),
                schedulingConstraints={"topology": [{"key": "topology.kubernetes.io/zone"}]},
            ),
            _edit(schedulingConstraints=None),
            placed("g-0", "g-1"),
            set(),
            {"g-0", "g-1"},
        ),
        DONE,
    ),
    "disruptionMode": Edits(
        NoMeaning("it says how the gang is evicted, and one that waits is not"),
        TakesEffect(
            native(3, 3, least=1, disruptionMode={"all": {}}),
            _edit(disruptionMode=None),
            _victims,
            3,
            1,
            later=_high(),
        ),
    ),
    "priority": Edits(
        TakesEffect(native(2, 2, _FULL, priority=1), _edit(priority=9), evicted, set(), {"old"}),
        TakesEffect(native(2, 2, priority=1), _edit(priority=90), _victims, 2, 0, later=_high()),
    ),
    "preemptionPolicy": Edits(
        TakesEffect(
            native(2, 2, _FULL, priority=9, preemptionPolicy="Never"),
            _edit(preemptionPolicy="PreemptLowerPriority"),
            evicted,
            set(),
            {"old"},
        ),
        STAYS,
    ),
}

ROWS: Final[dict[Field, Edits]] = {
    ("node", "metadata.labels"): Edits(LABELS, CARD_LABELS),
    ("node", "spec.taints"): Edits(
        TAINTS, NoMeaning("the taint controller evicts what does not tolerate NoExecute")
    ),
    ("node", "spec.unschedulable"): Edits(CORDON, STAYS),
    ("node", "status.allocatable"): Edits(ALLOCATABLE, STAYS),
    ("node", "status.capacity"): Edits.both(NoMeaning("allocatable counts")),
    ("node", "status.conditions"): Edits.both(
        NoMeaning("the node controller makes taints of them, which count")
    ),
    ("node", "status.declaredFeatures"): Edits(FEATURES, STAYS),
    ("node", "status.images"): Edits(IMAGES, STAYS),
    ("node", keys.NODE_GROUP): Edits(NODE_GROUP, STAYS),
    ("PodDisruptionBudget", "spec.selector"): Edits.both(_SPARED),
    ("PodDisruptionBudget", "status.disruptionsAllowed"): Edits.both(_ALLOWED),
    ("PodDisruptionBudget", "status.disruptedPods"): Edits.both(
        NoMeaning("the API server and the disruption controller write it, users do not")
    ),
    ("Namespace", "metadata.labels"): Edits(NAMESPACE, STAYS),
    ("PriorityClass", "value"): Edits.both(Refused(_nothing, _CLASS, {"value": 7})),
    ("PriorityClass", "preemptionPolicy"): Edits.both(
        Refused(_nothing, _CLASS, {"preemptionPolicy": "Never"})
    ),
    ("PriorityClass", "globalDefault"): Edits.both(
        NoMeaning("admission writes the priority into a pod when it is made")
    ),
    ("Deployment", keys.SERVICE_TYPE): DEPLOYMENT_SERVICE,
    ("Deployment", keys.PREEMPTABLE): DEPLOYMENT_PREEMPTABLE,
    **{("PodGroup of scheduling.k8s.io", f"spec.{key}"): edits for key, edits in NATIVE.items()},
}
