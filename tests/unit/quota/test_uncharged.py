"""Which queues are closed while somebody on a node cannot be charged."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest

from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.quota.charging.uncharged import ANOTHER, UnchargedPods

QUEUES = ["default", "mine", "named", "forbidden"]
SPACES = ["team", "other"]


class Rights:
    """Who may use which queue; counts how often it is asked."""

    def __init__(self, may_use: Callable[[str, str], bool] = lambda *_: True) -> None:
        self._may_use = may_use
        self.version = self.asked = 0

    def may_use(self, queue: str, namespace: str) -> bool:
        self.asked += 1
        return self._may_use(queue, namespace)

    def change(self, may_use: Callable[[str, str], bool]) -> None:
        self._may_use = may_use
        self.version += 1


def a_group(name: str, queue: str, namespace: str = "team") -> VolcanoPodGroup:
    meta = {"name": name, "namespace": namespace}
    return msgspec.convert({"metadata": meta, "spec": {"queue": queue}}, VolcanoPodGroup)


@pytest.mark.parametrize(
    ("queue", "closed"),
    [
        pytest.param("mine", {"mine"}, id="the one it names"),
        pytest.param("forbidden", {"default"}, id="not another's that it names"),
        pytest.param("", {"default", "named"}, id="of one unknown all that may be meant"),
        pytest.param(ANOTHER, {"named"}, id="of one unknown that is not the default queue"),
    ],
)
def test_what_somebody_closes_who_cannot_be_charged(queue: str, closed: set[str]) -> None:
    uncharged = UnchargedPods(Rights(lambda name, _: name != "forbidden"))
    uncharged.set("uid", queue, "team")
    # The groups may be read later than the pod.
    uncharged.note_group(a_group("a", "named"))
    uncharged.note_group(a_group("b", "forbidden"))
    uncharged.note_group(a_group("c", "mine", namespace="other"))
    assert {name for name in QUEUES if uncharged.closes(name)} == closed
    assert uncharged.end("uid")
    assert not uncharged
    assert not any(map(uncharged.closes, QUEUES))


def test_a_queue_is_open_once_nobody_names_it_any_more() -> None:
    uncharged = UnchargedPods(Rights())
    uncharged.set("uid", "", "team")
    uncharged.note_group(a_group("a", "named"))
    uncharged.note_group(a_group("b", "named"))
    uncharged.forget_group(VolcanoPodGroup, "team/b")
    assert uncharged.closes("named")
    uncharged.note_group(a_group("a", "mine"))
    assert (uncharged.closes("named"), uncharged.closes("mine")) == (False, True)


def test_it_is_closed_while_there_is_anyone() -> None:
    uncharged = UnchargedPods(Rights())
    uncharged.set("one", "mine", "team")
    assert uncharged.take_edited()
    uncharged.set("one", "mine", "team")
    assert not uncharged.take_edited()
    uncharged.set("two", "mine", "team")
    uncharged.end("one")
    assert uncharged.closes("mine")
    uncharged.set("two", "named", "team")
    assert not uncharged.closes("mine")


def closed_by(
    places: dict[str, tuple[str, str]], named: dict[str, tuple[str, str]], rights: Rights, name: str
) -> bool:
    """Whether a queue is closed, by looking at all."""
    for queue, space in places.values():
        if queue in ("", ANOTHER):
            meant = (name, space) in named.values() and rights.may_use(name, space)
            if meant or (name == "default" and not queue):
                return True
        elif name == (queue if rights.may_use(queue, space) else "default"):
            return True
    return False


@pytest.mark.parametrize("seed", range(40))
def test_the_same_are_closed_as_if_all_who_cannot_be_charged_were_looked_at(seed: int) -> None:
    rng, rights = random.Random(seed), Rights()
    uncharged = UnchargedPods(rights)
    places, named = dict[str, tuple[str, str]](), dict[str, tuple[str, str]]()
    seen = set[tuple[str, bool]]()
    for _ in range(120):
        queue, space, uid = rng.choice(["", *QUEUES]), rng.choice(SPACES), f"uid-{rng.randrange(4)}"
        match rng.randrange(6):
            case 0 | 1:
                place = rng.choice([queue, ANOTHER]), space
                uncharged.set(uid, *place)
                places[uid] = place
            case 2:
                assert uncharged.end(uid) == (places.pop(uid, None) is not None)
            case 3:
                group = f"g{rng.randrange(3)}"
                uncharged.note_group(a_group(group, queue, space))
                named.pop(f"{space}/{group}", None)
                if queue:
                    named[f"{space}/{group}"] = queue, space
            case 4:
                key = f"{space}/g{rng.randrange(3)}"
                uncharged.forget_group(VolcanoPodGroup, key)
                named.pop(key, None)
            case 5:
                refused = rng.choice(QUEUES), rng.choice(SPACES)
                rights.change(lambda *place, refused=refused: place != refused)
        for name in QUEUES:
            closed = uncharged.closes(name)
            assert closed == closed_by(places, named, rights, name)
            seen.add((name, closed))
    assert len(seen) > len(QUEUES)


def test_of_many_queues_that_are_closed_each_is_known_without_a_look_at_the_others() -> None:
    rights, many = Rights(), 300
    uncharged = UnchargedPods(rights)
    for n in range(many):
        uncharged.set(f"uid-{n}", f"q{n}", "team")
        uncharged.note_group(a_group(f"g{n}", f"q{n}"))
        assert uncharged.closes(f"q{n}")
        assert not uncharged.closes("default")
        assert not uncharged.closes("free")
    assert rights.asked <= 10 * many
