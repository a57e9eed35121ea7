"""The default plugins, one file each: those of kube-scheduler 1.36, in its order, and ours.

To add one: write its file, name it in :data:`DEFAULT_PLUGINS`, and give it a test table.
"""

from __future__ import annotations

from typing import Final

from arranger.framework.interface import Plugin
from arranger.framework.runtime.profile import Profile, Weighted
from arranger.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from arranger.plugins.bin_pack import BinPack
from arranger.plugins.capacity_card import CapacityCard
from arranger.plugins.default_binder import DefaultBinder
from arranger.plugins.default_preemption import DefaultPreemption
from arranger.plugins.dynamic_resources import DynamicResources
from arranger.plugins.image_locality import ImageLocality
from arranger.plugins.inter_pod_affinity import InterPodAffinity
from arranger.plugins.job_affinity import JobAffinity, JobAntiAffinity
from arranger.plugins.leader_first import LeaderFirst
from arranger.plugins.min_fragment import MinFragment
from arranger.plugins.node_affinity import NodeAffinity
from arranger.plugins.node_declared_features import NodeDeclaredFeatures
from arranger.plugins.node_name import NodeName
from arranger.plugins.node_ports import NodePorts
from arranger.plugins.node_resources_fit import NodeResourcesFit
from arranger.plugins.node_unschedulable import NodeUnschedulable
from arranger.plugins.node_volume_limits import NodeVolumeLimits
from arranger.plugins.placement import PLACEMENT_WEIGHT
from arranger.plugins.pod_topology_spread import PodTopologySpread
from arranger.plugins.priority_sort import PrioritySort
from arranger.plugins.scheduling_gates import SchedulingGates
from arranger.plugins.taint_toleration import TaintToleration
from arranger.plugins.volume_binding import VolumeBinding
from arranger.plugins.volume_restrictions import VolumeRestrictions
from arranger.plugins.volume_zone import VolumeZone

#: In the order they run at every extension point, with the weights of their scores.
DEFAULT_PLUGINS: Final[tuple[tuple[type[Plugin], int], ...]] = (
    (SchedulingGates, 1),
    (PrioritySort, 1),
    (NodeUnschedulable, 1),
    (NodeName, 1),
    (TaintToleration, 3),
    (NodeAffinity, 2),
    (NodePorts, 1),
    (NodeResourcesFit, 1),
    (VolumeRestrictions, 1),
    (NodeVolumeLimits, 1),
    (VolumeBinding, 1),
    (VolumeZone, 1),
    (PodTopologySpread, 2),
    (InterPodAffinity, 2),
    (DynamicResources, 2),
    (CapacityCard, 1),
    (DefaultPreemption, 1),
    (NodeResourcesBalancedAllocation, 1),
    (ImageLocality, 1),
    (NodeDeclaredFeatures, 1),
    (BinPack, PLACEMENT_WEIGHT),
    (LeaderFirst, PLACEMENT_WEIGHT),
    (MinFragment, PLACEMENT_WEIGHT),
    (JobAffinity, PLACEMENT_WEIGHT),
    (JobAntiAffinity, PLACEMENT_WEIGHT),
    (DefaultBinder, 1),
)


def default_profile(scheduler_name: str = "arranger") -> Profile:
    """All default plugins with default arguments and weights."""
    return Profile(scheduler_name, [Weighted(plugin(), w) for plugin, w in DEFAULT_PLUGINS])


__all__ = ["DEFAULT_PLUGINS", "default_profile"]
