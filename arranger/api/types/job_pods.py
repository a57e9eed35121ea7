"""Pods as the controllers of jobs read them."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from arranger.api.timestamps import after
from arranger.api.types.core import ObjectMeta, StatusCondition, Struct, Time

#: How a kubelet begins the reason of a pod that it refuses for want of a resource (``OutOfcpu``).
_LACK_PREFIX: Final = "OutOf"
#: How newer ones begin the message of every pod that they refuse.
_REFUSAL_PREFIX: Final = "Pod was rejected"
#: Its other reasons for refusing a pod at admission, of all releases.
_REFUSAL_REASONS: Final = frozenset(
    {"UnexpectedAdmissionError", "UnexpectedPredicateFailureType", "UnknownReason"}
    | {"InvalidNodeInfo", "NodeAffinity", "NodeName", "NodePorts"}
    | {"TaintToleration", "TopologyAffinityError", "SMTAlignmentError", "NodeShutdown"}
    | {"PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch", "PodFeatureUnsupported"}
    | {"PodLevelResourcesNotSupported", "SupplementalGroupsPolicyNotSupported"}
    | {"InitContainerRestartPolicyForbidden", "AppArmor", "SysctlForbidden", "NoNewPrivs"}
    | {"VolumeAttachmentLimitExceeded"}
)
#: Seconds from when a pod was made until one that its kubelet has refused is made anew. Nothing
#: counts how often that happens, and the next may be refused as well.
REFUSED_AGAIN_AFTER: Final = 10.0


class ContainerStateWaiting(Struct):
    """``state.waiting`` of a container."""

    reason: str = ""
    message: str = ""


class ContainerStateTerminated(Struct):
    """``state.terminated`` of a container."""

    exit_code: int = 0
    finished_at: Time | None = None


class ContainerState(Struct):
    """``state`` of a container."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class JobContainerStatus(Struct):
    """``containerStatuses[]``: how a container fares."""

    ready: bool = False
    restart_count: int = 0
    state: ContainerState = msgspec.field(default_factory=ContainerState)
    last_state: ContainerState | None = None

    @property
    def ended(self) -> list[ContainerStateTerminated]:
        """How it has ended: now, and before it was started again."""
        states = (self.state, self.last_state)
        return [s.terminated for s in states if s is not None and s.terminated is not None]


class JobPodStatus(Struct):
    """``status`` of a pod, as far as it matters to its job."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    nominated_node_name: str = ""
    conditions: list[StatusCondition] = msgspec.field(default_factory=list)
    container_statuses: list[JobContainerStatus] = msgspec.field(default_factory=list)
    init_container_statuses: list[JobContainerStatus] = msgspec.field(default_factory=list)

    @property
    def all_container_statuses(self) -> list[JobContainerStatus]:
        """Of init containers, too."""
        return [*self.init_container_statuses, *self.container_statuses]

    def has_true_condition(self, kind: str) -> bool:
        """Whether a condition of that type holds."""
        return any(c.type == kind and c.status == "True" for c in self.conditions)


class JobPodMeta(ObjectMeta):
    """``metadata`` of a pod, with how many seconds it is given to end."""

    deletion_grace_period_seconds: int | None = None


class ControlledPod(Struct):
    """A pod of a job, of whatever kind."""

    metadata: JobPodMeta
    status: JobPodStatus = msgspec.field(default_factory=JobPodStatus)

    @property
    def terminal(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def refused(self) -> bool:
        """Whether its kubelet has refused it at admission, so that no container ever started.

        That is a matter between the node and who has sent the pod there, and no failure of the pod.
        """
        status = self.status
        if status.phase != "Failed":
            return False
        if any(each.restart_count or each.ended for each in status.all_container_statuses):
            return False
        known = status.reason.startswith(_LACK_PREFIX) or status.reason in _REFUSAL_REASONS
        return known or status.message.startswith(_REFUSAL_PREFIX)

    @property
    def kept_until(self) -> datetime | None:
        """Until when it stays, having been refused by its kubelet; None for any other pod.

        So there is no endless run of pods that are made and refused, as fast as both can.
        """
        made = self.metadata.creation_timestamp
        return after(made, REFUSED_AGAIN_AFTER) if self.refused and made is not None else None

    @property
    def deletion_began(self) -> datetime | None:
        """When somebody asked for its deletion; ``deletionTimestamp`` is when its time is over."""
        ends = self.metadata.deletion_timestamp
        grace = self.metadata.deletion_grace_period_seconds or 0
        return None if ends is None else after(ends, -grace)
