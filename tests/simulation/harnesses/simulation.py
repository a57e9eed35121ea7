"""Simulates schedulers in virtual time on a cluster with injected faults, and checks invariants.

Every test of this tier takes the fixture ``sim``; :meth:`SimulationHarness.check` runs when it is
over.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import datetime
from typing import Any

import pytest

from arranger.api.quantity import milli_value
from arranger.daemon.config.schema import Config, LeaderElectionConfig
from arranger.daemon.scheduler import Scheduler
from arranger.embedded.server import ApiResponse, EmbeddedCluster
from arranger.embedded.storage.store import Change
from arranger.embedded.transport.hook import RequestHook
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import EPOCH, virtual_now
from arranger.kube.client.transport import Request
from arranger.kube.events import FINISH_TIME
from arranger.kube.extenders.caller import ExtenderTransport
from tests.builders import Member, a_node, a_pod
from tests.faults.injector import (
    BINDINGS,
    EVENTS,
    LEASES,
    STATUSES,
    ClientRequest,
    FaultInjector,
    from_user,
)
from tests.faults.kinds import DropConnection, FaultRule
from tests.judged import JudgedTrace, loop_time
from tests.rights import granted, right_of
from tests.specification.premises import Premises

Object = dict[str, Any]

#: Nothing but asyncio runs here, so that the clock need not wait for anything else.
VIRTUAL_TIME = pytest.mark.looptime(noop_cycles=0)

CONFIG = Config(leader_election=LeaderElectionConfig(resource_namespace="kube-system"))
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/arranger"
MERGE = "application/merge-patch+json"


class SimulationHarness:
    """A cluster with schedulers, and its invariants.

    Attributes:
        faults: every request of the schedulers goes through them; what the test
            itself does with :meth:`create`, :meth:`delete` and :meth:`patch` does not.
        may_exceed_capacity: nodes that changed after pods were bound to them.
        history: every change of the cluster, whether or not the server still remembers it.
        trace: has the specification judge each of these changes.
        writes_per_pod: how many status patches, and how many event writes, a pod may cost an hour.
    """

    def __init__(
        self, seed: int = 1, around: Callable[[RequestHook], RequestHook] = lambda hook: hook
    ) -> None:
        self._around = around
        self._rng = random.Random(seed)
        self.cluster = EmbeddedCluster(rng=self._rng, now=_now)
        self.faults = FaultInjector(rng=random.Random(seed))
        self.may_exceed_capacity: set[str] = set()
        self.writes_per_pod = 12
        self.history: list[Change] = []
        self.cluster.store.subscribe(self.history.append)
        premises = Premises(changing_nodes=self.may_exceed_capacity)
        self.trace = JudgedTrace(self.faults, now=loop_time, premises=premises)
        self.trace.follow(self.cluster.store)
        self.schedulers: dict[str, Scheduler] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._starts: Counter[str] = Counter()
        #: What the schedulers measure their decisions by: it moves, and always alike.
        self._ticks = itertools.count()
        self._transports: dict[str, InProcessTransport] = {}
        self._copies = itertools.count(99)

    # --- what is there -----------------------------------------------------------------------

    def create(self, *builders: Member) -> None:
        """Create objects; the server gives uids and versions."""
        for builder in builders:
            manifest = builder.manifest()
            manifest["metadata"].pop("resourceVersion", None)
            del manifest["metadata"]["uid"]
            self.cluster.create(manifest)

    def create_nodes_and_pods(self, *, nodes: int = 0, pods: int = 0) -> None:
        """More nodes ``n0`` … of 4 CPU, and more pods ``p0`` … of 1."""
        have = {kind: len(self.cluster.objects(kind)) for kind in ("nodes", "pods")}
        self.create(*(a_node(f"n{have['nodes'] + n}").offers(cpu=4) for n in range(nodes)))
        self.create(*(a_pod(f"p{have['pods'] + n}").needs(cpu=1) for n in range(pods)))

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = ""
    ) -> ApiResponse:
        """Somebody else's request; it must succeed."""
        encoded = b"" if body is None else json.dumps(body).encode()
        kind = content_type or "application/json"
        answer = self.cluster.handle(Request(method, path, {}, encoded, kind))
        assert answer.status < 300, answer
        return answer

    def delete(self, kind: str, name: str, *, grace: int = 0) -> None:
        """Delete a pod (``default``) or a node."""
        self.request("DELETE", _path(kind, name), {"gracePeriodSeconds": grace})

    def patch(self, kind: str, name: str, change: Object, *, sub: str = "") -> None:
        """Merge a change into a pod (``default``) or a node."""
        self.request("PATCH", _path(kind, name) + sub, change, MERGE)

    def pod(self, name: str) -> Object:
        """A pod as the server has it."""
        return next(p for p in self.cluster.objects("pods") if p["metadata"]["name"] == name)

    def node_of(self, name: str) -> str:
        """Where a pod is bound to; "" while it is not."""
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def message(self, name: str) -> str:
        """What the pod's PodScheduled condition says while it is false; "" otherwise."""
        for condition in self.pod(name)["status"].get("conditions", []):
            if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
                return str(condition["message"])
        return ""

    def bound(self) -> int:
        """How many pods are bound."""
        return sum("nodeName" in pod["spec"] for pod in self.cluster.objects("pods"))

    # --- schedulers --------------------------------------------------------------------------

    @asynccontextmanager
    async def scheduler(
        self,
        name: str = "one",
        config: Config = CONFIG,
        *,
        port: ExtenderTransport | None = None,
        clock: Callable[[], float] = lambda: _now().timestamp(),
    ) -> AsyncIterator[Scheduler]:
        """A scheduler at work; stopped in good order at the end, unless it is dead by then."""
        transport = InProcessTransport(self.cluster, hook=self._around(self.faults), user=name)
        scheduler = Scheduler(
            transport,
            config,
            identity=name,
            rng=random.Random(1),
            clock=clock,
            perf_counter=lambda: next(self._ticks) * 1e-6,
            extender_transport=port,
        )
        self.trace.expect_scheduler(name, config)
        task = asyncio.create_task(scheduler.run(), name=name)
        self.schedulers[name], self._tasks[name] = scheduler, task
        self._starts[name] += 1
        self._transports[name] = transport
        try:
            yield scheduler
            if name in self._tasks:
                self.trace.judge_rest()
                scheduler.stop()
                await task
        finally:
            task.cancel()
            await asyncio.wait({task})

    def alive(self) -> list[str]:
        """The schedulers that have not ended, neither by themselves nor killed."""
        return [name for name, task in self._tasks.items() if not task.done()]

    def ended_by_themselves(self) -> list[str]:
        """The schedulers that have ended by themselves and were not awaited yet."""
        return [name for name, task in self._tasks.items() if task.done()]

    def kill(self, name: str = "one") -> FaultRule:
        """As ``kill -9``: from this moment on, no request of it reaches the server."""
        self._tasks.pop(name).cancel()
        return self.faults.inject(from_user(name), DropConnection.BEFORE)

    def copy_server(self) -> EmbeddedCluster:
        """A copy of the cluster without its watches; each gives other uids from now on."""
        others: dict[int, Any] = {
            id(self.cluster.store._listeners): {},
            id(self._rng): random.Random(next(self._copies)),
        }
        return deepcopy(self.cluster, others)

    async def switch_server(self, to: EmbeddedCluster) -> None:
        """From now on another server answers everybody; open watches end."""
        self.cluster = to
        self.history = [c for c in self.history if c.version <= to.store.version]
        to.store.subscribe(self.history.append)
        self.trace.follow(to.store)
        for transport in self._transports.values():
            transport.switch_to(to)
            await transport.close()

    async def wait_until_ended(self, name: str = "one") -> BaseException | None:
        """Wait until a scheduler has ended by itself; returns what it raised."""
        task = self._tasks.pop(name)
        await asyncio.wait({task}, timeout=120)
        assert task.done(), f"{name} is still running"
        return task.exception()

    async def until(self, reached: Callable[[], bool], *, within: float = 60.0) -> None:
        """Let virtual time pass until something holds."""
        async with asyncio.timeout(within):
            while not reached():  # noqa: ASYNC110 — polling costs nothing in virtual time
                await asyncio.sleep(0.25)

    async def until_true(
        self, faults: Callable[[], Sequence[str]], *, within: float = 60.0
    ) -> None:
        """Let virtual time pass until nothing is untrue; fails with what still is."""
        try:
            await self.until(lambda: not faults(), within=within)
        except TimeoutError:
            raise AssertionError(faults()) from None

    async def until_settled(self, bound: int, *, within: float = 60.0) -> None:
        """Until so many pods are bound, and every living scheduler has seen its own bound."""
        await self.until(lambda: self.bound() == bound, within=within)
        living = [self.schedulers[name] for name in self._tasks]
        await self.until(lambda: not any(s.engine.pods() for s in living), within=within)

    # --- what must hold ----------------------------------------------------------------------

    def check(self) -> None:
        """The invariants of the whole, by the server's own history and the log of writes."""
        for scheduler in self.schedulers.values():
            scheduler.engine.check_consistent()
        self.trace.check()
        self._check_bindings()
        self._check_capacity()
        self._check_leaders()
        self._check_write_rate()
        self._check_events()
        self.check_rights(self.faults, "arranger")

    def check_rights(self, asked: FaultInjector, account: str) -> None:
        """Nobody has asked for more than ``manifests/`` give a service account."""
        taken = {right_of(method, path, watch=watch) for _, method, path, watch in asked.asked}
        missing = taken - {None} - granted(account)
        assert not missing, f"{account} has no right to {missing}"

    def _check_bindings(self) -> None:
        uids = Counter(w.request.json["metadata"]["uid"] for w in self.faults.applied(BINDINGS))
        assert all(times == 1 for times in uids.values()), f"bound twice: {uids}"

    def _check_capacity(self) -> None:
        """No binding of ours puts more on a node than it has at that moment."""
        ours = {w.request.json["metadata"]["uid"] for w in self.faults.applied(BINDINGS)}
        nodes: dict[str, Object] = {}
        pods: dict[str, Object] = {}
        for change in self.history:
            kept = {"/nodes": nodes, "/pods": pods}.get(change.resource)
            if kept is None:
                continue
            uid, name = change.after["metadata"]["uid"], change.after["metadata"]["name"]
            if change.type == "DELETED":
                kept.pop(name)
                continue
            kept[name] = change.after
            node = change.after["spec"].get("nodeName")
            newly = change.before is not None and node != change.before["spec"].get("nodeName")
            if (
                newly
                and node
                and uid in ours
                and node in nodes
                and node not in self.may_exceed_capacity
            ):
                assert _requested_cpu(pods, node) <= milli_value(
                    nodes[node]["status"]["allocatable"]["cpu"]
                ), f"{node} is over its capacity once {name} is bound to it"

    def _check_leaders(self) -> None:
        """Nobody writes anything but the lease unless the lease is theirs at that moment."""
        terms: list[tuple[float, str]] = [(float("-inf"), "")]
        for write in self.faults.applied(LEASES):
            holder = write.request.json["spec"]["holderIdentity"]
            if holder != terms[-1][1]:
                terms.append((write.at, holder))
        ends = [start for start, _ in terms[1:]] + [float("inf")]
        for write in self.faults.received(~LEASES):
            # Closed at both ends: virtual time tells no order within an instant.
            allowed = {
                who
                for (start, who), end in zip(terms, ends, strict=True)
                if start <= write.request.at <= end
            }
            assert write.request.user in allowed, f"{allowed} leads, but {write}"

    def _check_write_rate(self) -> None:
        """The writes an hour that a pod costs are bounded, however often it is tried."""
        log = self.faults.log
        hours = 1 + (log[-1].at - log[0].at) / 3600 if log else 1
        for kind in (STATUSES, EVENTS):
            of_pod = Counter(_subject(write.request) for write in self.faults.applied(kind))
            limit = self.writes_per_pod * hours
            assert all(n <= limit for n in of_pod.values()), of_pod.most_common(3)

    def _check_events(self) -> None:
        """No note comes again in another Event of one process, while its series may go on."""
        restarted = {name for name, times in self._starts.items() if times > 1}
        restarted |= {
            name for name, scheduler in self.schedulers.items() if scheduler.core_restarts
        }
        created: dict[tuple[object, ...], float] = {}
        for write in self.faults.applied(EVENTS):
            if write.request.method != "POST" or write.request.user in restarted:
                continue
            event = write.request.json
            parts = ("reportingInstance", "regarding", "related", "reason", "note")
            key = tuple(str(event.get(part)) for part in parts)
            last = created.get(key, float("-inf"))
            assert write.at >= last + FINISH_TIME, f"told again at {last} and {write.at}: {event}"
            created[key] = write.at


def block_event_loop(seconds: float) -> None:
    """Block the event loop: time passes and no task gets its turn."""
    loop: Any = asyncio.get_running_loop()
    loop.setup_looptime(start=loop.time() + seconds)


def _now() -> datetime:
    """The calendar, by virtual time; so that equal seeds make equal runs."""
    try:
        return virtual_now()
    except RuntimeError:  # no loop yet
        return EPOCH


def _path(kind: str, name: str) -> str:
    return f"/api/v1/nodes/{name}" if kind == "node" else f"/api/v1/namespaces/default/pods/{name}"


def _requested_cpu(pods: Mapping[str, Object], node: str) -> int:
    """What the pods on a node need, in thousandths of a CPU."""
    requests = [
        container.get("resources", {}).get("requests", {}).get("cpu", "0")
        for pod in pods.values()
        if pod["spec"].get("nodeName") == node
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
        for container in pod["spec"]["containers"]
    ]
    return sum(map(milli_value, requests))


def _subject(call: ClientRequest) -> str:
    """The name of the pod that a status or an Event is about."""
    if STATUSES(call):
        return call.path.split("/")[-2]
    if call.method == "POST":
        return str(call.json["regarding"]["name"])
    return call.path.split("/")[-1].rpartition(".")[0]
