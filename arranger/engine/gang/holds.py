"""What an incomplete gang group keeps, and the rules about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from arranger.api.gang_membership import Topology
from arranger.engine.entity import QueuedEntity, QueuedPod


@dataclass(frozen=True, slots=True)
class GangPolicy:
    """What holds for all gangs that do not say otherwise.

    Attributes:
        wait_time: seconds that a group may hold nodes while it is incomplete.
        on_timeout: whether it is tried again when that time is over, or only after its owner acts.
        on_partial_bind: what becomes of a group that cannot be completed after part of its
            minimum has been bound: it goes on waiting, or its bound members are deleted.
        starvation_after: seconds of waiting for room after which nodes are kept for a group.
    """

    wait_time: float = 600.0
    on_timeout: Literal["Block", "Retry"] = "Block"
    on_partial_bind: Literal["Complete", "Delete", "Hold"] = "Complete"
    starvation_after: float = 600.0


@dataclass(slots=True)
class GangHold:
    """What an incomplete group keeps: ``members`` with a node, since when, and until when.

    ``topology`` is the domain that was asked for when the nodes were chosen.
    """

    entity: QueuedEntity
    since: float
    deadline: float
    topology: Topology | None = None
    members: dict[str, QueuedPod] = field(default_factory=dict)
