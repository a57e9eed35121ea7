"""Judges pods with one plugin, through the framework."""

from __future__ import annotations

from typing import Any

from arranger.explain.evaluate import judge_pod
from arranger.framework.interface import Plugin
from arranger.framework.runtime.profile import Profile, Weighted
from arranger.plugins.default_binder import DefaultBinder
from arranger.plugins.queueing.priority_sort import PrioritySort
from tests.builders import Member, PodBuilder, a_cluster


def judged(plugin: Plugin, pod: PodBuilder, *members: Member) -> dict[str, Any]:
    """The verdict on ``pod``, as :func:`arranger.explain.judge` words it."""
    return judge_pod(a_cluster(*members), pod.with_uid("uid-judged").info(), only(plugin))


def rejected(plugin: Plugin, pod: PodBuilder, *members: Member) -> dict[str, tuple[str, ...]]:
    """Node → why it was rejected, for the nodes that were."""
    verdict = judged(plugin, pod, *members)
    return {node: tuple(why["reasons"]) for node, why in verdict["rejected"].items()}


def scores(plugin: Plugin, pod: PodBuilder, *members: Member) -> dict[str, int | None]:
    """Node → points, ``None`` where the plugin did not score."""
    verdict = judged(plugin, pod, *members)
    return {node: points.get(plugin.name) for node, points in verdict["scores"].items()}


def only(plugin: Plugin) -> Profile:
    """A profile of one plugin, and what every profile needs."""
    needed = [Weighted(PrioritySort()), Weighted(DefaultBinder())]
    known = {weighted.plugin.name for weighted in needed}
    return Profile("test", needed + ([] if plugin.name in known else [Weighted(plugin)]))
