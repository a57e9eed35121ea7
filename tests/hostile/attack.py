"""What an attack is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

#: The namespace of whoever attacks, and that of somebody else.
CULPRIT = "culprit"
NEIGHBOUR = "neighbour"


@dataclass(frozen=True, slots=True)
class Attack:
    """Objects that are created, and then edited, and then deleted.

    Attributes:
        name: a sentence.
        objects: what is created, in this order.
        edits: what some of them are replaced by, while they are there.
        room: whose code must hold it.
        told: names of objects whose owner must hear of it, by an event or a condition.
        alone: it is long or large, and played by itself.
    """

    name: str
    objects: Sequence[Object]
    edits: Sequence[Object] = ()
    room: str = "barrier"
    told: Sequence[str] = field(default=())
    alone: bool = False
