"""Selectors: what they mean, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.embedded.storage.selectors import (
    InvalidSelectorError,
    label_selector_of,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"app": "web", "tier": "front", "a.io/b": "c", "empty": ""}
# selector: whether LABELS meet it
BY_LABEL = {
    "": True,
    "app=web": True,
    "app==web": True,
    "app = web": True,
    "app!=web": False,
    "other!=web": True,
    "app in (web,db)": True,
    "app in (db)": False,
    "app notin (db),tier=front": True,
    "other notin (db)": True,
    "other in (db)": False,
    "app": True,
    "!app": False,
    "!other": True,
    "a.io/b=c": True,
    "empty=": True,
    "other=": False,
    "app in (web,db),!other,tier": True,
    "app in ( web , db )": True,
}


@pytest.mark.parametrize(("text", "met"), BY_LABEL.items())
def test_labels(text: str, met: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is met


@pytest.mark.parametrize(
    "text", ["a in (b", "a in b", "=b", "a=b=c", "a in", "!", "a b", "a,,b", "-a=b", "a=b)"]
)
def test_no_label_selector(text: str) -> None:
    with pytest.raises(InvalidSelectorError):
        parse_label_selector(text)


FIELDS = {"metadata.name": "web", "spec.nodeName": "", "note": "a,b=c\\"}
BY_FIELD = {
    "": True,
    "metadata.name=web": True,
    "metadata.name==web": True,
    "metadata.name!=web": False,
    "spec.nodeName=": True,
    "spec.nodeName!=": False,
    "metadata.name=web,spec.nodeName=n": False,
    r"note=a\,b\=c\\": True,
    "missing=": True,
}


@pytest.mark.parametrize(("text", "met"), BY_FIELD.items())
def test_fields(text: str, met: bool) -> None:
    assert parse_field_selector(text).matches(FIELDS) is met


@pytest.mark.parametrize("text", ["metadata.name", "a=b,", "=b", "a=b=c"])
def test_no_field_selector(text: str) -> None:
    with pytest.raises(InvalidSelectorError):
        parse_field_selector(text)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


IN_OBJECTS: dict[str, tuple[dict[str, Any] | None, bool]] = {
    "none at all": (None, False),
    "an empty one": ({}, True),
    "a label": ({"matchLabels": {"app": "web"}}, True),
    "two labels of which one is another": ({"matchLabels": {"app": "web", "tier": "x"}}, False),
    "one of several": (expression("app", "In", "web", "db"), True),
    "none of several": (expression("app", "NotIn", "web", "db"), False),
    "none of several where there is none": (expression("x", "NotIn", "web"), True),
    "there": (expression("app", "Exists"), True),
    "not there": (expression("app", "DoesNotExist"), False),
}


@pytest.mark.parametrize(("selector", "met"), IN_OBJECTS.values(), ids=IN_OBJECTS)
def test_selectors_in_objects(selector: dict[str, Any] | None, met: bool) -> None:
    assert label_selector_of(selector).matches(LABELS) is met


def test_an_operator_nobody_knows_is_no_selector() -> None:
    with pytest.raises(InvalidSelectorError):
        label_selector_of(expression("a", "Gt", "1"))
