"""Which outcome belongs to whom: the one place where effects wait for what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from arranger.api.effects import Ambiguous, Effect, Outcome
from arranger.engine.context.engine_context import EngineContext

S = TypeVar("S", contravariant=True)


class OutcomeHandler(Protocol[S]):
    """A part of the engine that waits for outcomes."""

    def on_outcome(self, effect: Effect, outcome: Outcome, subject: S, now: float) -> None:
        """What became of an effect that was sent for the ``subject``."""


@dataclass(slots=True, eq=False)
class PendingEffects:
    """Sends effects off, and hands their outcomes to the part that sent them.

    Effects are told apart by identity: two equal ones may be on their way at once.
    """

    _context: EngineContext
    #: Identity → (the effect itself, which keeps its identity its own, handler, subject).
    _pending: dict[int, tuple[Effect, OutcomeHandler[Any], Any]] = field(
        default_factory=dict, init=False
    )

    def __len__(self) -> int:
        return len(self._pending)

    def send(self, effect: Effect, handler: OutcomeHandler[S], subject: S) -> None:
        """Have the driver carry out an effect whose outcome matters."""
        self._pending[id(effect)] = effect, handler, subject
        self._context.outbox.append(effect)

    def cancel(self, effect: Effect) -> None:
        """The outcome of an effect does not matter any more."""
        self._pending.pop(id(effect), None)

    def awaits(self, effect: Effect) -> bool:
        """Whether the outcome of an effect matters to anybody."""
        return id(effect) in self._pending

    def on_outcome(self, effect: Effect, outcome: Outcome, now: float) -> None:
        """What became of an effect; after ``Ambiguous`` a definite outcome will follow."""
        pending = self._pending.get(id(effect))
        if pending is None:
            return
        _, handler, subject = pending
        if not isinstance(outcome, Ambiguous):
            del self._pending[id(effect)]
        handler.on_outcome(effect, outcome, subject, now)

    def check_consistent(self, handlers: tuple[object, ...]) -> None:
        """Check that every effect belongs to one of the parts.

        Raises:
            AssertionError: one does not.
        """
        for effect, handler, _ in self._pending.values():
            assert handler in handlers, f"{effect} belongs to nobody"
