"""A question in a copy of the process hurts nobody: not by time, memory, files, nor by raising."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from arranger.daemon.config.schema import Config
from arranger.shadow import Present, Shadow
from arranger.shadow.forecasts.branch import Branch, BranchError
from arranger.shadow.forecasts.changes import ChangeError
from tests.builders import a_node, a_pod


def asked(work: Callable[[], Any], seconds: float = 30.0) -> Any:
    return Branch[Any].start(work, Any, seconds).result()


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_what_it_changes_is_changed_there_alone() -> None:
    numbers = [1]

    def work() -> list[int]:
        numbers.append(2)
        return numbers

    assert asked(work) == [1, 2]
    assert numbers == [1]


def test_an_answer_larger_than_a_pipe_arrives() -> None:
    assert len(asked(lambda: "x" * 10_000_000)) == 10_000_000


@pytest.mark.parametrize("kind", [LookupError, ChangeError])
def test_what_is_wrong_with_the_question_is_raised_here(kind: type[Exception]) -> None:
    def work() -> None:
        raise kind("there is no pod x")

    with pytest.raises(kind, match="there is no pod x"):
        asked(work)


def test_a_fault_of_ours_says_where() -> None:
    with pytest.raises(BranchError, match="ZeroDivisionError"):
        asked(lambda: 1 // 0)


def test_one_that_ends_without_an_answer_is_told() -> None:
    with pytest.raises(BranchError, match="without"):
        asked(lambda: os._exit(3))


def test_one_that_takes_too_long_is_ended() -> None:
    branch = Branch[Any].start(lambda: time.sleep(60.0), Any, 0.2)
    with pytest.raises(TimeoutError):
        branch.result()
    assert has_ended(branch._pid)


def test_one_that_takes_too_much_memory_is_refused() -> None:
    with pytest.raises(BranchError, match="memory"):
        asked(lambda: len(bytearray(3 << 30)))


def test_a_connection_ends_with_its_owner_while_a_question_is_worked_on() -> None:
    ours, theirs = socket.socketpair()
    branch = Branch[Any].start(lambda: time.sleep(5.0), Any)
    time.sleep(0.5)
    ours.close()
    theirs.settimeout(2.0)
    assert theirs.recv(1) == b""
    branch.close()
    theirs.close()


def a_shadow() -> Shadow:
    manifests = [a_node("n1").manifest(), a_pod("new").manifest()]
    return Shadow.from_manifests(manifests, Config())


def test_questions_are_asked_without_threads_and_one_that_is_given_up_is_ended() -> None:
    shadow = a_shadow()

    class Slow:
        kind = int

        def answer(self, driver: object) -> int:
            time.sleep(60.0)
            return 1

    async def play() -> None:
        before = threading.active_count()
        answers = await asyncio.gather(*(shadow.ask(Present()) for _ in range(4)))
        assert [each.nodes for each in answers] == 4 * [{"default/new": "n1"}]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await shadow.ask(Slow())
        with pytest.raises(TimeoutError):
            await shadow.ask(Slow(), 0.2)
        assert threading.active_count() == before

    asyncio.run(play())
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
