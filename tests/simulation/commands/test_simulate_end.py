"""A simulation ends, whatever is simulated, and its last line says why."""

from __future__ import annotations

import copy
import os
import random
from pathlib import Path
from typing import Any

import pytest

from arranger.cli.simulation.ending import EndReason
from arranger.cli.simulation.manifests import read_manifests
from arranger.cli.simulation.result import SimulationResult
from arranger.cli.simulation.simulate import simulate
from arranger.daemon.config.schema import Config
from arranger.embedded.server import EmbeddedCluster
from tests.simulation.commands.test_simulate_workloads import NODE, POD_SPEC, a_workload
from tests.simulation.commands.test_simulate_workloads import simulate as run_command

Object = dict[str, Any]

CARDS = ["A100", "T4"]
#: Random worlds; more of them with ARRANGER_WORLDS=1000.
WORLDS = int(os.environ.get("ARRANGER_WORLDS", "40"))
#: Requests that a world may cost its server for each write that it is allowed.
REQUESTS_PER_WRITE = 3
WRITES = 10_000


def a_pod(name: str, *, spec: Object | None = None, **annotations: str) -> Object:
    notes = {key.replace("__", "/").replace("_", "-"): v for key, v in annotations.items()}
    meta = {"name": name, "annotations": notes}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {**POD_SPEC, **(spec or {})},
    }


def run(*objects: Object, **options: Any) -> SimulationResult:
    return simulate([(f"object {n}", o) for n, o in enumerate(objects)], Config(), **options)


def looping(kind: str = "Deployment", *, seconds: str = "0", **spec: Any) -> Object:
    """A workload whose pods end as soon as they have started."""
    workload = a_workload(kind, **spec)
    notes = {"arranger.io/run-seconds": seconds, "arranger.io/exit-code": "1"}
    workload["spec"]["template"]["metadata"]["annotations"] = notes
    return workload


def test_everything_is_placed() -> None:
    found = run(NODE, a_pod("p"))
    assert (found.end_reason, found.end) == ("Standstill", "ended: every pod has been placed")


def test_pods_that_run_for_ever_end_nothing_and_hold_nothing_up() -> None:
    found = run(NODE, *(a_pod(f"p{n}") for n in range(12)))
    assert found.end_reason == "Standstill"
    assert found.end is not None
    assert found.end.endswith("and 4 pods wait")


def test_a_pod_that_runs_long_is_waited_for() -> None:
    long = {"arranger.io__run_seconds": "100000"}
    big = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 5}}}]}
    found = run(NODE, a_pod("first", spec=big, **long), a_pod("then", spec=big))
    assert found.end == "ended: every pod has been placed"
    assert 100_000 <= found.virtual_seconds < 100_100


def test_the_bound_on_time_says_what_still_moves() -> None:
    found = run(NODE, looping(), max_seconds=7200.0)
    assert found.end_reason == "TimeLimit"
    assert found.end is not None
    assert found.end.startswith("stopped at the bound of 2h (--for)")
    assert "what still moved: ReplicaSet default/deployment-" in found.end


def test_the_bound_on_time_with_pods_that_only_run() -> None:
    long = {"arranger.io__run_seconds": "1000000"}
    found = run(NODE, a_pod("p", **long), max_seconds=86_400.0)
    expected = "stopped at the bound of 24h (--for), no pod waits; some pods would have run longer"
    assert found.end == expected


def test_what_never_stops_moving_is_stopped_by_what_it_writes() -> None:
    found = run(NODE, looping(replicas=3), looping("StatefulSet", seconds="1"))
    assert found.end_reason == "WriteLimit"
    assert found.end is not None
    assert "too many writes without an end" in found.end
    assert "ReplicaSet default/deployment-" in found.end


def test_a_pod_that_waits_for_a_config_map_for_ever() -> None:
    reference = {"configMapKeyRef": {"name": "none", "key": "k"}}
    container = {"name": "c", "image": "i", "env": [{"name": "A", "valueFrom": reference}]}
    found = run(NODE, a_pod("p", spec={"containers": [container]}))
    assert found.end == "ended: every pod has been placed"
    assert [p["phase"] for p in found.placements] == ["Pending"]


def test_a_pod_that_lacks_quota_of_both_of_its_cards() -> None:
    quota = {"volcano.sh/card.quota": '{"A100": 0, "T4": 0}'}
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "q", "annotations": quota},
        "spec": {},
    }
    nodes = [_card_node(f"n{n}", card, 4) for n, card in enumerate(CARDS)]
    either = {"volcano.sh__card.name": "A100|T4", "scheduling.volcano.sh__queue_name": "q"}
    pod = a_pod("p", spec=_wants(1), **either)
    found = run(queue, *nodes, pod)
    assert found.end_reason == "Standstill"
    assert [p["pod"] for p in found.pending] == ["default/p"]


def test_the_bound_can_be_given(tmp_path: Path) -> None:
    code, output = run_command(tmp_path, NODE, looping(), options=("--max-time", "1.5h"))
    assert code == 0, output
    assert output.splitlines()[-1].startswith("stopped at the bound of 90m (--for), ")


@pytest.mark.parametrize("odd", ["", "soon", "5", "0s", "-1h", "1w", "1e9d", "99999999999d"])
def test_a_bound_that_is_none_is_refused(tmp_path: Path, odd: str) -> None:
    code, output = run_command(tmp_path, NODE, options=("--max-time", odd))
    assert code == 2
    assert "is no span of time such as 90s, 12h or 30d" in output


# --- random worlds -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_random_world_ends_in_so_many_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(random.Random(seed))
    requests = 0
    handle = EmbeddedCluster.handle

    def count(self: EmbeddedCluster, request: Any) -> Any:
        nonlocal requests
        requests += 1
        return handle(self, request)

    monkeypatch.setattr(EmbeddedCluster, "handle", count)
    found = run(*world, seed=seed, max_seconds=10_000.0)
    assert found.end is not None
    assert found.end_reason in set(EndReason)
    assert found.virtual_seconds <= 10_000.0
    asked = sum(o["spec"].get("replicas", 1) for o in world if o["kind"] == "Deployment")
    allowed = WRITES + 100 * (2 * len(world) + asked + 50)
    assert requests <= REQUESTS_PER_WRITE * allowed, found.end


def a_world(rng: random.Random) -> list[Object]:
    """Nodes with cards, queues, and pods and workloads that want more than there is."""
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in (("low", 1), ("high", 1000))
    ]
    nodes = [
        _card_node(f"n{n}", rng.choice(CARDS), rng.randint(1, 4)) for n in range(rng.randint(1, 3))
    ]
    queues = [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {
                "name": f"q{n}",
                "annotations": {"volcano.sh/card.quota": f'{{"A100": {rng.randint(0, 3)}}}'},
            },
            "spec": {"priority": rng.choice([1, 9]), "reclaimable": rng.random() < 0.7},
        }
        for n in range(rng.randint(0, 2))
    ]
    works = [_work(rng, f"w{n}", len(queues)) for n in range(rng.randint(1, 6))]
    return [*classes, *nodes, *queues, *works]


def _work(rng: random.Random, name: str, queues: int) -> Object:
    spec = {**_wants(rng.randint(0, 2)), "priorityClassName": rng.choice(["low", "high"])}
    notes = {"volcano.sh/card.name": rng.choice(["A100", "T4", "A100|T4", "T4|A100", "|"])}
    if queues:
        notes["scheduling.volcano.sh/queue-name"] = f"q{rng.randrange(queues)}"
    if rng.random() < 0.6:
        notes["arranger.io/run-seconds"] = rng.choice(["0", "1", "30", "4000"])
        notes["arranger.io/exit-code"] = rng.choice(["0", "1"])
    if rng.random() < 0.3:
        notes["gang.scheduling.koordinator.sh/name"] = rng.choice(["g", name])
        notes["gang.scheduling.koordinator.sh/min-available"] = rng.choice(["1", "2", "9"])
        notes["gang.scheduling.koordinator.sh/mode"] = rng.choice(["Strict", "NonStrict"])
        notes["gang.scheduling.koordinator.sh/waiting-time"] = rng.choice(["5s", "10m"])
    kind = rng.choice(["Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"])
    if kind == "Pod":
        pod = a_pod(name, spec=spec)
        pod["metadata"]["annotations"] = notes
        return pod
    workload = a_workload("Job" if kind == "CronJob" else kind)
    template = copy.deepcopy(workload["spec"]["template"])
    template["metadata"]["annotations"] = notes
    template["spec"] |= spec
    workload["spec"]["template"] = template
    workload["metadata"]["name"] = name
    if kind in ("Deployment", "StatefulSet"):
        workload["spec"]["replicas"] = rng.randint(0, 4)
    if kind == "Job":
        workload["spec"] |= {"completions": rng.randint(1, 4), "parallelism": rng.randint(1, 3)}
    if kind == "CronJob":
        job = workload["spec"]
        workload["kind"] = kind
        workload["spec"] = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    return workload


def _wants(cards: int) -> Object:
    amounts = {"cpu": "1", **({"nvidia.com/gpu": str(cards)} if cards else {})}
    resources = {"requests": amounts, "limits": amounts}
    return {"containers": [{"name": "c", "image": "i", "resources": resources}]}


def _card_node(name: str, card: str, count: int) -> Object:
    labels = {"nvidia.com/gpu.product": card, "nvidia.com/gpu.count": str(count)}
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": str(count)}
    return {**NODE, "metadata": {"name": name, "labels": labels}, "status": {"capacity": capacity}}


def test_the_worlds_are_as_various_as_they_should_be() -> None:
    kinds = {obj["kind"] for seed in range(30) for obj in a_world(random.Random(seed))}
    assert kinds >= {"Queue", "Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"}


def test_manifests_are_read_in_the_order_in_which_they_are_needed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {}}')
    (tmp_path / "b.json").write_text('{"apiVersion": "v1", "kind": "Namespace", "metadata": {}}')
    assert [obj["kind"] for _, obj in read_manifests([tmp_path])] == ["Namespace", "Pod"]


@pytest.mark.parametrize(
    ("goal", "code", "last"),
    [
        ("pod/p=Running", 0, "what --until waits for was reached"),
        ("pod/p=Runing", 1, "every pod has been placed; pod/p=Runing (--until) was not reached"),
        ("pod/q=Running", 1, "every pod has been placed; pod/q=Running (--until) was not reached"),
        ("placed", 0, "what --until waits for was reached"),
    ],
)
def test_a_goal_that_is_not_reached_is_said_and_ends_with_1(
    tmp_path: Path, goal: str, code: int, last: str
) -> None:
    found, output = run_command(tmp_path, NODE, a_pod("p"), options=("--until", goal))
    assert found == code, output
    assert output.splitlines()[-1].startswith(f"ended: {last}")


def test_that_all_are_placed_needs_nobody_who_waits(tmp_path: Path) -> None:
    code, output = run_command(tmp_path, NODE, options=("--until", "placed"))
    assert (code, output.splitlines()[-1]) == (0, "ended: there were no pods")


def test_pods_that_have_come_and_gone() -> None:
    job = a_workload("Job", ttlSecondsAfterFinished=10)
    notes = {"arranger.io/run-seconds": "5"}
    job["spec"]["template"]["metadata"]["annotations"] = notes
    found = run(NODE, job)
    assert (found.gone, found.end) == (1, "ended: every pod has come and gone")


def test_a_job_that_has_failed_is_named(tmp_path: Path) -> None:
    job = looping("Job", backoffLimit=0)
    code, output = run_command(tmp_path, NODE, job)
    assert code == 0, output
    assert "1 pod placed (1 ended), 0 waiting" in output
    assert "failed: Job default/job: BackoffLimitExceeded" in output
