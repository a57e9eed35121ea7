"""Kubernetes' own functions: quantities and versions.

Upstream: ``k8s.io/apiserver/pkg/cel/library/{quantity,semverlib}.go``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import total_ordering
from typing import Any, Final

from arranger.api.parsing.errors import ParseError, shown
from arranger.api.parsing.scalars import parse_int
from arranger.api.quantity import parse_quantity
from arranger.cel.errors import CelError
from arranger.cel.functions.table import Table
from arranger.cel.values import INT_MAX, INT_MIN, UINT_MAX, Quantity, register_kind

_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*))*))?"
    r"(?:\+[\dA-Za-z-]+(?:\.[\dA-Za-z-]+)*)?",
    re.ASCII,
)
_NO_QUANTITY: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version; equal to others of the same precedence."""

    release: tuple[int, int, int]
    pre: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, *, normalize: bool = False) -> Version:
        """Read a version; ``normalize`` accepts a leading ``v``, missing parts and leading zeros.

        Raises:
            ParseError: it is not a semantic version.
        """
        found = _VERSION.fullmatch(_normal(text) if normalize else text)
        if found is None:
            raise ParseError(f"{shown(text)} is not a semantic version")
        major, minor, patch, pre = found.groups()
        parts = tuple(pre.split(".")) if pre else ()
        for part in filter(str.isdigit, parts):
            _parse_uint64(part)
        release = _parse_uint64(major), _parse_uint64(minor), _parse_uint64(patch)
        return cls(release, parts)

    def __lt__(self, other: Version) -> bool:
        return self._order() < other._order()

    def _order(self) -> tuple[Any, ...]:
        # Numbers come before words, and pre-releases before the release itself.
        pre = [(False, _parse_uint64(p)) if p.isdigit() else (True, p) for p in self.pre]
        return self.release, not self.pre, pre


register_kind(Version, "kubernetes.Semver")


def _parse_uint64(text: str) -> int:
    return parse_int(text, maximum=UINT_MAX)


def _normal(text: str) -> str:
    bare = text.removeprefix("v")
    end = min((n for n in (bare.find("-"), bare.find("+")) if n >= 0), default=len(bare))
    parts = [part.lstrip("0") or "0" for part in bare[:end].split(".")]
    return ".".join([*parts, *["0"] * (3 - len(parts))]) + bare[end:]


def quantity(text: str) -> Any:
    """A quantity, or an error."""
    try:
        return Quantity(parse_quantity(text))
    except ValueError:
        return CelError(_NO_QUANTITY)


def version(text: str, normalize: bool = False) -> Any:
    """A version, or an error."""
    try:
        return Version.parse(text, normalize=normalize)
    except ValueError as error:
        return CelError(str(error))


def _is(read: Callable[..., Any]) -> Callable[..., bool]:
    return lambda *given: not isinstance(read(*given), CelError)


def _order(one: Any, other: Any) -> int:
    if isinstance(one, Quantity):
        one, other = one.amount, other.amount
    order: int = (one > other) - (one < other)
    return order


def _is_integer(given: Quantity) -> bool:
    amount = given.amount
    return amount == amount.to_integral_value() and INT_MIN <= amount <= INT_MAX


def _as_integer(given: Quantity) -> Any:
    if not _is_integer(given):
        return CelError("cannot convert value to integer")
    return int(given.amount)


_AMOUNTS, _VERSIONS = ("kubernetes.Quantity",) * 2, ("kubernetes.Semver",) * 2
_AMOUNT, _VERSION_ONLY = _AMOUNTS[:1], _VERSIONS[:1]
_AND_INT: Final = ("kubernetes.Quantity", "int")
TABLE: Final[Table] = {
    "quantity": [(("string",), quantity)],
    "isQuantity": [(("string",), _is(quantity))],
    "semver": [(("string",), version), (("string", "bool"), version)],
    "isSemver": [(("string",), _is(version)), (("string", "bool"), _is(version))],
    "compareTo": [(_AMOUNTS, _order), (_VERSIONS, _order)],
    "isGreaterThan": [(each, lambda a, b: _order(a, b) > 0) for each in (_AMOUNTS, _VERSIONS)],
    "isLessThan": [(each, lambda a, b: _order(a, b) < 0) for each in (_AMOUNTS, _VERSIONS)],
    "sign": [(_AMOUNT, lambda given: _order(given, Quantity(Decimal(0))))],
    "add": [
        (_AMOUNTS, lambda one, other: Quantity(one.amount + other.amount, True)),
        (_AND_INT, lambda one, other: Quantity(one.amount + other, True)),
    ],
    "sub": [
        (_AMOUNTS, lambda one, other: Quantity(one.amount - other.amount, True)),
        (_AND_INT, lambda one, other: Quantity(one.amount - other, True)),
    ],
    "isInteger": [(_AMOUNT, _is_integer)],
    "asInteger": [(_AMOUNT, _as_integer)],
    "asApproximateFloat": [(_AMOUNT, lambda given: float(given.amount))],
    "major": [(_VERSION_ONLY, lambda given: given.release[0])],
    "minor": [(_VERSION_ONLY, lambda given: given.release[1])],
    "patch": [(_VERSION_ONLY, lambda given: given.release[2])],
}
