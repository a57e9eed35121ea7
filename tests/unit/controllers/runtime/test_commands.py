"""Commands that wait to be obeyed."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arranger.api.types.command import Command
from arranger.api.types.core import ObjectMeta, OwnerReference
from arranger.controllers.runtime.commands import PendingCommands
from arranger.controllers.runtime.writer import Writer
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport


def _key(command: Command) -> str | None:
    return command.target.name or None


def a_command(name: str, target: str = "j", *, born: int = 0, deleted: bool = False) -> Command:
    when = datetime(2026, 1, 1, 0, 0, born, tzinfo=UTC)
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        creation_timestamp=when,
        deletion_timestamp=when if deleted else None,
    )
    return Command(meta, action="AbortJob", target=OwnerReference(name=target))


@pytest.fixture
def pending() -> PendingCommands:
    return PendingCommands(_key)


def _next(pending: PendingCommands, key: str = "j") -> str:
    command = pending.next(key)
    return command.metadata.name if command else ""


def test_the_oldest_comes_first_and_of_equals_the_first_by_name(pending: PendingCommands) -> None:
    for command in (a_command("b", born=1), a_command("c"), a_command("a", born=1)):
        assert pending.on_updated(command) == {"j"}
    found = []
    while name := _next(pending):
        found.append(name)
        assert pending.on_deleted(a_command(name)) == {"j"}
    assert found == ["c", "a", "b"]


def test_targets_do_not_wait_for_each_other(pending: PendingCommands) -> None:
    pending.on_updated(a_command("a"))
    pending.on_updated(a_command("b", "k"))
    assert (_next(pending), _next(pending, "k")) == ("a", "b")


def test_what_is_for_nobody_is_passed_over(pending: PendingCommands) -> None:
    assert pending.on_updated(a_command("a", "")) == set()
    assert pending.on_deleted(a_command("a", "")) == set()


def test_one_that_is_given_another_target_is_for_that(pending: PendingCommands) -> None:
    pending.on_updated(a_command("a"))
    assert pending.on_updated(a_command("a", "k")) == {"j", "k"}
    assert (_next(pending), _next(pending, "k")) == ("", "a")
    assert pending.on_deleted(a_command("a", "k")) == {"k"}
    assert _next(pending, "k") == ""


def test_one_that_somebody_deletes_is_withdrawn(pending: PendingCommands) -> None:
    assert pending.on_updated(a_command("a", deleted=True)) == set()
    pending.on_updated(a_command("b"))
    assert pending.on_updated(a_command("b", deleted=True)) == {"j"}
    assert _next(pending) == ""


async def test_one_that_was_deleted_stays_so_though_the_watch_shows_it_once_more(
    pending: PendingCommands,
) -> None:
    cluster = EmbeddedCluster(rng=random.Random(1))
    for definition in bundled_crds():
        cluster.create(definition)
    made = cluster.create(
        {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": "a"},
            "action": "AbortJob",
        }
    )
    command = a_command("a")
    command.metadata.uid = made["metadata"]["uid"]
    pending.on_updated(command)
    assert await pending.delete(command, Writer(InProcessTransport(cluster)))
    assert not cluster.objects("commands", "bus.volcano.sh")
    assert pending.on_updated(command) == set()
    assert _next(pending) == ""
    assert pending.on_deleted(command) == set()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["show", "delete", "withdraw", "obey", "move"]),
            st.sampled_from("abcd"),
        ),
        max_size=40,
    )
)
def test_the_next_is_the_first_that_was_not_obeyed_whatever_comes(
    steps: list[tuple[str, str]],
) -> None:
    pending, there = PendingCommands(_key), dict[str, str]()
    obeyed = set[str]()
    for what, name in steps:
        born = "abcd".index(name) % 2
        match what:
            case "show":
                pending.on_updated(a_command(name, there.get(name, "j"), born=born))
                there.setdefault(name, "j")
            case "move":
                obeyed -= {name} if there.get(name) != "k" else set()
                pending.on_updated(a_command(name, "k", born=born))
                there[name] = "k"
            case "obey" if name in there:
                pending.on_obeyed(a_command(name, there[name], born=born))
                obeyed.add(name)
            case "withdraw":
                pending.on_updated(a_command(name, there.get(name, "j"), deleted=True))
                there.pop(name, None)
                obeyed.discard(name)
            case "delete":
                pending.on_deleted(a_command(name))
                there.pop(name, None)
                obeyed.discard(name)
        for key in "jk":
            waiting = [each for each, at in there.items() if at == key]
            order = sorted(waiting, key=lambda n: (n in obeyed, "abcd".index(n) % 2, n))
            assert _next(pending, key) == (order[0] if order else "")
