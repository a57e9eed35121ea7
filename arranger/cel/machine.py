"""Programs and their evaluation, step by step.

An evaluation can be left after any step and gone on with later. It costs what it costs in
Kubernetes, and ends with an error when that is too much.

Upstream: ``interpreter/interpretable.go`` and ``interpreter/runtimecost.go`` of ``cel-go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from arranger.cel.errors import CostLimitError
from arranger.cel.values import ABSENT

#: What is done in one step.
Step = Callable[["Machine"], None]
#: Work for each unit of cost that may be spent; what costs little may not take much longer.
MAX_WORK: Final = 5
#: Where an evaluation ends.
HALT: Final = -1


class Machine:
    """One evaluation.

    Attributes:
        at: the next step; :data:`HALT` if there is none.
        stack: values that are worked with; at the end, the result alone.
        slots: values of the names that the expression makes.
        loops: what is left of the lists that are gone through.
        calls: where to go on after what is evaluated only where it is needed.
        steps: how many have been taken.
        toil: what a step does besides, and does not pay for.
        work: how much has been done; a step is one unit, and its cost and toil besides.
    """

    __slots__ = (
        *("_program", "at", "calls", "cost", "limit", "loops", "slots", "stack", "variables"),
        *("steps", "toil", "work"),
    )

    def __init__(
        self, steps: Sequence[Step], slots: int, variables: Mapping[str, Any], limit: int
    ) -> None:
        self._program = steps
        self.at = 0
        self.cost = self.steps = self.toil = self.work = 0
        self.limit = limit
        self.variables = variables
        self.stack: list[Any] = []
        self.slots: list[Any] = [ABSENT] * slots
        self.loops: list[Iterator[tuple[Any, ...]]] = []
        self.calls: list[int] = []

    @property
    def is_done(self) -> bool:
        """Whether there is a result."""
        return self.at == HALT

    def run(self, work: int) -> None:
        """Go on until so much more work is done, or all.

        Raises:
            CostLimitError: the evaluation costs too much.
        """
        program, left = self._program, work
        try:
            while left > 0 and self.at != HALT:
                step, before = program[self.at], self.cost
                self.at += 1
                self.steps += 1
                step(self)
                left -= 1 + max(0, self.cost - before) + self.toil
                self.toil = 0
                if self.cost > self.limit or self.work + work - left > MAX_WORK * self.limit:
                    raise CostLimitError
        finally:
            self.work += work - left

    def spend(self, cost: int) -> None:
        """Pay for something that is done at once afterwards.

        Raises:
            CostLimitError: it is too much.
        """
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitError


class Label:
    """A place in a program, which is known later."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = HALT
