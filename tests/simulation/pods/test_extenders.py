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


async def test_an_extender_filters_and_prioritises(stage: SimulationHarness) -> None:
    stage.create(*(a_node(f"hdd{n}").offers(cpu=8) for n in range(3)))
    stage.create(*(a_node(f"ssd{n}").labelled(disk="ssd").offers(cpu=4) for n in range(3)))
    stage.create(*(a_pod(f"p{n}").needs(cpu=1) for n in range(8)))
    town = ExtenderServers(filter=only_ssd, prioritize=last_first)
    async with stage.scheduler(config=config(FILTERS), port=town):
        await stage.until_settled(8)
    nodes = Counter(stage.node_of(f"p{n}") for n in range(8))
    assert nodes == {"ssd2": 4, "ssd1": 4}
    assert town.calls == {"filter": 8, "prioritize": 8}


async def test_a_pod_waits_with_the_extenders_reason_until_a_node_suits_it(
    stage: SimulationHarness,
) -> None:
    stage.create(a_node("hdd").offers(cpu=8), a_pod("p").needs(cpu=1))
    town = ExtenderServers(filter=only_ssd, prioritize=last_first)
    async with stage.scheduler(config=config(FILTERS), port=town):
        text = "0/1 nodes are available: 1 no ssd."
        await stage.until(lambda: stage.message("p").startswith(text))
        stage.create(a_node("ssd").labelled(disk="ssd").offers(cpu=8))
        await stage.until_settled(1)
    assert stage.node_of("p") == "ssd"


async def test_pods_wait_while_an_extender_is_down_and_are_placed_when_it_is_back(
    stage: SimulationHarness,
) -> None:
    stage.create(a_node("ssd").labelled(disk="ssd").offers(cpu=8), a_pod("p").needs(cpu=1))
    town = ExtenderServers(filter=only_ssd, prioritize=last_first)
    town.down = True
    async with stage.scheduler(config=config(FILTERS), port=town):
        await stage.until(lambda: "connection reset" in stage.message("p"))
        town.down = False
        await stage.until_settled(1)


async def test_an_ignorable_extender_that_is_down_holds_nobody_up(stage: SimulationHarness) -> None:
    stage.create_nodes_and_pods(nodes=2, pods=4)
    town = ExtenderServers()
    town.down = True
    ignorable = extender(filterVerb="filter", bindVerb="bind", ignorable=True)
    async with stage.scheduler(config=config(ignorable), port=town):
        await stage.until_settled(4)


class GpuBinder:
    """Keeps count of a resource that the scheduler ignores: what fits is bound, on its own."""

    def __init__(self, stage: SimulationHarness, room: int) -> None:
        self._stage = stage
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
        self._stage.request(
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


async def test_an_extender_binds_what_it_keeps_count_of(stage: SimulationHarness) -> None:
    binder = GpuBinder(stage, room=3)
    binder.lose_next = True  # bound, and nobody says so
    stage.create_nodes_and_pods(nodes=3)
    stage.create(*(a_pod(f"gpu{n}").needs({GPU: 1}, cpu="100m") for n in range(10)))
    stage.create(*(a_pod(f"other{n}").needs(cpu="100m") for n in range(3)))
    town = ExtenderServers(filter=binder.filter, bind=binder.bind)
    async with stage.scheduler(config=config(BINDS), port=town):
        await stage.until(lambda: stage.bound() == 12)
        (left,) = [n for n in range(10) if not stage.node_of(f"gpu{n}")]
        text = "0/3 nodes are available: 3 no gpu memory."
        await stage.until(lambda: stage.message(f"gpu{left}").startswith(text))
    assert set(binder.used.values()) == {3}
    assert town.calls["bind"] == 9


async def test_gangs_are_placed_where_extenders_allow_it_or_not_at_all(
    stage: SimulationHarness,
) -> None:
    stage.create(*(a_node(f"hdd{n}").offers(cpu=8) for n in range(2)))
    stage.create(*(a_node(f"ssd{n}").labelled(disk="ssd").offers(cpu=2) for n in range(2)))
    for gang, size in (("fits", 4), ("large", 6)):
        stage.create(*(a_pod(f"{gang}{n}").needs(cpu=1).in_gang(gang, size) for n in range(size)))
    town = ExtenderServers(filter=only_ssd, prioritize=last_first)
    async with stage.scheduler(config=config(FILTERS), port=town):
        await stage.until(lambda: stage.bound() == 4)
        await stage.until(lambda: "gang" in stage.message("large0"))
    assert Counter(stage.node_of(f"fits{n}") for n in range(4)) == {"ssd0": 2, "ssd1": 2}
    assert town.calls["filter"] < 10


async def test_an_extender_chooses_the_victims(stage: SimulationHarness) -> None:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    stage.cluster.create({**head, "metadata": {"name": "high"}, "value": 10})
    stage.create(*(a_node(f"n{n}").offers(cpu=4) for n in range(3)))
    stage.create(*(a_pod(f"low{n}").needs(cpu=4) for n in range(3)))

    def spare_all_but_one(args: Object) -> Object:
        return {"NodeNameToMetaVictims": {"n2": args["NodeNameToMetaVictims"]["n2"]}}

    def leaving() -> list[str]:
        pods = stage.cluster.objects("pods")
        return [p["spec"]["nodeName"] for p in pods if "deletionTimestamp" in p["metadata"]]

    vetoes = extender(preemptVerb="preempt", nodeCacheCapable=True)
    town = ExtenderServers(preempt=spare_all_but_one)
    async with stage.scheduler(config=config(vetoes), port=town):
        await stage.until_settled(3)
        (victim,) = [f"low{n}" for n in range(3) if stage.node_of(f"low{n}") == "n2"]
        stage.create(a_pod("high").needs(cpu=4).with_spec(priorityClassName="high"))
        await stage.until(lambda: leaving() == ["n2"])
        stage.delete("pods", victim)
        await stage.until(lambda: stage.node_of("high") == "n2")
    assert town.calls["preempt"] == 1
