"""What goes on in any cluster and concerns no pod that waits: one such thing after another.

Each is something that a kubelet, a controller or another tenant writes all the time, by which
nobody may lose what is known of him.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from arranger.api.types import storage
from arranger.api.types.core import Namespace
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.queue import Queue
from arranger.api.types.resource_claims import ResourceClaim
from arranger.api.types.workloads import (
    Owner,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from arranger.engine.engine import Engine
from tests.builders import NodeBuilder, PodBuilder, a_disruption_budget, a_pod, a_pod_group

#: Whose these are: nobody else is in it.
OTHER: Final = "other"

#: What a change may look at: the nodes, and the pods that run on them, as the server has them.
Nodes = Mapping[str, NodeBuilder]
Running = Mapping[str, PodBuilder]
Change = Callable[["Surroundings", int], None]


class Surroundings:
    """The engine of a world, and what is there.

    Attributes:
        nodes: name → node.
        running: name → pod, with its node.
        queues: those that there are, if any.
        now: seconds.
    """

    def __init__(
        self, engine: Engine, nodes: Nodes, running: Running, queues: Sequence[Queue], now: float
    ) -> None:
        self._engine, self.nodes, self.running = engine, nodes, running
        self.queues, self.now = queues, now

    def shows(self, obj: Any) -> None:
        """The watch shows an object."""
        self._engine.handlers.kinds[type(obj)].updated(obj, self.now)

    def shows_deleted(self, obj: Any) -> None:
        """The watch shows that one is gone."""
        self._engine.handlers.kinds[type(obj)].deleted(obj, self.now)

    def shows_owner(self, owner: Owner) -> None:
        """The watch shows a workload whose words count for its pods."""
        self._engine.owner_handlers.on_updated(owner, self.now)

    def shows_pod_deleted(self, key: str) -> None:
        """The watch shows that a pod is gone."""
        self._engine.handlers.on_pod_deleted(key, self.now)

    def comes_and_goes(self, obj: Any, step: int) -> None:
        """It is created, edited, and deleted in turn."""
        if step % 3 == 2:
            self.shows_deleted(obj)
        else:
            self.shows(obj)


def namespaces() -> list[Namespace]:
    """That of a world's pods, and the other one. Only admins make more of them."""
    return [_made(Namespace, name, "") for name in ("default", OTHER)]


def _made(kind: type[Any], name: str, namespace: str = OTHER, **more: Any) -> Any:
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return msgspec.convert({"metadata": meta, **more}, kind)


def _a_heartbeat(around: Surroundings, step: int) -> None:
    node = _one_of(around.nodes, step)
    around.shows(node.saying(Ready="True").build())


def _an_annotation_of_a_node(around: Surroundings, step: int) -> None:
    node = _one_of(around.nodes, step)
    around.shows(node.annotated({"cni.example.com/lease": str(step)}).build())


def _a_status_of_a_queue(around: Surroundings, step: int) -> None:
    if around.queues:
        queue = around.queues[step % len(around.queues)]
        metadata = msgspec.structs.replace(queue.metadata, resource_version=str(step))
        around.shows(msgspec.structs.replace(queue, metadata=metadata))


def _an_image_that_nobody_uses(around: Surroundings, step: int) -> None:
    node = _one_of(around.nodes, step)
    around.shows(node.holding(f"junk-{step}", 10**9).build())


def _a_status_of_a_running_pod(around: Surroundings, step: int) -> None:
    if around.running:
        pod = _one_of(around.running, step)
        ready = {"type": "Ready", "status": ("True", "False")[step % 2]}
        around.shows(pod.in_phase("Running")._set("status", conditions=[ready]).build())


def _a_controller(kind: type[Any]) -> Change:
    def change(around: Surroundings, step: int) -> None:
        selector: Any = {"app": "s"}
        if kind in (ReplicaSet, StatefulSet):
            selector = {"matchLabels": selector}
        around.comes_and_goes(_made(kind, f"c{step % 2}", spec={"selector": selector}), step)

    return change


def _a_deployment(around: Surroundings, step: int) -> None:
    words = {"scheduling.volcano.sh/queue-name": f"q{step % 2}", "volcano.sh/preemptable": "false"}
    meta = {"name": "web", "namespace": OTHER, "uid": "uid-web", "annotations": words}
    around.shows_owner(msgspec.convert({"metadata": meta}, Owner))


def _a_resident(around: Surroundings, step: int) -> None:
    around.shows(resident().labelled(step=str(step % 4)).build())


def resident() -> PodBuilder:
    """A running pod of the other namespace, which asks for nothing."""
    return a_pod("resident").in_namespace(OTHER).in_phase("Running").on("n0")


def _a_budget(around: Surroundings, step: int) -> None:
    selector = {"matchLabels": {"app": f"s{step % 2}"}}
    around.comes_and_goes(a_disruption_budget(selector, step % 3, namespace=OTHER), step)


def _a_pod_group(around: Surroundings, step: int) -> None:
    group = a_pod_group("nobodys", least=1 + step % 2)._set("metadata", namespace=OTHER)
    around.comes_and_goes(group.build(VolcanoPodGroup), step)


def _a_claim(around: Surroundings, step: int) -> None:
    claim = _made(storage.PersistentVolumeClaim, f"v{step % 2}", spec={"accessModes": ["RWO"]})
    around.comes_and_goes(claim, step)


def _a_resource_claim(around: Surroundings, step: int) -> None:
    around.comes_and_goes(_made(ResourceClaim, f"d{step % 2}", spec={"devices": {}}), step)


def _a_pod_of_another_scheduler(around: Surroundings, step: int) -> None:
    pod = a_pod("foreign").in_namespace(OTHER).for_scheduler("another").needs(cpu=1)
    _pod_comes_and_goes(around, pod, step)


def _a_pod_that_is_gated(around: Surroundings, step: int) -> None:
    pod = a_pod("gated").in_namespace(OTHER).needs(cpu=1)
    _pod_comes_and_goes(around, pod.with_spec(schedulingGates=[{"name": "g"}]), step)


def _pod_comes_and_goes(around: Surroundings, pod: PodBuilder, step: int) -> None:
    if step % 3 == 2:
        around.shows_pod_deleted(f"{OTHER}/{pod.manifest()['metadata']['name']}")
    else:
        around.shows(pod.labelled(step=str(step)).build())


def _one_of(known: Mapping[str, Any], step: int) -> Any:
    return known[sorted(known)[step % len(known)]]


#: What has a node, or a few, looked at again, or a search begun anew a few times.
COSTLY: Final = frozenset(
    {
        "a node is annotated",
        "a running pod of another namespace is relabelled",
        "another namespace has a budget",
    }
)
#: By what a sentence calls them.
CHANGES: Final[Mapping[str, Change]] = {
    "a node sends a heartbeat": _a_heartbeat,
    "a node pulls an image that nobody uses": _an_image_that_nobody_uses,
    "a running pod becomes ready, or not": _a_status_of_a_running_pod,
    "a node is annotated": _an_annotation_of_a_node,
    "the status of a queue is written": _a_status_of_a_queue,
    "another namespace has a Deployment that names a queue": _a_deployment,
    "a running pod of another namespace is relabelled": _a_resident,
    "another namespace has a Service": _a_controller(Service),
    "another namespace has a ReplicaSet": _a_controller(ReplicaSet),
    "another namespace has a StatefulSet": _a_controller(StatefulSet),
    "another namespace has a ReplicationController": _a_controller(ReplicationController),
    "another namespace has a budget": _a_budget,
    "another namespace has a PodGroup": _a_pod_group,
    "another namespace has a claim of a volume": _a_claim,
    "another namespace has a claim of devices": _a_resource_claim,
    "another namespace has a pod of another scheduler": _a_pod_of_another_scheduler,
    "another namespace has a pod that is gated": _a_pod_that_is_gated,
}
