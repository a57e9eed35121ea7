"""Kubernetes' quantities in CEL: ``quantity('1.5Gi').isLessThan(quantity('2Gi'))``.

Upstream: ``k8s.io/apiserver/pkg/cel/library/quantity.go``. Loaded only for definitions with rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from celpy import celtypes

from arranger.api.quantity import QuantityError, parse_quantity

_INT64: Final = 2**63


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount; equal to others that are as much, however they are written."""

    amount: Decimal

    @property
    def is_integer(self) -> bool:
        """Whether it is a whole number of 64 bits."""
        return self.amount == self.amount.to_integral_value() and (-_INT64 <= self.amount < _INT64)


def _quantity(text: Any) -> Quantity:
    """Raises ValueError, which fails the rule, for what is none."""
    if not isinstance(text, str):
        raise TypeError("quantity() takes a string")
    return Quantity(parse_quantity(str(text)))


def _is_quantity(text: Any) -> Any:
    try:
        _quantity(text)
    except QuantityError:
        return celtypes.BoolType(False)
    return celtypes.BoolType(True)


def compare(one: Quantity, other: Quantity) -> int:
    """-1, 0 or 1: CEL has no operators for it."""
    return (one.amount > other.amount) - (one.amount < other.amount)


def _operand(given: Any) -> Decimal:
    return given.amount if isinstance(given, Quantity) else Decimal(int(given))


def _as_integer(quantity: Quantity) -> Any:
    if not quantity.is_integer:
        raise ValueError("cannot convert value to integer")
    return celtypes.IntType(int(quantity.amount))


#: By name, for functions and methods alike.
QUANTITIES: Final[Mapping[str, Callable[..., Any]]] = {
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "compareTo": lambda one, other: celtypes.IntType(compare(one, other)),
    "isGreaterThan": lambda one, other: celtypes.BoolType(compare(one, other) > 0),
    "isLessThan": lambda one, other: celtypes.BoolType(compare(one, other) < 0),
    "sign": lambda one: celtypes.IntType(compare(one, Quantity(Decimal(0)))),
    "add": lambda one, other: Quantity(one.amount + _operand(other)),
    "sub": lambda one, other: Quantity(one.amount - _operand(other)),
    "isInteger": lambda one: celtypes.BoolType(one.is_integer),
    "asInteger": _as_integer,
    "asApproximateFloat": lambda one: celtypes.DoubleType(float(one.amount)),
}
