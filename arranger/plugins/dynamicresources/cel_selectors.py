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
    value_at,
    variables_of,
)
from arranger.plugins.dynamicresources.effort import (
    COMPILE,
    LEAST_WORK,
    TOKEN,
    WORK_A_UNIT,
    Effort,
)

#: Characters of an expression (``CELSelectorExpressionMaxLength``).
MAX_LENGTH: Final = 10 * 1024
#: Words and signs of an expression: so many are read in 75 ms.
MAX_TOKENS: Final = 5000
#: What one evaluation may cost (``CELSelectorExpressionMaxCost``).
MAX_COST: Final = 1_000_000
#: Compiled selectors that are kept, and their characters; a cluster has a few dozen of a line each.
_MAX_SELECTORS: Final = 256
_MAX_KEPT: Final = 256 * 1024
#: Results kept for one selector, and evaluations that are not done.
_MAX_RESULTS: Final = 4096
_MAX_UNFINISHED: Final = 4
_TOKEN: Final = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\w+|\S""", re.DOTALL)


class SelectorError(ValueError):
    """A selector cannot be compiled, or not be evaluated for some device."""


class CelSelector:
    """One compiled expression.

    Raises:
        SelectorError: it cannot be compiled.
    """

    def __init__(self, expression: str) -> None:
        self._program = compile_selector(expression)
        #: Paths read by an evaluation → their values → its result.
        self._results: dict[tuple[Path, ...], dict[tuple[Any, ...], bool | str]] = {}
        self._result_count = 0
        #: Device → an evaluation that is not done, and what it has read.
        self._unfinished: OrderedDict[tuple[str, bytes], tuple[Any, dict[Path, None]]]
        self._unfinished = OrderedDict()

    def matches(self, driver: str, device: Device, effort: Effort | None = None) -> bool:
        """Whether it selects a device.

        Raises:
            SelectorError: the evaluation failed, for want of an attribute for example.
            EffortSpentError: it has not been evaluated, for want of units in ``effort``.
        """
        verdict = self._cached_result(driver, device)
        if verdict is None:
            verdict = self._evaluate(driver, device, effort or Effort(2 * MAX_COST))
        if isinstance(verdict, str):
            raise SelectorError(f"CEL runtime error: {verdict}")
        return verdict

    def _cached_result(self, driver: str, device: Device) -> bool | str | None:
        for paths, verdicts in self._results.items():
            verdict = verdicts.get(tuple(value_at(driver, device, path) for path in paths))
            if verdict is not None:
                return verdict
        return None

    def _evaluate(self, driver: str, device: Device, effort: Effort) -> bool | str:
        effort.check()
        key = (driver, digest(device)) if self._unfinished else None
        started = self._unfinished.pop(key, None) if key is not None else None
        if started is None:
            reads: dict[Path, None] = {}
            started = self._program.start(variables_of(driver, device, reads), MAX_COST), reads
        evaluation, reads = started
        verdict = go_on(evaluation, effort)
        if verdict is None:
            self._unfinished[key or (driver, digest(device))] = started
            if len(self._unfinished) > _MAX_UNFINISHED:
                self._unfinished.popitem(last=False)
            effort.give_up()
        self._keep(driver, device, reads, verdict)
        return verdict

    def _keep(
        self, driver: str, device: Device, reads: dict[Path, None], verdict: bool | str
    ) -> None:
        if self._result_count >= _MAX_RESULTS:
            self._results.clear()
            self._result_count = 0
        # Each read depends only on the values read before, so these values decide the result.
        key = tuple(value_at(driver, device, path) for path in reads)
        self._results.setdefault(tuple(reads), {})[key] = verdict
        self._result_count += 1


def count_tokens(expression: str) -> int:
    """How many words and signs it has; 0 of one that is too long to be read."""
    return len(_TOKEN.findall(expression)) if len(expression) <= MAX_LENGTH else 0


class CompiledSelectors:
    """The selectors that were used last, as many as fit."""

    def __init__(self) -> None:
        self._selectors: OrderedDict[str, CelSelector | SelectorError] = OrderedDict()
        self._size = 0

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
                found = CelSelector(expression)
            except SelectorError as error:
                found = error
            self._selectors[expression] = found
            self._size += len(expression)
            while len(self._selectors) > _MAX_SELECTORS or (
                self._size > _MAX_KEPT and len(self._selectors) > 1
            ):
                self._size -= len(self._selectors.popitem(last=False)[0])
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
