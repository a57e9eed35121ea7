"""Plays a world: schedulers, controllers, kubelets, faults; then rest; then the judges."""

from __future__ import annotations

import asyncio
import logging
import random
import zlib
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import msgspec
import structlog

from arranger.daemon.config.schema import Config
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.errors import ApiError
from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.storage.store import Change
from arranger.embedded.transport.hook import RequestHook
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import EPOCH, virtual_now
from arranger.embedded.workloads.controllers import HollowControllers
from arranger.kube.client.transport import MERGE_PATCH, Request
from tests.simulation.harnesses.controllers import native_pod_groups
from tests.simulation.harnesses.devices import DeviceHarness
from tests.simulation.harnesses.simulation import SimulationHarness
from tests.simulation.harnesses.volumes import VolumeHarness
from tests.simulation.harnesses.workloads import definition_of
from tests.swarm import clock
from tests.swarm.books import watch_books
from tests.swarm.coverage import Coverage
from tests.swarm.extenders import SwarmExtender, refuses
from tests.swarm.judge import Violation, judge, wrong_steps
from tests.swarm.processes import Processes
from tests.swarm.trouble import Trouble
from tests.swarm.world import Event, Fault, Object, World
from tests.swarm.worlds.duels import EARLY_VERSION, LATE_VERSION
from tests.swarm.worlds.harm import Expanding, put

_DEFINITIONS = tuple(bundled_crds())
#: Kinds of owners whose definitions are installed, as in the worlds of warm and cold starts.
_WORKLOADS = ("PyTorchJob",)
#: Resources that are written at rest, too: who leads, and what is said about those that wait.
_CHATTER = frozenset(
    {"coordination.k8s.io/leases", "events.k8s.io/events", "arranger.io/gangs"}
    | {"scheduling.volcano.sh/queues", "scheduling.volcano.sh/podgroups"}
    | {"scheduling.sigs.k8s.io/podgroups", "scheduling.x-k8s.io/podgroups"}
    | {"scheduling.k8s.io/podgroups", "batch.volcano.sh/jobs", "arranger.io/tyjobs"}
)
#: Those of them that say what is so of others.
_SAID = _CHATTER - {"coordination.k8s.io/leases", "events.k8s.io/events"}
#: Seconds after which everybody has heard that the server was restored, at the latest.
_HEARD_WITHIN = 200.0
#: Seconds without a change that are rest, and after which a world has to have found it.
REST, REST_WITHIN = 90.0, 1800.0


@dataclass(slots=True)
class Outcome:
    """What came of a world.

    Attributes:
        violations: what was wrong; empty if all was well.
        seconds: virtual seconds that were played, rest included.
        wall: real seconds that it took.
        trace: every write, in order, as a line each.
        bound: how many Bindings there were.
    """

    violations: list[Violation] = field(default_factory=list)
    seconds: float = 0.0
    wall: float = 0.0
    trace: list[str] = field(default_factory=list)
    bound: int = 0


def play(world: World, *, coverage: Coverage | None = None, judged: bool = True) -> Outcome:
    """Play a world to its end; equal worlds have equal outcomes, but for ``wall``.

    Args:
        coverage: counts what is entered.
        judged: whether to wait for rest and to judge it, and the books; steps are judged anyhow.
    """
    began = perf_counter()
    counted = coverage or Coverage()
    with counted.world(world.features):
        outcome = clock.run(Player(world, counted).run(judged=judged))
    outcome.wall = perf_counter() - began
    return outcome


def be_quiet() -> None:
    """Log nothing: it would cost half of the time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


class Player:
    """Plays one world.

    Attributes:
        sim: the server, and what was asked of it.
        processes: the schedulers and the controllers.
        written: resource and name of an object with a status → when it was written of late.
    """

    def __init__(self, world: World, coverage: Coverage) -> None:
        self.world = world
        self.outcome = Outcome()
        around = Expanding if "harm" in world.features else _as_it_is
        self.sim = SimulationHarness(world.seed, around)
        self._coverage = coverage
        self._config = config = Config.model_validate(world.config)
        self.extender = SwarmExtender(random.Random(world.seed), self._bind_pod)
        self.processes = Processes(self.sim, config, port=self.extender, around=around)
        premises, queues = self.sim.trace.premises, config.queues
        premises.calm = not (world.faults or config.extenders)
        if not premises.calm:
            self.sim.trace.expect_faults()
        premises.preempt_within_queue = queues.preempt_within_queue
        premises.respect_priority = queues.respect_priority
        premises.exempt_card_pods = queues.card_unlimited_cpu_memory
        if config.extenders:  # it knows why who fits may have to wait, and keeps what it asked for
            premises.unjudged |= {"who_fits_is_placed", "who_is_nominated_waits_for_somebody"}
            premises.unjudged.add("who_may_have_room_is_placed")
        premises.extenders_may_fail = any(each.ignorable for each in config.extenders)
        if any(fault.does == "restore" for fault in world.faults):
            premises.notice = _HEARD_WITHIN
        if "skews" not in world.features:
            premises.calendar = EPOCH.timestamp()
        #: uid in the world → that in the cluster.
        self._uids: dict[str, str] = {}
        self._changed_at = 0.0
        self.written: defaultdict[str, deque[float]] = defaultdict(partial(deque, maxlen=100))
        #: The kubelets and controllers of others.
        self._others = AsyncExitStack()

    async def run(self, *, judged: bool = True) -> Outcome:
        """Play it."""
        self._install()
        for manifest in self.world.objects:
            self._create(manifest)
        self.sim.trace.begins()
        trouble = Trouble(self.processes, self.processes.injectors)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._stop_others)
            await self._start_others(self._others)
            self.processes.start()
            books = clock.start("", watch_books(self)) if judged else None
            try:
                await self._let_happen(trouble)
                self.extender.fails = False
                trouble.end()
                if judged:
                    await judge(self)
                else:
                    self.outcome.violations += wrong_steps(self)
            finally:
                if books is not None:
                    books.cancel()
                trouble.end()
                await self.processes.stop()
        self.outcome.seconds = asyncio.get_running_loop().time()
        return self.outcome

    async def rest(self) -> bool:
        """Wait until pods stay as and where they are; false if that does not come.

        What is said about those that wait may go on to change.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + REST_WITHIN
        self._changed_at = loop.time()
        while loop.time() - self._changed_at < REST:
            if loop.time() > until:
                return False
            await asyncio.sleep(self._changed_at + REST - loop.time() + 0.1)
        return True

    # --- the stage ---------------------------------------------------------------------------

    def _install(self) -> None:
        store = self.sim.cluster.store
        for definition in _DEFINITIONS:
            self.sim.cluster.create(definition)
        early = "early-groups" in self.world.features
        self.sim.cluster.create(native_pod_groups(EARLY_VERSION if early else LATE_VERSION))
        for kind in _WORKLOADS:
            self.sim.cluster.create(definition_of(kind))
        store.subscribe(self._note)
        if "removes-ended" in self.world.features:
            store.subscribe(self._on_ended, "/pods")

    async def _start_others(self, stack: AsyncExitStack) -> None:
        """The parts of a cluster that are not ours, and never fail."""
        kubelets = HollowKubelets(InProcessTransport(self.sim.cluster), now=virtual_now)
        await stack.enter_async_context(_running(kubelets.run))
        owners = HollowControllers(self.sim.cluster, now=virtual_now)
        await stack.enter_async_context(_running(owners.run))
        if "volumes" in self.world.features:
            await stack.enter_async_context(VolumeHarness(self.sim).loop.running())
        if "devices" in self.world.features:
            await stack.enter_async_context(DeviceHarness(self.sim, {}).loop.running())

    def _note(self, change: Change) -> None:
        """A line of the trace."""
        meta, now = change.after["metadata"], _now()
        if _is_upheaval(change):
            self._changed_at = now
        after = change.after
        if change.resource == "/pods" and change.type == "MODIFIED" and change.before is not None:
            was, spec = change.before["spec"], after["spec"]
            if "nodeName" in spec and "nodeName" not in was:
                self.outcome.bound += 1
                self._ask_extender(after)
        digest = zlib.crc32(self.sim.cluster.store.json(change.resource, after))
        name = f"{meta.get('namespace', '')}/{meta['name']}"
        line = f"{now:.6f} {change.type} {change.resource} {name} {digest:08x}"
        if change.resource in _SAID:
            self.written[f"{change.resource} {name}"].append(now)
        self.outcome.trace.append(line)

    def _ask_extender(self, pod: Object) -> None:
        """An extender that must be asked has its word on every Binding of ours."""
        ours = bool(self.sim.faults.answering)
        must = ours and any(not each.ignorable for each in self._config.extenders)
        if must and refuses(pod, node := pod["spec"]["nodeName"]):
            text = f"{pod['metadata']['name']} is bound to {node}, which the extender refuses"
            self.outcome.violations.append(Violation("the_extender_agrees", text))

    def _on_ended(self, change: Change) -> None:
        """Pods that have ended are removed after a minute, as by a short TTL."""
        meta = change.after["metadata"]
        if _has_ended(change.after) and not (change.before and _has_ended(change.before)):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
            gone = Event(at=0.0, does="delete", object=pod)
            asyncio.get_running_loop().call_later(60.0, self._ask, "DELETE", gone, {})

    # --- what happens ------------------------------------------------------------------------

    async def _let_happen(self, trouble: Trouble) -> None:
        happens: list[tuple[float, Callable[[], None]]] = [
            *((event.at, partial(self._happen, event)) for event in self.world.events),
            *((fault.at, partial(self._strike, trouble, fault)) for fault in self.world.faults),
        ]
        restores = [fault for fault in self.world.faults if fault.does == "restore"]
        happens += ((each.at - each.seconds, partial(self._back_up, each)) for each in restores)
        happens.sort(key=lambda each: each[0])
        for at, happen in happens:
            if at > _now():
                await asyncio.sleep(at - _now())
            happen()
        heard = max((fault.at + _HEARD_WITHIN for fault in restores), default=0.0)
        await asyncio.sleep(max(0.0, max(self.world.seconds, heard) - _now()))

    def _strike(self, trouble: Trouble, fault: Fault) -> None:
        self._coverage.happens(fault.does, self.processes.leader())
        trouble.strike(fault)

        if fault.does == "restore":
            clock.start("", self._restart_others())

    def _back_up(self, fault: Fault) -> None:
        self.processes.back_up(fault)

    async def _restart_others(self) -> None:
        """Kubelets and controllers of others begin anew with what the server has now."""
        await self._stop_others()
        self._others = AsyncExitStack()
        await self._start_others(self._others)

    async def _stop_others(self) -> None:
        await self._others.aclose()

    def _happen(self, event: Event) -> None:
        leader = self.processes.leader()
        self._coverage.happens(f"{event.does} {event.object['kind']}", leader)
        match event.does:
            case "create":
                self._create(event.object)
            case "put":
                put(self.sim.cluster, event.object)
            case "patch":
                self._ask("PATCH", event, event.change)
            case "bind":
                self._bind(event)
            case "delete":
                self._ask("DELETE", event, {"gracePeriodSeconds": event.grace})

    def _create(self, manifest: Object) -> None:
        """Somebody creates an object, if the server takes it."""
        made = {**manifest, "metadata": {**manifest["metadata"]}}
        meta = made["metadata"]
        uid = meta.pop("uid", "")
        for key in ("resourceVersion", "creationTimestamp"):
            meta.pop(key, None)
        if self._uids and (owners := meta.get("ownerReferences")):
            meta["ownerReferences"] = [self._translated(owner) for owner in owners]
        try:
            stored = self.sim.cluster.create(made)
        except ApiError:
            return
        self._uids[uid] = stored["metadata"]["uid"]

    def _bind(self, event: Event) -> None:
        """Somebody else places a pod, if the server takes it."""
        meta = event.object["metadata"]
        self._bind_pod(meta["namespace"], meta["name"], "", event.node)

    def _bind_pod(self, namespace: str, name: str, uid: str, node: str) -> bool:
        """Bind a pod, of this uid if one is given; whether the server takes it."""
        meta = {"name": name, **({"uid": uid} if uid else {})}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta}
        body = msgspec.json.encode({**binding, "target": {"kind": "Node", "name": node}})
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        request = Request("POST", path, body=body, content_type="application/json")
        return self.sim.cluster.handle(request).status < 300

    def _translated(self, owner: Any) -> Any:
        """A reference to an object of the world, by the uid that the server gave that."""
        known = isinstance(owner, dict) and self._uids.get(owner.get("uid", ""))
        return {**owner, "uid": known} if known else owner

    def _ask(self, method: str, event: Event, body: Any) -> None:
        """Somebody edits or deletes an object, if it is there and the server lets them."""
        obj, meta = event.object, event.object["metadata"]
        resource = self.sim.cluster.registry.by_kind(obj["apiVersion"], obj["kind"])
        if resource is None:
            return
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        where = f"/namespaces/{meta.get('namespace', 'default')}" if resource.namespaced else ""
        part = f"/{event.part}" if event.part else ""
        path = f"{root}{where}/{resource.plural}/{meta['name']}{part}"
        media = MERGE_PATCH if method == "PATCH" else "application/json"
        body = msgspec.json.encode(body)
        self.sim.cluster.handle(Request(method, path, body=body, content_type=media))


def _as_it_is(hook: RequestHook) -> RequestHook:
    return hook


def _has_ended(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def _is_upheaval(change: Change) -> bool:
    """Whether a pod comes, goes, is bound, begins to leave, or is in another phase."""
    if change.resource != "/pods" or change.before is None or change.type == "DELETED":
        return change.resource not in _CHATTER
    before, after = _state(change.before), _state(change.after)
    return before != after


def _state(pod: Object) -> tuple[object, ...]:
    meta, status = pod["metadata"], pod.get("status") or {}
    return pod["spec"].get("nodeName"), meta.get("deletionTimestamp"), status.get("phase")


@asynccontextmanager
async def _running(main: Callable[[], Any]) -> Any:
    task = clock.start("", main())
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.wait({task})


def _now() -> float:
    return asyncio.get_running_loop().time()
