"""The pods of a gang by owner are one job to JobAffinity, whatever controls each of them."""

from __future__ import annotations

import pytest

from arranger.api.annotations import GANG_BY_OWNER, GANG_MIN, PLACEMENT
from tests.builders import PodBuilder, a_node
from tests.builders.workloads import a_job_set, an_owner, job_set_pods, lws_pods
from tests.unit.engine.gang.test_workloads import WorkloadEngine
from tests.unit.engine.harness import placements

#: Two Jobs of four pods, of which any number may start.
ON = a_job_set(workers=(2, 4)).annotated({GANG_MIN: "1"})
OFF = ON.annotated({GANG_BY_OWNER: "false"})
PODS = [pod.needs(cpu=1) for pod in job_set_pods(ON, "workers", 2, 4)]


def two_nodes() -> WorkloadEngine:
    engine = WorkloadEngine()
    engine.observe(*(a_node(name).offers(cpu=90) for name in ("many", "few")))
    engine.run()
    return engine


def asking(pod: PodBuilder, policy: str = "JobAffinity") -> PodBuilder:
    return pod.annotated({PLACEMENT: policy})


def placed(engine: WorkloadEngine, pod: PodBuilder) -> str:
    engine.observe(pod)
    effects = engine.run()
    engine.settle_all(effects)
    engine.engine.check_consistent()
    [(_, node)] = placements(effects)
    return node


HISTORIES = {
    "the JobSet is a gang": (["on", "on"], ["many", "many"]),
    "it is none: each of its Jobs is a job": (["off", "off"], ["few", "few"]),
    "it is a gang no more": (["on", "off"], ["many", "few"]),
    "it has become a gang": (["off", "on"], ["few", "many"]),
}


@pytest.mark.parametrize("owner_last", [False, True])
@pytest.mark.parametrize("name", HISTORIES)
def test_the_job_of_a_pod_follows_what_its_owner_says(name: str, owner_last: bool) -> None:
    """All of one Job are on a node, and two of the other one elsewhere; two more are to come."""
    states, expected = HISTORIES[name]
    engine = two_nodes()
    if not owner_last:
        engine.see(ON if states[0] == "on" else OFF)
    engine.observe(*(pod.on("many") for pod in PODS[:4]), *(pod.on("few") for pod in PODS[4:6]))
    engine.run()
    found = []
    for pod, state in zip(PODS[6:], states, strict=True):
        engine.see(ON if state == "on" else OFF)
        found.append(placed(engine, asking(pod)))
    assert found == expected


@pytest.mark.parametrize(("policy", "node"), [("JobAffinity", "few"), ("JobAntiAffinity", "many")])
def test_the_groups_of_a_leader_worker_set_are_jobs_of_their_own(policy: str, node: str) -> None:
    """Their leaders have one controller, and a leader and its workers have two."""
    owner = an_owner("LeaderWorkerSet", "lws", replicas=4, leaderWorkerTemplate={"size": 3})
    engine = two_nodes()
    engine.see(owner)
    leaders = [lws_pods(owner, group, 1)[0] for group in range(1, 4)]
    leader, *workers = lws_pods(owner, 0, 3)
    engine.observe(*(pod.on("many") for pod in leaders), *(pod.on("few") for pod in workers))
    engine.run()
    assert placed(engine, asking(leader, policy)) == node


def test_a_pod_on_a_node_that_names_another_gang_counts_there() -> None:
    engine = two_nodes()
    pods = [pod.in_namespace("default") for pod in PODS]
    engine.observe(*(pod.in_gang("a", 1).on("many") for pod in pods[:3]))
    engine.observe(*(pod.in_gang("b", 1).on("few") for pod in pods[3:4]))
    engine.run()
    assert placed(engine, asking(pods[4].in_gang("b", 1))) == "few"
    engine.observe(*(pod.in_gang("b", 1).on("many") for pod in pods[:3]))
    engine.run()
    assert placed(engine, asking(pods[5].in_gang("b", 1))) == "many"
