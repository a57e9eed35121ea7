"""The example in the repository works as a newcomer would use it."""

from __future__ import annotations

from arranger.framework.runtime.registry import Registry
from tests.builders import a_node, a_pod
from tests.paths import REPO
from tests.unit.plugins.evaluation import evaluate_with, rejected

EXAMPLE = REPO / "examples" / "plugins" / "avoid_spot.py"
SPOT, STEADY = a_node("spot").labelled(spot="true"), a_node("steady")


def test_important_pods_are_kept_off_spot_nodes() -> None:
    registry = Registry()
    registry.add_file(EXAMPLE)
    plugin = registry.make("AvoidSpot")
    why = ("node(s) may be taken back",)
    assert rejected(plugin, a_pod().with_priority(1000), SPOT, STEADY) == {"spot": why}
    assert evaluate_with(plugin, a_pod(), SPOT, STEADY)["totals"] == {"spot": 0, "steady": 100}


def test_it_is_short_enough_to_be_a_first_plugin() -> None:
    code = EXAMPLE.read_text().split('"""')[2]
    statements = [line for line in code.splitlines() if line.strip()]
    assert len(statements) <= 12
