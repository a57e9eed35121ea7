"""Settings and fixtures of all tiers."""

from __future__ import annotations

import asyncio

pytest_plugins = ["tests.controlplane.fixtures"]


def pytest_configure() -> None:
    # Otherwise looptime's plugin makes a loop for the first synchronous test of a process, and
    # nobody closes it: a ResourceWarning, which is an error, in whichever test runs then.
    asyncio.set_event_loop(None)
