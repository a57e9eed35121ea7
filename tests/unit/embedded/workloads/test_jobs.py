"""Jobs of ``batch/v1`` by hollow controllers, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.embedded.workloads.harness import WorkloadHarness, a_workload

pytestmark = pytest.mark.looptime(noop_cycles=0)

IGNORE = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
COMPLETE = [("Complete", "CompletionsReached")]


@pytest.mark.parametrize(
    ("spec", "at_once", "in_all"),
    [
        pytest.param({}, 1, 1, id="one pod by default"),
        pytest.param({"completions": 5, "parallelism": 2}, 2, 5, id="two at a time until five"),
        pytest.param({"completions": 2, "parallelism": 9}, 2, 2, id="no more than are to succeed"),
        pytest.param({"completions": 4}, 1, 4, id="one after the other"),
        pytest.param({"parallelism": 3}, 3, 3, id="a work queue ends with its pods"),
        pytest.param({"completions": 0}, 0, 0, id="none"),
        pytest.param({"parallelism": 0}, 0, 0, id="none for now"),
        pytest.param({"suspend": True}, 0, 0, id="suspended"),
    ],
)
async def test_as_many_pods_as_the_job_says(
    at_work: WorkloadHarness, spec: dict[str, Any], at_once: int, in_all: int
) -> None:
    at_work.apply(a_workload("Job", runs=30, **spec))
    await at_work.after(5)
    assert len(at_work.names("Running")) == at_once
    await at_work.after(600)
    assert len(at_work.names("Succeeded")) == in_all == len(at_work.names())
    over = in_all or spec.get("completions") == 0
    assert at_work.ends() == (COMPLETE if over else [])
    assert at_work.controllers.idle


async def test_a_suspended_job_goes_on_when_it_may(at_work: WorkloadHarness) -> None:
    at_work.apply(a_workload("Job", runs=30, suspend=True))
    await at_work.after(5)
    at_work.edit("Job", suspend=False)
    await at_work.after(5)
    assert len(at_work.names("Running")) == 1
    at_work.edit("Job", suspend=True)
    await at_work.after(5)
    assert at_work.names() == []
    at_work.edit("Job", suspend=False)
    await at_work.after(60)
    assert at_work.ends() == COMPLETE


async def test_pods_of_an_indexed_job_have_their_index(at_work: WorkloadHarness) -> None:
    at_work.apply(
        a_workload("Job", runs=30, completions=3, parallelism=3, completionMode="Indexed")
    )
    await at_work.after(5)
    key = "batch.kubernetes.io/job-completion-index"
    for number, pod in enumerate(at_work.pods()):
        meta, index = pod["metadata"], str(number)
        assert meta["name"].startswith(f"w-{index}-")
        assert (meta["labels"][key], meta["annotations"][key]) == (index, index)
        assert (meta["labels"]["job-name"], pod["spec"]["hostname"]) == ("w", f"w-{index}")
        (variable,) = pod["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
    at_work.evict(at_work.names()[1])
    await at_work.after(100)
    assert at_work.ends() == COMPLETE
    done = sorted(p["metadata"]["labels"][key] for p in at_work.pods())
    assert done == ["0", "1", "2"]


async def test_a_job_whose_pods_fail_tries_ever_more_slowly_and_gives_up(
    at_work: WorkloadHarness,
) -> None:
    at_work.apply(a_workload("Job", runs=0, exits=1, backoffLimit=3))
    await at_work.after(25)
    assert len(at_work.names("Failed")) == 2
    await at_work.after(600)
    assert len(at_work.names("Failed")) == 4
    assert at_work.ends() == [("Failed", "BackoffLimitExceeded")]
    assert at_work.status("Job")["failed"] == 4
    assert at_work.controllers.idle


async def test_a_job_that_takes_too_long_fails(at_work: WorkloadHarness) -> None:
    at_work.apply(a_workload("Job", activeDeadlineSeconds=60))
    await at_work.after(50)
    assert len(at_work.names("Running")) == 1
    assert not at_work.controllers.idle
    await at_work.after(20)
    assert at_work.ends() == [("Failed", "DeadlineExceeded")]
    assert at_work.names() == []


@pytest.mark.parametrize(
    ("policy", "failed"),
    [pytest.param(None, 1, id="counts"), pytest.param(IGNORE, 0, id="is ignored by a policy")],
)
async def test_an_eviction(at_work: WorkloadHarness, policy: Any, failed: int) -> None:
    more = {"podFailurePolicy": policy} if policy else {}
    at_work.apply(a_workload("Job", runs=30, **more))
    await at_work.after(5)
    (first,) = at_work.names("Running")
    at_work.evict(first)
    await at_work.after(20)
    assert at_work.status("Job")["failed"] == failed
    assert at_work.names("Running") != [first]
    await at_work.after(60)
    assert at_work.ends() == COMPLETE


@pytest.mark.parametrize(
    ("action", "ends"),
    [("FailJob", [("Failed", "PodFailurePolicy")]), ("Count", []), ("Ignore", [])],
)
async def test_a_rule_about_exit_codes(
    at_work: WorkloadHarness, action: str, ends: list[tuple[str, str]]
) -> None:
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": [42]}}
    at_work.apply(
        a_workload("Job", runs=0, exits=42, podFailurePolicy={"rules": [rule]}, backoffLimit=9)
    )
    await at_work.after(15)
    assert at_work.ends() == ends
    assert at_work.status("Job")["failed"] == (action != "Ignore") * len(at_work.names("Failed"))
