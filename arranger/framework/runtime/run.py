"""Runs a plugin over many nodes, in its vectorised or its per-node form."""

from __future__ import annotations

import numpy as np

from arranger.cluster import BoolArray, IntArray, NodeView, PodInfo
from arranger.framework.filter_result import FilterResult, GroupedRejections, Rejection
from arranger.framework.interface import Plugin, overrides
from arranger.framework.runtime.plugin_errors import PluginFailureError, error_text
from arranger.framework.status import CycleState, Status


def implements(plugin: Plugin, method: str) -> bool:
    """Whether the plugin has ``method``, in its vectorised or its per-node form."""
    per_node = method in ("filter", "score") and overrides(plugin, f"{method}_node")
    return per_node or overrides(plugin, method)


def run_filter(plugin: Plugin, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
    """The plugin's Filter, whichever form it is written in.

    Raises:
        PluginFailureError: it raised.
    """
    try:
        if overrides(plugin, "filter"):
            return plugin.filter(state, pod, nodes)
        rejected = {
            place: status
            for place, node in nodes.nodes()
            if (status := plugin.filter_node(state, pod, node)) is not None and status.rejected
        }
    except Exception as error:
        raise PluginFailureError(error_text(plugin.name, "Filter", error)) from error
    passes = nodes.full_mask()
    passes[list(rejected)] = False
    return FilterResult(passes, lambda: _group_statuses(rejected, nodes.length))


def run_score(
    plugin: Plugin, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
) -> IntArray:
    """The plugin's raw scores, whichever form it is written in.

    Raises:
        PluginFailureError: it raised.
    """
    try:
        if overrides(plugin, "score"):
            return plugin.score(state, pod, nodes, feasible)
        scores = np.zeros(nodes.length, dtype=np.int64)
        for place, node in nodes.nodes():
            if feasible[place]:
                scores[place] = plugin.score_node(state, pod, node)
        return scores
    except Exception as error:
        raise PluginFailureError(error_text(plugin.name, "Score", error)) from error


def _group_statuses(answers: dict[int, Status], length: int) -> GroupedRejections:
    kinds: dict[Rejection, int] = {}
    kind_of = np.full(length, -1, dtype=np.int64)
    for place, status in answers.items():
        kind_of[place] = kinds.setdefault(Rejection(status.reasons, status.code), len(kinds))
    return tuple(kinds), kind_of
