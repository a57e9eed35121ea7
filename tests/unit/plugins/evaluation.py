"""Judges pods with one plugin, through the framework."""

from __future__ import annotations

from typing import Any

from arranger.explain.evaluate import evaluate_pod
from arranger.framework.interface import Plugin
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.plugins.default_binder import DefaultBinder
from arranger.plugins.queueing.priority_sort import PrioritySort
from tests.builders import Member, PodBuilder, a_cluster


def evaluate_with(plugin: Plugin, pod: PodBuilder, *members: Member) -> dict[str, Any]:
    """The verdict on ``pod``, as :func:`arranger.explain.evaluate` words it."""
    return evaluate_pod(
        a_cluster(*members), pod.with_uid("uid-judged").info(), single_plugin_profile(plugin)
    )


def rejected(plugin: Plugin, pod: PodBuilder, *members: Member) -> dict[str, tuple[str, ...]]:
    """Node → why it was rejected, for the nodes that were."""
    verdict = evaluate_with(plugin, pod, *members)
    return {node: tuple(why["reasons"]) for node, why in verdict["rejected"].items()}


def scores(plugin: Plugin, pod: PodBuilder, *members: Member) -> dict[str, int | None]:
    """Node → points, ``None`` where the plugin did not score."""
    verdict = evaluate_with(plugin, pod, *members)
    return {node: points.get(plugin.name) for node, points in verdict["scores"].items()}


def single_plugin_profile(plugin: Plugin) -> Profile:
    """A profile of one plugin, and what every profile needs."""
    needed = [PluginWeight(PrioritySort()), PluginWeight(DefaultBinder())]
    known = {weighted.plugin.name for weighted in needed}
    return Profile("test", needed + ([] if plugin.name in known else [PluginWeight(plugin)]))
