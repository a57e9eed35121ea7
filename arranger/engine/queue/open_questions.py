"""Events of which not all that wait have been asked yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from arranger.engine.queue.hints import HelpQuestion
from arranger.engine.queue.requirements import GatedEntities
from arranger.engine.queue.unschedulable_entities import UnschedulableEntities

#: Events times those that wait, beyond which further events are not asked about one by one: each
#: that asks for events of their type is woken.
MOST_OPEN: Final = 2048


@dataclass(slots=True, eq=False)
class OpenQuestion:
    """An event, or several, and up to which of those that wait are to be asked whether it helps.

    Attributes:
        last_group, last_gated: the numbers of the last wake-up group and of the last gated entity
            that waited when it happened.
        yields: see :meth:`~arranger.engine.queue.scheduling_queue.SchedulingQueue.wake`.
        helps_all: whether whoever asks for events of its type is woken, whatever it may help.
    """

    question: HelpQuestion
    last_group: int
    last_gated: int
    yields: bool
    helps_all: bool = False

    def join(self, later: OpenQuestion) -> bool:
        """Ask about a later event with this one; False if that cannot be."""
        if self.yields is not later.yields:
            return False
        if self.helps_all:
            joined = self.question.kind == later.question.kind
        else:
            joined = self.question.join(later.question)
        if joined:
            self.last_group, self.last_gated = later.last_group, later.last_gated
        return joined


class Piece(NamedTuple):
    """Those that are to be asked next: wake-up groups, and keys of gated entities."""

    asked: OpenQuestion
    groups: list[Hashable]
    gated: list[Hashable]


@dataclass(slots=True, eq=False)
class OpenQuestions:
    """Hands questions out piece by piece: answering one must not take long.

    However many events there are, it does not take much longer until all are answered: pods that
    leave one after the other are asked about at once, and of what cannot be asked about at once
    only so much is asked (:data:`MOST_OPEN`).

    Args:
        at_once: how many are asked in one piece.
        with_event: up to how many are asked at once when an event is noticed.
    """

    _unschedulable: UnschedulableEntities
    _gated: GatedEntities
    _at_once: int
    _with_event: int
    _open: deque[OpenQuestion] = field(default_factory=deque, init=False)
    #: Whoever is to be asked still about the first; None if nobody has been asked yet.
    _left: tuple[list[Hashable], list[Hashable]] | None = field(default=None, init=False)
    #: Those of which only the type is looked at, by that, if nobody has been asked yet.
    _helping_all: dict[Hashable, OpenQuestion] = field(default_factory=dict, init=False)

    def __bool__(self) -> bool:
        return bool(self._open)

    def ask(self, question: HelpQuestion, *, yields: bool) -> Piece | None:
        """An event has happened: those to be asked now, if these are few; else they will be."""
        unschedulable, gated = self._unschedulable, self._gated
        if not (unschedulable.concern(question) or gated.concern(question)):
            return None
        asked = OpenQuestion(question, unschedulable.last_group, gated.last, yields)
        waiting = len(unschedulable) + len(gated)
        if self._open or waiting > min(self._with_event, self._at_once):
            self._add(asked, waiting)
            return None
        return Piece(asked, *self._find_asked(asked))

    def pieces(self) -> Iterator[Piece]:
        """Those to be asked next, as many as are asked at once."""
        left = self._at_once
        while left > 0 and self._open:
            piece = self._next_piece(left)
            yield piece
            self._on_answered(piece)
            left -= max(1, len(piece.groups) + len(piece.gated))

    def _add(self, asked: OpenQuestion, waiting: int) -> None:
        kind = asked.question.kind, asked.yields
        if (known := self._helping_all.get(kind)) is not None and known.join(asked):
            return
        begun = len(self._open) == 1 and self._left is not None
        if self._open and not begun and self._open[-1].join(asked):
            return
        if self._open and (len(self._open) + 1) * waiting > MOST_OPEN:
            asked.helps_all, self._helping_all[kind] = True, asked
        self._open.append(asked)

    def _next_piece(self, most: int) -> Piece:
        asked = self._open[0]
        if self._left is None:
            self._left = self._find_asked(asked)
            kind = asked.question.kind, asked.yields
            if self._helping_all.get(kind) is asked:
                del self._helping_all[kind]
        groups, gated = self._left
        some = groups[:most]
        return Piece(asked, some, gated[: most - len(some)])

    def _on_answered(self, piece: Piece) -> None:
        assert self._left is not None, "nobody was asked"
        groups, gated = self._left
        del groups[: len(piece.groups)], gated[: len(piece.gated)]
        if not groups and not gated:
            self._left = None
            self._open.popleft()

    def _find_asked(self, asked: OpenQuestion) -> tuple[list[Hashable], list[Hashable]]:
        groups = self._unschedulable.groups_asking(asked.question, asked.last_group)
        return groups, self._gated.asking(asked.question, asked.last_gated)
