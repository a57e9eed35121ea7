"""What a handler hears of full states and single changes."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from arranger.kube.watch.decoder import PartialMetadata
from arranger.kube.watch.informer import Informer, RaiseFaults, namespaced_name, uid_of


class Thing(msgspec.Struct):
    metadata: PartialMetadata
    size: int = 1


def thing(name: str, size: int = 1, *, uid: str = "") -> Thing:
    return Thing(PartialMetadata(name=name, namespace="ns", uid=uid or name), size)


@dataclass
class Recorder:
    """Notes what it hears as ``+name=size`` and ``-name=size``."""

    heard: list[str] = field(default_factory=list)

    def on_updated(self, obj: Thing) -> None:
        self.heard.append(f"+{obj.metadata.name}={obj.size}")

    def on_deleted(self, obj: Thing) -> None:
        self.heard.append(f"-{obj.metadata.name}={obj.size}")

    def take(self) -> list[str]:
        heard, self.heard = self.heard, []
        return heard


def test_a_full_state_tells_first_what_it_lacks_with_the_last_state_known() -> None:
    handler = Recorder()
    informer = Informer[Thing](handler)
    informer.replaced([thing("a"), thing("b")], "1")
    informer.applied(thing("b", 2))
    informer.applied(thing("c"))
    informer.deleted(thing("c"))
    assert handler.take() == ["+a=1", "+b=1", "+b=2", "+c=1", "-c=1"]
    informer.replaced([thing("d"), thing("a")], "9")
    assert handler.take() == ["-b=2", "+d=1", "+a=1"]
    informer.replaced([], "")
    assert sorted(handler.take()) == ["-a=1", "-d=1"]


def test_a_recreated_object_is_another_by_uid_and_the_same_by_name() -> None:
    for key, heard in ((namespaced_name, ["+a=2"]), (uid_of, ["-a=1", "+a=2"])):
        handler = Recorder()
        informer = Informer[Thing](handler, key=key)
        informer.replaced([thing("a", uid="first")], "1")
        handler.take()
        informer.replaced([thing("a", 2, uid="second")], "2")
        assert handler.take() == heard


def test_an_answer_to_our_own_write_counts_as_existing_until_a_full_state_lacks_it() -> None:
    handler = Recorder()
    informer = Informer[Thing](handler)
    informer.record(thing("a"))
    informer.replaced([], "1")
    assert handler.take() == []  # it may have been asked for before
    informer.listing()
    informer.replaced([], "2")
    assert handler.take() == ["-a=1"]


def test_answers_to_our_own_writes_are_noted_only_while_a_full_state_is_awaited() -> None:
    handler = Recorder()
    informer = Informer[Thing](handler)
    informer.replaced([], "1")
    informer.record(thing("a"))
    informer.replaced([], "2")
    assert handler.take() == ["-a=1"]


def test_what_is_kept_and_the_order_of_a_full_state_may_be_chosen() -> None:
    handler = Recorder()
    informer = Informer[Thing](
        handler, sort_by=lambda obj: obj.size, transform=lambda obj: thing(obj.metadata.name, 0)
    )
    informer.replaced([thing("a", 3), thing("b", 2)], "1")
    informer.replaced([], "2")
    assert handler.take() == ["+b=2", "+a=3", "-b=0", "-a=0"]


def test_it_notifies_after_each_delivery_even_of_an_empty_state() -> None:
    handler = Recorder()
    calls: list[int] = []
    informer = Informer[Thing](handler, notify=lambda: calls.append(len(handler.heard)))
    states = [informer.synced]
    informer.replaced([], "1")
    states.append(informer.synced)
    assert states == [False, True]
    informer.replaced([thing("a"), thing("b")], "2")
    informer.applied(thing("a", 2))
    informer.deleted(thing("b"))
    assert calls == [0, 2, 3, 4]


class Faults(RaiseFaults[Thing]):
    """Notes about whom a fault was reported, and with which last state."""

    def __init__(self) -> None:
        self.met: list[tuple[str, Thing | None]] = []

    def on_update_fault(self, obj: Thing, before: Thing | None, error: Exception) -> None:
        self.met.append((obj.metadata.name, before))


def test_an_object_without_a_place_in_the_order_is_a_fault_of_its_own() -> None:
    def size(each: Thing) -> int:
        if each.metadata.name == "odd":
            raise OverflowError
        return each.size

    handler, faults = Recorder(), Faults()
    informer = Informer[Thing](handler, sort_by=size, faults=faults)
    informer.replaced([thing("b", 2), thing("odd"), thing("a", 1)], "1")
    assert handler.take() == ["+a=1", "+b=2"]
    assert faults.met == [("odd", None)]
    informer.deleted(thing("odd"))
    assert handler.take() == ["-odd=1"]
