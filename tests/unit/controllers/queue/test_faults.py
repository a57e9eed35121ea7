"""What a fault of our own leaves in the books: nothing, once it is mended."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from arranger.controllers.gang.cache import GANG_GROUP, GangCache
from arranger.controllers.queue.cache import QueueCache
from tests.builders import a_node, a_pod, a_pod_group, an_unstructured
from tests.queueing import CARD, GPU, gpu_node, inference, training
from tests.unit.controllers.queue.test_status import a_book, a_group, a_queue, of_group, status

QUEUES = "arranger.controllers.queue.cache"
GANGS = "arranger.controllers.gang.cache"
GANG_MEMBERS = "arranger.controllers.gang.gang_members"
SIGS = "scheduling.sigs.k8s.io"
#: What both caches call before they count anything.
CALLED = {
    QUEUES: [
        f"{QUEUES}.gang_membership",
        f"{QUEUES}.pod_requests",
        f"{QUEUES}.charges_for",
        f"{QUEUES}.read_queue",
        f"{QUEUES}.cards_of",
        f"{QUEUES}.requested_minimum",
    ],
    GANGS: [
        f"{GANG_MEMBERS}.gang_membership",
        f"{GANG_MEMBERS}.summarize_member",
        f"{GANGS}.convert_object",
    ],
}


class DefectError(Exception):
    """What our own code raises."""


class Faults:
    """Has some calls raise while they are on."""

    def __init__(self, module: str, rng: random.Random, patch: pytest.MonkeyPatch) -> None:
        self.on, self.raised = True, 0
        for path in CALLED[module]:
            patch.setattr(path, self._sometimes(*path.rsplit(".", 1), rng))

    def _sometimes(self, module: str, name: str, rng: random.Random) -> Callable[..., Any]:
        real = getattr(__import__(module, fromlist=[name]), name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.on and rng.random() < 0.2:
                self.raised += 1
                raise DefectError(name)
            return real(*args, **kwargs)

        return call


def _tell(book: QueueCache, obj: Any) -> None:
    if hasattr(obj, "offers"):
        book.on_node_updated(obj.build())
    elif hasattr(obj, "build"):
        book.on_pod_updated(obj.build())
    elif hasattr(obj, "to_queue"):
        book.on_queue_updated(obj)
    else:
        book.on_pod_group_updated(obj)


@pytest.mark.parametrize("seed", range(20))
def test_the_books_of_queues_are_right_again_once_all_is_told_again(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    pods = [
        *(of_group(a_pod(f"g-{n}").needs({GPU: 1}), "g").on("n") for n in range(3)),
        *(of_group(a_pod(f"h-{n}").needs({GPU: 1}), "h") for n in range(3)),
        training("t", 2).on("n"),
        inference("i", 1).on("n"),
        a_pod("d").needs(cpu=1).on("m"),
    ]
    others = [a_group("g", "training", "Running"), a_group("h", "inference"), a_node("m")]

    def queues() -> list[Any]:
        return [a_queue("training", cards={CARD: 8}), a_queue("inference"), a_queue("default")]

    names = [queue.name for queue in queues()]
    sound = a_book(*queues(), *others, gpu_node(), *pods)
    expected = [status(sound, name) for name in names]
    faults, book = Faults(QUEUES, rng, monkeypatch), QueueCache()
    told = [*queues(), *others, gpu_node(), *pods] * 4
    rng.shuffle(told)
    for obj in told:
        with suppress(DefectError):
            _tell(book, obj)
    faults.on = False
    assert faults.raised
    for obj in [*queues(), *others, gpu_node(), *pods]:
        _tell(book, obj)
    assert [status(book, name) for name in names] == expected
    assert (book.total_requests, book.promises.total) == (
        sound.total_requests,
        sound.promises.total,
    )
    for pod in pods:
        book.on_pod_deleted(pod.build().metadata.uid)
    assert not any(status(book, name)["allocated"] for name in names)
    assert not +book.total_requests


@pytest.mark.parametrize("seed", range(20))
def test_the_books_of_gangs_are_right_again_once_all_is_told_again(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    label = "pod-group.scheduling.sigs.k8s.io"
    pods = [a_pod(f"{gang}-{n}").labelled({label: gang}) for gang in "ab" for n in range(3)]
    moved = [a_pod(f"a-{n}").labelled({label: "b"}) for n in range(2)]
    bound = [pod.on("n") for pod in pods]
    groups = [a_pod_group(name, least=3).manifest() for name in "ab"]
    for version, group in enumerate(groups):
        group |= {"apiVersion": f"{SIGS}/v1alpha1", "kind": "PodGroup"}
        group["metadata"] |= {"uid": f"uid-{version}", "resourceVersion": str(version + 1)}
    sound, book = GangCache(), GangCache()
    for cache in (sound, book):
        for group in (GANG_GROUP, SIGS):
            cache.on_definition_updated(group, None)
    for group in groups:
        sound.on_object_updated(SIGS, an_unstructured(group))
    for pod in bound:
        sound.on_pod_updated(pod.build())
    faults = Faults(GANGS, rng, monkeypatch)
    steps: list[Any] = [*pods, *moved, *bound, *groups] * 3
    rng.shuffle(steps)
    for step in steps:
        with suppress(DefectError):
            if isinstance(step, dict):
                book.on_object_updated(SIGS, an_unstructured(step))
            elif rng.random() < 0.2:
                book.on_pod_deleted(step.build().metadata.uid)
            else:
                book.on_pod_updated(step.build())
        book.registry.check_consistent()
    faults.on = False
    assert faults.raised
    for group in groups:
        book.on_object_updated(SIGS, an_unstructured(group))
    for pod in bound:
        book.on_pod_updated(pod.build())
    book.registry.check_consistent()
    for gang in ("default/a", "default/b"):
        assert book.changes(gang, "now") == sound.changes(gang, "now")
    for pod in bound:
        book.on_pod_deleted(pod.build().metadata.uid)
    assert not book.registry.gang_of(bound[0].build().metadata.uid)
