"""Structural schemas of custom resources: defaults, pruning and validation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

from arranger.embedded import Object, copy_json
from arranger.embedded.crd.cel_rules import RuleTree, compile_rules
from arranger.embedded.crd.validation import (
    NO_FIELD,
    NO_OLD_VALUE,
    FieldError,
    field_schema,
    join,
    violations,
)

#: Fields of every object, which no schema describes.
_TYPE_AND_METADATA: Final = ("apiVersion", "kind", "metadata")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_ANYTHING: Final[Object] = {_PRESERVE: True}
_NOT_CHECKED: Final = (
    "Invalid value: null: some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation"
)


class WrongTypeError(ValueError):
    """A field has a value of another type than it is defined with."""


@dataclass(slots=True)
class PrunedObject:
    """A copy of an object without nulls and unknown fields, and the paths of the latter."""

    obj: Object
    unknown: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CustomSchema:
    """The schema of one version of a custom resource."""

    root: Object
    rules: RuleTree | None

    @classmethod
    def parse(cls, schema: Object) -> CustomSchema:
        """Parse the schema of a definition; equal ones are compiled once for all servers.

        Raises:
            SchemaError: it has a rule that cannot be checked.
        """
        return _parse_cached(msgspec.json.encode(schema))

    def prune(self, obj: Object) -> PrunedObject:
        """A copy without nulls and without unknown fields, whose paths it reports.

        ``metadata`` is not looked at.
        """
        unknown: list[str] = []
        body = {k: v for k, v in obj.items() if k not in _TYPE_AND_METADATA}
        head: Object = {k: obj[k] for k in _TYPE_AND_METADATA if k in obj}
        return PrunedObject({**head, **_prune(self.root, body, "", unknown)}, unknown)

    def set_defaults(self, obj: Object) -> None:
        """Fill in defaults, in place."""
        _set_defaults(self.root, obj)

    def validate(self, obj: Object, old: Object | None = None) -> list[FieldError]:
        """Every violation; ``old`` is what an update replaces."""
        before = NO_OLD_VALUE if old is None else self._as_read(old, obj)
        errors = list(violations(self.root, obj, before, ""))
        if self.rules is None:
            return errors
        if any(error.blocks_rules for error in errors):
            return [*errors, FieldError(NO_FIELD, "FieldValueInvalid", _NOT_CHECKED)]
        return [*errors, *self.rules.violations(obj, before)]

    def _as_read(self, old: Object, new: Object) -> Object:
        """What an update replaces, as it is read from the store: with defaults.

        No schema validates metadata, so a change of them alone leaves the object unchanged.
        """
        apart = ("metadata", "status")
        if any(old.get(name) != part for name, part in new.items() if name not in apart):
            old = copy_json(old)
            self.set_defaults(old)
        return {**old, "metadata": new["metadata"]}


@lru_cache(maxsize=256)
def _parse_cached(encoded: bytes) -> CustomSchema:
    schema = msgspec.json.decode(encoded)
    return CustomSchema(schema, compile_rules(schema))


def _prune(schema: Object, value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items") or _ANYTHING
        return [_prune(items, v, f"{path}[{n}]", unknown) for n, v in enumerate(value)]
    if not isinstance(value, dict):
        return value
    keep = schema.get("additionalProperties") is True or schema.get(_PRESERVE)
    if schema.get("x-kubernetes-embedded-resource"):
        always = dict.fromkeys(_TYPE_AND_METADATA, _ANYTHING)
        schema = {**schema, "properties": {**always, **(schema.get("properties") or {})}}
    pruned: Object = {}
    for name, child in value.items():
        inner = field_schema(schema, name)
        if inner is None and keep:
            pruned[name] = copy_json(child)
        elif inner is None:
            unknown.append(join(path, name))
        elif child is not None or inner.get("nullable"):
            pruned[name] = _prune(inner, child, join(path, name), unknown)
    return pruned


def _set_defaults(schema: Object, value: Any) -> None:
    if isinstance(value, dict):
        for name, child in (schema.get("properties") or {}).items():
            if name not in value and "default" in child:
                value[name] = copy_json(child["default"])
        for name, entry in value.items():
            if (inner := field_schema(schema, name)) is not None:
                _set_defaults(inner, entry)
    elif isinstance(value, list):
        for item in value:
            _set_defaults(schema.get("items") or {}, item)
