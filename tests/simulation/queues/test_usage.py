"""What queues have used is kept in a ConfigMap, by the whole scheduler, in virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from arranger.daemon.config.schema import QueueConfig
from tests.builders import a_node, a_pod
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.queues import CONFIG, QueueHarness
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME

USAGE = CONFIG.model_copy(update={"queues": QueueConfig(usage_half_life_seconds=86400)})


@pytest.fixture
def sim() -> QueueHarness:
    """A simulation with queues."""
    sim = QueueHarness()
    sim.create(a_node("n1").offers(cpu=8))
    sim.cluster.create(a_queue_manifest("q"))
    sim.create(a_pod("p").needs(cpu=2).in_queue("q"))
    return sim


def config_map(sim: QueueHarness, **data: str) -> None:
    meta = {"name": "arranger-usage", "namespace": "kube-system"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    sim.cluster.create({**body, "data": data} if data else body)


def recorded(sim: QueueHarness) -> dict[str, Any]:
    [found] = sim.cluster.objects("configmaps")
    return dict(json.loads(found["data"]["usage.json"]))


def cpu(sim: QueueHarness, name: str = "one") -> float:
    """What the queue has used on average, in thousandths."""
    return sim.schedulers[name].engine.usage.means().get("q", {}).get("cpu", 0.0)


async def test_a_restart_goes_on_from_the_record(sim: QueueHarness) -> None:
    config_map(sim)
    async with sim.scheduler("one", config=USAGE), sim.kubelets():
        await asyncio.sleep(6 * 3600)
        before = cpu(sim)
        assert before == pytest.approx(2000 * (1 - 0.5**0.25), rel=0.02)
    async with sim.scheduler("two", config=USAGE), sim.kubelets():
        await asyncio.sleep(10)
        assert cpu(sim, "two") == pytest.approx(before, rel=0.02)
        await asyncio.sleep(3600)
        assert cpu(sim, "two") == pytest.approx(2000 * (1 - 0.5 ** (7 / 24)), rel=0.02)
    sums = recorded(sim)["queues"]["q"]["cpu"]
    assert sums == pytest.approx(cpu(sim, "two") * 86400 / 0.6931, rel=0.02)
    sim.check()


async def test_without_a_config_map_it_is_counted_and_not_kept(sim: QueueHarness) -> None:
    async with sim.scheduler("one", config=USAGE), sim.kubelets():
        await asyncio.sleep(3600)
        assert cpu(sim) > 0
    assert sim.cluster.objects("configmaps") == []
    sim.check()


async def test_what_somebody_else_wrote_there_is_forgotten(sim: QueueHarness) -> None:
    config_map(sim, **{"usage.json": '{"at": "9999-12-31T23:59:59Z", "queues": {"q": 1}}'})
    async with sim.scheduler("one", config=USAGE), sim.kubelets():
        await asyncio.sleep(600)
        assert 0 < cpu(sim) < 100
        assert recorded(sim)["halfLifeSeconds"] == 86400
        reasons = {e["reason"] for e in sim.cluster.objects("events", "events.k8s.io")}
        assert "InvalidUsage" in reasons
    sim.check()


async def test_where_nothing_is_said_nothing_is_asked_or_written(sim: QueueHarness) -> None:
    config_map(sim)
    async with sim.scheduler("one"), sim.kubelets():
        await asyncio.sleep(3600)
    assert not any("configmaps" in path for _, _, path, _ in sim.faults.asked)
    sim.check()
