"""What the shadow foretells is what the scheduler then does.

The judge is the scheduler itself: the whole program in virtual time, on the embedded cluster with
its kubelets and a provisioner of volumes, in random worlds of every feature. Their pods end as soon
as they are told to: when they leave decides who gets what.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from arranger.api.annotations import SELECTED_NODE
from arranger.api.types.resource_claims import ResourceClaim
from arranger.api.types.storage import PersistentVolume, PersistentVolumeClaim
from arranger.cli.simulation.ending import Bounds, Movement
from arranger.cli.simulation.manifests import load_manifests
from arranger.daemon.config.schema import Config, LeaderElectionConfig
from arranger.daemon.scheduler import Scheduler
from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import run_virtual, virtual_now
from arranger.kube.client.transport import Request
from arranger.shadow import ClusterObjects, Shadow, WhatIf
from arranger.shadow.forecasts.changes import add_nodes, cordon, create
from arranger.shadow.forecasts.forecast import forecast
from arranger.shadow.inputs.listing import list_objects
from arranger.shadow.inputs.objects import owner_kinds
from tests import storage
from tests.builders import Manifest
from tests.simulation.harnesses.volumes import VolumeHarness
from tests.simulation.warm_cold.worlds import PRIORITIES, a_world, first_seeds

CONFIG = Config().model_copy(update={"leader_election": LeaderElectionConfig(leader_elect=False)})
CLASSES: list[Manifest] = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"p{value}"},
        "value": value,
    }
    for value in PRIORITIES
]
#: More than any gang of these worlds waits before it gives its nodes back.
QUIET = 1_000.0
WORLDS = int(os.environ.get("ARRANGER_WORLDS", "20"))


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a world.

    Attributes:
        start: all objects at the start, as the server had them.
        began: when that was.
        nodes: pod → node, of all that have one in the end.
        gone: the pods that were evicted.
        claims: what was written about claims and volumes: see :func:`_claimed`.
    """

    start: Sequence[Manifest]
    began: datetime
    nodes: dict[str, str]
    gone: set[str]
    claims: dict[str, object]


@dataclass(frozen=True, slots=True)
class Administrator:
    """Whose requests succeed."""

    cluster: EmbeddedCluster

    def request(self, method: str, path: str, body: Any = None, content_type: str = "") -> Any:
        encoded = json.dumps(body).encode()
        answer = self.cluster.handle(Request(method, path, {}, encoded, content_type))
        assert answer.status < 300, answer
        return answer


def play(objects: Sequence[Manifest], later: Sequence[Manifest] = ()) -> Played:
    """Have the scheduler itself work until nothing moves any more.

    ``later``: what is created a second after the others, and before the scheduler starts.
    """
    return run_virtual(_play(objects, later))


def _load(cluster: EmbeddedCluster, objects: Sequence[Manifest]) -> list[Manifest]:
    """Create the objects; returns all there are then."""
    load_manifests(cluster, [("world", each) for each in deepcopy([*CLASSES, *objects])])
    store = cluster.store
    return deepcopy([obj for of in store.resources() for obj in store.items(of)])


async def _play(objects: Sequence[Manifest], later: Sequence[Manifest]) -> Played:
    cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(1))
    start, began = _load(cluster, objects), virtual_now()
    store = cluster.store
    await asyncio.sleep(1.0)
    for each in later:
        cluster.create(each)
    scheduler = Scheduler(
        InProcessTransport(cluster),
        CONFIG,
        identity="judge",
        rng=random.Random(1),
        clock=lambda: virtual_now().timestamp(),
        perf_counter=lambda: 0.0,
    )
    kubelets = HollowKubelets(InProcessTransport(cluster), now=virtual_now)
    volumes = VolumeHarness(Administrator(cluster))
    movement = Movement(Bounds(50_000.0, 100_000, QUIET))
    silence = store.subscribe(movement.on_change)
    work = [asyncio.create_task(scheduler.run()), asyncio.create_task(kubelets.run())]
    async with volumes.loop.running():
        await movement.until_end(kubelets)
    scheduler.stop()
    await work[0]
    work[1].cancel()
    silence()
    pods = cluster.objects("pods")
    there = {_key(pod) for pod in pods}
    nodes = {_key(pod): pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
    before = [obj for obj in start if obj["kind"] == "Pod"]
    ends = {_key(pod) for pod in before if pod["metadata"].get("deletionTimestamp")}
    gone = {_key(pod) for pod in before} - there - ends
    return Played(start, began, nodes, gone, _claimed(await _as_of(cluster)))


def _key(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


async def _as_of(cluster: EmbeddedCluster) -> ClusterObjects:
    return await list_objects(InProcessTransport(cluster), CONFIG)


def _claimed(objects: ClusterObjects) -> dict[str, object]:
    """What a scheduler writes about claims before it binds a pod, by claim or volume.

    Of a claim to a volume: the node for which one is to be made. Of a volume: the claim that it is
    kept for; those that are made later are left out. Of a claim to devices: which, and whose it is.
    """
    found: dict[str, object] = {}
    for claim in objects.of(PersistentVolumeClaim):
        found[f"claim {claim.key}"] = claim.metadata.annotations.get(SELECTED_NODE)
    for volume in objects.of(PersistentVolume):
        if not volume.metadata.name.startswith(("made-for-", "pvc-")):
            kept = volume.spec.claim_ref
            found[f"volume {volume.metadata.name}"] = kept.name if kept is not None else ""
    for asked in objects.of(ResourceClaim):
        given = asked.status.allocation
        devices = sorted(each.device for each in given.devices.results) if given else None
        users = sorted(each.name for each in asked.status.reserved_for)
        found[f"devices {asked.metadata.name}"] = devices, users
    return found


def a_forecast_world(seed: int) -> list[Manifest]:
    """The objects of a random world, whose pods end as soon as they are told to."""
    objects = a_world(seed, past=True).objects
    if any(each["kind"] == "StorageClass" for each in objects):
        driver = {"name": storage.DRIVER, "nodeID": "n", "topologyKeys": [storage.ZONE]}
        nodes = [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]
        csi = [storage.a_csi_node(name).with_spec(drivers=[driver]).manifest() for name in nodes]
        objects = [*objects, *csi]
    for each in objects:
        (each["metadata"].get("annotations") or {}).pop("arranger.io/termination-seconds", None)
    return objects


def kept_for_a_while(waiting: Mapping[str, str]) -> bool:
    """Whether nodes are kept for a gang that starves: an answer tells of now, the judge later."""
    return any(
        "reserved for gang" in why or "reserved for a gang" in why for why in waiting.values()
    )


@pytest.mark.parametrize("first", first_seeds(WORLDS))
def test_the_shadow_foretells_nodes_and_victims(first: int) -> None:
    for seed in range(first, first + 20):
        objects = a_forecast_world(seed)
        truth = play(objects)
        known = ClusterObjects.from_manifests(truth.start, owner_kinds(CONFIG))
        told = forecast(known, CONFIG, now=truth.began)
        told.engine.check_consistent()
        if kept_for_a_while(told.waiting):
            continue
        waited = {key for key in truth.nodes if key in told.nodes or key in told.waiting}
        assert dict(told.nodes) == {k: truth.nodes[k] for k in waited}, f"world {seed}"
        assert set(told.evicted) == truth.gone, f"world {seed}"
        assert _claimed(told.objects) == truth.claims, f"world {seed}"


@pytest.mark.parametrize("first", first_seeds(WORLDS))
def test_the_shadow_foretells_what_a_change_does(first: int) -> None:
    """The change is made to the cluster, too, and the scheduler tried on that."""
    for seed in range(first, first + 20):
        objects = a_forecast_world(seed)
        nodes = [each for each in objects if each["kind"] == "Node"]
        node = nodes[seed % len(nodes)]
        name = node["metadata"]["name"]
        known, began = _as_read(objects)
        more: list[Manifest] = []
        match seed % 4:
            case 0:
                change, more = add_nodes(1, name), [_alike(node, f"{name}-like-1")]
            case 2:
                new = _another(seed, objects)
                change, more = create([deepcopy(new)], "with one more"), [new]
            case _:
                change = cordon(name)
                node.setdefault("spec", {})["unschedulable"] = True
        truth = play(objects, more)
        asked_at = began + timedelta(seconds=1)
        shadow = Shadow.of(known, CONFIG, calendar=partial(_at, asked_at))
        told = shadow.ask_now(WhatIf([change]))
        if kept_for_a_while({**told.waiting, **told.still_waiting}):
            continue
        moved = {key: new for key, (_, new) in told.moved.items()}
        foretold = {**told.placed, **moved}
        assert foretold == {key: truth.nodes.get(key) for key in foretold}, f"world {seed}"
        assert set(told.evicted) <= truth.gone, f"world {seed}"
        assert not set(told.spared) & truth.gone, f"world {seed}"
        assert not {*told.waiting, *told.still_waiting} & truth.nodes.keys(), f"world {seed}"


def test_victims_are_foretold_for_one_that_lacks_room_and_a_volume() -> None:
    """The volume is there a second later: only then others help by leaving."""
    objects = a_forecast_world(88)
    truth = play(objects)
    assert truth.nodes["default/w5-1"] == "n2"
    known = ClusterObjects.from_manifests(truth.start, owner_kinds(CONFIG))
    told = forecast(known, CONFIG, now=truth.began)
    told.engine.check_consistent()
    assert told.nodes["default/w5-1"] == "n2"
    assert set(told.evicted) == truth.gone


def test_nobody_is_evicted_for_a_gang_that_insists_on_nodes_it_cannot_use_any_more() -> None:
    """World 457: while its victims left, the volume that its claim could use went to others."""
    objects = a_forecast_world(457)
    truth = play(objects)
    assert truth.gone == {"default/w4-0", "default/w4-1", "default/w4-2"}
    known = ClusterObjects.from_manifests(truth.start, owner_kinds(CONFIG))
    told = forecast(known, CONFIG, now=truth.began)
    assert (told.nodes["default/w0-0"], told.nodes["default/w0-2"]) == ("n0", "n0")
    assert set(told.evicted) == truth.gone


def _at(moment: datetime) -> datetime:
    return moment


def _as_read(objects: Sequence[Manifest]) -> tuple[ClusterObjects, datetime]:
    """The objects as the server would show them before the scheduler starts, and when."""

    async def load() -> tuple[list[Manifest], datetime]:
        cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(1))
        return _load(cluster, objects), virtual_now()

    start, began = run_virtual(load())
    return ClusterObjects.from_manifests(start, owner_kinds(CONFIG)), began


def _another(seed: int, objects: Sequence[Manifest]) -> Manifest:
    """A new pod like one of the world, as its author would write it."""
    like = random.Random(seed).choice([each for each in objects if each["kind"] == "Pod"])
    meta = like["metadata"]
    kept = {k: meta[k] for k in ("labels", "annotations") if k in meta}
    named = {"namespace": meta.get("namespace", "default"), "name": f"{meta['name']}-new"}
    spec = {key: given for key, given in like["spec"].items() if key != "nodeName"}
    return deepcopy({**like, "metadata": {**kept, **named}, "spec": spec, "status": {}})


def _alike(node: Manifest, name: str) -> Manifest:
    """A node as somebody would write it by the picture of another."""
    labels = dict(node["metadata"].get("labels", {}))
    if "kubernetes.io/hostname" in labels:
        labels["kubernetes.io/hostname"] = name
    spec = {**node.get("spec", {}), "unschedulable": False}
    return {**deepcopy(node), "metadata": {"name": name, "labels": labels}, "spec": spec}
