"""Effects: what the engine asks to be written or queried, and how that can end.

The engine returns effects and never awaits. The edge carries them out and reports an
:data:`Outcome` for each; "we do not know" (:class:`Ambiguous`) is one of them. Questions
to extenders are effects, too: their outcome is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from arranger.api.extenders import Extender

#: The condition of a victim that was given time; kube-controller-manager takes DisruptionTarget
#: back after two minutes from a pod that is not being deleted.
EVICTION_NOTICE: Final = "arranger.io/EvictionNotice"


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """One incarnation of an object, as a precondition of writes.

    An object that was deleted and created again under the same name has another ``uid``.
    """

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class PodCondition:
    """The fields of a pod condition that a scheduler writes; the edge adds the timestamps."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""
    observed_generation: int = 0


@dataclass(frozen=True, slots=True)
class Bind:
    """Post a Binding with the pod's uid as precondition; annotations merge into the pod.

    ``extender`` is the extender that binds the pod in our place.
    """

    pod: ObjectKey
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    extender: Extender | None = None


@dataclass(frozen=True, slots=True)
class PatchPodStatus:
    """Strategic-merge one condition and the nomination into ``pods/status``.

    ``nominated_node`` is ``None`` to leave it alone and ``""`` to clear it.
    """

    pod: ObjectKey
    condition: PodCondition | None = None
    nominated_node: str | None = None


@dataclass(frozen=True, slots=True)
class Eviction:
    """Why a pod has to leave its node; for the log.

    Attributes:
        reason: in a word or two.
        taker: the pod that gets its place, "" for nobody.
        gang: the gang group of the taker, or the pod's own where nobody takes.
        queue: the taker's queue, if that is not the victim's.
    """

    node: str
    reason: str
    taker: str = ""
    gang: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete one incarnation of a pod (``preconditions.uid``).

    ``condition``, where given, is written to the pod's status first (DisruptionTarget for
    victims), so that controllers can tell an eviction from a failure.
    """

    pod: ObjectKey
    condition: PodCondition | None = None
    grace_seconds: int | None = None
    eviction: Eviction | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AnnotatePod:
    """Merge annotations into one incarnation of a pod; ``None`` removes one."""

    pod: ObjectKey
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class PatchObject:
    """Merge ``change`` into the object at ``path`` if it is still as it was when we decided.

    ``change`` carries ``metadata.resourceVersion``, so that an object that has changed since is
    refused; or only ``metadata.uid``, where it matters which object it is and not how it looks.
    """

    path: str
    change: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Create an object in the collection at ``path``; one of its name that is there will do."""

    path: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the object at ``path`` if it still has this uid."""

    path: str
    uid: str


@dataclass(frozen=True, slots=True)
class ReserveClaim:
    """Reserve a ResourceClaim for a pod and, unless it is allocated, allocate it.

    ``allocation`` is ``status.allocation`` as the API has it, None for a claim that has one. A
    claim that has another allocation by then, or is being deleted, ends as Refused.
    """

    claim: ObjectKey
    pod: ObjectKey
    allocation: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ReleaseClaim:
    """Take a pod's reservation of a ResourceClaim back.

    With ``deallocate`` its allocation, too, if it is then reserved for nobody.
    """

    claim: ObjectKey
    pod: ObjectKey
    deallocate: bool


@dataclass(frozen=True, slots=True)
class PublishEvent:
    """Record an events.k8s.io/v1 Event; best effort, never waited for."""

    regarding: ObjectReference
    reason: str
    action: str
    note: str
    type: Literal["Normal", "Warning"] = "Normal"
    related: ObjectReference | None = None
    controller: str = "arranger"


@dataclass(frozen=True, slots=True)
class QueryExtenders:
    """Ask extenders, in this order, which of the nodes a pod may have.

    Ends with an :class:`ExtenderDecision`.
    """

    pod: ObjectKey
    extenders: tuple[Extender, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """The pods that would be evicted from a node, and how many of them a budget protects."""

    uids: tuple[str, ...]
    violations: int = 0


@dataclass(frozen=True, slots=True)
class QueryExtenderPreemption:
    """Ask extenders whom a pod may have evicted, by node.

    Ends with an :class:`ExtenderPreemptionDecision`. ``pods``: uid → key, of all pods named.
    """

    pod: ObjectKey
    extenders: tuple[Extender, ...]
    victims: Mapping[str, NodeVictims]
    pods: Mapping[str, ObjectKey]


#: What is written to the API server, or by an extender in our place.
Write = (
    Bind
    | PatchPodStatus
    | DeletePod
    | AnnotatePod
    | PatchObject
    | CreateObject
    | DeleteObject
    | ReserveClaim
    | ReleaseClaim
    | PublishEvent
)
#: What is asked of extenders; nothing is written.
ExtenderQuery = QueryExtenders | QueryExtenderPreemption
Effect = Write | ExtenderQuery


@dataclass(frozen=True, slots=True)
class Applied:
    """The server did it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The server did not and will not: ``status`` is the HTTP code, 0 when nothing was sent."""

    status: int
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The server may have done it; the edge keeps asking and reports again."""

    reason: str


@dataclass(frozen=True, slots=True)
class ExtenderDecision:
    """The extenders' answer to :class:`QueryExtenders`.

    Attributes:
        nodes: those the pod may have.
        scores: node → what is added to its score, weighted, on the scheduler's scale.
        failed: node → why not, where evicting pods may help.
        unresolvable: node → why not, where evicting pods cannot help.
    """

    nodes: tuple[str, ...]
    scores: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExtenderPreemptionDecision:
    """The extenders' answer to :class:`QueryExtenderPreemption`: the victims, by node."""

    victims: Mapping[str, NodeVictims]


#: Queries end with an extender decision, or are Refused; writes end in one of the other ways.
Outcome = Applied | Refused | Ambiguous | ExtenderDecision | ExtenderPreemptionDecision
