"""``arranger simulate``: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import json

from click.testing import CliRunner

from arranger.cli.main import main
from tests.paths import REPO

DEMO = REPO / "examples" / "demo"


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["simulate", *args])
    return result.exit_code, result.output


def test_the_demo_places_what_fits_and_says_why_the_rest_waits() -> None:
    code, output = run("-f", str(DEMO), "-o", "json")
    assert code == 0, output
    outcome = json.loads(output)
    nodes = {p["pod"]: p["node"] for p in outcome["placements"]}
    assert nodes["default/web"] in ("cpu-1", "cpu-2")
    assert nodes["default/alarm"] == "edge-1"
    bound = [h["at"] for h in outcome["timeline"] if (h["what"], h["kind"]) == ("Bound", "Pod")]
    assert bound == sorted(bound)
    # The gangs do not fit beside each other: the second ran when the first had ended.
    ends = [h["at"] for h in outcome["timeline"] if (h["what"], h["kind"]) == ("Complete", "Job")]
    assert len(ends) == 3
    assert ends[1] >= 12
    evicted = {e["pod"].partition("-")[0] for e in outcome["evictions"]}
    assert evicted == {"default/training", "default/reports"}
    (waiting,) = outcome["pending"]
    assert waiting["pod"] == "default/too-big"
    assert waiting["reason"].startswith("0/4 nodes are available:")
    assert {"Scheduled", "FailedScheduling"} <= {e["reason"] for e in outcome["events"]}
    assert outcome["stages"] == {"default/average": "Succeeded"}
    assert outcome["endReason"] == "Standstill"
    assert outcome["end"].endswith("and 1 pod waits")


def test_equal_seeds_give_equal_runs() -> None:
    first, second = (run("-f", str(DEMO), "-o", "json", "--seed", "7") for _ in range(2))
    assert first == second


def test_the_table_names_the_pods_that_wait() -> None:
    code, output = run("-f", str(DEMO))
    assert code == 0
    assert "default/too-big" in output


def test_a_configuration_among_the_manifests_is_refused_by_name() -> None:
    code, output = run("-f", str(DEMO.parent / "queues"))
    assert code != 0
    assert "config.yaml, document 1: the scheduler's configuration is given with --config" in output
