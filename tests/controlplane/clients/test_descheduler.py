"""The descheduler evicts beside us: gangs stay whole, budgets hold, and replacements are placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane.admin import until
from tests.controlplane.builds import published
from tests.controlplane.clients.descheduler import (
    DUPLICATES,
    MARK,
    MARKED,
    RESTARTED,
    deschedule,
    install,
)
from tests.controlplane.cluster import ClusterHarness, ContainerEndingKubelets
from tests.controlplane.harness import a_node

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("controlplane"),
]

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
VCJOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
#: What tests make, in the order in which it is taken away.
MADE = (
    "/apis/apps/v1/namespaces/default/deployments",
    VCJOBS,
    GROUPS,
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
)


class DescheduledHarness(ClusterHarness):
    """A cluster in which a test evicts by the descheduler."""

    async def pods(self, app: str) -> list[Object]:
        """The pods of something that do not leave."""
        items = (await self.plane.get(f"{PODS}?labelSelector=app={app}"))["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    async def running(self, app: str) -> dict[str, int]:
        """Node → how many pods of something run there."""
        pods = [p for p in await self.pods(app) if p["status"]["phase"] == "Running"]
        return dict(Counter(pod["spec"]["nodeName"] for pod in pods))

    async def until_running(self, app: str, **nodes: int) -> None:
        found: dict[str, int] = {}

        async def reached() -> bool:
            self.assert_alive()
            found.clear()
            found.update(await self.running(app))
            return found == nodes

        try:
            await until(reached)
        except TimeoutError:
            raise AssertionError(f"{app} runs on {found}\n{self.log_lines()[-4000:]}") from None

    async def until_waiting(self, app: str, count: int, why: str) -> None:
        """Until so many pods have no node, and all of them say why."""
        told: list[str] = []

        async def reached() -> bool:
            self.assert_alive()
            waiting = [p for p in await self.pods(app) if "nodeName" not in p["spec"]]
            told[:] = [_why(pod) for pod in waiting]
            return len(told) == count and all(why in each for each in told)

        try:
            await until(reached)
        except TimeoutError:
            raise AssertionError(f"{app} waits: {told}") from None

    async def mark(self, pods: list[Object]) -> None:
        """Make the descheduler evict them."""
        for pod in pods:
            change = {"metadata": {"labels": {MARK: "yes"}}}
            await self.plane.merge(f"{PODS}/{pod['metadata']['name']}", change)

    async def clear(self) -> None:
        """Take everything away; the scheduler must hold nothing of it."""
        for path in MADE:
            await self.plane.request("DELETE", f"{path}?propagationPolicy=Background")

        async def gone() -> bool:
            return not (await self.plane.get(PODS))["items"]

        try:
            await until(gone, what="the end of all pods")
        finally:
            await self.plane.request("DELETE", NODES)
        held = await self.scheduler.examined()
        assert (held["placed"], held["nominations"]) == (0, 0), held


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def at_work() -> AsyncIterator[DescheduledHarness]:
    published("descheduler")
    start = DescheduledHarness.start
    async with start([], served=[GROUPS, VCJOBS], kubelets=ContainerEndingKubelets) as harness:
        await install(harness.plane)
        yield harness


@pytest_asyncio.fixture(loop_scope="module")
async def harness(at_work: DescheduledHarness) -> AsyncIterator[DescheduledHarness]:
    """One node of four CPUs; the descheduler does nothing where there is no second node."""
    for name, cpu in {"n1": "4", "no-room": "0"}.items():
        await at_work.plane.post(NODES, a_node(name, cpu=cpu))
    yield at_work
    await at_work.clear()


async def test_replicas_that_crowd_one_node_are_spread_unless_a_budget_forbids(
    harness: DescheduledHarness,
) -> None:
    await harness.plane.apply([a_deployment("web", 4), a_budget("web", 4)])
    await harness.until_running("web", n1=4)
    await harness.plane.post(NODES, a_node("n2", cpu="4"))

    async def known() -> bool:
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web"
        return (await harness.plane.get(path)).get("status", {}).get("currentHealthy") == 4

    await until(known, what="the budget's word on four healthy pods")
    assert await deschedule(harness.plane, DUPLICATES) == 0
    assert await harness.running("web") == {"n1": 4}

    await harness.plane.request("DELETE", MADE[-1])
    assert await deschedule(harness.plane, DUPLICATES) == 2
    await harness.until_running("web", n1=2, n2=2)


async def test_a_pod_that_was_restarted_too_often_is_replaced(harness: DescheduledHarness) -> None:
    await harness.plane.apply([a_deployment("web", 2)])
    await harness.until_running("web", n1=2)
    bad, good = await harness.pods("web")
    (container,) = bad["status"]["containerStatuses"]
    often = {"status": {"containerStatuses": [{**container, "restartCount": 9}]}}
    await harness.plane.merge(f"{PODS}/{bad['metadata']['name']}/status", often)
    assert await deschedule(harness.plane, RESTARTED) == 1
    await harness.until_running("web", n1=2)
    left = _uids(await harness.pods("web"))
    assert _uids([good]) < left
    assert not _uids([bad]) & left


async def test_a_member_of_a_gang_is_replaced_by_itself(harness: DescheduledHarness) -> None:
    await harness.plane.apply(a_gang("gang", 4))
    await harness.until_running("gang", n1=4)
    before = await harness.pods("gang")
    await harness.mark(before[:1])
    assert await deschedule(harness.plane, MARKED) == 1
    await harness.until_running("gang", n1=4)
    assert len(_uids(before) & _uids(await harness.pods("gang"))) == 3


async def test_a_gang_that_is_evicted_comes_back_whole_or_not_at_all(
    harness: DescheduledHarness,
) -> None:
    await harness.plane.apply(a_gang("gang", 4))
    await harness.until_running("gang", n1=4)
    await harness.plane.merge(f"{NODES}/n1", {"spec": {"unschedulable": True}})
    await harness.mark(await harness.pods("gang"))
    assert await deschedule(harness.plane, MARKED) == 4
    await harness.until_waiting("gang", 4, "gang default/gang: 4 of 4 arrived")
    await harness.plane.post(NODES, a_node("n2", cpu="3"))
    await harness.until_waiting("gang", 4, "4 of 4 arrived, 3 placeable")
    await harness.plane.post(NODES, a_node("n3", cpu="1"))
    await harness.until_running("gang", n2=3, n3=1)


async def test_a_budget_keeps_a_gang_whole(harness: DescheduledHarness) -> None:
    await harness.plane.apply([*a_gang("gang", 2), a_budget("gang", 2)])
    await harness.until_running("gang", n1=2)
    before = await harness.pods("gang")
    await harness.mark(before)
    assert await deschedule(harness.plane, MARKED) == 0
    assert _uids(await harness.pods("gang")) == _uids(before)


async def test_a_volcano_job_restarts_whole_by_its_policy(harness: DescheduledHarness) -> None:
    await harness.plane.apply([a_volcano_job("job", 3)])
    await harness.until_running("job", n1=3)
    before = await harness.pods("job")
    await harness.mark(before[:1])
    assert await deschedule(harness.plane, MARKED) == 1

    async def made_anew() -> bool:
        pods = await harness.pods("job")
        return len(pods) == 3 and not _uids(before) & _uids(pods)

    await until(made_anew, what="three other pods")
    await harness.until_running("job", n1=3)
    status = (await harness.plane.get(f"{VCJOBS}/job"))["status"]
    assert (status["version"], status.get("retryCount", 0)) == (1, 0)


def a_deployment(name: str, replicas: int, **labels: str) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": _template({"app": name, **labels}),
        },
    }


def a_gang(name: str, size: int) -> list[Object]:
    """A Deployment, whose pods are made anew at once, and its PodGroup."""
    group = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size},
    }
    label = {"pod-group.scheduling.sigs.k8s.io": name}
    return [group, a_deployment(name, size, **label)]


def a_volcano_job(name: str, size: int) -> Object:
    """It is restarted when a pod is evicted."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "arranger",
            "minAvailable": size,
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "tasks": [{"name": "w", "replicas": size, "template": _template({"app": name})}],
        },
    }


def a_budget(name: str, least: int) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}},
    }


def _template(labels: Mapping[str, str]) -> Object:
    asked = {"requests": {"cpu": "1"}}
    container = {"name": "main", "image": "pause", "resources": asked}
    spec = {"schedulerName": "arranger", "containers": [container]}
    return {"metadata": {"labels": dict(labels)}, "spec": spec}


def _uids(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def _why(pod: Object) -> str:
    conditions = pod["status"].get("conditions") or []
    return " ".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled")
