"""The configuration of gang scheduling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class GangPolicy:
    """What holds for all gangs that set nothing else.

    Attributes:
        wait_time: seconds for which an incomplete group may hold nodes.
        on_timeout: what becomes of a group when that time is over: it is blocked until its owner
            acts, or tried again.
        on_partial_bind: what becomes of a group of which part of the minimum is bound: it goes
            before all others until its wait time is over (``Complete``), the same and its bound
            members are then deleted (``Delete``), or it waits like any other (``Hold``).
        starvation_after: seconds of waiting after which nodes are reserved for a group.
        reservation_seconds: for how long nodes are reserved at a stretch.
        reservation_max_nodes_percent: how many of all nodes are reserved at most.
    """

    wait_time: float = 600.0
    on_timeout: Literal["Block", "Retry"] = "Block"
    on_partial_bind: Literal["Complete", "Delete", "Hold"] = "Complete"
    starvation_after: float = 600.0
    reservation_seconds: float = 600.0
    reservation_max_nodes_percent: int = 50
