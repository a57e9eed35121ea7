"""Events of which not all that wait have been asked yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from arranger.engine.queue.hints import HelpQuestion


class OpenQuestion(NamedTuple):
    """An event, and some that are to be asked whether it may help them.

    Attributes:
        groups, gated: wake-up groups, and keys of gated entities.
        yields: see :meth:`~arranger.engine.queue.scheduling_queue.SchedulingQueue.wake`.
    """

    question: HelpQuestion
    groups: list[Hashable]
    gated: list[Hashable]
    yields: bool


@dataclass(slots=True, eq=False)
class OpenQuestions:
    """Hands questions out piece by piece: answering one must not take long.

    Args:
        at_once: how many are asked in one piece.
    """

    _at_once: int
    _open: deque[OpenQuestion] = field(default_factory=deque, init=False)

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, asked: OpenQuestion) -> bool:
        """Ask them of an event; whether that is one piece, and the next one."""
        if asked.groups or asked.gated:
            self._open.append(asked)
        return len(self._open) == 1 and len(asked.groups) + len(asked.gated) <= self._at_once

    def next_piece(self) -> OpenQuestion:
        """Those that are to be asked next; the same ones until :meth:`on_answered`."""
        question, groups, gated, yields = self._open[0]
        some = groups[: self._at_once]
        left = self._at_once - len(some)
        return OpenQuestion(question, some, gated[:left], yields)

    def on_answered(self, piece: OpenQuestion) -> None:
        """They have been asked, and whoever it may help is woken."""
        _, groups, gated, _ = self._open[0]
        del groups[: len(piece.groups)], gated[: len(piece.gated)]
        if not groups and not gated:
            self._open.popleft()
