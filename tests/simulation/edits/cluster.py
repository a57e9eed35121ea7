"""Edits of what there is around the pods: nodes, budgets, namespaces, priorities, owners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from arranger.api import annotations as keys
from tests.builders import PodBuilder, a_node, a_pod
from tests.queueing import CARD, GPU, a_queue_manifest, gpu_node, training
from tests.simulation.edits.edit import (
    NODES,
    Edits,
    NoMeaning,
    Refused,
    Step,
    TakesEffect,
    create,
    evicted,
    nodes_of,
    patch,
)
from tests.simulation.edits.fields import Field
from tests.simulation.edits.pods import UNGATED
from tests.simulation.harnesses.preemption import BUDGETS, pod
from tests.simulation.harnesses.simulation import Object

STAYS: Final = NoMeaning("what runs stays where it is: this is asked when a pod is placed")


def opens(given: Step, edit: Step) -> TakesEffect:
    """The pod ``p`` gets the node ``n1`` by the edit alone."""
    return TakesEffect(given, edit, nodes_of("p"), "", "n1")


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


def _deployed(first: Step) -> Step:
    """A pod of a ReplicaSet of the Deployment ``d``, beside what there is."""

    def owned(kind: str, name: str, owner: Object | None) -> Object:
        meta: Object = {"name": name, "namespace": "default"}
        if owner is not None:
            meta["ownerReferences"] = [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": "d",
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ]
        spec = {"selector": {"matchLabels": {"app": "d"}}}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}

    def step(sim: Any) -> None:
        first(sim)
        deployment = sim.cluster.create(owned("Deployment", "d", None))
        made = sim.cluster.create(owned("ReplicaSet", "d-1", deployment))
        sim.deployed = made["metadata"]["uid"]

    return step


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
}
