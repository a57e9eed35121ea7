"""The default plugins, one file each: those of kube-scheduler 1.36, in its order, and ours.

To add one: write its file, name it in :data:`DEFAULT_PLUGINS`, and write a test table.
"""

from __future__ import annotations

from typing import Final

from arranger.framework.interface import Plugin
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.plugins.default_binder import DefaultBinder
from arranger.plugins.default_preemption import DefaultPreemption
from arranger.plugins.dynamicresources.dynamic_resources import DynamicResources
from arranger.plugins.nodes.image_locality import ImageLocality
from arranger.plugins.nodes.node_affinity import NodeAffinity
from arranger.plugins.nodes.node_declared_features import NodeDeclaredFeatures
from arranger.plugins.nodes.node_name import NodeName
from arranger.plugins.nodes.node_ports import NodePorts
from arranger.plugins.nodes.node_unschedulable import NodeUnschedulable
from arranger.plugins.nodes.taint_toleration import TaintToleration
from arranger.plugins.placement.bin_pack import BinPack
from arranger.plugins.placement.job_affinity import JobAffinity, JobAntiAffinity
from arranger.plugins.placement.leader_first import LeaderFirst
from arranger.plugins.placement.min_fragment import MinFragment
from arranger.plugins.placement.policies import PLACEMENT_WEIGHT
from arranger.plugins.queueing.capacity_card import CapacityCard
from arranger.plugins.queueing.priority_sort import PrioritySort
from arranger.plugins.queueing.scheduling_gates import SchedulingGates
from arranger.plugins.resources.balanced_allocation import NodeResourcesBalancedAllocation
from arranger.plugins.resources.node_resources_fit import NodeResourcesFit
from arranger.plugins.topology.inter_pod_affinity import InterPodAffinity
from arranger.plugins.topology.pod_topology_spread import PodTopologySpread
from arranger.plugins.volumes.node_volume_limits import NodeVolumeLimits
from arranger.plugins.volumes.volume_binding import VolumeBinding
from arranger.plugins.volumes.volume_restrictions import VolumeRestrictions
from arranger.plugins.volumes.volume_zone import VolumeZone

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
    return Profile(scheduler_name, [PluginWeight(plugin(), w) for plugin, w in DEFAULT_PLUGINS])


__all__ = ["DEFAULT_PLUGINS", "default_profile"]
