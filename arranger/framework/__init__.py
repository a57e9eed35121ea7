"""The extension points, and what runs plugins through them.

An author of plugins needs :class:`Plugin`, :class:`Status`, ``reject`` and ``queueing_hints``::

    from arranger.framework import Plugin

    class AvoidSpot(Plugin):
        def filter_node(self, state, pod, node):
            if node.labels.get("spot") == "true" and pod.priority >= 1000:
                return self.reject("node(s) may be taken back")
            return None
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
