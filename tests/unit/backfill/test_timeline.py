"""The timeline follows the pods on the nodes in steps, and tells cheaply whether any have gone."""

from __future__ import annotations

import math

import pytest

from arranger.backfill.timeline import Timeline
from tests.builders import a_node
from tests.unit.backfill.worlds import NOW, Both, random_worlds, running

SEEDS = range(60)


def pods_of(timeline: Timeline, now: float) -> list[tuple[int, float, int, tuple[int, ...]]]:
    """Row, end, what tells of it and amounts of each pod, in an order of their own."""
    (end, basis), row = timeline.ends(now), timeline.rows_of_slots()
    free = timeline.free_at(math.inf, now)
    found = [
        (int(row[slot]), float(end[slot]), int(basis[slot]), tuple(free[:, row[slot]].tolist()))
        for slot in range(len(row))
        if row[slot] >= 0
    ]
    return sorted(found)


def change(both: Both, name: str) -> None:
    """A pod comes, goes or is replaced, or a node changes."""
    rng, table = both.rng, both.table
    row = rng.randrange(table.size)
    pods = list(table.pods[row].values())
    kind = rng.randrange(4)
    if kind == 0 and pods:
        table.remove_pod(rng.choice(pods), row)
    elif kind == 1 and pods:
        old = rng.choice(pods)
        cpu = old.requests["cpu"] // 1000
        newer = running(
            old.pod.metadata.name, cpu, NOW - 1, rng.choice((None, 50)), old.requests["memory"]
        )
        table.replace_pod(newer, row)
    elif kind == 2:
        offers = {"cpu": rng.randint(1, 9), f"example.com/r{rng.randrange(3)}": 1}
        table.set_node(a_node(table.name(row)).offers(**offers).build())
    else:
        table.add_pod(running(name, 1, NOW, rng.choice((None, 9))), row)


@pytest.mark.parametrize("most", [1, 3, 7])
def test_followed_in_steps_all_is_as_if_followed_at_once(most: int) -> None:
    several = 0
    for seed in SEEDS:
        whole, pieces = random_worlds(seed), random_worlds(seed)
        for n in range(6):
            for m in range(4):
                change(whole, f"new-{n}-{m}")
                change(pieces, f"new-{n}-{m}")
            whole.timeline.refresh(NOW)
            steps = 0
            while not steps or not pieces.timeline.is_current:
                rows = pieces.timeline.refresh(NOW, most)
                steps += 1
                counts = sorted(len(pieces.table.pods[row]) for row in rows)
                assert sum(counts) - max(counts, default=0) < most + len(rows), "a small step"
            several += steps > 1
            pieces.timeline.check_consistent()
            assert pods_of(pieces.timeline, NOW) == pods_of(whole.timeline, NOW), (seed, n)
    assert several > 20


def test_of_watched_rows_nothing_is_missed_and_others_wait() -> None:
    for seed in SEEDS:
        both = random_worlds(seed)
        watched = {0}
        both.timeline.watch(watched, NOW)
        for n in range(12):
            change(both, f"new-{n}")
            told = both.timeline.refresh_watched(NOW)
            assert told <= watched or both.timeline.is_current
            there = sum(row == 0 for row, *_ in pods_of(both.timeline, NOW))
            assert there == len(both.table.pods[0]), (seed, n)
        both.timeline.refresh(NOW)
        both.timeline.check_consistent()


def test_room_may_have_become_free_only_if_pods_went_or_a_node_changed() -> None:
    both = random_worlds(3)
    timeline, table = both.timeline, both.table

    def freed() -> bool:
        before = timeline.freed
        timeline.note_changes()
        return timeline.freed > before

    assert not freed()
    pod = running("p", 1, NOW, None)
    table.add_pod(pod, 0)
    assert not freed(), "a pod has come"
    table.remove_pod(pod, 0)
    assert not freed(), "it was there for no plan to know"
    table.add_pod(pod, 0)
    timeline.refresh(NOW)
    table.remove_pod(pod, 0)
    assert freed(), "a pod has gone"
    table.add_pod(pod, 0)
    timeline.refresh(NOW)
    table.remove_pod(pod, 0)
    table.add_pod(pod, 0)
    assert not freed(), "a pod was taken away for the length of a question"
    table.set_node(a_node("n0").offers(cpu=9).build())
    assert freed(), "a node has changed"
    timeline.refresh(NOW)
    table.replace_pod(running("p", 1, NOW, 50), 0)
    assert freed(), "a pod has a limit that had none"
    timeline.refresh(NOW)
    table.replace_pod(running("p", 1, NOW + 9, 50), 0)
    assert not freed(), "its kubelet says when it has started"
    table.replace_pod(running("p", 1, NOW, 200), 0)
    assert freed(), "it may run longer"
    timeline.refresh(NOW)
    table.replace_pod(running("p", 1, NOW, None), 0)
    assert freed(), "it may run for ever"
    timeline.refresh(NOW)
    table.replace_pod(running("p", 1, NOW - 900, None), 0)
    assert not freed(), "nothing tells of its end"
    timeline.refresh(NOW)
    timeline.check_consistent()


def test_a_watched_row_is_told_of_though_others_have_noted_or_followed_it() -> None:
    both = random_worlds(0)
    table, timeline = both.table, both.timeline
    timeline.watch({0}, NOW)
    table.add_pod(running("noted", 1, NOW, 9), 0)
    table.add_pod(running("elsewhere", 1, NOW, 9), 1)
    timeline.note_changes()
    assert timeline.refresh_watched(NOW) == {0}
    assert timeline.refresh_watched(NOW) == set()
    table.add_pod(running("followed", 1, NOW, 9), 0)
    assert timeline.refresh(NOW) == {0, 1}
    assert timeline.refresh_watched(NOW) == {0}
    timeline.check_consistent()
