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
        starvation_after: seconds of waiting after which a group's start is planned.
        reservation_seconds: for how long room is kept at a stretch.
        reservation_max_nodes_percent: on how many of all nodes room is kept at most.
        planned_gangs: how many groups are planned at a time, the first of the queue.
        wait_instead_of_preempting: a group evicts nobody if it starts in less seconds by the plan.
    """

    wait_time: float = 600.0
    on_timeout: Literal["Block", "Retry"] = "Block"
    on_partial_bind: Literal["Complete", "Delete", "Hold"] = "Complete"
    starvation_after: float = 600.0
    reservation_seconds: float = 600.0
    reservation_max_nodes_percent: int = 50
    planned_gangs: int = 1
    wait_instead_of_preempting: float = 0.0
