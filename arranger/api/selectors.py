"""Label selectors and tolerations: what they accept.

Upstream: ``k8s.io/apimachinery/pkg/labels`` and ``k8s.io/component-helpers/scheduling/corev1``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.scalars import MIN_INT64, parse_int
from arranger.api.types.core import LabelSelector, Requirement, Taint, Toleration

_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
#: How many values each operator takes: (minimum, maximum), ``None`` for any number.
_VALUE_COUNTS: Final[Mapping[str, tuple[int, int | None]]] = {
    "In": (1, None),
    "NotIn": (1, None),
    "Exists": (0, 0),
    "DoesNotExist": (0, 0),
    "Gt": (1, 1),
    "Lt": (1, 1),
}


def is_valid_requirement(requirement: Requirement) -> bool:
    """Whether a requirement is well formed; the API server accepts some that are not."""
    if requirement.operator not in _VALUE_COUNTS:
        return False
    minimum, maximum = _VALUE_COUNTS[requirement.operator]
    count = len(requirement.values)
    if count < minimum or (maximum is not None and count > maximum):
        return False
    if requirement.operator in ("Gt", "Lt") and parse_int64(requirement.values[0]) is None:
        return False
    return all(len(v) <= 63 and _LABEL_VALUE.fullmatch(v) for v in requirement.values)


def requirement_matches(requirement: Requirement, value: str | None) -> bool:
    """Whether a label of this value (``None``: no such label) meets a valid requirement."""
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            number, bound = parse_int64(value), parse_int64(requirement.values[0])
            if number is None or bound is None:
                return False
            return number > bound if requirement.operator == "Gt" else number < bound
    return False


def parse_int64(text: str | None) -> int | None:
    """The integer that ``text`` spells, if it is one of 64 bits."""
    try:
        return None if text is None else parse_int(text, minimum=MIN_INT64)
    except ParseError:
        return None


class Selector:
    """A compiled label selector: an empty one matches everything, ``None`` nothing."""

    __slots__ = ("_equal", "_impossible", "_listed", "_requirements", "empty")

    def __init__(
        self, selector: LabelSelector | None, *, extra_requirements: Iterable[Requirement] = ()
    ) -> None:
        """``extra_requirements`` are further requirements (``matchLabelKeys``)."""
        self._equal: Mapping[str, str] = selector.match_labels if selector else {}
        expressions = selector.match_expressions if selector else ()
        requirements = (*expressions, *extra_requirements)
        valid = all(map(is_valid_requirement, requirements))
        listed = [each for each in requirements if each.operator in ("In", "NotIn")]
        self._requirements = [each for each in requirements if each.operator not in ("In", "NotIn")]
        #: (label, values, whether it must have one of them or must have none).
        self._listed = [
            (each.key, frozenset(each.values), each.operator == "In") for each in listed
        ]
        self._impossible = selector is None or not valid
        #: It asks for nothing, and so matches everything.
        self.empty = not (self._equal or requirements or self._impossible)

    @property
    def size(self) -> int:
        """How many requirements there are."""
        return len(self._equal) + len(self._listed) + len(self._requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet all requirements."""
        if self._impossible:
            return False
        for key, value in self._equal.items():
            if labels.get(key) != value:
                return False
        for key, values, within in self._listed:
            if (labels.get(key) in values) != within:
                return False
        return all(requirement_matches(r, labels.get(r.key)) for r in self._requirements)

    def required_labels(self) -> list[tuple[str, str]]:
        """Labels that all have that it matches."""
        listed = [(k, next(iter(vs))) for k, vs, within in self._listed if within and len(vs) == 1]
        return [*self._equal.items(), *listed]

    def some_label_of_each(self, most: int) -> Sequence[tuple[str, str] | None]:
        """Labels of which all that it matches have one; ``[None]`` where there are not so few."""
        if self._impossible:
            return []
        if self._equal:
            return [next(iter(self._equal.items()))]
        for key, values, within in self._listed:
            if within and len(values) <= most:
                return [(key, value) for value in values]
        return [None]


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint.

    ``Lt`` and ``Gt`` (KEP-5471) are off by default in 1.36 and cover nothing.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def untolerated_taints(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Sequence[str]
) -> list[Taint]:
    """The taints of these effects that no toleration covers."""
    concerned = (taint for taint in taints if taint.effect in effects)
    return [taint for taint in concerned if not any(tolerates(t, taint) for t in tolerations)]
