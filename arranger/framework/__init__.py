"""The extension points of the scheduler, and what runs plugins through them (``runtime``).

A plugin can be as short as this::

    from arranger.framework import Plugin

    class AvoidSpot(Plugin):
        def filter_node(self, state, pod, node):
            if node.labels.get("spot") == "true" and pod.priority >= 1000:
                return self.reject("node(s) may be taken back")
            return None

The other names that an author needs are imported from here, too; see docs/guide/plugins.md.
"""

from arranger.framework.cluster_event import ActionType, ClusterEvent, QueueingHint
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.filter_result import FilterResult, GroupedRejections, Rejection
from arranger.framework.interface import DependsOn, Plugin, PreFilterResult, SpecOnlyPlugin, Wait
from arranger.framework.preemption import PreemptionContext
from arranger.framework.status import SKIP, Code, CycleState, Status

__all__ = [
    "SKIP",
    "ActionType",
    "ClusterEvent",
    "Code",
    "CycleState",
    "DependsOn",
    "Diagnosis",
    "FilterResult",
    "GroupedRejections",
    "Plugin",
    "PreFilterResult",
    "PreemptionContext",
    "QueueingHint",
    "Rejection",
    "SpecOnlyPlugin",
    "Status",
    "Wait",
]
