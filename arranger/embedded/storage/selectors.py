"""Label and field selectors, as lists, watches and objects state them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from arranger.api.selectors import requirement_matches
from arranger.api.types.core import Requirement

_SET_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_KEY: Final = r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE: Final = r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_EQUAL: Final = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})", re.ASCII)
_SET: Final = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)", re.ASCII)
_EXISTENCE: Final = re.compile(rf"(!?)\s*({_KEY})", re.ASCII)


class SelectorError(ValueError):
    """The text is not a selector."""


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that must all hold; with ``nothing`` it matches no object."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet every requirement."""
        return not self.nothing and all(
            requirement_matches(r, labels.get(r.key)) for r in self.requirements
        )


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
    """Parse ``a=b,c!=d``; a backslash escapes ``,``, ``=`` and itself.

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
        Requirement(key=key, operator="In", values=[value])
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = expression.get("operator", "")
        if operator not in _SET_OPERATORS:
            raise SelectorError(f"{expression.get('operator')!r} is not a valid selector operator")
        values = list(expression.get("values") or ())
        requirements.append(Requirement(key=expression["key"], operator=operator, values=values))
    return LabelSelector(tuple(requirements))


def _split(text: str) -> Iterator[str]:
    """The terms between commas that are not inside parentheses."""
    if text.count("(") != text.count(")"):
        raise SelectorError(f"unable to parse '{text}': unbalanced parentheses")
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
    raise SelectorError(f"couldn't parse the selector '{term}'")
