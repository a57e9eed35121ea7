"""Pods that one edit of what they share concerns are counted anew in slices, beside all else."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.controllers.queue.cache import RECOUNTED_AT_ONCE, QueueCache
from arranger.controllers.queue.promises import Promises
from tests.builders import a_pod
from tests.faults.injector import WRITES
from tests.queueing import a_queue_manifest
from tests.unit.controllers.queue.test_controller import QueueControllerHarness
from tests.unit.controllers.queue.test_status import a_book, a_queue, of_group, status

SIZE = 3 * RECOUNTED_AT_ONCE + 7
QUEUES = ("training", "inference", "default")


def the_group(queue: str, name: str = "g") -> VolcanoPodGroup:
    spec = {"queue": queue, "minResources": {"cpu": "9000"}}
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    return msgspec.convert({**body, "status": {"phase": "Running"}}, VolcanoPodGroup)


def pods_of(name: str = "g", size: int = SIZE) -> list[Any]:
    return [of_group(a_pod(f"{name}-{n}").needs(cpu=1), name).on("n") for n in range(size)]


def queues() -> list[Any]:
    return [a_queue(name) for name in QUEUES]


EDITS: dict[str, Callable[[QueueCache], set[str]]] = {
    "its queue is edited": lambda book: book.on_pod_group_updated(the_group("inference")),
    "it is deleted": lambda book: book.on_pod_group_deleted("default/g"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_a_pod_group_counts_few_pods_at_once_and_its_promise_twice(
    edit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = a_book(*queues(), the_group("training"), *pods_of())
    calls: Counter[str] = Counter()
    for owner, name in ((QueueCache, "_charged"), (Promises, "_count")):
        original = getattr(owner, name)

        def counting(self: Any, *args: Any, _call: Any = original, _name: str = name) -> Any:
            calls[_name] += 1
            return _call(self, *args)

        monkeypatch.setattr(owner, name, counting)
    concerned = EDITS[edit](book)
    assert concerned
    assert book.has_due
    assert calls["_charged"] <= RECOUNTED_AT_ONCE
    slices = 0
    while book.has_due:
        before = calls["_charged"]
        book.recount_due()
        slices += 1
        assert calls["_charged"] - before <= RECOUNTED_AT_ONCE
    assert slices == 3
    assert calls["_charged"] == SIZE
    assert calls["_count"] <= 3


def test_whoever_hears_of_the_edit_looks_at_a_queue_though_there_is_none() -> None:
    """Else nobody would go on with the rest."""
    book = a_book(the_group("training"), *pods_of())
    assert book.on_pod_group_updated(the_group("inference"))


@pytest.mark.parametrize("seed", range(40))
def test_in_the_end_all_is_as_if_it_had_been_so_from_the_beginning(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens between the slices."""
    monkeypatch.setattr("arranger.controllers.queue.cache.RECOUNTED_AT_ONCE", 5)
    rng, size = random.Random(seed), 14
    groups = {name: the_group(rng.choice(QUEUES), name) for name in "gh"}
    pods = {pod.build().metadata.uid: pod for name in groups for pod in pods_of(name, size)}
    book = a_book(*queues(), *groups.values(), *pods.values())
    for _ in range(20):
        step, name = rng.randrange(4), rng.choice("gh")
        if step == 0:
            groups[name] = the_group(rng.choice(QUEUES), name)
            book.on_pod_group_updated(groups[name])
        elif step == 1:
            groups.pop(name, None)
            book.on_pod_group_deleted(f"default/{name}")
        elif step == 2:
            for uid in rng.sample(sorted(pods), min(2, len(pods))):
                del pods[uid]
                book.on_pod_deleted(uid)
        else:
            book.recount_due()
    while book.has_due:
        book.recount_due()
    sound = a_book(*queues(), *groups.values(), *pods.values())
    for name in QUEUES:
        assert status(book, name) == status(sound, name)
    assert +book.total_requests == +sound.total_requests
    assert book.promises.total == sound.promises.total


def test_a_pod_that_cannot_be_counted_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And those queues are told of that were found beside it."""
    book = a_book(*queues(), the_group("training"), *pods_of())
    book.on_pod_group_updated(the_group("inference"))
    real = QueueCache._charged

    def raising(self: QueueCache, entry: Any) -> Any:
        if entry.pod.metadata.name == "g-500":
            raise RuntimeError("a defect")
        return real(self, entry)

    monkeypatch.setattr(QueueCache, "_charged", raising)
    told, errors = set[str](), 0
    while book.has_due:
        try:
            told |= book.recount_due()
        except RuntimeError:
            errors += 1
    assert errors == 1
    assert told >= {"training", "inference"}
    assert (status(book)["allocated"], status(book, "inference")["allocated"]) == (
        {"cpu": "1"},
        {"cpu": str(SIZE - 1)},
    )


@pytest.mark.looptime(noop_cycles=0)
async def test_the_status_that_is_written_is_that_of_all_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what else is due in the event loop is done between two slices."""
    harness = QueueControllerHarness()
    for name in ("training", "inference"):
        harness.cluster.create(a_queue_manifest(name))
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    meta = {"name": "g", "namespace": "default"}
    spec = {"minMember": 1, "queue": "training"}
    harness.cluster.create({**group, "metadata": meta, "spec": spec})
    harness.create(*pods_of())
    async with harness.controller():
        await asyncio.sleep(5)
        assert harness.status("training")["allocated"] == {"cpu": str(SIZE)}
        seen, real = list[str](), QueueCache.recount_due

        def note(book: QueueCache) -> set[str]:
            asyncio.get_running_loop().call_soon(seen.append, "another")
            seen.append("slice")
            return real(book)

        monkeypatch.setattr(QueueCache, "recount_due", note)
        path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/g"
        harness.request("PATCH", path, {"spec": {"queue": "inference"}})
        before = len(harness.faults.applied(WRITES))
        await asyncio.sleep(5)
        assert harness.status("inference")["allocated"] == {"cpu": str(SIZE)}
        assert not harness.status("training")["allocated"]
        assert len(harness.faults.applied(WRITES)) == before + 2
        assert seen == ["slice", "another"] * 4
