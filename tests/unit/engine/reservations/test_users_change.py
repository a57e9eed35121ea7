"""Users of a Reservation may change though no pod does: its queue, PodGroup or namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from arranger.api.types.core import Namespace
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.engine.reservations.evictions import RETRY_AFTER
from tests.builders import PodBuilder, a_queue
from tests.unit.engine.harness import EngineHarness
from tests.unit.engine.reservations.test_evictions import a_world, evicting, left, running, show
from tests.unit.engine.reservations.test_parts_of_nodes import GPU, eight, partly
from tests.unit.engine.reservations.test_parts_of_nodes import pod as gpus
from tests.unit.engine.reservations.test_reservations import reserved


def _in_queue_by_group(queue: str) -> VolcanoPodGroup:
    metadata = {"name": "g", "namespace": "default", "uid": "g"}
    return msgspec.convert({"metadata": metadata, "spec": {"queue": queue}}, VolcanoPodGroup)


def _the_queue_takes_others(harness: EngineHarness) -> None:
    harness.observe(a_queue("q", namespaceSelector={"matchLabels": {"team": "b"}}))


def _its_pod_group_names_another_queue(harness: EngineHarness) -> None:
    harness.engine.handlers.on_pod_group_updated(_in_queue_by_group("other"), harness.now)


def _its_namespace_is_of_another_team(harness: EngineHarness) -> None:
    labels = {"metadata": {"name": "default", "labels": {"team": "b"}}}
    show(harness, msgspec.convert(labels, Namespace))


_TEAM_A = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
_GROUP = {"scheduling.k8s.io/group-name": "g"}
#: What happens, who the users were, and the pod.
NO_USER_ANY_MORE: list[tuple[Callable[[EngineHarness], None], dict[str, Any], PodBuilder]] = [
    (_the_queue_takes_others, {"queues": ["q"]}, running().in_queue("q")),
    (_its_pod_group_names_another_queue, {"queues": ["q"]}, running().annotated(_GROUP)),
    (_its_namespace_is_of_another_team, _TEAM_A, running()),
]


@pytest.mark.parametrize(("happens", "users", "pod"), NO_USER_ANY_MORE)
def test_who_is_no_user_any_more_leaves_though_it_was_not_edited(
    happens: Callable[[EngineHarness], None], users: dict[str, Any], pod: PodBuilder
) -> None:
    harness = a_world(evicting("r", -10, 500, users=users))
    harness.engine.handlers.on_pod_group_updated(_in_queue_by_group("q"), harness.now)
    show(harness, pod.needs(cpu=1), evicting("s", -10, 500, "m", users=users))
    assert left(harness.run()) == []
    show(
        harness, reserved("t", -10, 500, users=users, nodes={"names": ["n"], "perNode": {"cpu": 1}})
    )
    harness.advance_to(20)
    harness.now = 30
    happens(harness)
    assert left(harness.run()) == ["p"]


def test_those_on_reserved_nodes_are_looked_at_again_only_so_often() -> None:
    """Each tenant's PodGroup may make others users."""
    harness = a_world(evicting("r", -10, 500, users={"queues": ["q"]}))
    harness.engine.handlers.on_pod_group_updated(_in_queue_by_group("q"), harness.now)
    show(harness, running().annotated(_GROUP))
    assert left(harness.run()) == []
    harness.engine.handlers.on_pod_group_updated(_in_queue_by_group("other"), harness.now)
    assert left(harness.run()) == []
    timer = harness.engine.next_timer()
    assert timer is not None
    assert timer <= RETRY_AFTER
    assert left(harness.advance_to(RETRY_AFTER)) == ["p"]


def _namespace(name: str, team: str) -> Namespace:
    labels = {"metadata": {"name": name, "labels": {"team": team}}}
    return msgspec.convert(labels, Namespace)


WAITING: dict[str, dict[str, PodBuilder]] = {
    "a lone pod": {"a": gpus("a", 4)},
    "a gang": {name: gpus(name, 2).in_gang("g", 2) for name in ("a", "b")},
}


@pytest.mark.parametrize("waiting", WAITING.values(), ids=WAITING)
def test_a_part_that_another_namespace_takes_as_a_user_wakes_who_waits(
    waiting: dict[str, PodBuilder],
) -> None:
    world = eight()
    world.show(_namespace("default", "a"), _namespace("two", "a"))
    users = {"namespaceSelector": {"matchLabels": {"team": "b"}}}
    world.show(partly("r", 0, 5000, {GPU: 4}, users=users))
    there = gpus("x", 4).in_namespace("two").on("n").with_status(phase="Running")
    world.harness.observe(there, *waiting.values())
    assert world.at(0) == {}
    world.show(_namespace("two", "b"))
    assert world.at(15) == dict.fromkeys(waiting, "n")
    world.harness.engine.check_consistent()
