"""Evaluating a selector within a budget of steps, so that it ends alike on every machine.

A step is a look at a node of the expression's tree, about five microseconds; work on lists and
texts costs as many steps as take as long. Imported only when a selector is compiled.

Upstream: ``CELSelectorExpressionMaxCost`` of ``k8s.io/api/resource``, which is spent by the API
server's estimate at creation and by ``cel-go`` at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import celpy
from celpy import celtypes
from celpy.evaluation import Evaluator, base_functions

#: Elements of a list or map, and characters of a text, that are looked at in one step.
_ELEMENTS_A_STEP: Final = 16
_CHARACTERS_A_STEP: Final = 1024


class CostLimitError(Exception):
    """The budget is spent; in the words of ``cel-go``."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Budget:
    """The steps that one evaluation has left."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = 0

    def refill(self, steps: int) -> None:
        """An evaluation begins, which may take so many."""
        self.left = steps

    def spend(self, steps: int) -> None:
        """Take so many steps.

        Raises:
            CostLimitError: there are none left.
        """
        self.left -= steps
        if self.left < 0:
            raise CostLimitError

    def spend_on(self, *values: Any) -> None:
        """Take the steps that a look at all of these values costs."""
        for value in values:
            if isinstance(value, str | bytes):
                self.spend(len(value) // _CHARACTERS_A_STEP)
            elif isinstance(value, list | dict):
                self.spend(len(value) // _ELEMENTS_A_STEP)


class BudgetedEvaluator(Evaluator):
    """Spends a step for each node of the tree."""

    def __init__(self, ast: Any, activation: Any, budget: Budget) -> None:
        super().__init__(ast, activation)
        self._budget = budget

    def sub_evaluator(self, ast: Any) -> BudgetedEvaluator:
        """That of a macro's expression, with the same budget."""
        return BudgetedEvaluator(ast, self.activation, self._budget)

    def _visit_tree(self, tree: Any) -> Any:
        self._budget.spend(1)
        return super()._visit_tree(tree)


class Program:
    """A compiled expression that ends when it has taken too many steps."""

    def __init__(
        self,
        environment: celpy.Environment,
        tree: Any,
        functions: Mapping[str, Callable[..., Any]],
        max_steps: int,
    ) -> None:
        self._max_steps = max_steps
        self._budget = Budget()
        given = {**_OPERATORS, **functions}
        limited = {name: _limited(function, self._budget) for name, function in given.items()}
        limited["_+_"] = self._add
        limited["replace"] = self._replace
        self._runner = environment.program(tree, functions=limited)
        self._tree = tree

    @property
    def steps(self) -> int:
        """How many steps the last evaluation has taken."""
        return self._max_steps - max(0, self._budget.left)

    def evaluate(self, variables: Any) -> Any:
        """The expression's value.

        Raises:
            CostLimitError: it takes too many steps.
            Exception: what else the expression raises.
        """
        self._budget.refill(self._max_steps)
        activation = self._runner.new_activation()
        return BudgetedEvaluator(self._tree, activation, self._budget).evaluate(variables)

    def _add(self, one: Any, other: Any) -> Any:
        """What is added up becomes longer: its length is paid for before it is made."""
        for value in (one, other):
            if isinstance(value, str | bytes | list):
                self._budget.spend(len(value) // _ELEMENTS_A_STEP)
        return base_functions["_+_"](one, other)

    def _replace(self, text: Any, old: Any, new: Any) -> Any:
        longest = len(text) + (text.count(old) * len(new))
        self._budget.spend(longest // _ELEMENTS_A_STEP)
        return celtypes.StringType(text.replace(old, new))


def _limited(function: Callable[..., Any], budget: Budget) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        budget.spend_on(*given)
        return function(*given)

    return call


#: Functions of the language whose cost depends on what they are given.
_OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    name: base_functions[name]
    for name in ("contains", "endsWith", "matches", "size", "startsWith", "string", "int")
    if name in base_functions
}
