"""The outcome of pruning an object to the fields of its kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


class WrongTypeError(ValueError):
    """A field has a value of another type than it is defined with."""


@dataclass(slots=True)
class PrunedObject:
    """A copy of an object without nulls and unknown fields, and the paths of the latter."""

    obj: Object
    unknown: list[str] = field(default_factory=list)
