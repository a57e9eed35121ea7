"""What tenants name once and never again is forgotten when their objects are gone.

Storms of objects with names, labels, annotations, resources, queues, gangs and owners of their own
come and go. All containers of all our objects are counted after the fourth storm and after the
eighth: none may have grown, but those with a bound, and these no further than it. Only what has
grown is judged: other tests of the process may have left as much as they like.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
from collections import Counter
from collections.abc import Iterator, Sized
from typing import Any

import pytest

from arranger.api.bounded_cache import bounded_cache
from arranger.api.settings import gang_membership
from arranger.cluster import device_inventory, object_store, pod_info
from arranger.cluster.nodes import node_table
from arranger.kube.writes import pods as pod_writes
from arranger.quota import pod_owners
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group
from tests.simulation.harnesses.gangs import DEFINITIONS
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME

STORM, STORMS = 40, 8
#: Seconds in which all is forgotten that is kept for a while only.
REST = 1500

Place = tuple[str, str]

#: To so many the containers and caches are cut that have a bound far above what the storms bring.
LIMIT = 16
#: What grows up to a bound of its own, and how far at most.
BOUNDED: dict[Place, int] = {
    ("ChangeLog", "_entries"): 3 * LIMIT,  # of nodes, of stored objects, of devices
    ("PodCallFactory", "_since"): LIMIT,
    ("PodOwners", "_asked"): LIMIT,
    ("arranger.cluster.pod_info", "_known_requests"): LIMIT,
    ("_Requested", ""): LIMIT,
    ("GangMembership", ""): LIMIT,
    ("EventSeries", "key"): 1024,  # each worker of the dispatcher has its last call
}


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept up to a bound reaches it within the storms."""
    for log in (node_table, object_store, device_inventory):
        monkeypatch.setattr(log, "_LOG_LIMIT", LIMIT)
    monkeypatch.setattr(pod_writes, "MAX_REMEMBERED", LIMIT)
    monkeypatch.setattr(pod_owners, "MAX_ASKED", LIMIT)
    monkeypatch.setattr(pod_info, "_MAX_KNOWN", LIMIT)
    monkeypatch.setattr(pod_info, "_known_requests", {})
    monkeypatch.setattr(pod_info, "_known_sums", {})
    membership = inspect.unwrap(gang_membership._membership)
    monkeypatch.setattr(gang_membership, "_membership", bounded_cache(LIMIT)(membership))


def _ours(name: Any) -> bool:
    text = name if isinstance(name, str) else ""
    return text.startswith("arranger.") and not text.startswith("arranger.embedded")


def _attributes(obj: Any) -> Iterator[tuple[str, Any]]:
    slots = [name for each in type(obj).__mro__ for name in getattr(each, "__slots__", ())]
    for name in {*slots, *getattr(obj, "__dict__", ())}:
        yield name, getattr(obj, name, None)


def counted() -> Counter[Place]:
    """How many objects of each type of ours there are, and how much their containers hold."""
    gc.unfreeze()
    gc.collect()
    found: Counter[Place] = Counter()
    for obj in gc.get_objects():
        if isinstance(obj, type) or not _ours(type(obj).__module__):
            continue
        kind = type(obj).__name__
        found[kind, ""] += 1
        for name, value in _attributes(obj):
            if isinstance(value, Sized) and not isinstance(value, (str, bytes)):
                found[kind, name] += len(value)
    for module_name, module in list(sys.modules.items()):
        if _ours(module_name):
            for name, value in list(vars(module).items()):
                if isinstance(value, (dict, list, set)):
                    found[module_name, name] = len(value)
    return found


def _pod(key: str, number: int) -> PodBuilder:
    pod = a_pod(f"s-{key}").labelled({f"l{key}": f"v{key}"})
    pod = pod.needs({f"example.io/{key}": 1} if number % 3 == 0 else {}, cpu=1)
    pod = pod.annotated(
        {
            f"a{key}": "x" * 50,
            "volcano.sh/card.name": f"card-{key}",
            "arranger.io/max-run-time": f"{9000 + number}m",
            "arranger.io/placement": f"policy-{key}",
        }
    ).with_spec(tolerations=[{"key": f"t{key}", "operator": "Exists"}])
    if number % 2:
        pod = pod.in_queue(f"q{key}")
    if number % 4 == 0:
        pod = pod.in_gang(f"g{key}", 1 + number % 3)
    if number % 4 == 2:
        pod = pod.in_pod_group(f"pg{key}")
    if number % 5 == 0:
        pod = pod.selects({f"sel{key}": key})
    if number % 7 == 0:
        owner = {"apiVersion": "x.io/v1", "kind": f"K{key}", "name": key, "uid": f"u{key}"}
        pod = pod._set("metadata", ownerReferences=[{**owner, "controller": True}])
    return pod


async def _storm(sim: SimulationHarness, number: int) -> None:
    keys = [f"{number}-{n}" for n in range(STORM)]
    groups = [f"pg{key}" for n, key in enumerate(keys) if n % 4 == 2]
    sim.create(*(a_pod_group(name, least=1, queue=f"q{name}") for name in groups))
    sim.create(*(_pod(key, n) for n, key in enumerate(keys)))
    await asyncio.sleep(20)
    for pod in list(sim.cluster.objects("pods")):
        sim.delete("pod", pod["metadata"]["name"])
    for name in groups:
        path = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
        sim.request("DELETE", f"{path}/{name}")
    await asyncio.sleep(60)


async def test_nothing_is_kept_of_what_is_gone(small_bounds: None) -> None:
    sim = SimulationHarness()
    for each in DEFINITIONS:
        sim.cluster.create(each)
    sim.create(*(a_node(f"n{n}").offers(cpu=400, pods=400) for n in range(3)))
    async with sim.scheduler() as scheduler:
        for number in range(STORMS // 2):
            await _storm(sim, number)
        await asyncio.sleep(REST)
        before = counted()
        for number in range(STORMS // 2, STORMS):
            await _storm(sim, number)
        await asyncio.sleep(REST)
        grown = {place: n for place, n in (counted() - before).items() if n > STORM // 4}
        scheduler.engine.check_consistent()
    assert before["Scheduler", ""] >= 1, "nothing was counted"
    assert not {place: n for place, n in grown.items() if n > BOUNDED.get(place, 0)}
