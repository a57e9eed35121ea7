"""Settings and fixtures of all tiers."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import settings

pytest_plugins = ["tests.controlplane.fixtures"]


_configure = structlog.configure


def _configure_without_cache(**options: Any) -> None:
    _configure(**{**options, "cache_logger_on_first_use": False})


def pytest_configure() -> None:
    # Otherwise looptime's plugin makes a loop for the first synchronous test of a process, and
    # nobody closes it: a ResourceWarning, which is an error, in whichever test runs then.
    asyncio.set_event_loop(None)
    # How long an example takes says something of the machine, and nothing of the code.
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")
    # A logger that keeps its configuration would keep that of a command which a test has run.
    structlog.configure = _configure_without_cache


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    """A daemon in the process of the tests has the collector look at nothing twice: what tests
    drop after it would stay."""
    callbacks, thresholds = gc.callbacks[:], gc.get_threshold()
    yield
    if gc.callbacks != callbacks:
        gc.callbacks[:] = callbacks
        gc.set_threshold(*thresholds)
        gc.unfreeze()


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Commands that run in the process of the tests configure its logging; undo that."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(level)
