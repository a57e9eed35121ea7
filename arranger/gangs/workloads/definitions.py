"""Reads in an owner how many of its pods must run together, which roles they have, and their queue.

What cannot be read is left out and reported: an owner never raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object
from arranger.api.settings.gang_settings import annotated_minimum
from arranger.api.types.core import ObjectMeta
from arranger.api.types.workloads import Workload
from arranger.gangs.workloads.expressions import (
    MAX_ELEMENTS,
    Expression,
    ExpressionValueError,
    Scope,
)
from arranger.gangs.workloads.kinds import RoleRule, WorkloadKind

_MAX_PROBLEMS: Final = 5


@dataclass(frozen=True, slots=True)
class GangDefinition:
    """What an owner says about the gang of its pods, or about each of its gangs.

    Attributes:
        is_gang: whether it says how many pods must run together; otherwise they are in no gang.
        minimum: how many; 0 where its annotations say it.
        roles: (role, how many of its pods must run); none where the owner states a minimum itself.
        per_role: whether each role is a gang of its own.
        queue: its queue; "" where it names none.
        wait_time: seconds that nodes may be held; 0 where it does not say.
        problems: what cannot be used, as sentences.
    """

    is_gang: bool = False
    minimum: int = 0
    roles: tuple[tuple[str, int], ...] = ()
    per_role: bool = False
    queue: str = ""
    wait_time: int = 0
    problems: tuple[str, ...] = ()


def pod_scope(meta: ObjectMeta) -> Scope:
    """What the expressions about a pod can read of it."""
    return {"pod": {"name": meta.name, "labels": meta.labels, "annotations": meta.annotations}}


def owner_scope(kind: WorkloadKind, owner: Workload) -> tuple[Scope, tuple[str, ...]]:
    """What the expressions about an owner can read of it, and what cannot be read at all."""
    meta = owner.metadata
    said = {"name": meta.name, "labels": meta.labels, "annotations": meta.annotations}
    scope: dict[str, Any] = {"metadata": said}
    problems: list[str] = []
    for word, raw in () if kind.metadata_only else (("spec", owner.spec), ("status", owner.status)):
        try:
            scope[word] = decode_object(raw)
        except ParseError as error:
            problems.append(f"{word} cannot be read: {error}")
    return scope, tuple(problems)


def read_definition(kind: WorkloadKind, scope: Scope) -> GangDefinition:
    """What an owner, or it and a pod of the gang, say."""
    reader = _Reader(scope)
    roles = dict(reader.roles(kind.roles))
    per_role = kind.gang_per_role is not None and kind.gang_per_role.holds(scope)
    minimum = None if kind.minimum is None or per_role else reader.number(kind.minimum, "minimum")
    annotations = scope["metadata"]["annotations"]
    annotated = not per_role and annotated_minimum(annotations) is not None
    if annotated or minimum is not None:
        roles = {}
    elif roles:
        minimum = sum(roles.values())
    wait = kind.wait_time
    wait_time = None if wait is None else reader.number(wait, "wait time")
    return GangDefinition(
        annotated or bool(minimum),
        minimum or 0,
        tuple(sorted(roles.items())),
        per_role,
        kind.queue.name(scope) if kind.queue is not None else "",
        wait_time or 0,
        tuple(reader.problems[:_MAX_PROBLEMS]),
    )


class _Reader:
    """Evaluates expressions, and collects what is wrong."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.problems: list[str] = []

    def number(self, expression: Expression, what: str, scope: Scope | None = None) -> int | None:
        """The value of an expression; None where it is absent, or no number."""
        try:
            return expression.number(self._scope if scope is None else scope)
        except ExpressionValueError as problem:
            self.problems.append(f"{what}: {problem}")
            return None

    def roles(self, rules: tuple[RoleRule, ...]) -> Iterator[tuple[str, int]]:
        """(role, minimum) of those that have one."""
        counts: dict[str, int] = {}
        for rule in rules:
            for scope in self._elements(rule):
                name = rule.name.name(scope).lower()
                minimum = self.number(rule.minimum, f"minimum of role {name[:60]}", scope)
                if minimum:
                    counts[name] = counts.get(name, 0) + minimum
        yield from counts.items()

    def _elements(self, rule: RoleRule) -> Iterator[Scope]:
        """The scope of each element that a rule is about."""
        if rule.each is None:
            yield self._scope
            return
        found = rule.each.value(self._scope)
        if isinstance(found, list):
            found = dict(enumerate(found[: MAX_ELEMENTS + 1]))
        if not isinstance(found, Mapping):
            if found is not None:
                self.problems.append(f"{rule.each.text}: neither a list nor an object")
            return
        if len(found) > MAX_ELEMENTS:
            self.problems.append(f"{rule.each.text}: more than {MAX_ELEMENTS} roles; no minimum")
            return
        for key, element in found.items():
            if isinstance(element, dict):
                yield {**self._scope, "role": element, "key": key}
            else:
                self.problems.append(f"{rule.each.text}: {str(key)[:40]} is not an object")
