"""Every example does what its text promises, in an embedded cluster and in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.paths import REPO
from tests.simulation.examples.conftest import ExampleHarness

pytestmark = pytest.mark.looptime(noop_cycles=0)

CARD = "NVIDIA-GeForce-RTX-4090"
#: Examples that other tests run: the demo and ``arranger explain``, and what is no manifest.
ELSEWHERE = {
    *("demo/cluster.yaml", "demo/gangs.yaml", "demo/pods.yaml", "demo/tyjob.yaml"),
    *("demo/preemption.yaml", "demo/tide.yaml"),
    *("snapshot.yaml", "config.yaml", "plugins/avoid_spot.py", "README.md"),
}
HERE = {
    *("gangs/podgroup.yaml", "gangs/bundles.yaml", "gangs/gang-group.yaml"),
    *("queues/queues.yaml", "queues/training.yaml", "queues/inference.yaml"),
    *("queues/hierarchy.yaml", "queues/config.yaml"),
    *("jobs/training.yaml", "jobs/parameter-server.yaml"),
    *("workloads/config.yaml", "workloads/job.yaml"),
}
TYJOBS = sorted(file.name for file in (REPO / "examples/tyjobs").iterdir())


def test_every_example_is_run_by_a_test() -> None:
    folder = REPO / "examples"
    there = {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()}
    there = {name for name in there if "__pycache__" not in name}
    assert there == ELSEWHERE | HERE | {f"tyjobs/{name}" for name in TYJOBS}


# --- gangs -------------------------------------------------------------------------------

GANGS: list[tuple[str, dict[str, int]]] = [
    ("gangs/podgroup.yaml", {"resnet": 4}),
    ("gangs/bundles.yaml", {"recommender-ps": 1, "recommender-worker": 3}),
    ("gangs/gang-group.yaml", {"actors": 3, "learner": 1}),
]


@pytest.mark.parametrize(("file", "members"), GANGS)
async def test_a_gang_starts_whole_or_not_at_all(
    examples: ExampleHarness, file: str, members: dict[str, int]
) -> None:
    examples.node("small", cpu="1700m")
    examples.apply(file)
    await examples.until(lambda: len(examples.pods()) == 4)
    await examples.until_running({})
    examples.node("more", cpu="1")
    await examples.until_running(members)


async def test_a_job_is_a_gang_by_what_it_says_itself(examples: ExampleHarness) -> None:
    examples.configure("workloads/config.yaml")
    examples.node("small", cpu="1700m")
    examples.apply("workloads/job.yaml")
    await examples.until(lambda: len(examples.pods()) == 4)
    await examples.until_running({})
    examples.node("more", cpu="1")
    await examples.until_running({"bert": 4})


# --- queues ------------------------------------------------------------------------------

NIGHT = {"training-high": 1, "training-medium": 1, "training-low": 1}
DAY = {"inference-high": 1, "training-high": 1, "training-medium": 1}


@pytest.mark.parametrize("config", ["queues/config.yaml", None], ids=["its own", "the default"])
async def test_by_day_inference_takes_and_by_night_training_comes_back(
    examples: ExampleHarness, config: str | None
) -> None:
    if config is not None:
        examples.configure(config)
    examples.node("n1", cards=8, card=CARD)
    examples.apply("queues/queues.yaml", "queues/training.yaml")
    await examples.until_running(NIGHT)
    examples.apply("queues/inference.yaml")
    await examples.until_running(DAY)
    assert examples.evicted() == {"training-low"}
    examples.scale("inference-low", 0)
    examples.scale("inference-high", 0)
    await examples.until_running(NIGHT)
    examples.scale("inference-high", 1)
    await examples.until_running(DAY)
    assert examples.evicted() == {"training-low"}


async def test_a_team_has_32_cpus_and_what_is_not_guaranteed_goes_as_1_to_3(
    examples: ExampleHarness,
) -> None:
    examples.node("n1", cpu="64")
    examples.apply("queues/hierarchy.yaml")
    for queue in ("research", "production"):
        examples.cluster.create(_deployment(queue, replicas=40))
    await examples.until_running({"research": 8, "production": 24})
    path = "/apis/scheduling.volcano.sh/v1beta1/queues/research"
    examples.edit(path, {"metadata": {"annotations": {"arranger.io/queue-state": "Closed"}}})
    examples.scale("research", 0)
    examples.scale("production", 0)
    await examples.until_running({})
    examples.scale("research", 5)
    await examples.until_running({})
    examples.edit(path, {"metadata": {"annotations": {"arranger.io/queue-state": "Open"}}})
    await examples.until_running({"research": 5})


def _deployment(queue: str, *, replicas: int) -> dict[str, Any]:
    requests = {"requests": {"cpu": "1"}}
    container = {"name": "c", "image": "i", "resources": requests}
    notes = {"scheduling.volcano.sh/queue-name": queue}
    template = {
        "metadata": {"labels": {"app": queue}, "annotations": notes},
        "spec": {"schedulerName": "arranger", "containers": [container]},
    }
    selector = {"matchLabels": {"app": queue}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    meta = {"name": queue, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


# --- jobs --------------------------------------------------------------------------------


async def test_training_gives_way_whole_and_starts_again(examples: ExampleHarness) -> None:
    examples.node("n1", cards=8, card=CARD)
    examples.apply("jobs/training.yaml", "queues/queues.yaml")
    await examples.until_running({"training-low": 2})
    before = {pod["metadata"]["uid"] for pod in examples.pods()}
    examples.apply("queues/inference.yaml")
    await examples.until_running({"inference-high": 1, "inference-low": 1})
    examples.scale("inference-high", 0)
    await examples.until_running({"inference-low": 1})
    examples.scale("inference-low", 0)
    await examples.until_running({"training-low": 2})
    assert not before & {pod["metadata"]["uid"] for pod in examples.pods()}


async def test_workers_start_when_their_parameter_server_is_ready(examples: ExampleHarness) -> None:
    examples.apply("jobs/parameter-server.yaml")
    await examples.until_running({})
    assert [pod["metadata"]["name"] for pod in examples.pods()] == ["mnist-ps-0"]
    examples.node("n1")
    await examples.until_running({"mnist": 4})
    for number in range(3):
        path = f"/api/v1/namespaces/default/pods/mnist-worker-{number}/status"
        examples.edit(path, {"status": {"phase": "Succeeded"}})
    await examples.until(lambda: _phase_of_job(examples) == "Completed")
    await examples.until_running({})


def _phase_of_job(examples: ExampleHarness) -> str:
    (job,) = examples.cluster.objects("jobs", "batch.volcano.sh")
    return str(job["status"]["state"]["phase"])


# --- TYJobs ------------------------------------------------------------------------------


@pytest.mark.parametrize("file", TYJOBS)
async def test_a_tyjob_is_called_as_its_file_and_runs_to_its_end(
    examples: ExampleHarness, file: str
) -> None:
    for number in range(3):
        examples.node(f"n{number}", cpu="4")
    examples.apply(f"tyjobs/{file}")
    name = file.removesuffix(".yaml")
    spec = yaml.safe_load((REPO / "examples/tyjobs" / file).read_text())["spec"]
    most = 1 + sum(workers["counts"] for workers in spec["workerSets"])
    seen: set[int] = set()

    def succeeded() -> bool:
        seen.add(examples.running().get(name, 0))
        (job,) = examples.cluster.objects("tyjobs", "arranger.io")
        return bool((job.get("status") or {}).get("stage") == "Succeeded")

    await examples.until(succeeded)
    assert max(seen) == most
