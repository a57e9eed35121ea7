"""Label and field selectors, as lists, watches and objects state them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Operator = Literal["in", "notin", "exists", "!"]

_KEY: Final = r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE: Final = r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_EQUAL: Final = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})", re.ASCII)
_SET: Final = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)", re.ASCII)
_EXISTENCE: Final = re.compile(rf"(!?)\s*({_KEY})", re.ASCII)


class SelectorError(ValueError):
    """The text is not a selector."""


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that must all hold; ``nothing`` matches nothing whatever they are."""

    requirements: tuple[_Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet every requirement."""
        return not self.nothing and all(r.holds(labels) for r in self.requirements)


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Fields that must, or must not, have a value."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields it looks at."""
        return tuple(field for field, _, _ in self.terms)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the fields have the values asked for."""
        return all((fields.get(f, "") == value) is equal for f, equal, value in self.terms)


def parse_label_selector(text: str) -> LabelSelector:
    """Parse ``a=b,c!=d,e in (f,g),h notin (i),j,!k``.

    Raises:
        SelectorError: it is not of that form.
    """
    return LabelSelector(tuple(_label_term(term) for term in _split(text)))


def parse_field_selector(text: str) -> FieldSelector:
    """Parse ``a=b,c!=d``; a backslash takes the meaning from ``,``, ``=`` and itself.

    Raises:
        SelectorError: it is not of that form.
    """
    terms = []
    for term in re.split(r"(?<!\\),", text) if text else ():
        found = re.fullmatch(r"((?:[^\\=!]|\\.)+)(!=|==|=)((?:[^\\=]|\\.)*)", term)
        if found is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = found.groups()
        terms.append((field, operator != "!=", re.sub(r"\\(.)", r"\1", value)))
    return FieldSelector(tuple(terms))


def label_selector_of(selector: Mapping[str, Any] | None) -> LabelSelector:
    """From ``matchLabels`` and ``matchExpressions``; None matches nothing, empty everything.

    Raises:
        SelectorError: an operator is unknown.
    """
    if selector is None:
        return LabelSelector(nothing=True)
    requirements = [
        _Requirement(key, "in", frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    operators: dict[str, Operator] = {
        "In": "in",
        "NotIn": "notin",
        "Exists": "exists",
        "DoesNotExist": "!",
    }
    for expression in selector.get("matchExpressions") or ():
        operator = operators.get(expression.get("operator", ""))
        if operator is None:
            raise SelectorError(f"{expression.get('operator')!r} is not a valid selector operator")
        values = frozenset(expression.get("values") or ())
        requirements.append(_Requirement(expression["key"], operator, values))
    return LabelSelector(tuple(requirements))


def _split(text: str) -> Iterator[str]:
    """The terms between commas that are not inside parentheses."""
    if text.count("(") != text.count(")"):
        raise SelectorError(f"unable to parse '{text}': unbalanced parentheses")
    for term in re.split(r",(?![^(]*\))", text) if text.strip() else ():
        yield term.strip()


def _label_term(term: str) -> _Requirement:
    if found := _EQUAL.fullmatch(term):
        operator: Operator = "notin" if found[3] == "!=" else "in"
        return _Requirement(found[1], operator, frozenset({found[4]}))
    if found := _SET.fullmatch(term):
        values = frozenset(value.strip() for value in found[4].split(","))
        return _Requirement(found[1], "in" if found[3] == "in" else "notin", values)
    if found := _EXISTENCE.fullmatch(term):
        return _Requirement(found[2], "!" if found[1] else "exists")
    raise SelectorError(f"couldn't parse the selector '{term}'")
