"""Reservations: for whom nodes are kept, and when.

Nothing is said of windows that come again, nor of some of a selector's nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from tests.specification.trace import World
from tests.specification.vocabulary.gangs import gang_of
from tests.specification.vocabulary.manifests import (
    Amounts,
    Object,
    added,
    amounts,
    asks,
    labels_of,
    seconds_in,
    selects,
    uid_of,
)
from tests.specification.vocabulary.queues import queue_of

RESERVATIONS = "arranger.io/reservations"
#: The annotation of a pod that asks for one.
ASKED = "arranger.io/reservation"
_HOUR = 3600.0


@dataclass(eq=False)
class Reservation:
    """One of them, in the world as it is."""

    world: World
    manifest: Object

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def evicts(self) -> bool:
        """Whether pods of others are to leave its nodes."""
        return bool(self.manifest["spec"].get("evict"))

    @property
    def drain(self) -> float:
        """How long before it begins nobody comes who may run for ever, in seconds."""
        text = self.manifest["spec"].get("drainBefore")
        return (seconds_in(text) or 0.0) if text else _HOUR

    @property
    def start(self) -> float:
        """In seconds since 1970; there must be a :attr:`window`."""
        assert self.window is not None
        return self.window[0]

    @property
    def end(self) -> float:
        """In seconds since 1970; there must be a :attr:`window`."""
        assert self.window is not None
        return self.window[1]

    @cached_property
    def window(self) -> tuple[float, float] | None:
        """From when to when its nodes are kept, in seconds since 1970; None where none is said."""
        spec = self.manifest["spec"]
        users, window = spec.get("users") or {}, spec["window"]
        chosen = any(spec["nodes"].get(each) for each in ("count", "resources", "cards"))
        if window.get("recurrence") or chosen:
            return None
        if any(users.values()) == bool(spec.get("maintenance")):
            return None  # it is for nobody, and not for nobody either
        start = datetime.fromisoformat(window["start"]).astimezone(UTC).timestamp()
        if window.get("end"):
            return start, datetime.fromisoformat(window["end"]).astimezone(UTC).timestamp()
        return start, start + (seconds_in(window["duration"]) or 0.0)

    @property
    def part(self) -> Amounts:
        """How much of each of its nodes is kept; nothing where whole nodes are."""
        return amounts(self.manifest["spec"]["nodes"].get("perNode"))

    def left_of_part(self, node: Object | None, but: Object) -> Amounts:
        """What of the part its users do not have on a node, one pod left out."""
        if node is None:
            return {}
        there = self.world.pods_on.get(node["metadata"]["name"], {}).values()
        others = (each for each in there if uid_of(each) != uid_of(but))
        theirs = added(*(asks(each) for each in others if self.is_for(each)))
        return {name: max(n - theirs.get(name, 0), 0) for name, n in self.part.items()}

    def has(self, node: Object | None) -> bool:
        """Whether a node is one of its own."""
        if node is None:
            return False
        nodes = self.manifest["spec"]["nodes"]
        named = node["metadata"]["name"] in (nodes.get("names") or ())
        return named or selects(nodes.get("selector"), labels_of(node))

    def is_for(self, pod: Object) -> bool:
        """Whether a pod is one of its users."""
        users, space = self.manifest["spec"].get("users") or {}, pod["metadata"]["namespace"]
        return (
            queue_of(self.world, pod) in (users.get("queues") or ())
            or gang_of(pod)[0] in (users.get("gangs") or ())
            or selects(users.get("namespaceSelector"), self.world.labels_of_namespace(space))
        )
