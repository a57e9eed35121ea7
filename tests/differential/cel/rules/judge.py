"""Rules of definitions, judged by the API server's own package and by the embedded server."""

from __future__ import annotations

import json
from typing import Any, Final

from arranger.embedded.crd.cel_rules import Budget, BudgetSpentError, SchemaError, compile_rules
from arranger.embedded.crd.validation import NO_OLD_VALUE
from tests.differential.cel.judge import Judge

Json = dict[str, Any]

_TYPES: Final = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}


def their_answer(judge: Judge, question: Json) -> Json:
    """What the API server says of an object: errors and costs, or that the rules do not compile."""
    line = judge.answer({"rules": question})
    assert line, f"the judge has ended at {question!r}"
    answer: Json = json.loads(line)
    if "uncompiled" in answer or "refused" in answer:
        return {"compiles": False}
    return {"errors": answer.get("errors", []), "cost": answer.get("estimate", 0)}


def our_answer(question: Json) -> Json:
    """The same of the embedded server."""
    try:
        tree = compile_rules(question["schema"], root=False)
    except SchemaError:
        return {"compiles": False}
    assert tree is not None
    budget = Budget()
    told: list[str] = []
    try:
        old = question.get("old", NO_OLD_VALUE)
        for each in tree.violations(question["object"], old, budget=budget):
            told += [f"{_TYPES[each.type]}|{each.field}|{each.message}"]
    except BudgetSpentError:
        return {"errors": sorted(told), "cost": 0}
    return {"errors": sorted(told), "cost": 10_000_000 - budget.left}
