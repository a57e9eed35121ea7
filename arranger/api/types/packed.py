"""Parts of objects that are larger than anybody needs, in little memory.

A dict takes about 170 bytes for a label of 20 bytes. Whoever may create objects may fill them with
labels, terms or requests, up to a megabyte each, and some hundred of them would take the memory of
the whole process. What is packed takes about what was sent, and is read again by whoever looks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Hashable, ItemsView, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin, overload

import msgspec

from arranger.api.parsing.objects import decode_object
from arranger.api.types.core import LabelSelector, Requirement

T = TypeVar("T")

#: Labels, or parts of a list and what they consist of, with more of which they are packed.
MANY: Final = 256
#: Stands between labels that are packed, and in none that the API server lets in.
_BETWEEN: Final = "\0"


def unpacked_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """The same labels for who is going to look up many of them."""
    return labels.unpacked() if isinstance(labels, PackedLabels) else labels


def packed_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """The same labels, packed if there are many."""
    if len(labels) <= MANY or isinstance(labels, PackedLabels):
        return labels
    if any(_BETWEEN in key or _BETWEEN in value for key, value in labels.items()):
        return labels
    return PackedLabels(labels)


def pack_selector(spec: Any) -> None:
    """Pack what of the selector of an object is large, be it a selector of equal labels or more."""
    selector = spec.selector
    if not isinstance(selector, LabelSelector):
        if len(selector) > MANY:
            spec.selector = packed_labels(selector)
        return
    if len(selector.match_labels) > MANY:
        selector.match_labels = packed_labels(selector.match_labels)
    expressions = selector.match_expressions
    if len(expressions) + sum(len(each.values) for each in expressions) > MANY:
        selector.match_expressions = PackedList(expressions, Requirement)


def unpacked(part: Any) -> dict[str, str] | list[Any]:
    """What is packed as msgspec can encode it, for its ``enc_hook``."""
    if isinstance(part, PackedLabels | PackedList):
        return part.unpacked()
    raise NotImplementedError(f"{type(part).__name__} is not packed")


def labels_key(labels: Mapping[str, str]) -> Hashable:
    """Equal for equal labels."""
    return labels if isinstance(labels, PackedLabels) else frozenset(labels.items())


class PackedLabels(Mapping[str, str]):
    """Sorted labels in two texts; to look one up takes some microseconds."""

    __slots__ = ("_keys", "_keys_begin", "_values", "_values_begin")

    def __init__(self, labels: Mapping[str, str]) -> None:
        keys = sorted(labels)
        values = [labels[key] for key in keys]
        self._keys, self._keys_begin = _joined(keys)
        self._values, self._values_begin = _joined(values)

    def __len__(self) -> int:
        return len(self._keys_begin) - 1

    def __getitem__(self, key: str) -> str:
        place = bisect_left(range(len(self)), key, key=self._key)
        if place == len(self) or self._key(place) != key:
            raise KeyError(key)
        begin = self._values_begin
        return self._values[begin[place] : begin[place + 1] - 1]

    def __iter__(self) -> Iterator[str]:
        return _parts(self._keys, self._keys_begin)

    def items(self) -> ItemsView[str, str]:
        """The labels, of which each is unpacked when its turn comes."""
        return _Items(self)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The labels one after the other."""
        return zip(self, _parts(self._values, self._values_begin), strict=True)

    def unpacked(self) -> dict[str, str]:
        """A dict of the labels, in a tenth of the time that it takes to go through them."""
        keys, values = self._keys.split(_BETWEEN), self._values.split(_BETWEEN)
        return dict(zip(keys, values, strict=True))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedLabels):
            return self._keys == other._keys and self._values == other._values
        return isinstance(other, Mapping) and len(other) == len(self) and self.unpacked() == other

    def __hash__(self) -> int:
        return hash((self._keys, self._values))

    def __repr__(self) -> str:
        return f"PackedLabels({len(self)} labels)"

    def _key(self, place: int) -> str:
        return self._keys[self._keys_begin[place] : self._keys_begin[place + 1] - 1]


class _Items(ItemsView[str, str]):
    _mapping: PackedLabels

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return self._mapping.pairs()


class PackedList(Sequence[T]):
    """A list as JSON; whoever looks at one part has all of them read."""

    __slots__ = ("_encoded", "_kind", "_length")

    def __init__(self, parts: Sequence[T], kind: type[T]) -> None:
        """``kind`` is what the parts are."""
        self._encoded = msgspec.json.encode(parts, enc_hook=unpacked)
        self._kind = kind
        self._length = len(parts)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> list[T]: ...

    def __getitem__(self, place: int | slice) -> T | list[T]:
        return self.unpacked()[place]

    def __iter__(self) -> Iterator[T]:
        return iter(self.unpacked())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedList):
            return self._encoded == other._encoded
        return isinstance(other, list) and self.unpacked() == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PackedList({self._length} parts)"

    def unpacked(self) -> list[T]:
        """A list of the parts."""
        # msgspec resolves the parameter at run time, which type checkers cannot follow.
        return decode_object(self._encoded, list[self._kind])  # type: ignore[name-defined]


def pack_parts(part: msgspec.Struct, unpacked_kinds: Collection[type] = ()) -> int:
    """Pack the lists and dicts of a Struct, and of those in it, of which something has many parts.

    Lists of ``unpacked_kinds`` are left as they are: they are looked at all the time. Returns how
    many parts are left unpacked.
    """
    left = 0
    for name, kind in _lists_and_dicts(type(part)):
        value = getattr(part, name)
        if isinstance(value, msgspec.Struct):
            left += 1 + pack_parts(value, unpacked_kinds)
        elif isinstance(value, dict):
            if len(value) > MANY and all(isinstance(each, str) for each in value.values()):
                setattr(part, name, packed_labels(value))
            left += len(value) if getattr(part, name) is value else 1
        elif isinstance(value, list):
            structs = (each for each in value if isinstance(each, msgspec.Struct))
            inner = sum(pack_parts(each, unpacked_kinds) for each in structs)
            if many := len(value) + inner > MANY and kind not in unpacked_kinds:
                setattr(part, name, PackedList(value, kind))
            left += 1 if many else len(value) + inner
    return left


@cache
def _lists_and_dicts(kind: type[msgspec.Struct]) -> Sequence[tuple[str, Any]]:
    """The fields of a Struct that may be large, with what a list has."""
    found: list[tuple[str, Any]] = []
    for field in msgspec.structs.fields(kind):
        shapes = [each for each in (get_args(field.type) or [field.type]) if each is not NoneType]
        inner = get_args(field.type)[:1] if get_origin(field.type) is Sequence else ()
        if inner or get_origin(field.type) is Mapping or any(map(_is_struct, shapes)):
            found.append((field.name, inner[0] if inner else None))
    return found


def _is_struct(shape: Any) -> bool:
    return isinstance(shape, type) and issubclass(shape, msgspec.Struct)


def _joined(parts: list[str]) -> tuple[str, array[int]]:
    """All of them as one text, and where each begins; one more would begin at the last place."""
    begin = accumulate((len(part) + 1 for part in parts), initial=0)
    return _BETWEEN.join(parts), array("I", begin)


def _parts(text: str, begin: array[int]) -> Iterator[str]:
    return (text[here : there - 1] for here, there in pairwise(begin))
