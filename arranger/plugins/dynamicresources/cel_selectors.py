"""CEL selectors of devices, each compiled once and evaluated once for devices that look alike.

A cluster may have tens of thousands of devices. So a selector records what it reads of a device:
for one that is equal in that, the result is known. Most selectors read a driver, a model or a
capacity, of which there are few.

An evaluation may cost what it may upstream, which can take a second. It is made in parts: what one
attempt to place a pod leaves undone, the next goes on with.

Upstream: ``k8s.io/dynamic-resource-allocation/cel``.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any, Final

from arranger.api.types.resource_claims import Device
from arranger.plugins.dynamicresources.cel_device import (
    OBJECTS,
    VARIABLES,
    Path,
    digest,
    variables_of,
)
from arranger.plugins.dynamicresources.effort import (
    COMPILE,
    EVALUATE,
    LEAST_WORK,
    TOKEN,
    WORK_A_UNIT,
    Effort,
)
from arranger.plugins.dynamicresources.known_results import KnownResults, RoomForResults

#: Characters of an expression (``CELSelectorExpressionMaxLength``).
MAX_LENGTH: Final = 10 * 1024
#: Words and signs of an expression: so many are read in 75 ms.
MAX_TOKENS: Final = 5000
#: What one evaluation may cost (``CELSelectorExpressionMaxCost``).
MAX_COST: Final = 1_000_000
#: Compiled selectors that are kept, and their characters; a cluster has a few dozen of a line each.
_MAX_SELECTORS: Final = 256
_MAX_KEPT: Final = 256 * 1024
#: Characters of why an evaluation has failed.
_MAX_MESSAGE: Final = 1024
#: Evaluations of one selector that are not done and that are kept.
_MAX_UNFINISHED: Final = 4
_TOKEN: Final = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\w+|\S""", re.DOTALL)


class SelectorError(ValueError):
    """A selector cannot be compiled, or not be evaluated for some device."""


class CelSelector:
    """One compiled expression.

    Args:
        room: how much may be kept of the results of all selectors.

    Raises:
        SelectorError: it cannot be compiled.
    """

    def __init__(self, expression: str, room: RoomForResults | None = None) -> None:
        self._program = compile_selector(expression)
        self._results = KnownResults(room)
        #: Device → an evaluation that is not done, and what it has read.
        self._unfinished: OrderedDict[tuple[str, bytes], tuple[Any, dict[Path, None]]]
        self._unfinished = OrderedDict()

    def matches(self, driver: str, device: Device, effort: Effort | None = None) -> bool:
        """Whether it selects a device.

        Raises:
            SelectorError: the evaluation failed, for want of an attribute for example.
            EffortSpentError: it has not been evaluated, for want of units in ``effort``.
        """
        effort = effort or Effort(2 * MAX_COST)
        verdict = self._results.find(driver, device, effort)
        if verdict is None:
            verdict = self._evaluate(driver, device, effort)
        if isinstance(verdict, str):
            raise SelectorError(f"CEL runtime error: {verdict}")
        return verdict

    def forget_results(self) -> None:
        """Give up what is kept of its results."""
        self._results.forget()

    def _evaluate(self, driver: str, device: Device, effort: Effort) -> bool | str:
        effort.check()
        key = (driver, digest(device)) if self._unfinished else None
        started = self._unfinished.pop(key, None) if key is not None else None
        if started is None:
            effort.count(EVALUATE)
            reads: dict[Path, None] = {}
            started = self._program.start(variables_of(driver, device, reads), MAX_COST), reads
        evaluation, reads = started
        verdict = go_on(evaluation, effort)
        if verdict is None:
            self._unfinished[key or (driver, digest(device))] = started
            if len(self._unfinished) > _MAX_UNFINISHED:
                self._unfinished.popitem(last=False)
            effort.give_up()
        if isinstance(verdict, str):
            verdict = verdict[:_MAX_MESSAGE]
        self._results.keep(driver, device, reads, verdict, effort)
        return verdict


def count_tokens(expression: str) -> int:
    """How many words and signs it has; 0 of one that is too long to be read."""
    return len(_TOKEN.findall(expression)) if len(expression) <= MAX_LENGTH else 0


class CompiledSelectors:
    """The selectors that were used last, as many as fit."""

    def __init__(self) -> None:
        self._selectors: OrderedDict[str, CelSelector | SelectorError] = OrderedDict()
        self._size = 0
        self._room = RoomForResults()

    def __len__(self) -> int:
        return len(self._selectors)

    def get(self, expression: str) -> CelSelector | SelectorError | None:
        """The selector of an expression, or why there is none; None if it is not compiled yet."""
        found = self._selectors.get(expression)
        if found is not None:
            self._selectors.move_to_end(expression)
        return found

    def compile(self, expression: str, effort: Effort | None = None) -> CelSelector | SelectorError:
        """The selector of an expression, or why there is none.

        Raises:
            EffortSpentError: it is not compiled yet, and there are no units left for it.
        """
        found = self.get(expression)
        if found is None:
            if effort is not None:
                effort.spend(COMPILE + TOKEN * count_tokens(expression))
            try:
                found = CelSelector(expression, self._room)
            except SelectorError as error:
                found = error
            self._selectors[expression] = found
            self._size += len(expression)
            while len(self._selectors) > _MAX_SELECTORS or (
                self._size > _MAX_KEPT and len(self._selectors) > 1
            ):
                gone, selector = self._selectors.popitem(last=False)
                self._size -= len(gone)
                if isinstance(selector, CelSelector):
                    selector.forget_results()
        return found


def compile_selector(expression: str) -> Any:
    """The program of an expression.

    Raises:
        SelectorError: it cannot be compiled.
    """
    tokens = count_tokens(expression)
    if len(expression) > MAX_LENGTH:
        raise SelectorError(
            f"CEL compile error: too long: {len(expression)} characters, at most {MAX_LENGTH}"
        )
    if tokens > MAX_TOKENS:
        raise SelectorError(
            f"CEL compile error: {tokens} words and signs, and at most {MAX_TOKENS} are read"
        )
    from arranger.cel.compiler import compile_expression
    from arranger.cel.errors import CompileError

    try:
        return compile_expression(expression, VARIABLES, OBJECTS, ("bool", "any"))
    except CompileError as error:
        raise SelectorError(f"CEL compile error: compilation failed: {error}") from error
    except RecursionError as error:
        raise SelectorError("CEL compile error: nested too deeply") from error


def go_on(evaluation: Any, effort: Effort) -> bool | str | None:
    """The verdict, why there is none, or None: not yet."""
    from arranger.cel.errors import CelError, EvaluationError
    from arranger.cel.values import kind_of

    before = evaluation.work
    try:
        evaluation.run(max(effort.left * WORK_A_UNIT, LEAST_WORK))
    except EvaluationError as error:
        return str(error)
    except RecursionError:
        return "nested too deeply"
    finally:
        effort.count(1 + (evaluation.work - before) // WORK_A_UNIT)
    if not evaluation.is_done:
        return None
    found = evaluation.stack[-1]
    if type(found) is bool:
        return found
    if isinstance(found, CelError):
        return found.message
    return f"CEL result of type {kind_of(found)} could not be converted to bool"
