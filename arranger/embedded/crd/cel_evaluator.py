"""Evaluating a rule: errors are handed on as they are, and it ends.

``cel-python`` puts the texts of two errors into a third when ``&&`` and ``||`` meet both, so that
they double with each operand; here the first is what is left of them, as in ``cel-go``.

Upstream: ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel``, whose limit is one of cost.
Imported only when a definition has a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import celpy
from celpy import celtypes
from celpy.evaluation import CELEvalError, Evaluator

#: Nodes of the tree that one evaluation looks at, half a second of them: a map of 5,000 amounts,
#: such as no definition of ours takes, held the server for eight seconds with each write.
MAX_STEPS: Final = 100_000


class RuleProgram:
    """A compiled rule."""

    def __init__(
        self, environment: celpy.Environment, tree: Any, functions: Mapping[str, Any]
    ) -> None:
        self._tree = tree
        logic = {"_||_": partial(_either, True), "_&&_": partial(_either, False)}
        self._runner = environment.program(tree, functions={**functions, **logic})

    def evaluate(self, variables: Any) -> Any:
        """The rule's value.

        Raises:
            CELEvalError: there is none.
        """
        activation = self._runner.new_activation()
        return _RuleEvaluator(self._tree, activation, [MAX_STEPS]).evaluate(variables)


class _StepsSpentError(CELEvalError):
    """Nothing makes up for this one."""


class _RuleEvaluator(Evaluator):
    """Counts steps; ``left`` is shared with the evaluators of macros."""

    def __init__(self, ast: Any, activation: Any, left: list[int]) -> None:
        super().__init__(ast, activation)
        self._left = left

    def sub_evaluator(self, ast: Any) -> _RuleEvaluator:
        """That of a macro's expression."""
        return _RuleEvaluator(ast, self.activation, self._left)

    def _visit_tree(self, tree: Any) -> Any:
        self._left[0] -= 1
        if self._left[0] < 0:
            raise _StepsSpentError("call cost exceeds limit")
        return super()._visit_tree(tree)

    def member_dot_arg(self, tree: Any) -> Any:
        """A call, or a macro."""
        target, method = tree.children[:2]
        if method.value not in ("all", "exists"):
            return super().member_dot_arg(tree)
        over = self.visit(target)
        if isinstance(over, CELEvalError):
            return over
        judge = self.build_ss_macro_eval(tree)
        return _joined(method.value == "exists", map(judge, over))


def _either(decisive: bool, one: Any, other: Any) -> Any:
    return _joined(decisive, (one, other))


def _joined(decisive: bool, values: Iterable[Any]) -> Any:
    """``||`` where ``True`` is decisive, ``&&`` where ``False`` is."""
    error: CELEvalError | None = None
    for value in values:
        if isinstance(value, _StepsSpentError):
            return value
        if isinstance(value, celtypes.BoolType):
            if bool(value) is decisive:
                return value
        elif error is None:
            known = isinstance(value, CELEvalError)
            error = value if known else CELEvalError("no such overload", TypeError)
    return error if error is not None else celtypes.BoolType(not decisive)
