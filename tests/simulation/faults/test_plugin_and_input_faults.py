"""Faults of the fault matrix from within: F14 plugins gone mad, F15 odd or huge input."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arranger.daemon.config.schema import Config, EnabledPlugin, PluginSet, ProfileConfig
from tests.builders import a_node, a_pod
from tests.faults.injector import BINDINGS, EVENTS, LEASES, STATUSES, for_object
from tests.faults.kinds import Delay, Reply
from tests.faults.matchers import RequestMatcher
from tests.simulation.harnesses.simulation import (
    CONFIG,
    VIRTUAL_TIME,
    SimulationHarness,
    block_event_loop,
)

pytestmark = VIRTUAL_TIME


# --- F14: plugins ------------------------------------------------------------------------------


def plugged(path: Path, body: str) -> Config:
    """The configuration with a plugin of this ``filter_node``."""
    file = path / "odd.py"
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    file.write_text(
        "import asyncio\n"
        "from arranger.framework import Plugin\n"
        "class Odd(Plugin):\n"
        "    def filter_node(self, state, pod, node):\n"
        f"{lines}\n"
    )
    profile = ProfileConfig(plugins=PluginSet(enabled=[EnabledPlugin(name="Odd")]))
    return CONFIG.model_copy(update={"plugin_files": [file], "profiles": [profile]})


GARBAGE = {
    "raises": "raise ValueError('boom')",
    "returns garbage": "return 42",
    "changes what it is given": "node.labels.clear(); node.labels['x'] = 'y'; raise KeyError",
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE.keys())
async def test_f14_a_plugin_gone_mad_harms_only_the_pods_it_is_mad_about(
    sim: SimulationHarness, tmp_path: Path, body: str
) -> None:
    config = plugged(tmp_path, f"if pod.pod.metadata.labels.get('mad'):\n    {body}\nreturn None")
    sim.create_nodes_and_pods(nodes=1)
    sim.create(a_pod("bad").labelled(mad="yes").needs(cpu=1))
    async with sim.scheduler(config=config):
        sim.create_nodes_and_pods(pods=2)
        await sim.until(lambda: sim.bound() == 2, within=5)
        await sim.until(lambda: bool(sim.message("bad")))
        (condition,) = sim.pod("bad")["status"]["conditions"]
        assert condition["reason"] == "SchedulerError"
        assert "Odd" in condition["message"]
        await asyncio.sleep(600)
        sim.patch("pod", "bad", {"metadata": {"labels": {"mad": None}}})
        await sim.until(lambda: sim.node_of("bad") == "n0", within=11)  # its back-off
    # Ten minutes of failing again and again were told in a few writes.
    assert (
        len(sim.faults.received((EVENTS | STATUSES) & ~for_object("p1") & ~for_object("p2"))) < 20
    )


async def test_f14_a_plugin_that_stalls_everything_has_the_lease_renewed_before_a_binding(
    sim: SimulationHarness, tmp_path: Path
) -> None:
    loop: Any = asyncio.get_running_loop()
    takes = iter([4.0, 0.0, 5.0])
    loop.slow = lambda: block_event_loop(next(takes, 0.0))
    config = plugged(tmp_path, "asyncio.get_running_loop().slow()\nreturn None")
    async with sim.scheduler(config=config):
        for _ in range(3):
            sim.create_nodes_and_pods(nodes=1, pods=4)
            await asyncio.sleep(20)
        await sim.until_settled(12)
    assert next(takes, "all used") == "all used"
    for binding in sim.faults.applied(BINDINGS):
        renewed = max(
            w.request.at for w in sim.faults.applied(LEASES) if w.at <= binding.request.at
        )
        assert binding.request.at - renewed < 10 / 3


# --- F15: odd input ----------------------------------------------------------------------------


def put(sim: SimulationHarness, resource: str, obj: dict[str, Any], **changes: Any) -> None:
    """Into the store, past all validation; ``metadata__name=…`` sets a field deep down."""
    for path, value in changes.items():
        *way, last = path.split("__")
        place = obj
        for step in way:
            place = place[step]
        place[last] = value
    sim.cluster.store.put(resource, json.loads(json.dumps(obj)))


ODD: dict[str, Callable[[SimulationHarness], None]] = {
    "a node whose CPU is no quantity": lambda sim: put(
        sim, "/nodes", a_node("odd").manifest(), status__allocatable={"cpu": "lots"}
    ),
    "a node without anything": lambda sim: put(
        sim, "/nodes", a_node("odd").manifest(), spec={}, status={}
    ),
    "a pod that asks for no quantity": lambda sim: put(
        sim, "/pods", a_pod("odd").manifest(), spec__containers=[
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1/2"}}}
        ],
    ),
    "a pod of wrong types": lambda sim: put(
        sim, "/pods", a_pod("odd").manifest(), spec__containers="none"
    ),
    "a time that is none": lambda sim: put(
        sim, "/pods", a_pod("odd").manifest(), metadata__creationTimestamp="yesterday"
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("early", [True, False], ids=["in the list", "in the watch"])
async def test_f15_what_cannot_be_understood_is_left_alone(
    sim: SimulationHarness, make: Callable[[SimulationHarness], None], early: bool
) -> None:
    sim.trace.may_be_unreadable = True
    sim.create_nodes_and_pods(nodes=1, pods=2)
    if early:
        make(sim)
    async with sim.scheduler():
        await asyncio.sleep(5)
        if not early:
            make(sim)
        sim.create_nodes_and_pods(pods=2)
        await sim.until(lambda: sim.bound() == 4, within=10)
    assert not sim.faults.received(for_object("odd"))


async def test_f15_letters_labels_and_sizes_of_all_kinds_arrive_whole(
    sim: SimulationHarness,
) -> None:
    giant = "ß€🐍" * 20_000  # 180 kB in one line of the watch
    sim.create(
        a_node("n0").annotated({"example.com/text": giant}).labelled(zone="z" * 63),
        a_pod("p").annotated({"example.com/text": giant}).selects(zone="z" * 63),
    )
    async with sim.scheduler():
        await sim.until_settled(1)
        sim.create(a_pod("no").selects({f"key-{'x' * 50}{n}": "v" * 63 for n in range(300)}))
        await sim.until(lambda: bool(sim.message("no")))


@pytest.mark.parametrize("year", [1, 1970, 2999, 9999])
async def test_f15_pods_created_in_another_century_are_scheduled(
    sim: SimulationHarness, year: int
) -> None:
    sim.create_nodes_and_pods(nodes=1)
    put(
        sim,
        "/pods",
        a_pod("odd").manifest(),
        metadata__creationTimestamp=f"{year:04}-12-31T23:59:59Z",
    )
    async with sim.scheduler():
        sim.create_nodes_and_pods(pods=2)
        await sim.until_settled(3)


async def test_f15_a_thousand_pods_at_once_are_bound_in_seconds(sim: SimulationHarness) -> None:
    sim.create(*(a_node(f"n{n}").offers(cpu=100) for n in range(10)))
    async with sim.scheduler():
        await asyncio.sleep(1)
        sim.faults.inject(BINDINGS, Delay(0.02, after=True))  # as long as a server under load takes
        sim.create_nodes_and_pods(pods=1000)
        await sim.until_settled(1000, within=2)


async def test_f15_more_pods_that_cannot_be_bound_than_the_backlog_holds_stop_no_other_namespace(
    sim: SimulationHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arranger.daemon.scheduler.MAX_BACKLOG", 64)
    sim.create(a_node("n0").offers(cpu=200, pods=200))
    head = {"apiVersion": "v1", "kind": "Namespace"}
    sim.cluster.create({**head, "metadata": {"name": "other"}})
    # As of objects that are too large for etcd with a node's name, or whose webhook fails.
    of_default = RequestMatcher(lambda request: "/namespaces/default/" in request.path)
    sim.faults.inject(BINDINGS & of_default, Reply(500, "InternalError"))
    sim.create(*(a_pod(f"p{n:03}").needs(cpu=1) for n in range(100)))
    async with sim.scheduler():
        await asyncio.sleep(60)
        sim.create(a_pod("last").in_namespace("other").needs(cpu=1))
        await sim.until(lambda: bool(sim.bound()), within=1)
        sim.faults.clear()
        await sim.until_settled(101)


async def test_f15_more_hopeless_pods_than_the_backlog_holds_do_not_hide_one_that_fits(
    sim: SimulationHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arranger.daemon.scheduler.MAX_BACKLOG", 64)
    sim.create_nodes_and_pods(nodes=1)
    # Their conditions stay in the backlog until they are given up, and no watch tells of them.
    sim.faults.inject(STATUSES, Reply(500, "InternalError"))
    sim.create(*(a_pod(f"huge{n:03}").needs(cpu=64) for n in range(150)))
    sim.create(a_pod("last").needs(cpu=1))
    async with sim.scheduler():
        await sim.until(lambda: sim.node_of("last") == "n0", within=120)
        sim.faults.clear()
