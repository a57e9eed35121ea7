"""What an attack is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    """

    name: str
    objects: Sequence[Object]
    edits: Sequence[Object] = ()
