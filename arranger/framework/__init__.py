"""The extension points of the scheduler, and what runs plugins through them (``runtime``).

A plugin can be as short as this::

    from arranger.framework import Plugin

    class AvoidSpot(Plugin):
        def filter_node(self, state, pod, node):
            if node.labels.get("spot") == "true" and pod.priority >= 1000:
                return self.reject("node(s) may be taken back")
            return None

The other names that an author needs are imported from here, too; see docs/plugins.md.
"""

from arranger.framework.cluster_event import ActionType, ClusterEvent, QueueingHint
from arranger.framework.filter_result import FilterResult, Rejection
from arranger.framework.interface import DependsOn, Plugin, PreFilterResult, SpecOnlyPlugin, Wait
from arranger.framework.status import Code, CycleState, Status

__all__ = [
    "ActionType",
    "ClusterEvent",
    "Code",
    "CycleState",
    "DependsOn",
    "FilterResult",
    "Plugin",
    "PreFilterResult",
    "QueueingHint",
    "Rejection",
    "SpecOnlyPlugin",
    "Status",
    "Wait",
]
