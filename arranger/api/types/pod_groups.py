"""PodGroup objects of the four API groups that have them, with the fields we read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec

from arranger.api.types.core import (
    NamespacedObject,
    OwnerReference,
    ResourceList,
    Struct,
    Time,
)

#: Tasks of which a PodGroup may say how many must run: as many as an owner of pods may have roles.
MAX_TASKS: Final = 1000
#: Bundles of a gang that a Gang object records: as many as a job may have pods.
MAX_BUNDLES: Final = 10_000
#: Resources of its ``minResources``: those of its pods, and what ResourceQuotas call them. Each is
#: compared with all nodes whenever the PodGroup is tried.
MAX_MIN_RESOURCES: Final = 128


class PodGroupSpec(Struct):
    """``spec`` of the community's and Volcano's PodGroup; ``queue`` is Volcano's."""

    min_member: int | None = None
    min_task_member: Mapping[str, int] = msgspec.field(default_factory=dict)
    min_resources: ResourceList = msgspec.field(default_factory=dict)
    schedule_timeout_seconds: int | None = None
    queue: str = ""
    priority_class_name: str = ""


class PodGroupStatus(Struct):
    """``status``: its phase tells after a restart whether the group has run before."""

    phase: str = ""


class PodGroup(NamespacedObject):
    """What the community's and Volcano's PodGroups have in common."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)

    api_version: ClassVar[str] = ""


class SigsPodGroup(PodGroup):
    """Of ``scheduling.sigs.k8s.io``, as the scheduler plugins define it."""

    api_version: ClassVar[str] = "scheduling.sigs.k8s.io/v1alpha1"


class CommunityPodGroup(PodGroup):
    """Of ``scheduling.x-k8s.io``."""

    api_version: ClassVar[str] = "scheduling.x-k8s.io/v1alpha1"


class VolcanoPodGroup(PodGroup):
    """Of ``scheduling.volcano.sh``."""

    api_version: ClassVar[str] = "scheduling.volcano.sh/v1beta1"


class WorkloadGroup(PodGroup):
    """What an owner of pods says about their gang; no object of the API server.

    Attributes:
        owner: the owner, a PyTorchJob for example.
    """

    owner: OwnerReference = msgspec.field(default_factory=OwnerReference)

    api_version: ClassVar[str] = "workload"


class GangSchedulingPolicy(Struct):
    """``schedulingPolicy.gang``."""

    min_count: int = 1


class PodGroupSchedulingPolicy(Struct):
    """``schedulingPolicy``: without ``gang`` the pods are scheduled one by one."""

    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Struct):
    """``schedulingConstraints.topology[]``."""

    key: str = ""


class PodGroupSchedulingConstraints(Struct):
    """``schedulingConstraints``."""

    topology: list[TopologyConstraint] = msgspec.field(default_factory=list)


class DisruptionMode(Struct):
    """``disruptionMode``: pods are evicted ``all`` together, or each on its own."""

    all: dict[str, object] | None = None


class NativePodGroupSpec(Struct):
    """``spec`` of ``scheduling.k8s.io``; in v1alpha2 the mode was a string, ``PodGroup`` for all.

    ``priority`` is the number that admission resolved the PriorityClass to.
    """

    scheduling_policy: PodGroupSchedulingPolicy = msgspec.field(
        default_factory=PodGroupSchedulingPolicy
    )
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | str | None = None
    priority: int | None = None
    preemption_policy: str = ""

    @property
    def evict_together(self) -> bool:
        """Whether its pods may be evicted only all together."""
        mode = self.disruption_mode
        if isinstance(mode, DisruptionMode):
            return mode.all is not None
        return mode == "PodGroup"


class NativePodGroup(NamespacedObject):
    """Of ``scheduling.k8s.io``, where the server serves it."""

    spec: NativePodGroupSpec = msgspec.field(default_factory=NativePodGroupSpec)

    api_version: ClassVar[str] = "scheduling.k8s.io/v1beta1"
    #: Versions of the same shape, newest first, for servers that do not serve that one.
    other_versions: ClassVar[tuple[str, ...]] = ("v1alpha3", "v1alpha2")


class GangBundle(Struct):
    """``spec.bundles[]`` of a Gang."""

    name: str
    min_member: int = 0


class GangSpec(Struct):
    """``spec`` of a Gang: its bundles when the controller wrote it, and who defined them."""

    bundles: list[GangBundle] = msgspec.field(default_factory=list)
    source: str | None = None


class GangStatus(Struct):
    """``status`` of a Gang, the fields that the scheduler writes; None where it has not yet."""

    resource_satisfied: bool | None = None
    waiting_since: Time | None = None
    scheduling_cycle: int = 0
    planned_start: Time | None = None
    start_basis: str | None = None


class GangObject(NamespacedObject):
    """A Gang of ``arranger.io``, with the fields that a restarted scheduler reads."""

    spec: GangSpec = msgspec.field(default_factory=GangSpec)
    status: GangStatus = msgspec.field(default_factory=GangStatus)

    @property
    def recorded_minimums(self) -> dict[str, int]:
        """Bundle → minimum, of gangs that pods' annotations defined.

        Empty for a gang that a PodGroup defines, which still says so itself. A bundle without a
        name is left out: it cannot be distinguished from the minimum over all bundles.
        """
        if not self.spec.source or self.spec.source in _DEFINED_ELSEWHERE:
            return {}
        bundles = self.spec.bundles[:MAX_BUNDLES]  # others may have written them
        return {bundle.name: bundle.min_member for bundle in bundles if bundle.name}


#: What may define a gang: a PodGroup, or what an owner says.
AnyPodGroup = SigsPodGroup | CommunityPodGroup | VolcanoPodGroup | NativePodGroup | WorkloadGroup

#: PodGroups of the API server, in order of precedence: the first that exists under a gang's name
#: defines the gang.
POD_GROUPS: Final = (SigsPodGroup, CommunityPodGroup, VolcanoPodGroup, NativePodGroup)

#: The same, and what owners say.
GANG_DEFINERS: Final[tuple[type[AnyPodGroup], ...]] = (*POD_GROUPS, WorkloadGroup)

#: What ``spec.source`` of a Gang says of gangs that their pods do not define.
_DEFINED_ELSEWHERE: Final = frozenset(each.api_version.partition("/")[0] for each in GANG_DEFINERS)
