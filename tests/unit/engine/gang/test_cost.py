"""What gangs cost must grow with their pods, not with the square of them.

Counted are calls, not seconds: the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from arranger.api.effects import Applied, Bind
from arranger.engine.gang.manager import GangManager
from arranger.gangs.gang import Gang
from arranger.gangs.group import GangGroup
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind, small_profile

SIZE = 5000


@pytest.fixture
def core() -> EngineHarness:
    return EngineHarness(small_profile())


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often has been asked what a gang lacks, and how many members have been looked at."""
    counts: Counter[str] = Counter()

    def count(owner: type, name: str, amount: Callable[..., int]) -> None:
        original = getattr(owner, name)

        def counted(self, *args):  # type: ignore[no-untyped-def]
            args = tuple(list(arg) if name == "count_by_bundle" else arg for arg in args)
            counts[name] += amount(self, *args)
            return original(self, *args)

        monkeypatch.setattr(owner, name, counted)

    count(Gang, "missing_members", lambda gang, have: 1)
    count(GangGroup, "count_by_bundle", lambda group, uids: len(uids))
    count(GangManager, "_members_of", lambda work, names: sum_of_claims(work, names))
    count(GangManager, "_is_stale", lambda work, entity: 1)
    return counts


def sum_of_claims(work: GangManager, names: set[str]) -> int:
    gangs = [work._registry.gangs.get(name) for name in names]
    return sum(len(gang.memberships) for gang in gangs if gang is not None)


def arrive(core: EngineHarness, pods: list[PodBuilder]) -> None:
    for pod in pods:
        core.engine.on_pod_updated(pod.build(), core.now)


def room(core: EngineHarness, cpus: int) -> None:
    for n in range(50):
        core.engine.on_node_updated(
            a_node(f"n{n}").offers(cpu=cpus // 50, pods=cpus).build(), core.now
        )


def members(least: int) -> list[PodBuilder]:
    return [a_pod(f"g-{n}").needs(cpu=1).in_gang("g", least) for n in range(SIZE)]


def run(core: EngineHarness) -> list[Bind]:
    """As the daemon does, without the checks of the harness."""
    binds: list[Bind] = []
    while core.engine.ready:
        binds += of_kind(Bind, core.engine.run(core.now))
    return binds


def settle(core: EngineHarness, binds: list[Bind]) -> None:
    for bind in binds:
        core.engine.on_outcome(bind, Applied(), core.now)
    run(core)


@pytest.mark.parametrize("least", [SIZE, 50], ids=["all are needed", "most are surplus"])
def test_a_large_gang_arrives_and_is_bound(
    least: int, core: EngineHarness, calls: Counter[str]
) -> None:
    arrive(core, members(least))
    assert max(calls.values()) <= 3 * SIZE
    room(core, SIZE)
    binds = run(core)
    assert len(binds) == SIZE
    settle(core, binds)
    assert core.engine.registry.gangs["default/g"].satisfied
    assert max(calls.values()) <= 12 * SIZE, calls


def test_members_of_a_large_gang_that_does_not_fit_arrive(
    core: EngineHarness, calls: Counter[str]
) -> None:
    pods = members(50)
    room(core, 0)
    arrive(core, pods[:50])
    assert run(core) == []
    calls.clear()
    arrive(core, pods[50:])
    assert max(calls.values()) <= 3 * SIZE


def test_surplus_of_a_bundle_arrives(core: EngineHarness, calls: Counter[str]) -> None:
    pods = [a_pod(f"g-{n}").in_bundle("g", "worker", 50) for n in range(1000)]
    arrive(core, [a_pod("ps").in_bundle("g", "ps", 1), *pods])
    assert max(calls.values()) <= 10_000


def test_a_restart_lists_the_pods_of_a_large_gang_that_runs(
    core: EngineHarness, calls: Counter[str]
) -> None:
    pods = members(SIZE)
    shown = [pod.on("n0") if n % 3 else pod for n, pod in enumerate(pods)]
    arrive(core, shown)
    assert max(calls.values()) <= 6 * SIZE


def test_a_large_gang_is_deleted(core: EngineHarness, calls: Counter[str]) -> None:
    arrive(core, members(SIZE))
    calls.clear()
    for n in range(SIZE):
        core.engine.on_pod_deleted(f"default/g-{n}", 0.0)
    assert max(calls.values()) <= 3 * SIZE
    assert not core.engine.registry.gangs


def test_a_gang_that_comes_does_not_look_at_all_others(
    core: EngineHarness, calls: Counter[str]
) -> None:
    many = 300
    room(core, 4 * many)
    for n in range(many):
        arrive(core, [a_pod(f"g{n}-{m}").needs(cpu=1).in_gang(f"g{n}", 2) for m in range(2)])
        settle(core, run(core))
    assert max(calls.values()) <= 40 * many, calls
