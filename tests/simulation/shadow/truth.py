"""What the scheduler itself does with a world: the whole program in virtual time.

It runs on the embedded cluster with its kubelets, a provisioner of volumes and what releases the
claims of pods that are gone.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from arranger.api.annotations import SELECTED_NODE
from arranger.api.types.resource_claims import ResourceClaim
from arranger.api.types.storage import PersistentVolume, PersistentVolumeClaim
from arranger.cli.simulation.ending import Bounds, Movement
from arranger.cli.simulation.manifests import load_manifests
from arranger.daemon.config.schema import Config, LeaderElectionConfig
from arranger.daemon.scheduler import Scheduler
from arranger.daemon.tasks import cancel_and_wait
from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.server import ApiResponse, EmbeddedCluster
from arranger.embedded.storage.store import Change
from arranger.embedded.transport.hook import Passage
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import run_virtual, virtual_now
from arranger.kube.client.transport import Request
from arranger.shadow import ClusterObjects
from arranger.shadow.inputs.objects import owner_kinds
from tests import storage
from tests.builders import Manifest
from tests.simulation.harnesses.devices import release_claims
from tests.simulation.harnesses.reconcile_loop import ReconcileLoop
from tests.simulation.harnesses.volumes import VolumeHarness
from tests.simulation.warm_cold.worlds import PRIORITIES, a_world

T = TypeVar("T")

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
#: Times that writes take which are tried where the first does not have it as it was foretold.
_OTHER_DISTANCES = 6
#: The truth depends on the time that writes take, and was foretold of one of them. This may hide a
#: defect, so no more than :data:`MOST_BY_TIMING` of twenty worlds may be so: it is one in 300.
TIMING = "foretold of other times of writes"
MOST_BY_TIMING = 1
#: What a forecast waits for after the last move: what comes later is not foretold.
FORETOLD = 30.0 + max(CONFIG.gangs.wait_time_seconds, CONFIG.gangs.starvation_after_seconds)


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a world.

    Attributes:
        start: all objects at the start, as the server had them.
        began: when that was.
        nodes: pod → node, of all that have one in the end.
        gone: the pods that were evicted.
        claims: what was written about claims and volumes: see :func:`claimed`.
    """

    start: Sequence[Manifest]
    began: datetime
    nodes: dict[str, str]
    gone: set[str]
    claims: dict[str, object]

    @property
    def pods(self) -> list[Manifest]:
        """Those that there were at the start."""
        return [each for each in self.start if each["kind"] == "Pod"]


#: What a scheduler writes to before it binds a pod.
_CLAIMED = ("/persistentvolumeclaims", "/persistentvolumes", "resource.k8s.io/resourceclaims")


@dataclass(slots=True, eq=False)
class Witness:
    """Sees what becomes of pods and of what they claim, as long as a forecast would look on."""

    nodes: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    claims: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    _last: float = 0.0
    _looks_on: bool = True

    def on_change(self, change: Change) -> None:
        """A write to the cluster."""
        if change.resource in _CLAIMED:
            self._on_claim(change)
        if change.resource != "/pods":
            return
        before, pod = change.before or {}, change.after
        key, node = _key(pod), pod["spec"].get("nodeName")
        is_gone = change.type == "DELETED"
        if not is_gone and node == before.get("spec", {}).get("nodeName"):
            return
        now = asyncio.get_running_loop().time()
        self._looks_on = self._looks_on and now - self._last <= FORETOLD
        self._last = now
        if self._looks_on and is_gone:
            self.gone.add(key)
            self.nodes.pop(key, None)
        elif self._looks_on and node:
            self.nodes[key] = node

    def _on_claim(self, change: Change) -> None:
        meta = change.after["metadata"]
        key = change.resource, f"{meta.get('namespace', '')}/{meta['name']}"
        late = asyncio.get_running_loop().time() - self._last > FORETOLD
        if late or not self._looks_on:
            return
        if change.type == "DELETED":
            self.claims.pop(key, None)
        else:
            self.claims[key] = deepcopy(change.after)


def is_remembered(pod: Manifest, objects: Sequence[Manifest]) -> bool:
    """Whether a scheduler that has seen a pod remembers of it what one that starts cannot know.

    That there is a bundle, which no other pod names; or that a gang has had enough members once,
    after which only those that wait count.
    """
    named = "gang.koordinater.io/bundleName"
    noted = [(each["metadata"].get("annotations") or {}) for each in objects if each is not pod]
    own = pod["metadata"].get("annotations") or {}
    gang = own.get("gang.koordinater.io/name")
    others = {note.get(named) for note in noted if note.get("gang.koordinater.io/name") == gang}
    if named in own and own[named] not in others:
        return True
    only_waiting = "only-waiting" in {text for key, text in own.items() if "match-policy" in key}
    return only_waiting and bool(pod["spec"].get("nodeName"))


@dataclass(frozen=True, slots=True)
class Distance:
    """A server that answers a write after a moment, as one behind a network does.

    Without it the order of writes that are sent at once is that of the loop's tasks: a Binding
    might come after the eviction that was decided later, and takes one write more.

    Args:
        rng: with it each write takes another moment.
    """

    seconds: float = 0.001
    rng: random.Random | None = None

    async def around_request(
        self, request: Request, user: str, respond: Callable[[], T]
    ) -> T | ApiResponse:
        """See :class:`~arranger.embedded.transport.hook.RequestHook`."""
        if request.method != "GET" and self.seconds:
            await asyncio.sleep(self.seconds * (self.rng.random() if self.rng else 1.0))
        return respond()

    def passage(self, request: Request, user: str, line: bytes) -> Passage | None:
        """What is watched comes at once."""
        return None


def first_difference(compare: Callable[[Distance], str]) -> str:
    """In what a forecast differs from the truth, whatever time writes take; "" if it does not.

    ``compare`` says in what they differ if they take so long. Two pods that are evicted at once
    do not end at once, and what is free first decides who goes where: nobody foretells that. So it
    is :data:`TIMING` where the truth is what was foretold at another time: see there.
    """
    apart = [Distance(0.02, random.Random(seed)) for seed in range(_OTHER_DISTANCES)]
    first = compare(Distance())
    return first and (first if all(map(compare, [Distance(0.0), *apart])) else TIMING)


@dataclass(frozen=True, slots=True)
class Administrator:
    """Whose requests succeed."""

    cluster: EmbeddedCluster

    def request(self, method: str, path: str, body: Any = None, content_type: str = "") -> Any:
        encoded = json.dumps(body).encode()
        answer = self.cluster.handle(Request(method, path, {}, encoded, content_type))
        assert answer.status < 300, answer
        return answer

    def cordon(self, name: str) -> None:
        """No pod is to come to a node."""
        change, kind = {"spec": {"unschedulable": True}}, "application/merge-patch+json"
        self.request("PATCH", f"/api/v1/nodes/{name}", change, kind)

    def delete(self, kind: str, name: str) -> list[str]:
        """A pod is gone at once; those of a node are to go, and returned: they count until then."""
        if kind == "Pod":
            self._delete_pod(name, {"gracePeriodSeconds": 0})
            return []
        self.request("DELETE", f"/api/v1/nodes/{name}", {})
        pods = self.cluster.objects("pods")
        here = [_key(pod) for pod in pods if pod["spec"].get("nodeName") == name]
        for key in here:
            self._delete_pod(key, {"gracePeriodSeconds": 30})
        return here

    def collect(self, keys: Set[str]) -> None:
        """Pods of a node that has gone are gone, too."""
        for key in keys & {_key(pod) for pod in self.cluster.objects("pods")}:
            self.delete("Pod", key)

    def _delete_pod(self, key: str, options: Manifest) -> None:
        namespace, _, name = key.rpartition("/")
        self.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", options)


def play(
    objects: Sequence[Manifest],
    later: Sequence[Manifest] = (),
    without: Collection[tuple[str, str]] = (),
    distance: Distance | None = None,
    cordoned: str = "",
) -> Played:
    """Have the scheduler itself work until nothing moves any more.

    It has read everything before it is changed, as one that runs, and has decided nothing.

    Args:
        later: what is created a second after the others.
        without: kind and name of what is deleted then.
        cordoned: the node that is cordoned then.
    """
    return run_virtual(_play(objects, later, without, cordoned, distance or Distance()))


class PatientScheduler(Scheduler):
    """Takes in what happens, and decides nothing until it is told to."""

    def __init__(self, transport: InProcessTransport, **options: Any) -> None:
        super().__init__(transport, CONFIG, identity="judge", **options)
        self._decides, self._has_read = False, asyncio.Event()

    async def read(self) -> None:
        """Wait until everything has been read: what comes now is news."""
        await self._has_read.wait()
        self.engine.handlers.start(asyncio.get_running_loop().time())

    def decide(self) -> None:
        """Go on from here."""
        self._decides = True
        self._wake.set()

    def _may_schedule(self) -> bool:
        if self.synced:
            self._has_read.set()
        return self._decides and super()._may_schedule()


def _load(cluster: EmbeddedCluster, objects: Sequence[Manifest]) -> list[Manifest]:
    """Create the objects; returns all there are then."""
    load_manifests(cluster, [("world", each) for each in deepcopy([*CLASSES, *objects])])
    store = cluster.store
    return deepcopy([obj for of in store.resources() for obj in store.items(of)])


async def _play(
    objects: Sequence[Manifest],
    later: Sequence[Manifest],
    without: Collection[tuple[str, str]],
    cordoned: str,
    distance: Distance,
) -> Played:
    cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(1))
    start, began = _load(cluster, objects), virtual_now()
    store, administrator = cluster.store, Administrator(cluster)
    scheduler = PatientScheduler(
        InProcessTransport(cluster, hook=distance),
        rng=random.Random(1),
        clock=lambda: virtual_now().timestamp(),
        perf_counter=lambda: 0.0,
    )
    schedules = asyncio.create_task(scheduler.run())
    await scheduler.read()
    await asyncio.sleep(1.0 - (virtual_now() - began).total_seconds())
    if cordoned:
        administrator.cordon(cordoned)
    for each in later:
        cluster.create(each)
    orphans = {key for kind, name in without for key in administrator.delete(kind, name)}
    asyncio.get_running_loop().call_later(0.5, administrator.collect, orphans)
    if without:
        release_claims(administrator)
    pods = cluster.objects("pods")
    there = {_key(pod): pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
    ends = {_key(pod) for pod in pods if pod["metadata"].get("deletionTimestamp")}
    witness = Witness(there)
    for resource in _CLAIMED:
        for each in store.items(resource) if resource in store.resources() else ():
            meta = each["metadata"]
            witness.claims[resource, f"{meta.get('namespace', '')}/{meta['name']}"] = each
    kubelets = HollowKubelets(InProcessTransport(cluster), now=virtual_now)
    volumes = VolumeHarness(administrator)
    claims = ReconcileLoop("claims", lambda: release_claims(administrator), delay=0.0)
    movement = Movement(Bounds(50_000.0, 100_000, QUIET))
    silence = store.subscribe(movement.on_change)
    store.subscribe(witness.on_change)
    store.subscribe(lambda _: claims.wake())
    work = [schedules, asyncio.create_task(kubelets.run())]
    scheduler.decide()
    async with volumes.loop.running(), claims.running():
        await movement.until_end(kubelets)
    scheduler.stop()
    await work[0]
    await cancel_and_wait(work[1])
    silence()
    gone = witness.gone - ends
    claims = list(witness.claims.values())
    found = claimed(ClusterObjects.from_manifests(claims, owner_kinds(CONFIG)))
    return Played(start, began, witness.nodes, gone, found)


def _key(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def had_node(truth: Played, key: str) -> bool:
    """Whether a pod had a node at the start. One that had none may be placed and evicted, or lose
    its node before it is bound to it."""
    return any(_key(each) == key and each["spec"].get("nodeName") for each in truth.pods)


def claimed(objects: ClusterObjects) -> dict[str, object]:
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


def at(moment: datetime) -> datetime:
    return moment


def as_read(objects: Sequence[Manifest]) -> tuple[ClusterObjects, datetime]:
    """The objects as the server would show them before the scheduler starts, and when."""

    async def load() -> tuple[list[Manifest], datetime]:
        cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(1))
        return _load(cluster, objects), virtual_now()

    start, began = run_virtual(load())
    return ClusterObjects.from_manifests(start, owner_kinds(CONFIG)), began
