"""What SIGUSR2 has logged: whether the core is in order, and what it holds."""

from __future__ import annotations

from structlog.testing import capture_logs

from arranger.daemon.debugger import dump
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import EngineHarness


def test_a_core_in_order_says_what_it_holds() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=1), a_pod("a").needs(cpu=1), a_pod("b").needs(cpu=1))
    harness.run()
    with capture_logs() as logs:
        assert dump(harness.engine)
    (entry,) = logs
    assert entry["event"] == "engine.consistent"
    assert (entry["nodes"], entry["placed"], entry["unschedulable"]) == (1, 1, 1)


def test_a_broken_invariant_is_named() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n"), a_pod("a").needs(cpu=1))
    harness.run()
    harness.engine.cluster.assumed.add("nobody")
    with capture_logs() as logs:
        assert not dump(harness.engine)
    (entry,) = logs
    assert (entry["log_level"], entry["event"]) == ("error", "engine.inconsistent")
    assert entry["broken"] == "an assumed pod has no node"
