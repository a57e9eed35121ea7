"""What the scheduling queue asks of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.framework.status import Status


class Gate(Protocol):
    """Holds gang groups back that cannot be placed yet."""

    def missing_requirement(self, entity: QueuedEntity) -> Status | None:
        """What the entity's gang group still lacks to be tried; None if it may be."""


class Nominations(Protocol):
    """Knows the pods that have a node nominated, whose attempts differ from others' of a class."""

    def __len__(self) -> int: ...

    def __contains__(self, uid: object) -> bool: ...

    def nominated_pods_on(self, node: str) -> Sequence[QueuedPod]:
        """Those that are nominated for a node."""
        ...

    def nominated_pods(self) -> Iterable[QueuedPod]:
        """All of them."""
        ...
