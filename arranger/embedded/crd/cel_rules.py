"""CEL rules of definitions (``x-kubernetes-validations``).

Upstream: ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel``; not its estimate of what a
rule may cost at most, for which it refuses definitions. Lists of the types ``set`` and ``map`` are
lists as others here: there, their order is not compared, and ``+`` joins them. A field of the
format ``duration`` says ``24h`` here: there, ``1 day`` is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from arranger.cel.compiler import Program, compile_expression, names_in
from arranger.cel.errors import CelError, CompileError, CostLimitError, EvaluationError
from arranger.cel.types import optional_of
from arranger.cel.values import Optional
from arranger.embedded import Object
from arranger.embedded.crd.cel_values import DeclaredTypes, to_cel
from arranger.embedded.crd.validation import (
    NO_FIELD,
    NO_OLD_VALUE,
    FieldError,
    correlate_items,
    field_schema,
    join,
    to_json,
)

#: What one evaluation may cost, and all on one object, as upstream.
MAX_COST: Final = 1_000_000
MAX_COST_OF_OBJECT: Final = 10 * MAX_COST
#: Bytes of a message that is evaluated.
_MAX_MESSAGE: Final = 5 * 1024
_TOO_DEAR: Final = str(CostLimitError())
_SPENT_BY: Final = "running out of cost budget, no further validation rules will be run"
_SPENT: Final = f"validation failed due to {_SPENT_BY}"
_REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_STEP: Final = re.compile(r"\.([A-Za-z_][\w-]*)|\['([^']+)'\]")


class SchemaError(ValueError):
    """A schema is invalid; ``field`` is the path of the offending part."""

    def __init__(self, field: str, reason: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """One rule on one value.

    Attributes:
        program: evaluates it.
        message: reported when it fails; ``message_expression``, compiled as ``message_program``,
            evaluates to a more specific one.
        field_path: the field that a violation names, relative to the value.
        uses_old_self: whether it looks at the former value; ``optional_old_self``, even where there
            is none.
    """

    text: str
    program: Program
    message: str
    message_expression: str
    message_program: Program | None
    reason: str
    field_path: str
    uses_old_self: bool
    optional_old_self: bool

    def applies(self, old: Any, *, unchanged: bool) -> bool:
        """Whether the rule is evaluated: unchanged values are not, unless it uses ``oldSelf``."""
        if self.uses_old_self:
            return self.optional_old_self or old is not NO_OLD_VALUE
        return not unchanged

    def violations(
        self, schema: Object, value: Any, variables: Object, path: str, budget: Budget
    ) -> Iterator[FieldError]:
        """What is wrong with ``value``; ``variables`` are the rule's variables.

        Raises:
            BudgetSpentError: there is no more to be evaluated.
        """
        kind, told = schema.get("type", "object"), self.message or self.text

        def invalid(why: str) -> FieldError:
            return FieldError(
                path or NO_FIELD, "FieldValueInvalid", f'Invalid value: "{kind}": {why}'
            )

        found = budget.evaluate(self.program, variables)
        if budget.is_spent:
            yield invalid(_SPENT)
            raise BudgetSpentError
        if isinstance(found, CelError):
            yield invalid(_failed_evaluation(found.message, told))
            if found.message == _TOO_DEAR:
                raise BudgetSpentError
            return
        if found is True:
            return
        message = self._evaluated_message(variables, budget)
        if isinstance(message, CelError):
            yield invalid(message.message)
            raise BudgetSpentError
        message = message or self.message or f"failed rule: {self.text}"
        scalar = "" if isinstance(value, dict | list) else f"{to_json(value)}: "
        texts = {
            "FieldValueInvalid": f"Invalid value: {scalar}{message}",
            "FieldValueForbidden": f"Forbidden: {message}",
            "FieldValueRequired": f"Required value: {message}",
            "FieldValueDuplicate": f"Duplicate value: {to_json(value)}",
        }
        place = f"{path}{self.field_path}".removeprefix(".")
        yield FieldError(place or NO_FIELD, self.reason, texts[self.reason])

    def _evaluated_message(self, variables: Object, budget: Budget) -> str | CelError:
        """What the message evaluates to, "" for nothing; an error where no more is evaluated."""
        if self.message_program is None:
            return ""
        found = budget.evaluate(self.message_program, variables)
        if budget.is_spent:
            return CelError(f"messageExpression evaluation failed due to {_SPENT_BY}")
        if isinstance(found, CelError) and found.message == _TOO_DEAR:
            shown = to_json(self.message_expression)
            return CelError(
                "no further validation rules will be run due to call cost exceeds limit for"
                f" messageExpression: {shown}"
            )
        text = found.strip() if isinstance(found, str) else ""
        return text if "\n" not in text and len(text.encode()) <= _MAX_MESSAGE else ""


def _failed_evaluation(why: str, rule: str) -> str:
    if why.startswith("no such overload"):
        return (
            f"'{why}': call arguments did not match a supported operator, function or macro"
            f" signature for rule: {rule}"
        )
    if why == _TOO_DEAR:
        return (
            f"'{why}': no further validation rules will be run due to call cost exceeds limit"
            f" for rule: {rule}"
        )
    return f"{why} evaluating rule: {rule}"


class BudgetSpentError(Exception):
    """What an object may cost is spent."""


@dataclass(slots=True)
class Budget:
    """What the rules on one object may still cost, in units of ``cel-go``.

    Attributes:
        is_spent: an evaluation has cost more than was left.
    """

    left: int = MAX_COST_OF_OBJECT
    is_spent: bool = False

    def evaluate(self, program: Program, variables: Object) -> Any:
        """The value of an expression, or an error."""
        machine = program.start(variables, MAX_COST)
        try:
            while not machine.is_done:
                machine.run(MAX_COST)
            found = machine.stack[-1]
        except (EvaluationError, RecursionError) as error:
            found = CelError(str(error))
        self.is_spent = machine.cost > self.left
        self.left -= machine.cost
        return found


@dataclass(slots=True)
class RuleTree:
    """The rules on a value and inside it; parts of the schema without rules are left out.

    Attributes:
        root: whether the value is an object with metadata, of which rules see some fields.
    """

    schema: Object
    root: bool
    rules: list[ValidationRule] = field(default_factory=list)
    properties: dict[str, RuleTree] = field(default_factory=dict)
    values: RuleTree | None = None
    items: RuleTree | None = None

    def violations(
        self, value: Any, old: Any, path: str = "", *, budget: Budget | None = None
    ) -> Iterator[FieldError]:
        """Every violation; ``old`` is the former value, or NO_OLD_VALUE.

        Raises:
            BudgetSpentError: what a ``budget`` that is given had left is spent.
        """
        if value is None:
            return
        if budget is None:
            with suppress(BudgetSpentError):
                yield from self.violations(value, old, path, budget=Budget())
            return
        yield from self._own_violations(value, old, path, budget)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            below = [(n, tree, join(path, n)) for n, tree in self.properties.items() if n in value]
            if self.values is not None:
                below += [(name, self.values, f"{path}[{name}]") for name in value]
            for name, tree, place in below:
                was = before.get(name, NO_OLD_VALUE)
                yield from tree.violations(value[name], was, place, budget=budget)
        elif isinstance(value, list) and self.items is not None:
            befores = correlate_items(self.schema, value, old)
            for n, (item, was) in enumerate(zip(value, befores, strict=True)):
                yield from self.items.violations(item, was, f"{path}[{n}]", budget=budget)

    def _own_violations(
        self, value: Any, old: Any, path: str, budget: Budget
    ) -> Iterator[FieldError]:
        unchanged = old is not NO_OLD_VALUE and old == value
        rules = [rule for rule in self.rules if rule.applies(old, unchanged=unchanged)]
        if not rules:
            return
        known = old is not NO_OLD_VALUE and old is not None
        variables: Object = {"self": to_cel(self.schema, value, root=self.root)}
        former = to_cel(self.schema, old, root=self.root) if known else None
        for rule in rules:
            if budget.left <= 0:
                kind = self.schema.get("type", "object")
                why = f'Invalid value: "{kind}": {_SPENT}'
                yield FieldError(path or NO_FIELD, "FieldValueInvalid", why)
                raise BudgetSpentError
            optional = Optional(former) if known else Optional()
            variables["oldSelf"] = optional if rule.optional_old_self else former
            yield from rule.violations(self.schema, value, variables, path, budget)


def compile_rules(
    schema: Object, path: str = "", *, root: bool = True, single: bool = True
) -> RuleTree | None:
    """The rules of a schema; None where there are none.

    Args:
        path: of the schema within the definition's.
        single: whether a value can be identified from one write to the next, as ``oldSelf`` needs.

    Raises:
        SchemaError: a rule cannot be compiled, or makes no sense where it is.
    """
    tree = RuleTree(schema, root)
    for n, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        place = f"{path}.x-kubernetes-validations[{n}]"
        tree.rules.append(_compile_rule(rule, schema, place, root=root, single=single))
    for name, child in (schema.get("properties") or {}).items():
        below = compile_rules(child, f"{path}.properties[{name}]", root=False, single=single)
        if below is not None:
            tree.properties[name] = below
    if isinstance(more := schema.get("additionalProperties"), dict):
        tree.values = compile_rules(more, f"{path}.additionalProperties", root=False, single=single)
    if isinstance(items := schema.get("items"), dict):
        keyed = schema.get("x-kubernetes-list-type") == "map"
        tree.items = compile_rules(items, f"{path}.items", root=False, single=single and keyed)
    return tree if tree.rules or tree.properties or tree.values or tree.items else None


def _compile_rule(
    given: Object, schema: Object, place: str, *, root: bool, single: bool
) -> ValidationRule:
    def refused(part: str, why: str, reason: str = "FieldValueInvalid") -> SchemaError:
        return SchemaError(f"{place}.{part}", reason, why)

    text, message = given.get("rule", "").strip(), given.get("message", "").strip()
    if not text:
        why = "Required value: rule is not specified"
        raise refused("rule", why, "FieldValueRequired")
    if "\n" in text and not message:
        why = "Required value: message must be specified if rule contains line breaks"
        raise refused("message", why, "FieldValueRequired")
    if "\n" in message:
        why = f"Invalid value: {to_json(message)}: must not contain line breaks"
        raise refused("message", why)
    reason = given.get("reason", "FieldValueInvalid")
    if reason not in _REASONS:
        supported = ", ".join(f'"{r}"' for r in _REASONS)
        why = f'Unsupported value: "{reason}": supported values: {supported}'
        raise refused("reason", why, "FieldValueNotSupported")
    optional = bool(given.get("optionalOldSelf"))
    declared = DeclaredTypes()
    of_self = declared.declare(schema, root=root)
    if of_self is None:
        why = "Internal error: failed to retrieve type information for x-kubernetes-validations"
        raise SchemaError(place.rpartition("[")[0], "InternalError", why)
    scope = {"self": of_self, "oldSelf": optional_of(of_self) if optional else of_self}

    def program(expression: str, part: str, result: str) -> Program:
        try:
            # Selectors of devices have cel.bind; rules do not.
            return compile_expression(
                expression, scope, declared.objects, (result,), bindings=False
            )
        except (CompileError, RecursionError) as error:
            why, prefix = str(error), "" if part == "rule" else "messageExpression "
            what = f"{prefix}compilation failed: ERROR: {why}"
            if why.startswith("must evaluate to"):
                name = "cel expression" if part == "rule" else part
                what = f"{name} must evaluate to a {result}"
            raise refused(part, f"Invalid value: {to_json(expression)}: {what}") from error

    compiled = program(text, "rule", "bool")
    says, expression = None, given.get("messageExpression", "").strip()
    if expression:
        says = program(expression, "messageExpression", "string")
    compares = "oldSelf" in names_in(text)
    if optional and not compares:
        why = "Invalid value: true: may not be set if oldSelf is not used in rule"
        raise refused("optionalOldSelf", why)
    if compares and not single:
        why = "oldSelf cannot be used on the uncorrelatable portion of the schema"
        raise refused("rule", f"Invalid value: {to_json(text)}: {why}")
    below = _below(schema, given.get("fieldPath", ""), f"{place}.fieldPath")
    return ValidationRule(
        text, compiled, message, expression, says, reason, below, compares, optional
    )


def _below(schema: Object, path: str, place: str) -> str:
    """A rule's ``fieldPath`` as errors have it."""
    why = f"Invalid value: {to_json(path)}: must be a valid path"
    refused = SchemaError(place, "FieldValueInvalid", why)
    below, rest, at = "", path, schema
    while rest:
        step = _STEP.match(rest)
        if step is None:
            raise refused
        name, rest = step[1] or step[2], rest[step.end() :]
        if (inner := field_schema(at, name)) is None:
            raise refused
        below += f".{name}" if name in (at.get("properties") or {}) else f"[{name}]"
        at = inner
    return below
