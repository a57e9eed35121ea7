"""Schedulers with extenders: filters, scores, vetoes, bindings, and extenders that fail."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from arranger.api.extenders import Extender
from arranger.daemon.config.extenders import ExtenderConfig
from arranger.kube.client.transport import TransportError
from tests.builders import a_node, a_pod
from tests.simulation.harnesses.simulation import CONFIG, VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME

Object = dict[str, Any]
Answer = Callable[[Object], Object | list[Object]]
GPU = "example.com/gpu-memory"


class ExtenderServers:
    """The extenders of a test, by verb; each takes 20 ms to answer, and fails while it is down."""

    def __init__(self, **verbs: Answer) -> None:
        self._verbs = verbs
        self.down = False
        self.calls: Counter[str] = Counter()

    async def post(self, extender: Extender, verb: str, body: bytes) -> tuple[int, bytes]:
        await asyncio.sleep(0.02)
        self.calls[verb] += 1
        if self.down:
            raise TransportError("connection reset")
        return 200, json.dumps(self._verbs[verb](json.loads(body))).encode()

    async def close(self) -> None:
        pass


def extender(**fields: Any) -> ExtenderConfig:
    return ExtenderConfig.model_validate({"urlPrefix": "http://extender", **fields})


def config(*extenders: ExtenderConfig, parallel: int = 1) -> Any:
    return CONFIG.model_copy(
        update={"extenders": list(extenders), "extender_parallelism": parallel}
    )


FILTERS = extender(filterVerb="filter", prioritizeVerb="prioritize", weight=5)


def only_ssd(args: Object) -> Object:
    """Needs the nodes whole: it looks at a label."""
    nodes = args["Nodes"]["items"]
    good = [node for node in nodes if node["metadata"]["labels"].get("disk") == "ssd"]
    bad = {n["metadata"]["name"]: "no ssd" for n in nodes if n not in good}
    return {"Nodes": {"items": good}, "FailedNodes": bad}


def last_first(args: Object) -> list[Object]:
    names = [node["metadata"]["name"] for node in args["Nodes"]["items"]]
    return [{"Host": name, "Score": 10 if name == max(names) else 0} for name in names]


async def test_an_extender_filters_and_prioritises(sim: SimulationHarness) -> None:
    sim.create(*(a_node(f"hdd{n}").offers(cpu=8) for n in range(3)))
    sim.create(*(a_node(f"ssd{n}").labelled(disk="ssd").offers(cpu=4) for n in range(3)))
    sim.create(*(a_pod(f"p{n}").needs(cpu=1) for n in range(8)))
    extender_servers = ExtenderServers(filter=only_ssd, prioritize=last_first)
    async with sim.scheduler(config=config(FILTERS), port=extender_servers):
        await sim.until_settled(8)
    nodes = Counter(sim.node_of(f"p{n}") for n in range(8))
    assert nodes == {"ssd2": 4, "ssd1": 4}
    assert extender_servers.calls == {"filter": 8, "prioritize": 8}


async def test_a_pod_waits_with_the_extenders_reason_until_a_node_suits_it(
    sim: SimulationHarness,
) -> None:
    sim.create(a_node("hdd").offers(cpu=8), a_pod("p").needs(cpu=1))
    extender_servers = ExtenderServers(filter=only_ssd, prioritize=last_first)
    async with sim.scheduler(config=config(FILTERS), port=extender_servers):
        text = "0/1 nodes are available: 1 no ssd."
        await sim.until(lambda: sim.message("p").startswith(text))
        sim.create(a_node("ssd").labelled(disk="ssd").offers(cpu=8))
        await sim.until_settled(1)
    assert sim.node_of("p") == "ssd"


async def test_pods_wait_while_an_extender_is_down_and_are_placed_when_it_is_back(
    sim: SimulationHarness,
) -> None:
    sim.create(a_node("ssd").labelled(disk="ssd").offers(cpu=8), a_pod("p").needs(cpu=1))
    extender_servers = ExtenderServers(filter=only_ssd, prioritize=last_first)
    extender_servers.down = True
    async with sim.scheduler(config=config(FILTERS), port=extender_servers):
        await sim.until(lambda: "connection reset" in sim.message("p"))
        extender_servers.down = False
        await sim.until_settled(1)


async def test_an_ignorable_extender_that_is_down_holds_nobody_up(sim: SimulationHarness) -> None:
    sim.create_nodes_and_pods(nodes=2, pods=4)
    extender_servers = ExtenderServers()
    extender_servers.down = True
    ignorable = extender(filterVerb="filter", bindVerb="bind", ignorable=True)
    async with sim.scheduler(config=config(ignorable), port=extender_servers):
        await sim.until_settled(4)


class GpuBinder:
    """Keeps count of a resource that the scheduler ignores: what fits is bound, on its own."""

    def __init__(self, sim: SimulationHarness, room: int) -> None:
        self._sim = sim
        self._room = room
        self.used: Counter[str] = Counter()
        self.lose_next = False

    def filter(self, args: Object) -> Object:
        free = [name for name in args["NodeNames"] if self.used[name] < self._room]
        failed = {n: "no gpu memory" for n in args["NodeNames"] if n not in free}
        return {"NodeNames": free, "FailedNodes": failed}

    def bind(self, args: Object) -> Object:
        name, node = args["PodName"], args["Node"]
        if self.used[node] >= self._room:
            return {"Error": f"no gpu memory left on {node}"}
        self.used[node] += 1
        self._sim.request(
            "POST",
            f"/api/v1/namespaces/{args['PodNamespace']}/pods/{name}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "uid": args["PodUID"]},
                "target": {"kind": "Node", "name": node},
            },
        )
        if self.lose_next:
            self.lose_next = False
            raise TransportError("lost on the way back")
        return {}


BINDS = extender(
    filterVerb="filter",
    bindVerb="bind",
    nodeCacheCapable=True,
    managedResources=[{"name": GPU, "ignoredByScheduler": True}],
)


async def test_an_extender_binds_what_it_keeps_count_of(sim: SimulationHarness) -> None:
    binder = GpuBinder(sim, room=3)
    binder.lose_next = True  # bound, and nobody says so
    sim.create_nodes_and_pods(nodes=3)
    sim.create(*(a_pod(f"gpu{n}").needs({GPU: 1}, cpu="100m") for n in range(10)))
    sim.create(*(a_pod(f"other{n}").needs(cpu="100m") for n in range(3)))
    extender_servers = ExtenderServers(filter=binder.filter, bind=binder.bind)
    async with sim.scheduler(config=config(BINDS), port=extender_servers):
        await sim.until(lambda: sim.bound() == 12)
        (left,) = [n for n in range(10) if not sim.node_of(f"gpu{n}")]
        text = "0/3 nodes are available: 3 no gpu memory."
        await sim.until(lambda: sim.message(f"gpu{left}").startswith(text))
    assert set(binder.used.values()) == {3}
    assert extender_servers.calls["bind"] == 9


async def test_gangs_are_placed_where_extenders_allow_it_or_not_at_all(
    sim: SimulationHarness,
) -> None:
    sim.create(*(a_node(f"hdd{n}").offers(cpu=8) for n in range(2)))
    sim.create(*(a_node(f"ssd{n}").labelled(disk="ssd").offers(cpu=2) for n in range(2)))
    for gang, size in (("fits", 4), ("large", 6)):
        sim.create(*(a_pod(f"{gang}{n}").needs(cpu=1).in_gang(gang, size) for n in range(size)))
    extender_servers = ExtenderServers(filter=only_ssd, prioritize=last_first)
    async with sim.scheduler(config=config(FILTERS), port=extender_servers):
        await sim.until(lambda: sim.bound() == 4)
        await sim.until(lambda: "gang" in sim.message("large0"))
    assert Counter(sim.node_of(f"fits{n}") for n in range(4)) == {"ssd0": 2, "ssd1": 2}
    assert extender_servers.calls["filter"] < 10


async def test_an_extender_chooses_the_victims(sim: SimulationHarness) -> None:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    sim.cluster.create({**head, "metadata": {"name": "high"}, "value": 10})
    sim.create(*(a_node(f"n{n}").offers(cpu=4) for n in range(3)))
    sim.create(*(a_pod(f"low{n}").needs(cpu=4) for n in range(3)))

    def spare_all_but_one(args: Object) -> Object:
        return {"NodeNameToMetaVictims": {"n2": args["NodeNameToMetaVictims"]["n2"]}}

    def leaving() -> list[str]:
        pods = sim.cluster.objects("pods")
        return [p["spec"]["nodeName"] for p in pods if "deletionTimestamp" in p["metadata"]]

    vetoes = extender(preemptVerb="preempt", nodeCacheCapable=True)
    extender_servers = ExtenderServers(preempt=spare_all_but_one)
    async with sim.scheduler(config=config(vetoes), port=extender_servers):
        await sim.until_settled(3)
        (victim,) = [f"low{n}" for n in range(3) if sim.node_of(f"low{n}") == "n2"]
        sim.create(a_pod("high").needs(cpu=4).with_spec(priorityClassName="high"))
        await sim.until(lambda: leaving() == ["n2"])
        sim.delete("pods", victim)
        await sim.until(lambda: sim.node_of("high") == "n2")
    assert extender_servers.calls["preempt"] == 1
