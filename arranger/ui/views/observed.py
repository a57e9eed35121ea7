"""The state that all views are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Final

from arranger.api.types.core import Pod
from arranger.engine.context.entity import QueuedPod
from arranger.engine.engine import Engine
from arranger.shadow.inputs.objects import ClusterObjects
from arranger.ui.scope import EVERYTHING, Scope

UNTRIED: Final = "has not been tried yet"
#: How far a pod is, in the order in which people care.
STATES: Final = ("Waiting", "Gated", "Starting", "Running", "Ending", "Succeeded", "Failed")


@dataclass(eq=False)
class Counted:
    """What is counted once, for all pages and whoever looks at them."""

    objects: ClusterObjects
    engine: Engine

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """Those that have pods."""
        return frozenset(pod.metadata.namespace for pod in self.objects.of(Pod))

    @cached_property
    def states(self) -> Counter[str]:
        """How many pods are in a state."""
        return Counter(state_of(pod) for pod in self.objects.of(Pod))

    @cached_property
    def members(self) -> dict[str, QueuedPod]:
        """uid → what the queue knows of a pod of ours."""
        return {member.uid: member for member in self.engine.pods()}

    @cached_property
    def has_untried(self) -> bool:
        """Whether a pod waits of which nobody says why."""
        return any(
            reason_of(each.pod.pod) == UNTRIED
            for each in self.members.values()
            if each.entity is not None
        )


@dataclass(eq=False)
class Observed:
    """The cluster as the shadow has it.

    Attributes:
        objects: of the cluster.
        engine: fed with them.
        unread: what the shadow may not see, or could not read, a line each.
        foretold: pod (``namespace/name``) → what becomes of it when it is tried.
        scope: what of it may be shown.
        counted: what is counted: what is known already, if that is given.
    """

    objects: ClusterObjects
    engine: Engine
    unread: tuple[str, ...] = ()
    foretold: Mapping[str, str] = field(default_factory=dict)
    scope: Scope = EVERYTHING
    known: InitVar[Counted | None] = None
    counted: Counted = field(init=False)

    def __post_init__(self, known: Counted | None) -> None:
        self.counted = known or Counted(self.objects, self.engine)

    def shown(self, foretold: Mapping[str, str], scope: Scope) -> Observed:
        """The same with what is foretold, for somebody; nothing is counted again."""
        unread = self.unread if scope.is_whole else ()
        return Observed(self.objects, self.engine, unread, foretold, scope, self.counted)

    def pods(self) -> Iterator[Pod]:
        """All that may be shown."""
        pods = self.objects.of(Pod)
        if self.scope.is_whole:
            return iter(pods)
        return (pod for pod in pods if self.scope.sees(pod.key))

    @property
    def states(self) -> Counter[str]:
        """How many pods are in a state."""
        return self.counted.states

    @property
    def members(self) -> dict[str, QueuedPod]:
        """uid → what the queue knows of a pod of ours."""
        return self.counted.members

    def reason_of(self, pod: Pod) -> str:
        """Why a pod has no node, as its condition says; else what will be said when it is tried."""
        told = reason_of(pod)
        return self.foretold.get(pod.key, told) if told == UNTRIED else told

    def queue_of(self, uid: str) -> str:
        """The queue that a pod is in; "" where there are none."""
        member, ledger = self.members.get(uid), self.engine.ledger
        pod = member.pod if member is not None else self.engine.cluster.pod(uid)
        return ledger.queue_name(pod) if pod is not None and ledger.active else ""


def state_of(pod: Pod) -> str:
    """One of :data:`STATES`."""
    if pod.terminal:
        return pod.status.phase
    if pod.metadata.deletion_timestamp is not None:
        return "Ending"
    if pod.spec.node_name:
        return "Running" if pod.status.phase == "Running" else "Starting"
    return "Gated" if pod.spec.scheduling_gates else "Waiting"


def reason_of(pod: Pod) -> str:
    """Why a pod has no node, as its condition says."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    if pod.status.nominated_node_name:
        return f"waits for its victims to leave {pod.status.nominated_node_name}"
    return UNTRIED
