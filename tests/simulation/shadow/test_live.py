"""A shadow that follows a cluster: it answers as a new one would, and says what it cannot see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from arranger.api.types.core import Pod
from arranger.cli.simulation.manifests import load_manifests
from arranger.daemon.config.schema import Config
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.virtual_time import run_virtual, virtual_now
from arranger.kube.client.transport import Request
from arranger.shadow import Present, Why
from arranger.shadow.inputs.listing import UnreadableError
from arranger.shadow.live import LiveShadow
from tests.builders import a_node, a_pod
from tests.queueing import a_queue_manifest
from tests.simulation.shadow.refusing import Refusing

OLD = "/api/v1/namespaces/default/pods/old"


@asynccontextmanager
async def following(cluster: EmbeddedCluster, *refused: str) -> AsyncIterator[LiveShadow]:
    live = LiveShadow(Refusing(cluster, *refused), Config(), calendar=virtual_now)
    task = asyncio.create_task(live.run())
    try:
        yield live
    finally:
        task.cancel()
        await asyncio.wait({task})


def a_cluster() -> EmbeddedCluster:
    """A full node and one who waits."""
    cluster = EmbeddedCluster(now=virtual_now)
    manifests = [
        a_node("n1").offers(cpu=4, pods=20).manifest(),
        a_pod("old").needs(cpu=4).on("n1").in_phase("Running").manifest(),
        a_pod("new").needs(cpu=2).manifest(),
        a_queue_manifest("q"),
    ]
    load_manifests(cluster, [("world", each) for each in manifests])
    return cluster


def test_answers_follow_the_cluster() -> None:
    async def play() -> None:
        cluster = a_cluster()
        async with following(cluster) as live:
            await live.until_read()
            version = live.version
            (answer,) = live.shadow.ask_now(Why("new", thorough=True))
            assert answer.nearest == [("n1", "lacks cpu 2000m")]
            cluster.handle(Request("DELETE", OLD, {"gracePeriodSeconds": "0"}))
            assert await live.until_changed(version) != version
            await asyncio.sleep(1.0)
            assert live.shadow.objects.get(Pod, "default/old") is None
            assert live.shadow.ask_now(Present()).nodes == {"default/new": "n1"}
            live.shadow.engine.check_consistent()

    run_virtual(play())


def test_a_question_changes_nothing() -> None:
    async def play() -> None:
        cluster = a_cluster()
        async with following(cluster) as live:
            await live.until_read()
            first = live.shadow.ask_now(Why("new", thorough=True))
            assert first[0].suggestions
            assert live.shadow.ask_now(Why("new", thorough=True)) == first
            assert len(live.shadow.engine.cluster) == 1

    run_virtual(play())


def test_what_may_not_be_read_is_said_and_the_rest_is_answered() -> None:
    async def play() -> None:
        services = "/api/v1/services"
        async with following(a_cluster(), services) as live:
            await live.until_read()
            assert [line for line in live.unread if "services" in line]
            assert live.shadow.ask_now(Why("new", thorough=True))

    run_virtual(play())


def test_an_object_that_cannot_be_read_is_said() -> None:
    async def play() -> None:
        cluster = a_cluster()
        async with following(cluster) as live:
            await live.until_read()
            assert live.unread == []
            cluster.create(a_node("odd").offers(cpu="many").manifest())
            await live.until_changed(live.version)
            await asyncio.sleep(1.0)
            (line,) = live.unread
            assert line.startswith("Node odd: it cannot be read")

    run_virtual(play())


@pytest.mark.parametrize("path", ["/api/v1/pods", "/api/v1/nodes"])
def test_without_pods_or_nodes_there_is_no_answer(path: str) -> None:
    async def play() -> None:
        async with following(a_cluster(), path) as live:
            with pytest.raises(UnreadableError):
                await live.until_read()

    run_virtual(play())


def test_what_questions_need_counted_is_counted_before_the_first_of_them() -> None:
    async def scenario() -> None:
        cluster = a_cluster()
        async with following(cluster) as live:
            await live.until_read()
            ledger = live.shadow.engine.ledger
            counted = ledger.version, ledger.charges_version
            assert min(counted) > 0
            live.shadow.ask_now(Present())
            assert (ledger.version, ledger.charges_version) == counted

    run_virtual(scenario())
