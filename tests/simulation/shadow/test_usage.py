"""What queues have used over time counts for a shadow's turns as it does for the scheduler's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from arranger.api.settings.usage_record import USAGE_KEY, UsageRecord, format_usage
from arranger.cli.shadow import from_files
from arranger.cli.simulation.manifests import load_manifests
from arranger.daemon.config.schema import Config, QueueConfig
from arranger.daemon.usage import usage_path
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.storage.store import Store
from arranger.embedded.virtual_time import run_virtual, virtual_now
from arranger.shadow import Present
from arranger.shadow.live import LiveShadow
from tests.builders import a_node, a_pod
from tests.queueing import a_queue_manifest
from tests.simulation.shadow.refusing import Refusing

DAY = 86_400.0
CONFIG = Config().model_copy(update={"queues": QueueConfig(usage_half_life_seconds=DAY)})
PATH = usage_path(CONFIG)


def a_cluster(*used: str) -> EmbeddedCluster:
    """Two queues with one pod each, room for one of them; these queues have used much."""
    cluster = EmbeddedCluster(now=virtual_now)
    manifests = [
        a_node("n1").offers(cpu=2, pods=20).manifest(),
        a_queue_manifest("a"),
        a_queue_manifest("b"),
        a_pod("of-a").needs(cpu=2).in_queue("a").manifest(),
        a_pod("of-b").needs(cpu=2).in_queue("b").manifest(),
    ]
    load_manifests(cluster, [("world", each) for each in manifests])
    _record(cluster, *used)
    return cluster


@pytest.mark.parametrize(
    ("left_out", "config", "first", "said"),
    [
        ("", CONFIG, "default/of-b", ""),
        ("ConfigMap", CONFIG, "default/of-a", "it is not in the files"),
        ("ConfigMap", Config(), "default/of-a", ""),
    ],
    ids=["it is among the files", "it is not", "it does not count"],
)
def test_files_may_hold_the_record(
    left_out: str, config: Config, first: str, said: str, tmp_path: Path
) -> None:
    store = run_virtual(_stored("a"))
    items = [obj for of in store.resources() for obj in store.items(of) if obj["kind"] != left_out]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    shadow = from_files([path], config).shadow
    assert set(shadow.ask_now(Present()).nodes) == {first}
    assert said in "\n".join(shadow.unread)
    assert bool(shadow.unread) == bool(said)


async def _stored(used: str) -> Store:
    return a_cluster(used).store


def _record(cluster: EmbeddedCluster, *used: str) -> None:
    sums = {queue: {"cpu": 2000.0 * DAY} for queue in used}
    record = UsageRecord(virtual_now().timestamp(), DAY, sums)
    election = CONFIG.leader_election
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": election.resource_namespace},
    }
    cluster.create(space)
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{election.resource_name}-usage",
                "namespace": election.resource_namespace,
            },
            "data": {USAGE_KEY: format_usage(record)},
        }
    )


async def placed(used: Sequence[str], config: Config, *refused: str) -> tuple[set[str], str]:
    """Who is placed, and what could not be read."""
    cluster = a_cluster(*used)
    live = LiveShadow(Refusing(cluster, *refused), config, calendar=virtual_now)
    task = asyncio.create_task(live.run())
    try:
        await live.until_read()
        first = live.shadow.ask_now(Present())
        again = live.shadow.ask_now(Present())
        assert first == again
        return set(first.nodes), "\n".join(live.unread)
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize(
    ("used", "config", "first"),
    [
        (("a",), CONFIG, "default/of-b"),
        (("b",), CONFIG, "default/of-a"),
        ((), CONFIG, "default/of-a"),
        (("a",), Config(), "default/of-a"),
    ],
    ids=["a has used much", "b has", "nobody has", "it does not count"],
)
def test_who_has_used_much_comes_later(used: tuple[str, ...], config: Config, first: str) -> None:
    assert run_virtual(placed(used, config)) == ({first}, "")


def test_where_it_may_not_be_read_that_is_said_and_all_else_is_answered() -> None:
    told, unread = run_virtual(placed(["a"], CONFIG, PATH))
    assert told == {"default/of-a"}
    assert PATH in unread
    assert "does not count for their turns here" in unread
