"""The fields of our custom resources, from ``crds/``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from docs.generator.markdown import code, heading, table
from docs.generator.markdown import page as text_of

CRDS = Path(__file__).resolve().parents[2] / "crds"
Schema = dict[str, Any]
_COLUMNS = ["field", "type", "default", "description"]
#: Fields of every object.
_EVERYWHERE = ("apiVersion", "kind", "metadata")

INTRODUCTION = (
    "What `kubectl explain` says of the definitions in `crds/`. `[]` are the entries of a list, "
    "`{}` the values of a map."
)


def page() -> str:
    """One section for each definition, spec before status."""
    lines = heading("CRD fields", "`crds/`", INTRODUCTION)
    for file in sorted(CRDS.glob("*.yaml")):
        spec = yaml.safe_load(file.read_text())["spec"]
        (version,) = spec["versions"]
        root = version["schema"]["openAPIV3Schema"]
        kind, group = spec["names"]["kind"], spec["group"]
        lines += [f"## {kind} ({group}/{version['name']})", "", root["description"], ""]
        short = ", ".join(map(code, spec["names"].get("shortNames", [])))
        lines += [f"`{file.name}`, {spec['scope'].lower()}" + (f"; {short}" if short else ""), ""]
        parts = [part for part in ("spec", "status") if part in root["properties"]]
        if not parts:
            own = {k: v for k, v in root["properties"].items() if k not in _EVERYWHERE}
            lines += table(_COLUMNS, _rows({"properties": own}))
        for part in parts:
            schema = root["properties"][part]
            lines += [f"### {kind}.{part} ({group})", "", schema["description"], ""]
            lines += table(_COLUMNS, _rows(schema))
    return text_of(lines)


def enum(name: str, path: Iterable[str]) -> list[str]:
    """The values that a field of a definition's status may have."""
    spec = yaml.safe_load((CRDS / f"{name}.yaml").read_text())["spec"]
    field = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    for step in path:
        field = field["properties"][step]
    values: list[str] = field["enum"]
    return values


def _rows(schema: Schema, prefix: str = "") -> Iterator[list[str]]:
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        kind = _type(field) + (", required" if name in required else "")
        default = code(_value(field["default"])) if "default" in field else ""
        yield [code(prefix + name), kind, default, field["description"] + _limits(field)]
        yield from _rows(field, f"{prefix}{name}.")
        for part, marks in (("items", "[]"), ("additionalProperties", "{}")):
            if isinstance(field.get(part), dict):
                yield from _rows(field[part], f"{prefix}{name}{marks}.")


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity" if "anyOf" in field else "integer or string"
    kind: str = field.get("type", "any")
    if kind == "array":
        return f"list of {_type(field['items'])}" if "items" in field else "list"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map to {_type(field['additionalProperties'])}"
    return "time" if field.get("format") == "date-time" else kind


def _limits(field: Schema) -> str:
    """The values that are taken, where they can be told in a few words."""
    if "enum" in field:
        return " One of " + ", ".join(code(_value(each)) for each in field["enum"]) + "."
    least, most = field.get("minimum"), field.get("maximum")
    if least is not None and most is not None:
        return f" {least} to {most}."
    return f" At least {least}." if least else ""


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return "{}" if value == {} else str(value)
