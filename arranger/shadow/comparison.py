"""What a change would do: one forecast of the cluster as it is, one with the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from arranger.api.types.core import Pod
from arranger.daemon.config.schema import Config
from arranger.shadow.changes import ClusterChange
from arranger.shadow.forecast import Forecast, forecast
from arranger.shadow.objects import ClusterObjects


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """What becomes of pods with a change, where that differs from what becomes of them without.

    Attributes:
        changes: the changes, a line each.
        placed: pod → node, of those that would not be placed without.
        moved: pod → (node without, node with), of those that go elsewhere.
        evicted: pod → why, of those that stay without.
        spared: pods that are evicted without, and stay with the change.
        waiting: pod → why, of those that wait only with the change.
        still_waiting: pod → why, of those that wait either way.
        gone: pods that the change itself takes away.
        unfinished: whether pods evict each other without an end.
    """

    changes: list[str]
    placed: dict[str, str]
    moved: dict[str, tuple[str, str]]
    evicted: dict[str, str]
    spared: list[str]
    waiting: dict[str, str]
    still_waiting: dict[str, str]
    gone: list[str]
    unfinished: bool


def compare(
    objects: ClusterObjects, changes: Sequence[ClusterChange], config: Config, *, now: datetime
) -> Difference:
    """Forecast twice and tell the difference.

    Raises:
        ChangeError: a change does not apply.
        ObjectError: an object that it creates cannot be read.
        ConfigError: the configured plugins cannot be used.
    """
    before = forecast(objects, config, now=now)
    changed = objects.copy()
    for change in changes:
        change.apply(changed)
    after = forecast(changed, config, now=now)
    there = {pod.key for pod in changed.of(Pod)}
    was, becomes = _nodes(objects, before), _nodes(changed, after)
    return Difference(
        [change.text for change in changes],
        placed={key: node for key, node in becomes.items() if key not in was},
        moved={
            key: (was[key], node)
            for key, node in becomes.items()
            if key in was and was[key] != node
        },
        evicted={
            key: why.reason for key, why in after.evicted.items() if key not in before.evicted
        },
        spared=sorted(key for key in before.evicted if key in there and key not in after.evicted),
        waiting=_only(after.waiting, before.waiting),
        still_waiting={key: why for key, why in after.waiting.items() if key in before.waiting},
        gone=sorted(pod.key for pod in objects.of(Pod) if pod.key not in there),
        unfinished=before.unfinished or after.unfinished,
    )


def _nodes(objects: ClusterObjects, told: Forecast) -> dict[str, str]:
    """Pod → the node that it has in the end."""
    has = {
        pod.key: pod.spec.node_name
        for pod in objects.of(Pod)
        if pod.spec.node_name and not pod.terminal and pod.key not in told.evicted
    }
    return {**has, **told.nodes}


def _only(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in one.items() if key not in other}
