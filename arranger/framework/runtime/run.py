"""Runs a plugin over many nodes, in its vectorised or its per-node form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from arranger.cluster import BoolArray, IntArray, NodeView, PodInfo
from arranger.cluster.attempt_work import AskAgainError, UnfinishedError
from arranger.framework.filter_result import FilterResult, GroupedRejections, Rejection
from arranger.framework.interface import Plugin, overrides
from arranger.framework.runtime.plugin_errors import PluginFailureError, error_text
from arranger.framework.status import Code, CycleState, Status


def implements(plugin: Plugin, method: str) -> bool:
    """Whether the plugin has ``method``, in its vectorised or its per-node form."""
    per_node = method in ("filter", "score") and overrides(plugin, f"{method}_node")
    return per_node or overrides(plugin, method)


def is_skip(answer: object) -> bool:
    """Whether PreFilter or PreScore has answered that the plugin is to be left out."""
    return isinstance(answer, Status) and answer.code is Code.SKIP


def run_filter(plugin: Plugin, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
    """The plugin's Filter, whichever form it is written in.

    Raises:
        PluginFailureError: it raised.
    """
    try:
        if overrides(plugin, "filter"):
            return plugin.filter(state, pod, nodes)
        return _filter(plugin, state, pod, nodes)
    except UnfinishedError:
        raise
    except Exception as error:
        raise _failure(
            plugin, "Filter", error, nodes, lambda view, _: _filter(plugin, state, pod, view)
        ) from error


def explain_filter(
    plugin: Plugin, state: CycleState, pod: PodInfo, nodes: NodeView
) -> GroupedRejections:
    """The reasons of the plugin's Filter, and which of them each node is rejected for.

    Raises:
        PluginFailureError: it raised.
    """

    def explain(view: NodeView, _: object = None) -> GroupedRejections:
        return _filter(plugin, state, pod, view).rejections()

    try:
        return explain(nodes)
    except UnfinishedError:
        raise
    except Exception as error:
        raise _failure(plugin, "Filter", error, nodes, explain) from error


def _filter(plugin: Plugin, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
    if overrides(plugin, "filter"):
        return plugin.filter(state, pod, nodes)
    rejected = {
        place: status
        for place, node in nodes.nodes()
        if (status := plugin.filter_node(state, pod, node)) is not None and status.rejected
    }
    passes = nodes.full_mask()
    passes[list(rejected)] = False
    return FilterResult(passes, lambda: _group_statuses(rejected, nodes.length))


def run_pre_score(
    plugin: Plugin, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
) -> Status | None:
    """The plugin's PreScore.

    Raises:
        PluginFailureError: it raised.
    """
    try:
        return plugin.pre_score(state, pod, nodes, feasible)
    except UnfinishedError:
        raise
    except Exception as error:

        def again(view: NodeView, places: IntArray) -> object:
            return plugin.pre_score(state, pod, view, feasible[places])

        raise _failure(plugin, "PreScore", error, nodes, again) from error


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
        return _score(plugin, state, pod, nodes, feasible)
    except UnfinishedError:
        raise
    except Exception as error:

        def again(view: NodeView, places: IntArray) -> IntArray:
            return _score(plugin, state, pod, view, feasible[places])

        raise _failure(plugin, "Score", error, nodes, again) from error


def _score(
    plugin: Plugin, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
) -> IntArray:
    if overrides(plugin, "score"):
        return plugin.score(state, pod, nodes, feasible)
    scores = np.zeros(nodes.length, dtype=np.int64)
    for place, node in nodes.nodes():
        if feasible[place]:
            scores[place] = plugin.score_node(state, pod, node)
    return scores


def _failure(
    plugin: Plugin,
    point: str,
    error: Exception,
    nodes: NodeView,
    again: Callable[[NodeView, IntArray], object],
) -> PluginFailureError:
    """What has raised about some nodes; of one that asks to be asked again none is at fault."""
    asks_again = isinstance(error, AskAgainError)
    node = "" if asks_again else _node_at_fault(nodes, again)
    return PluginFailureError(error_text(plugin.name, point, error), node, asks_again=asks_again)


def _node_at_fault(nodes: NodeView, again: Callable[[NodeView, IntArray], object]) -> str:
    """The name of a node that is enough for what has raised to raise; "" if none is, or all are."""

    rows: IntArray = np.arange(nodes.table.size, dtype=np.int64)[nodes.rows]

    def raises(places: IntArray) -> bool:
        try:
            again(NodeView(nodes.table, rows[places]), places)
        except Exception:
            return True
        return False

    places: IntArray = np.flatnonzero(nodes.alive)
    if not len(places) or raises(places[:0]):
        return ""
    while len(places) > 1:
        half = len(places) // 2
        places = places[:half] if raises(places[:half]) else places[half:]
    return nodes.table.name(rows[places[0]].item()) if raises(places) else ""


def _group_statuses(answers: dict[int, Status], length: int) -> GroupedRejections:
    kinds: dict[Rejection, int] = {}
    kind_of = np.full(length, -1, dtype=np.int64)
    for place, status in answers.items():
        kind_of[place] = kinds.setdefault(Rejection(status.reasons, status.code), len(kinds))
    return tuple(kinds), kind_of
