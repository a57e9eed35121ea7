"""What can be wrong with an expression."""

from __future__ import annotations


class CompileError(ValueError):
    """An expression cannot be read, or its types do not fit."""


class EvaluationError(Exception):
    """An evaluation has ended without a value; nothing makes up for that."""


class CostLimitError(EvaluationError):
    """It has cost more than it may; in the words of ``cel-go``."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class CelError:
    """A value that stands for an error: ``||`` and ``&&`` may do without it."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message


def no_such_overload() -> CelError:
    """A function has been given values that it is not for."""
    return CelError("no such overload")
