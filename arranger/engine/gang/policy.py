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
        on_partial_bind: what becomes of a group when that time is over and part of its minimum is
            bound: it waits like any other, its bound members are deleted, or it goes on waiting
            without precedence over others from the beginning (``Hold``).
        starvation_after: seconds of waiting after which nodes are reserved for a group.
    """

    wait_time: float = 600.0
    on_timeout: Literal["Block", "Retry"] = "Block"
    on_partial_bind: Literal["Complete", "Delete", "Hold"] = "Complete"
    starvation_after: float = 600.0
