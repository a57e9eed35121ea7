"""How slow the machine is now: bounds are in seconds of one that does nothing else."""

from __future__ import annotations

import time
from typing import Final

#: Seconds of work by which that is measured, and the most that counts.
_SPIN: Final = 0.01
_SLOWEST: Final = 20.0


def slowness() -> float:
    """How many times longer than by itself a process takes here."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < _SPIN:
        pass
    return min(max(1.0, (time.monotonic() - began) / _SPIN), _SLOWEST)
