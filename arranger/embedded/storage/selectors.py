"""Label and field selectors, as lists, watches and objects state them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from arranger.api.selectors import Selector
from arranger.api.types.core import LabelSelector, Requirement

_SET_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_KEY: Final = r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE: Final = r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_EQUAL: Final = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})", re.ASCII)
_SET: Final = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)", re.ASCII)
_EXISTENCE: Final = re.compile(rf"(!?)\s*({_KEY})", re.ASCII)


class InvalidSelectorError(ValueError):
    """The text is not a selector."""


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


def parse_label_selector(text: str) -> Selector:
    """Parse ``a=b,c!=d,e in (f,g),h notin (i),j,!k``.

    Raises:
        InvalidSelectorError: it is not of that form.
    """
    return Selector(LabelSelector(match_expressions=[_label_term(term) for term in _split(text)]))


def parse_field_selector(text: str) -> FieldSelector:
    """Parse ``a=b,c!=d``; a backslash escapes ``,``, ``=`` and itself.

    Raises:
        InvalidSelectorError: it is not of that form.
    """
    terms = []
    for term in re.split(r"(?<!\\),", text) if text else ():
        found = re.fullmatch(r"((?:[^\\=!]|\\.)+)(!=|==|=)((?:[^\\=]|\\.)*)", term)
        if found is None:
            raise InvalidSelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = found.groups()
        terms.append((field, operator != "!=", re.sub(r"\\(.)", r"\1", value)))
    return FieldSelector(tuple(terms))


def label_selector_of(selector: Mapping[str, Any] | None) -> Selector:
    """From ``matchLabels`` and ``matchExpressions``; None matches nothing, empty everything.

    Raises:
        InvalidSelectorError: an operator is unknown.
    """
    if selector is None:
        return Selector(None)
    for expression in selector.get("matchExpressions") or ():
        if (operator := expression.get("operator")) not in _SET_OPERATORS:
            raise InvalidSelectorError(f"{operator!r} is not a valid selector operator")
    return Selector(msgspec.convert(selector, LabelSelector))


def _split(text: str) -> Iterator[str]:
    """The terms between commas that are not inside parentheses."""
    if text.count("(") != text.count(")"):
        raise InvalidSelectorError(f"unable to parse '{text}': unbalanced parentheses")
    for term in re.split(r",(?![^(]*\))", text) if text.strip() else ():
        yield term.strip()


def _label_term(term: str) -> Requirement:
    if found := _EQUAL.fullmatch(term):
        operator = "NotIn" if found[3] == "!=" else "In"
        return Requirement(key=found[1], operator=operator, values=[found[4]])
    if found := _SET.fullmatch(term):
        values = [value.strip() for value in found[4].split(",")]
        operator = "In" if found[3] == "in" else "NotIn"
        return Requirement(key=found[1], operator=operator, values=values)
    if found := _EXISTENCE.fullmatch(term):
        return Requirement(key=found[2], operator="DoesNotExist" if found[1] else "Exists")
    raise InvalidSelectorError(f"couldn't parse the selector '{term}'")
