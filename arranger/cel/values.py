"""Values of expressions: whole and broken numbers, texts and lists are Python's own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from arranger.cel.errors import CelError, CostLimitError, no_such_overload

INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)
UINT_MAX: Final = 2**64 - 1
#: Elements that one operation looks at; more are not paid for by ``cel-go``'s units of cost.
MAX_LOOKED_AT: Final = 250_000
#: What a map says that it does not have.
ABSENT: Final = object()


class Uint(int):
    """An unsigned number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: ``type(1) == int``."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent: ``device.?name``."""

    value: Any = ABSENT

    @property
    def is_present(self) -> bool:
        """Whether it has a value."""
        return self.value is not ABSENT


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount; equal to others that are as much, however they are written.

    Attributes:
        is_sum: it was added up. Upstream can then not tell whether others equal it.
    """

    amount: Decimal
    is_sum: bool = field(default=False, compare=False)


class CelMap:
    """A map; keys are equal to others as their values are: ``1`` is ``1u``."""

    __slots__ = ("_entries",)

    def __init__(self, entries: dict[Any, tuple[Any, Any]] | None = None) -> None:
        self._entries = entries if entries is not None else {}

    def find(self, key: Any) -> Any:
        """The value of a key, or :data:`ABSENT`."""
        found = self._entries.get(key_of(key))
        return ABSENT if found is None else found[1]

    def has(self, key: Any) -> bool:
        """Whether the key is there."""
        return key_of(key) in self._entries

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: Any, value: Any) -> None:
        """One more entry, or another value; only while the map is being made."""
        self._entries[key_of(key)] = (key, value)

    def discard(self, key: Any) -> None:
        """No such entry; only while the map is being made."""
        self._entries.pop(key_of(key), None)

    def with_entry(self, key: Any, value: Any) -> CelMap:
        """Another map that has the entry besides."""
        return CelMap({**self._entries, key_of(key): (key, value)})


def key_of(value: Any) -> Any:
    """What stands for a value among keys: Python holds ``True`` and ``1`` for the same."""
    return (value,) if type(value) is bool else value


_KINDS: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    TypeValue: "type",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
}
#: Types of which a value is more or less than another.
_ORDERED: Final[set[type]] = {bool, str, bytes}
_NUMBERS: Final = (int, Uint, float)
_SCALARS: Final = (int, Uint, float, str, bytes, bool)


def register_kind(of: type, name: str) -> None:
    """Values of a Python type have a type of that name in expressions."""
    _KINDS[of] = name


def register_order(of: type) -> None:
    """Values of a Python type can be compared with each other."""
    _ORDERED.add(of)


def kind_of(value: Any) -> str:
    """The name of its type."""
    found = _KINDS.get(type(value))
    return found if found is not None else "map"


def equal(one: Any, other: Any) -> bool | CelError:
    """Whether two values are equal; of different types they are not, or it is an error."""
    return Comparison().equal(one, other)


class Comparison:
    """Comparing values. It counts what is looked at one by one: lists of lists hold more than
    their size says.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_LOOKED_AT

    def is_in(self, container: list[Any], value: Any) -> bool:
        """Whether one of the elements equals the value."""
        if type(value) in _SCALARS:
            # Python finds all that are equal, and others: it holds ``True`` for 1.
            if value not in container:
                return False
            container = container[container.index(value) :]
        return any(self.equal(value, each) is True for each in container)

    def equal(self, one: Any, other: Any) -> bool | CelError:
        """Whether two values are equal; see :func:`equal`."""
        self._left -= 1
        if self._left < 0:
            raise CostLimitError
        kind = type(one)
        if kind in _NUMBERS:
            return type(other) in _NUMBERS and one == other
        if kind is list:
            return (
                type(other) is list
                and len(one) == len(other)
                and all(self.equal(a, b) is not False for a, b in zip(one, other, strict=True))
            )
        if isinstance(one, CelMap):
            if not isinstance(other, CelMap) or len(one) != len(other):
                return False
            pairs = ((one.find(key), other.find(key)) for key in one)
            return all(b is not ABSENT and self.equal(a, b) is not False for a, b in pairs)
        if kind is Optional:
            if type(other) is not Optional or one.is_present != other.is_present:
                return False
            return not one.is_present or self.equal(one.value, other.value)
        if kind is type(other) and not (kind is Quantity and other.is_sum):
            return bool(one == other)
        # Types of Kubernetes are not for comparing with others, but others may be with them.
        return no_such_overload() if "." in kind_of(one) else False


def compare(one: Any, other: Any) -> int | None:
    """-1, 0 or 1; None where there is no order."""
    first, second = type(one), type(other)
    if first in _NUMBERS and second in _NUMBERS:
        if one != one or other != other:
            return None  # a NaN
    elif first is not second or first not in _ORDERED:
        return None
    order: int = (one > other) - (one < other)
    return order


def is_zero(value: Any) -> bool:
    """Whether it is the zero, empty or absent value of its type."""
    if isinstance(value, Optional):
        return not value.is_present
    if isinstance(value, bool | int | float | str | bytes | list | CelMap):
        return not value if not isinstance(value, CelMap) else len(value) == 0
    return value is None or (isinstance(value, Quantity) and value.amount == 0)


def size_of(value: Any) -> int:
    """The size as ``cel-go`` counts it: 1 of what has none."""
    if isinstance(value, Optional) and value.is_present:
        return size_of(value.value)
    return len(value) if isinstance(value, Sized) else 1


def deep_size(value: Any) -> int:
    """How much there is inside a list, and in lists within it; no more is counted than is read."""
    left = MAX_LOOKED_AT
    waiting = [value]
    while waiting and left > 0:
        for each in waiting.pop():
            left -= 1
            if type(each) is list:
                waiting.append(each)
    return MAX_LOOKED_AT - left


def fraction(size: float, factor: float = 0.1) -> int:
    """The cost of going through something once."""
    return math.ceil(size * factor)
