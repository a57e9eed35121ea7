"""pydantic's errors in a user's words: the path of a field, and what is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


def config_errors(
    model: type[BaseModel], error: ValidationError, *, under: str = ""
) -> tuple[str, ...]:
    """``path: what is wrong``, once for every wrong field.

    Args:
        model: what was validated.
        error: the errors found.
        under: the path of ``model`` itself, where it is part of something.
    """
    return tuple(
        f"{_field_path(under, wrong['loc'])}: "
        + (
            "unknown field"
            + suggest(str(wrong["loc"][-1]), _known_fields(model, wrong["loc"][:-1]))
            if wrong["type"] == "extra_forbidden"
            else wrong["msg"]
        )
        for wrong in error.errors()
    )


def suggest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'this'?``, or nothing where no known name is close."""
    folded = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), folded, n=1)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""


def _field_path(under: str, location: Sequence[int | str]) -> str:
    parts = [under] if under else []
    return ".".join([*parts, *(str(part) for part in location)]) or "(file)"


def _known_fields(model: type[BaseModel], location: Sequence[int | str]) -> set[str]:
    """The fields that exist at a path; those of all alternatives where there are several."""
    models = [model]
    for part in location:
        fields = (field for each in models for field in each.model_fields.items())
        inner = [
            below
            for name, field in fields
            if part in (name, field.alias)
            for below in _nested_models(field.annotation)
        ]
        # An index, or the name of an alternative, is not a field: the models stay the same.
        models = inner or models
    return {field.alias or name for each in models for name, field in each.model_fields.items()}


def _nested_models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _nested_models(inner)
