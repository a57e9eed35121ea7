"""Validates objects by OpenAPI schemas, with the errors that the API server gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from arranger.embedded import Object
from arranger.embedded.crd.formats import has_format, in_range

#: In place of a former value: there is none, or it cannot be identified.
NO_OLD_VALUE: Final = object()
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}
#: The field of errors that are about no field.
NO_FIELD: Final = "<nil>"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One violation: the field's path, the cause's reason, and the message without the path."""

    field: str
    type: str
    message: str

    @property
    def blocks_rules(self) -> bool:
        """Whether CEL rules are not evaluated on an object with this error."""
        return self.type in (
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        )


def violations(schema: Object, value: Any, old: Any, path: str) -> Iterator[FieldError]:
    """The violations in ``value``, except in parts that an update does not change.

    So a schema can be tightened while objects that violate it exist (ratcheting).
    """
    if old is not NO_OLD_VALUE and value == old:
        return
    if value is None and schema.get("nullable"):
        return
    wrong_type = _type_error(schema, value, path)
    if wrong_type is not None:
        yield wrong_type
        return
    yield from _value_violations(schema, value, path)
    yield from _logic_violations(schema, value, path)
    yield from _child_violations(schema, value, old, path)


def correlate_items(schema: Object, items: list[Any], old: Any) -> list[Any]:
    """The former value of each item; known only in lists of type ``map``, by their keys."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") != "map" or not keys or not isinstance(old, list):
        return [NO_OLD_VALUE] * len(items)
    before = {_map_key(item, keys): item for item in old}
    return [before.get(_map_key(item, keys), NO_OLD_VALUE) for item in items]


def join(path: str, name: str) -> str:
    """The path of a field below another."""
    return f"{path}.{name}" if path else name


def to_json(value: Any) -> str:
    """A value as messages have it."""
    return msgspec.json.encode(value).decode()


# --- one value ----------------------------------------------------------------------------------


def _type_error(schema: Object, value: Any, path: str) -> FieldError | None:
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, int | str) and not isinstance(value, bool)
        return None if fits else _wrong_type(path, value, "integer,string")
    wanted = schema.get("type")
    if wanted and not _has_type(value, wanted):
        return _wrong_type(path, value, wanted)
    if isinstance(value, str) and not has_format(value, format_ := schema.get("format", "")):
        why = (
            f'Invalid value: {to_json(value)}: {path} in body must be of type {format_}: "{value}"'
        )
        return FieldError(path, "FieldValueTypeInvalid", why)
    return None


def _value_violations(schema: Object, value: Any, path: str) -> Iterator[FieldError]:
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{v}"' for v in schema["enum"])
        why = f"Unsupported value: {to_json(value)}: supported values: {supported}"
        yield FieldError(path, "FieldValueNotSupported", why)
    match value:
        case bool():
            pass
        case int() | float():
            yield from _number_violations(schema, value, path)
        case str():
            yield from _string_violations(schema, value, path)
        case list():
            yield from _size_violations(schema, len(value), path, "Items")
            yield from _duplicates(schema, value, path)
        case dict():
            yield from _size_violations(schema, len(value), path, "Properties")
            required = [*(schema.get("required") or ())]
            if schema.get("x-kubernetes-embedded-resource"):
                required += ["apiVersion", "kind"]
            for name in required:
                if name not in value:
                    yield FieldError(join(path, name), "FieldValueRequired", "Required value")


def _number_violations(schema: Object, value: float, path: str) -> Iterator[FieldError]:
    if not in_range(value, format_ := schema.get("format", "")):
        what = f"must be of type {schema.get('type')} with format {format_} in {path}"
        why = f'Invalid value: "": Checked value {what}'
        yield FieldError(NO_FIELD, "FieldValueInvalid", why)
    for limit, exclusive, sign, words in (
        ("minimum", "exclusiveMinimum", 1, "greater than"),
        ("maximum", "exclusiveMaximum", -1, "less than"),
    ):
        bound, strict = schema.get(limit), schema.get(exclusive)
        if bound is None or (value - bound) * sign > 0 or (value == bound and not strict):
            continue
        yield _invalid(path, value, f"should be {words} {'' if strict else 'or equal to '}{bound}")
    if (factor := schema.get("multipleOf")) and value % factor:
        yield _invalid(path, value, f"should be a multiple of {factor}")


def _string_violations(schema: Object, value: str, path: str) -> Iterator[FieldError]:
    if len(value) > (most := schema.get("maxLength", len(value))):
        yield FieldError(path, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")
    if len(value) < (least := schema.get("minLength", 0)):
        yield _invalid(path, value, f"should be at least {least} chars long")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield _invalid(path, value, f"should match '{schema['pattern']}'")


def _size_violations(schema: Object, size: int, path: str, what: str) -> Iterator[FieldError]:
    if size > (most := schema.get(f"max{what}", size)):
        # The API server calls properties items here.
        why = f"Too many: {size}: must have at most {most} items"
        yield FieldError(path, "FieldValueTooMany", why)
    if size < (least := schema.get(f"min{what}", 0)):
        yield _invalid(path, size, f"should have at least {least} {what.lower()}")


def _duplicates(schema: Object, items: list[Any], path: str) -> Iterator[FieldError]:
    """Items that a list of type ``set`` or ``map`` has twice; each is reported once."""
    keys = schema.get("x-kubernetes-list-map-keys") or []
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return
    seen: dict[str, int] = {}
    for n, item in enumerate(items):
        shown_item = to_json(item)
        if kind == "map":
            if not isinstance(item, dict):
                continue
            shown_item = to_json({key: item[key] for key in keys if key in item})
        seen[shown_item] = seen.get(shown_item, 0) + 1
        if seen[shown_item] == 2:
            why = f"Duplicate value: {shown_item}"
            yield FieldError(f"{path}[{n}]", "FieldValueDuplicate", why)


# --- below and beside ---------------------------------------------------------------------------


def _child_violations(schema: Object, value: Any, old: Any, path: str) -> Iterator[FieldError]:
    if isinstance(value, dict):
        known = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        for name, child in value.items():
            inner = known.get(name, more if isinstance(more, dict) else None)
            if inner is not None:
                before = old.get(name, NO_OLD_VALUE) if isinstance(old, dict) else NO_OLD_VALUE
                yield from violations(inner, child, before, join(path, name))
    elif isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        befores = correlate_items(schema, value, old)
        for n, (item, before) in enumerate(zip(value, befores, strict=True)):
            yield from violations(items, item, before, f"{path}[{n}]")


def _logic_violations(schema: Object, value: Any, path: str) -> Iterator[FieldError]:
    def failures(of: Object) -> list[FieldError]:
        return list(violations(of, value, NO_OLD_VALUE, path))

    def refused(what: str) -> FieldError:
        return FieldError(NO_FIELD, "FieldValueInvalid", f'Invalid value: "": "{path}" {what}')

    if options := schema.get("anyOf"):
        failed = [failures(option) for option in options]
        if all(failed):
            yield refused("must validate at least one schema (anyOf)")
            yield from failed[0]
    if options := schema.get("oneOf"):
        failed = [failures(option) for option in options]
        if (valid := failed.count([])) != 1:
            found = f"Found {valid} valid alternatives" if valid else "Found none valid"
            yield refused(f"must validate one and only one schema (oneOf). {found}")
            yield from () if valid else failed[0]
    if options := schema.get("allOf"):
        failed = [failures(option) for option in options]
        for errors in failed:
            yield from errors
        if any(failed):
            none = ". None validated" if all(failed) else ""
            yield refused(f"must validate all the schemas (allOf){none}")
    if (option := schema.get("not")) and not failures(option):
        yield refused("must not validate the schema (not)")


# --- helpers ------------------------------------------------------------------------------------


def _has_type(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[wanted])


def _wrong_type(path: str, value: Any, wanted: str) -> FieldError:
    kinds = ("boolean", *_TYPES)  # a Python bool is an int, too
    actual = next((n for n in kinds if isinstance(value, _TYPES[n])), "null")
    why = f'Invalid value: "{actual}": {path} in body must be of type {wanted}: "{actual}"'
    return FieldError(path, "FieldValueTypeInvalid", why)


def _invalid(path: str, value: Any, what: str) -> FieldError:
    why = f"Invalid value: {to_json(value)}: {path} in body {what}"
    return FieldError(path, "FieldValueInvalid", why)


def _map_key(item: Any, keys: list[str]) -> str:
    return to_json([item.get(key) for key in keys]) if isinstance(item, dict) else to_json(item)
