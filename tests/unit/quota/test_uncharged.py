"""Which queues are closed while somebody on a node cannot be charged."""

from __future__ import annotations

import msgspec
import pytest

from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.quota.uncharged import UnchargedPods

QUEUES = ["default", "mine", "named", "forbidden"]


def a_group(name: str, queue: str, namespace: str = "team") -> VolcanoPodGroup:
    meta = {"name": name, "namespace": namespace}
    return msgspec.convert({"metadata": meta, "spec": {"queue": queue}}, VolcanoPodGroup)


@pytest.mark.parametrize(
    ("queue", "closed"),
    [
        pytest.param("mine", {"mine"}, id="the one it names"),
        pytest.param("forbidden", {"default"}, id="not another's that it names"),
        pytest.param("", {"default", "named"}, id="of one unknown all that may be meant"),
    ],
)
def test_what_somebody_closes_who_cannot_be_charged(queue: str, closed: set[str]) -> None:
    uncharged = UnchargedPods(lambda name, _: name != "forbidden")
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
    uncharged = UnchargedPods(lambda _, __: True)
    uncharged.set("uid", "", "team")
    uncharged.note_group(a_group("a", "named"))
    uncharged.note_group(a_group("b", "named"))
    uncharged.forget_group(VolcanoPodGroup, "team/b")
    assert uncharged.closes("named")
    uncharged.note_group(a_group("a", "mine"))
    assert (uncharged.closes("named"), uncharged.closes("mine")) == (False, True)


def test_it_is_closed_while_there_is_anyone() -> None:
    uncharged = UnchargedPods(lambda _, __: True)
    uncharged.set("one", "mine", "team")
    assert uncharged.take_edited()
    uncharged.set("one", "mine", "team")
    assert not uncharged.take_edited()
    uncharged.set("two", "mine", "team")
    uncharged.end("one")
    assert uncharged.closes("mine")
    uncharged.set("two", "named", "team")
    assert not uncharged.closes("mine")
