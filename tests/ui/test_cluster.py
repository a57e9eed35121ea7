"""The pages on what people have: a cluster that is followed, and files."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import ClientSession, CookieJar

from arranger.api.types.core import Pod
from arranger.cli.cockpit import ClusterSource
from arranger.cli.shadow import read_surroundings
from arranger.cli.simulation.manifests import load_manifests
from arranger.daemon.config.schema import Config
from arranger.embedded.server import EmbeddedCluster
from arranger.shadow.live import LiveShadow
from arranger.ui.security import KeyGuard
from arranger.ui.server import Cockpit, serve
from arranger.ui.source import QuestionError, WhatIfForm
from tests.builders import Manifest
from tests.paths import REPO
from tests.simulation.shadow.refusing import Refusing
from tests.ui.park import a_node, a_pod, a_queue, in_queue

OBJECTS = [a_node("n1", "a"), a_queue("q"), in_queue(a_pod("waits", cpu="1000"), "q")]


@asynccontextmanager
async def followed(
    *more: Manifest, may_not_read: Sequence[str] = ()
) -> AsyncIterator[tuple[EmbeddedCluster, ClusterSource]]:
    cluster = EmbeddedCluster()
    load_manifests(cluster, [("a test", deepcopy(each)) for each in (*OBJECTS, *more)])
    transport = Refusing(cluster, *may_not_read)
    live = LiveShadow(transport, Config())
    task = asyncio.create_task(live.run())
    try:
        await live.until_read()
        yield cluster, ClusterSource(live, transport, Config(), "A cluster", read_surroundings)
    finally:
        task.cancel()
        await asyncio.wait({task})


def a_lease(holder: str, renewed: datetime) -> Manifest:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "arranger", "namespace": "arranger-system"},
        "spec": {"holderIdentity": holder, "renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}"},
    }


async def test_what_happens_in_the_cluster_is_told_and_shown() -> None:
    async with followed() as (cluster, source):
        version = source.version
        cluster.create(a_pod("newcomer", cpu="1"))
        assert await asyncio.wait_for(source.until_changed(version), 10) > version
        assert source.state.objects.get(Pod, "default/newcomer") is not None
        (answer,) = await source.why("pod/default/waits")
        assert answer.state == "Waiting"
        assert answer.node_reasons == [("Insufficient cpu (NodeResourcesFit)", 1)]


async def test_the_pages_are_those_of_the_cluster() -> None:
    shown = {"": "A cluster", "queue?name=q": "default/waits", "nodes": "n1"}
    async with (
        followed() as (_, source),
        serve(Cockpit(source, KeyGuard("k")), "127.0.0.1", 0) as port,
        ClientSession(cookies={"arranger-ui": "k"}) as ask,
    ):
        for path, text in shown.items():
            async with ask.get(f"http://127.0.0.1:{port}/{path}") as answer:
                assert answer.status == 200
                assert text in await answer.text()


async def test_what_may_not_be_read_is_told_on_the_first_page() -> None:
    async with (
        followed(may_not_read=["/api/v1/services"]) as (_, source),
        serve(Cockpit(source, KeyGuard("k")), "127.0.0.1", 0) as port,
        ClientSession(cookies={"arranger-ui": "k"}) as ask,
        ask.get(f"http://127.0.0.1:{port}/") as answer,
    ):
        shown = await answer.text()
    assert "What could not be read" in shown
    assert "services" in shown


async def test_who_leads_is_told_with_when_it_said_so_last() -> None:
    renewed = datetime.now(UTC) - timedelta(seconds=90)
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "arranger-system"}}
    async with followed(system, a_lease("arranger-x", renewed)) as (_, source):
        (leader, text), (server, _) = await source.health()
    assert (leader, server) == ("leader", "API server")
    assert re.fullmatch(r"arranger-x leads, said 9\d s ago in Lease arranger-system/arranger", text)


async def test_without_a_lease_nobody_leads() -> None:
    async with followed() as (_, source):
        _, text = (await source.health())[0]
    assert text == "nobody has led yet: there is no Lease arranger-system/arranger"


async def test_what_is_typed_into_the_form_is_made_as_the_cluster_would_make_it() -> None:
    deployment = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: arranger
      containers: [{name: web, image: web, resources: {requests: {cpu: "1"}}}]
"""
    async with followed() as (_, source):
        told = await source.what_if(WhatIfForm(manifests=deployment))
    assert told.changes == ["what you gave"]
    assert list(told.placed.values()) == ["n1", "n1"]
    assert all(re.fullmatch(r"default/web-[a-z0-9]+-[a-z0-9]+", pod) for pod in told.placed)


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        (WhatIfForm(), "Fill in a change."),
        (WhatIfForm(manifests="kind: ["), "what is to be created, document 1"),
        (WhatIfForm(manifests="- 1"), "what is to be created, document 1: not a Kubernetes object"),
        (WhatIfForm(delete="x"), "--delete x: not KIND/NAME"),
        (WhatIfForm(cordon="n1 gone"), "there is no node gone"),
        (WhatIfForm(add_nodes="9999999xn1"), "--add-nodes 9999999xn1: not NxNODE"),
        (WhatIfForm(queues="q.weight=cpu=1"), "one of capability"),
        (WhatIfForm(queues="q.capability=cpu=much"), "much"),
    ],
)
async def test_a_form_that_makes_no_sense_is_answered_with_why(
    form: WhatIfForm, problem: str
) -> None:
    async with followed() as (_, source):
        with pytest.raises(QuestionError, match=re.escape(problem)):
            await source.what_if(form)


async def test_the_command_serves_files_and_prints_where() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "arranger.cli.main", "ui", "--port", "0"),
        *("--snapshot", str(REPO / "examples" / "demo")),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+/\?key=\S+", line)
        assert address is not None, line
        jar = CookieJar(unsafe=True)
        async with ClientSession(cookie_jar=jar) as ask, ask.get(address[0]) as answer:
            assert "too-big" in await answer.text()
    finally:
        process.terminate()
        await process.communicate()


async def test_files_are_not_shown_to_other_machines() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "arranger.cli.main", "ui", "--bind-address", "0.0.0.0"),
        *("--snapshot", str(REPO / "examples" / "demo")),
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    assert b"files are shown on a loopback address only" in errors
