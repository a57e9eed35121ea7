"""``arranger simulate`` in a test: the specification judges whatever it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from arranger.cli.simulation import simulate as simulation
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.storage.store import Change
from tests.judged import JudgedTrace, loop_time


@contextmanager
def judged_simulations(
    monkeypatch: pytest.MonkeyPatch, *listeners: Callable[[Change], None]
) -> Iterator[list[JudgedTrace]]:
    """Each simulation that is run meanwhile is judged at the end; who listens hears of writes."""
    traces: list[JudgedTrace] = []

    def watched(**how: Any) -> EmbeddedCluster:
        cluster = EmbeddedCluster(**how)
        for listener in listeners:
            cluster.store.subscribe(listener)
        trace = JudgedTrace(now=loop_time)
        trace.follow(cluster.store)
        traces.append(trace)
        return cluster

    with monkeypatch.context() as patch:
        patch.setattr(simulation, "EmbeddedCluster", watched)
        yield traces
    for trace in traces:
        trace.check()
