"""Asks the rules about what schedulers ask of an API server, as an audit log shows it.

The server refuses many a wrong request, so that no object ever shows it. A pod for which a second
node is asked keeps its first one, and its scheduler has counted it twice meanwhile. Who has not
been answered, or only that something went wrong, does not know what has become of a request.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.specification.premises import Premises
from tests.specification.rules import AtARequest
from tests.specification.trace import Step
from tests.specification.vocabulary.occasions import rules_of
from tests.specification.vocabulary.requests import Asked, Memory


@dataclass(slots=True)
class RequestBook:
    """Judges what schedulers ask for by what they must know then.

    Attributes:
        violations: (rule, what was wrong).
    """

    premises: Premises
    violations: list[tuple[str, str]] = field(default_factory=list)
    _memory: Memory = field(default_factory=Memory)

    def take(self, step: Step) -> None:
        """The server has changed an object."""
        self._memory.take(step)

    def sent(self, asked: Asked, now: float) -> None:
        """A process asks; its request may be refused, late or lost."""
        if asked.by not in self.premises.schedulers:
            return
        if asked.verb in ("list", "read"):
            self._memory.reads(asked, now)
            return
        request = AtARequest(self._memory, self.premises, asked, now)
        for rule in rules_of(AtARequest):
            if rule.__name__ not in self.premises.unjudged:
                self.violations += ((rule.__name__, text) for text in rule(request))
        self._memory.writes(asked)

    def done(self, asked: Asked) -> None:
        """The server has done what was asked."""
        self._memory.done(asked)

    def told(self, asked: Asked, status: int = 200) -> None:
        """The process hears what has become of it; 0 where it hears nothing any more."""
        self._memory.told(asked, status)


__all__ = ["Asked", "RequestBook"]
