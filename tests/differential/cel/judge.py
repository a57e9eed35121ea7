"""Kubernetes' own judge of selectors, in one long-lived process; ours beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from arranger.api.types.resource_claims import Device
from arranger.cel.compiler import Program
from arranger.plugins.dynamicresources.cel_device import variables_of
from arranger.plugins.dynamicresources.cel_selectors import (
    MAX_COST,
    SelectorError,
    compile_selector,
    go_on,
)
from arranger.plugins.dynamicresources.effort import Effort
from tests.differential.go_program import GoProgram

Json = dict[str, Any]


class Judge(GoProgram):
    """The program that judges selectors."""

    name = "celjudge"

    def ask(self, expression: str, devices: Sequence[Json]) -> Json:
        """The answer to an expression and devices, as ``cmd/celjudge`` gives it."""
        line = self.answer({"expression": expression, "devices": devices})
        assert line, f"the judge has ended at {expression!r}"
        answer: Json = json.loads(line)
        return answer


def our_answer(expression: str, devices: Sequence[Json]) -> Json:
    """The same of ours, as far as we say as much."""
    try:
        program = compile_selector(expression)
    except SelectorError as error:
        return {"uncompiled": str(error)}
    return {"results": [_result(program, device) for device in devices]}


def _result(program: Program, given: Json) -> Json:
    device = msgspec.convert({"name": "x", **given}, Device)
    evaluation = program.start(variables_of(given["driver"], device, {}), MAX_COST)
    verdict = go_on(evaluation, Effort(10 * MAX_COST))
    if isinstance(verdict, bool):
        return {"verdict": verdict, "cost": evaluation.cost}
    kind = "cost" if verdict is not None and "cost limit" in verdict else "runtime"
    return {"verdict": False, "cost": evaluation.cost, "error": verdict, "class": kind}


def differences(theirs: Json, ours: Json) -> list[str]:
    """What is not the same: whether it compiles, verdicts, kinds of errors, and what it costs."""
    if bool(theirs.get("uncompiled")) != bool(ours.get("uncompiled")):
        return [f"uncompiled: {theirs.get('uncompiled')!r}, ours {ours.get('uncompiled')!r}"]
    found = []
    for their, our in zip(theirs.get("results", ()), ours.get("results", ()), strict=True):
        for field in ("verdict", "class", "cost"):
            if their.get("class") == "cost" and field == "cost":
                continue  # beyond the limit, it depends on where it is noticed
            if their.get(field) != our.get(field):
                texts = f"{their.get('error')!r}, ours {our.get('error')!r}"
                found.append(f"{field}: {their.get(field)}, ours {our.get(field)} ({texts})")
    return found
