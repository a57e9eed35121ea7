"""The fields of the configuration file, from the pydantic models of ``arranger/daemon/config``."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeGuard, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from arranger.daemon.config.schema import Config
from docs.generator.markdown import code, heading, table
from docs.generator.markdown import page as text_of

INTRODUCTION = (
    "`arranger run --config FILE`. `[]` are the entries of a list. A field that is not here is "
    "refused, with the nearest one there is. Where kube-scheduler's configuration has the same "
    "field it has the same name."
)
SIMPLE: Mapping[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    Path: "path",
    Any: "any",
}


def page() -> str:
    """One table of all fields."""
    lines = heading("Configuration", "`arranger/daemon/config`", INTRODUCTION)
    return text_of([*lines, *table(["field", "type", "default", "meaning"], _rows(Config))])


def _rows(model: type[BaseModel], prefix: str = "") -> Iterator[list[str]]:
    meanings = _docstrings_of(model)
    for name, field in model.model_fields.items():
        entry = _entry_of(field.annotation)
        many = entry is not None and get_origin(field.annotation) is list
        path = f"{prefix}{field.alias}" + "[]" * many
        if name in meanings:
            text = " ".join(meanings[name].split()).replace("``", "`")
            yield [code(path), kind(field.annotation), default(field), text + _limits(field)]
        if entry is not None:
            yield from _rows(entry, f"{path}.")


def _docstrings_of(model: type[BaseModel]) -> dict[str, str]:
    """Field → the string below it; pydantic would read them at every start of the process."""
    found: dict[str, str] = {}
    for section in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        body = ast.parse(textwrap.dedent(inspect.getsource(section))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, below in itertools.pairwise(body.body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = text
    return found


def _entry_of(annotation: object) -> type[BaseModel] | None:
    """The section that a field is, holds a list of, or may be absent of."""
    if is_section(annotation):
        return annotation
    return next((part for part in get_args(annotation) if is_section(part)), None)


def is_section(annotation: object) -> TypeGuard[type[BaseModel]]:
    """Whether a field is itself made of fields."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def kind(annotation: object) -> str:
    """The type of a field in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(code(part) for part in parts)
    if origin in (types.UnionType, typing.Union):
        return kind(next(part for part in parts if part is not type(None)))
    if origin is list or origin is tuple:
        return f"list of {kind(parts[0])}"
    if origin is dict:
        return f"map to {kind(parts[1])}"
    if origin is typing.Annotated:
        return kind(parts[0])
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(code(each.value) for each in annotation)
    return "section" if is_section(annotation) else SIMPLE[annotation]


def default(field: FieldInfo) -> str:
    """What holds where the file says nothing; as it would be written in YAML."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or value is None or is_section(type(value)):
        return ""
    if isinstance(value, list) and value and is_section(type(value[0])):
        return "one entry with its defaults"
    return code(_yaml(value))


def _yaml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, BaseModel):
        return _yaml(value.model_dump(by_alias=True, exclude_none=True))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_yaml(each)}" for name, each in value.items()) + "}"
    return '""' if value == "" else f"{value:g}" if isinstance(value, float) else str(value)


def _limits(field: FieldInfo) -> str:
    words = {Ge: "at least {0.ge:.9g}", Gt: "more than {0.gt:.9g}", Le: "at most {0.le:.9g}"}
    said = [words[type(each)].format(each) for each in field.metadata if type(each) in words]
    return f" ({', '.join(said)})" if said else ""
