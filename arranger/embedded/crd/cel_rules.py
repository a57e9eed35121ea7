"""CEL rules of definitions (``x-kubernetes-validations``), by the package ``cel-python``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from arranger.embedded import Object
from arranger.embedded.crd.validation import (
    NO_FIELD,
    NO_OLD_VALUE,
    FieldError,
    correlate_items,
    field_schema,
    join,
    to_json,
)

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
        message: reported when it fails; ``message_program`` evaluates to a more specific one.
        field_path: the field that a violation names, relative to the value.
        uses_old_self: whether it looks at the former value; ``optional_old_self``, even where there
            is none.
    """

    text: str
    program: Any
    message: str
    message_program: Any
    reason: str
    field_path: str
    uses_old_self: bool
    optional_old_self: bool

    def applies(self, old: Any, *, unchanged: bool) -> bool:
        """Whether the rule is evaluated: unchanged values are not, unless it uses ``oldSelf``."""
        if self.uses_old_self:
            return self.optional_old_self or old is not NO_OLD_VALUE
        return not unchanged

    def violation(
        self, schema: Object, value: Any, variables: Object, path: str
    ) -> FieldError | None:
        """What is wrong with ``value``; ``variables`` are the rule's variables."""
        from celpy.evaluation import CELEvalError

        try:
            if bool(self.program.evaluate(variables)):
                return None
        except CELEvalError as error:
            kind = schema.get("type", "object")
            why = f'Invalid value: "{kind}": {_reason(error)} evaluating rule: '
            why += self.message or self.text
            return FieldError(path or NO_FIELD, "FieldValueInvalid", why)
        message = self._evaluated_message(variables) or self.message or f"failed rule: {self.text}"
        scalar = "" if isinstance(value, dict | list) else f"{to_json(value)}: "
        texts = {
            "FieldValueInvalid": f"Invalid value: {scalar}{message}",
            "FieldValueForbidden": f"Forbidden: {message}",
            "FieldValueRequired": f"Required value: {message}",
            "FieldValueDuplicate": f"Duplicate value: {to_json(value)}",
        }
        place = f"{path}{self.field_path}".removeprefix(".")
        return FieldError(place or NO_FIELD, self.reason, texts[self.reason])

    def _evaluated_message(self, variables: Object) -> str:
        from celpy.evaluation import CELEvalError

        if self.message_program is None:
            return ""
        try:
            text = self.message_program.evaluate(variables)
        except CELEvalError:
            return ""
        return text.strip() if isinstance(text, str) and "\n" not in text else ""


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

    def violations(self, value: Any, old: Any, path: str = "") -> Iterator[FieldError]:
        """Every violation; ``old`` is the former value, or NO_OLD_VALUE."""
        if value is None:
            return
        yield from self._own_violations(value, old, path)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            below = [(n, tree, join(path, n)) for n, tree in self.properties.items() if n in value]
            if self.values is not None:
                below += [(name, self.values, f"{path}[{name}]") for name in value]
            for name, tree, place in below:
                yield from tree.violations(value[name], before.get(name, NO_OLD_VALUE), place)
        elif isinstance(value, list) and self.items is not None:
            befores = correlate_items(self.schema, value, old)
            for n, (item, was) in enumerate(zip(value, befores, strict=True)):
                yield from self.items.violations(item, was, f"{path}[{n}]")

    def _own_violations(self, value: Any, old: Any, path: str) -> Iterator[FieldError]:
        unchanged = old is not NO_OLD_VALUE and old == value
        rules = [rule for rule in self.rules if rule.applies(old, unchanged=unchanged)]
        if not rules:
            return
        from arranger.embedded.crd.cel_library import OldSelf, to_cel

        known = old is not NO_OLD_VALUE
        variables: Object = {"self": to_cel(self.schema, value, root=self.root)}
        former = to_cel(self.schema, old, root=self.root) if known else None
        for rule in rules:
            variables["oldSelf"] = OldSelf(former, known) if rule.optional_old_self else former
            if (error := rule.violation(self.schema, value, variables, path)) is not None:
                yield error


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
    from celpy.evaluation import base_functions

    from arranger.embedded.crd.cel_checks import references_variable, undeclared_references
    from arranger.embedded.crd.cel_library import FUNCTIONS

    def refused(part: str, why: str, reason: str = "FieldValueInvalid") -> SchemaError:
        return SchemaError(f"{place}.{part}", reason, why)

    text, message = given.get("rule", "").strip(), given.get("message", "")
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
    known = {**schema, "x-kubernetes-embedded-resource": True} if root else schema
    scope = dict.fromkeys(("self", "oldSelf"), known)
    program, tree = _program(text, f"{place}.rule")
    for why in undeclared_references(tree, scope, {*base_functions, *FUNCTIONS}):
        raise _does_not_compile(text, f"{place}.rule", why)
    says = None
    if expression := given.get("messageExpression", "").strip():
        says, _ = _program(expression, f"{place}.messageExpression")
    compares, optional = references_variable(tree, "oldSelf"), bool(given.get("optionalOldSelf"))
    if optional and not compares:
        why = "Invalid value: true: may not be set if oldSelf is not used in rule"
        raise refused("optionalOldSelf", why)
    if compares and not single:
        why = "oldSelf cannot be used on the uncorrelatable portion of the schema"
        raise refused("rule", f"Invalid value: {to_json(text)}: {why}")
    below = _below(schema, given.get("fieldPath", ""), f"{place}.fieldPath")
    return ValidationRule(text, program, message, says, reason, below, compares, optional)


def _program(text: str, place: str) -> tuple[Any, Any]:
    """The compiled expression and its syntax tree."""
    from celpy import Environment
    from celpy.celparser import CELParseError

    from arranger.embedded.crd.cel_evaluator import RuleProgram
    from arranger.embedded.crd.cel_library import FUNCTIONS

    environment = Environment()
    try:
        tree = environment.compile(text)
    except CELParseError as error:
        raise _does_not_compile(text, place, f"Syntax error: {error.args[0]}") from error
    return RuleProgram(environment, tree, FUNCTIONS), tree


def _does_not_compile(text: str, place: str, why: str) -> SchemaError:
    message = f"Invalid value: {to_json(text)}: compilation failed: ERROR: {why}"
    return SchemaError(place, "FieldValueInvalid", message)


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


def _reason(error: Exception) -> str:
    """What went wrong in an evaluation, in the words of the API server where they are known."""
    text = str(error.args[0]) if error.args else str(error)
    if isinstance(error.__cause__, ValueError):
        text = str(error.__cause__)
    if found := re.fullmatch(r"no such member in mapping: '(.*)'", text):
        return f"no such key: {found[1]}"
    return "division by zero" if text == "modulus or divide by zero" else text
