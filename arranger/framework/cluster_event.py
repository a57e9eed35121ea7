"""What can make a rejected pod schedulable: cluster events, and the plugins' hints about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto

from arranger.api.types.core import Node, Pod
from arranger.cluster.object_store import StoredObject
from arranger.cluster.pod_info import PodInfo


class ActionType(Flag):
    """The kinds of change that queueing hints name."""

    NODE_ADDED = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()  # taints or spec.unschedulable
    NODE_FEATURES = auto()  # status.declaredFeatures
    NODE_REMOVED = auto()
    POD_ADDED = auto()  # a pod was bound, or assumed on a node
    POD_REMOVED = auto()  # a placed pod was deleted, ended, or lost its reservation
    POD_LABELS = auto()  # of a placed pod
    POD_SCALED_DOWN = auto()  # a placed pod requests less
    OWN_UPDATE = auto()  # the waiting pod itself was edited
    OTHER = auto()  # an object of another kind changed; see ClusterEvent.resource
    EVICTION_RULES = auto()  # who may be evicted, or for whom: may help whatever was rejected

    NODE_EDITED = NODE_ALLOCATABLE | NODE_LABELS | NODE_TAINTS | NODE_FEATURES
    NODE_CHANGED = NODE_ADDED | NODE_EDITED
    CAPACITY_FREED = NODE_ADDED | NODE_ALLOCATABLE | POD_REMOVED | POD_SCALED_DOWN
    ANY = NODE_CHANGED | NODE_REMOVED | POD_ADDED | CAPACITY_FREED | POD_LABELS | OWN_UPDATE | OTHER


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One change, with the objects before and after it where there are any.

    ``stored`` and ``stored_before`` are of the kind ``resource``; a deleted object is only before.
    ``could_fit`` says whether a waiting pod might fit on the node that has changed or that a pod
    has left, evictions included, and whether its gang has any chance with it; ``frees_quota``
    whether the pod that has left counted towards limits of its queues, which may suffice now;
    ``concerns`` whether others may be evicted for it now, where that is not so for all.
    """

    action_type: ActionType
    node: Node | None = None
    node_before: Node | None = None
    pod: Pod | None = None
    pod_before: Pod | None = None
    resource: str = ""
    stored: StoredObject | None = None
    stored_before: StoredObject | None = None
    could_fit: Callable[[PodInfo], bool] | None = None
    frees_quota: Callable[[PodInfo], bool] | None = None
    concerns: Callable[[PodInfo], bool] | None = None


@dataclass(frozen=True, slots=True)
class QueueingHint:
    """Retry a pod that this plugin rejected when such an event happens.

    ``hint`` looks closer: it is called with the waiting pod and the event, and returns whether
    the event may help. An exception in it counts as yes. Of ``OTHER`` only objects of the kinds
    ``resources`` count, if there are any.
    """

    action_types: ActionType
    hint: Callable[[PodInfo, ClusterEvent], bool] | None = None
    resources: frozenset[str] = frozenset()

    def asks_for(self, event: ClusterEvent) -> bool:
        """Whether events of its type may matter, to whichever pod."""
        asked = self.action_types.value & event.action_type.value
        if asked == ActionType.OTHER.value and self.resources:
            return event.resource in self.resources
        return bool(asked)

    def matches(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether ``event`` may make ``pod`` schedulable."""
        if not self.asks_for(event):
            return False
        if self.hint is None:
            return True
        try:
            return self.hint(pod, event)
        except Exception:
            # A hint only saves work. One that breaks must not strand the pod.
            return True
