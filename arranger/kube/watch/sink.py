"""Who takes in what a reflector reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from arranger.kube.watch.decoder import T, UndecodableObject


class Sink(Protocol[T]):
    """Takes in the state; called synchronously from the event loop."""

    def listing(self) -> None:
        """The full state is asked for now: what it shows is later than all that is known.

        Its resourceVersions may be earlier: the API server may have been restored from a backup.
        """

    def replaced(
        self,
        objects: list[T],
        resource_version: str,
        undecodable: Sequence[UndecodableObject] = (),
    ) -> None:
        """This is the full state now: whatever else the sink knows is gone."""

    def applied(self, obj: T | UndecodableObject) -> None:
        """An object was added or modified; what cannot be decoded keeps its last known state."""

    def deleted(self, obj: T | UndecodableObject) -> None:
        """An object was deleted; ``obj`` is its last state."""


def is_newer(version: str, other: str) -> bool:
    """Whether one resourceVersion is later than another of the same resource.

    Since 1.35 apimachinery defines the order of decimal versions (by length, then by digits). Any
    other form is opaque, and counts as later if it differs.
    """
    if version.isdecimal() and other.isdecimal():
        if len(version) == len(other):
            return version > other
        return len(version) > len(other)
    return version != other
