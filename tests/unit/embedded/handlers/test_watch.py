"""Watches in virtual time: bookmarks, ends, and readers that are too slow."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from arranger.embedded.handlers import watch as handler
from arranger.embedded.handlers.watch import Watch
from arranger.embedded.server import EmbeddedCluster

pytestmark = pytest.mark.looptime(noop_cycles=0)

Object = dict[str, Any]
NODES = "/api/v1/nodes"
EVENTS = "/apis/events.k8s.io/v1/events"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster(rng=random.Random(1))


def add(cluster: EmbeddedCluster, *names: str) -> None:
    for name in names:
        cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})


async def rest(watch: Watch) -> list[tuple[str, str]]:
    """Type and name of every event until the watch ends; marks have a version for a name."""
    events = [json.loads(line) async for line in watch.lines()]
    return [
        (
            e["type"],
            e["object"]["metadata"].get("name") or e["object"]["metadata"]["resourceVersion"],
        )
        for e in events
    ]


async def test_bookmarks_come_once_a_minute_where_they_are_wanted(cluster: EmbeddedCluster) -> None:
    query = {"allowWatchBookmarks": "true", "timeoutSeconds": "150"}
    watch = cluster.watch(NODES, query)
    version = str(cluster.store.version)
    assert await rest(watch) == [("BOOKMARK", version)] * 2
    assert asyncio.get_running_loop().time() == 150


async def test_a_bookmark_tells_what_happened_elsewhere(cluster: EmbeddedCluster) -> None:
    watch = cluster.watch(NODES, {"allowWatchBookmarks": "1", "timeoutSeconds": "70"})
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
    assert await rest(watch) == [("BOOKMARK", str(cluster.store.version))]


async def test_without_bookmarks_nothing_comes(cluster: EmbeddedCluster) -> None:
    assert await rest(cluster.watch(NODES, {"timeoutSeconds": "1000"})) == []
    assert asyncio.get_running_loop().time() == 1000


async def test_a_closed_watch_shows_what_it_had_and_ends(cluster: EmbeddedCluster) -> None:
    watch = cluster.watch(NODES, {})
    add(cluster, "a")
    watch.close()
    add(cluster, "b")
    assert await rest(watch) == [("ADDED", "a")]


async def test_a_reader_that_lags_too_far_behind_is_cut_off(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "MAX_BUFFERED_EVENTS", 2)
    watch = cluster.watch(NODES, {})
    add(cluster, "a", "b", "c", "d")
    assert await rest(watch) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


@pytest.mark.parametrize(
    ("back", "events"),
    {
        "just remembered": (0, ["ADDED"]),
        "just forgotten": (1, ["ERROR"]),
    }.values(),
    ids=["just remembered", "just forgotten"],
)
async def test_a_watch_from_a_version(
    cluster: EmbeddedCluster, back: int, events: list[str]
) -> None:
    cluster.store.compact()
    version = cluster.store.compacted - back
    add(cluster, "a")
    query = {"resourceVersion": str(version), "timeoutSeconds": "1"}
    seen = [json.loads(line) async for line in cluster.watch(NODES, query).lines()]
    assert [event["type"] for event in seen] == events
    if events == ["ERROR"]:
        assert (seen[0]["object"]["code"], seen[0]["object"]["reason"]) == (410, "Expired")


async def test_a_stopped_reader_leaves_nothing_behind(cluster: EmbeddedCluster) -> None:
    watch = cluster.watch(NODES, {})
    reader = asyncio.create_task(rest(watch))
    await asyncio.sleep(1)
    reader.cancel()
    await asyncio.wait({reader})
    add(cluster, "a")
    assert await rest(watch) == []


async def test_marks_of_tables_and_views_have_their_form(cluster: EmbeddedCluster) -> None:
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "1",
    }
    for path, accept, kind in (
        (NODES, TABLE, "Table"),
        (EVENTS, TABLE, "Table"),
        ("/api/v1/events", "application/json", "Event"),
    ):
        [line] = [line async for line in cluster.watch(path, query, accept).lines()]
        event = json.loads(line)
        assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", kind)
        mark = event["object"]["rows"][0]["object"] if kind == "Table" else event["object"]
        assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_from_a_version_that_is_forgotten_takes_nothing_in(
    cluster: EmbeddedCluster,
) -> None:
    cluster.store.compact()
    watch = cluster.watch(NODES, {"resourceVersion": "1"})
    add(cluster, "a")
    assert [json.loads(line)["type"] async for line in watch.lines()] == ["ERROR"]


async def test_all_watches_have_their_bookmarks_at_the_same_moments(
    cluster: EmbeddedCluster,
) -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def follow(after: float) -> None:
        await asyncio.sleep(after)
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": "100"}
        async for line in cluster.watch(NODES, query).lines():
            assert json.loads(line)["type"] == "BOOKMARK"
            times.append(loop.time())

    await asyncio.gather(follow(0), follow(25), follow(59))
    assert times == [60, 60, 60, 120, 120]
