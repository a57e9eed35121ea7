"""Label selectors."""

from __future__ import annotations

import pytest

from arranger.api.selectors import Selector
from arranger.api.types.core import LabelSelector, Requirement

WEB = LabelSelector(match_labels={"app": "web"})


def _where(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=[Requirement(key, operator, list(values))])


CASES: dict[str, tuple[LabelSelector | None, dict[str, str], bool]] = {
    "no selector matches nothing": (None, {}, False),
    "an empty one matches everything": (LabelSelector(), {"a": "b"}, True),
    "labels must be equal": (WEB, {"app": "web", "tier": "front"}, True),
    "other values do not match": (WEB, {"app": "db"}, False),
    "In": (_where("app", "In", "web", "db"), {"app": "db"}, True),
    "In needs the label": (_where("app", "In", "web"), {}, False),
    "NotIn does not": (_where("app", "NotIn", "web"), {}, True),
    "Exists": (_where("app", "Exists"), {"app": ""}, True),
    "DoesNotExist": (_where("app", "DoesNotExist"), {"app": ""}, False),
    "an unknown operator matches nothing": (_where("app", "Is", "web"), {"app": "web"}, False),
    "In without values matches nothing": (_where("app", "NotIn"), {}, False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_matches(case: tuple[LabelSelector | None, dict[str, str], bool]) -> None:
    selector, labels, expected = case
    assert Selector(selector).matches(labels) == expected


def test_further_requirements_narrow_a_selector_but_do_not_make_one() -> None:
    revision = [Requirement("rev", "In", ["2"])]
    assert Selector(WEB, extra_requirements=revision).matches({"app": "web", "rev": "2"})
    assert not Selector(WEB, extra_requirements=revision).matches({"app": "web", "rev": "1"})
    assert not Selector(None, extra_requirements=revision).matches({"rev": "2"})


def test_empty_is_what_asks_for_nothing() -> None:
    assert Selector(LabelSelector()).empty
    assert not Selector(None).empty
    assert not Selector(WEB).empty
