"""An embedded cluster served over HTTP, with both processes at work, and two tenants.

Objects of the culprit are written as they are where the server refuses them: they are then such as
an older definition has let in, or another server. The neighbour's are small and in order, and
must be served.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import aiohttp
import yaml

from arranger.api.timestamps import second_time, utc_now
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.errors import ApiError
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.http import serve
from arranger.kube.client.transport import Request
from tests.controlplane.harness import a_node, free_ports
from tests.hostile.attack import CULPRIT, NEIGHBOUR, Object
from tests.hostile.expansion import Expansions
from tests.hostile.neighbour import own_jobs, own_node, own_pod
from tests.hostile.overheard import SECRET, Overheard
from tests.hostile.processes import ArrangerProcess
from tests.hostile.slowness import slowness
from tests.judged import JudgedTrace
from tests.specification.premises import Premises

#: Seconds within which another tenant's pod must be bound.
BOUND_WITHIN: Final = 1.0
#: How often that is tried before it counts as missed: the machine has other work, too.
TRIES: Final = 3
#: Seconds within which another tenant's job must run.
RUNNING_WITHIN: Final = 10.0
#: Seconds within which a batch of attacks must have been taken in.
SETTLED_WITHIN: Final = 30.0
NODES: Final = 4
#: Seconds that news may take, and that a gang may take to be bound, on a busy machine.
NOTICE, BIND_SECONDS = 30.0, 60.0


class HostileCluster:
    """See the module; made by :meth:`running`.

    Attributes:
        refused: objects that the server refused, and that were written all the same.
        overheard: what both processes have written.
        trace: has the specification judge whatever is readable of what happens.
    """

    def __init__(
        self, cluster: EmbeddedCluster, url: str, folder: Path, overheard: Overheard
    ) -> None:
        self.cluster, self.overheard = cluster, overheard
        self.refused = 0
        premises = Premises(notice=NOTICE, bind_seconds=BIND_SECONDS)
        self.trace = JudgedTrace(now=time.monotonic, premises=premises)
        self.trace.may_be_unreadable = True
        self.trace.follow(cluster.store)
        self.scheduler: ArrangerProcess
        self.controllers: ArrangerProcess
        self.ports: dict[str, int] = {}
        self._url = url
        self._folder = folder
        self._numbers = itertools.count()

    @classmethod
    @asynccontextmanager
    async def running(cls, folder: Path, *, nodes: int = NODES) -> AsyncIterator[HostileCluster]:
        """Everything at work while the context lasts."""
        cluster, overheard = EmbeddedCluster(), Overheard()
        async with serve(cluster, hook=Expansions(overheard.note)) as url:
            hostile = cls(cluster, url, folder, overheard)
            hostile.furnish(nodes)
            kubelet = asyncio.create_task(hostile._run_pods())
            try:
                await hostile.start()
                await hostile.until_served()
                yield hostile
                hostile.trace.check()
            finally:
                kubelet.cancel()
                await asyncio.wait({kubelet})
                await hostile.stop(kill=True)

    # --- processes -------------------------------------------------------------------------

    async def start(self) -> None:
        """Start both processes."""
        self._forget_lease()
        kubeconfig = self._folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(self._url)))
        first, second = free_ports(2)
        config = self._folder / "config.yaml"
        config.write_text(yaml.safe_dump(_config()))
        common = (f"--kubeconfig={kubeconfig}", f"--config={config}", "--log-level=info")
        self.ports = {"run": first, "controllers": second}
        self.scheduler, self.controllers = [
            await ArrangerProcess.launch(name, self._folder, name, *common, *_serving(port))
            for name, port in self.ports.items()
        ]

    async def stop(self, *, kill: bool = False) -> list[int | None]:
        """End both; their exit statuses."""
        each = (self.scheduler, self.controllers)
        if kill:
            await asyncio.gather(*(process.kill() for process in each))
        return list(await asyncio.gather(*(process.stop() for process in each)))

    async def restart(self) -> None:
        """End both and start them with the objects as they are."""
        await self.stop()
        await self.start()
        await self.until_served()

    def dead(self) -> list[ArrangerProcess]:
        """Processes that have ended."""
        return [each for each in (self.scheduler, self.controllers) if not each.alive]

    def resident_bytes(self) -> dict[str, int]:
        """Memory of each process."""
        each = (self.scheduler, self.controllers)
        return {process.name: process.resident_bytes() for process in each if process.alive}

    async def get(self, process: str, path: str) -> str:
        """What a process's own server answers."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.get(f"https://127.0.0.1:{self.ports[process]}{path}") as answer,
        ):
            return await answer.text()

    def _forget_lease(self) -> None:
        """A process that was killed has left its lease behind."""
        path = "/apis/coordination.k8s.io/v1/namespaces/arranger-system/leases/arranger"
        self.cluster.handle(Request("DELETE", path))

    # --- objects ---------------------------------------------------------------------------

    def create(self, manifest: Object) -> None:
        """Create an object; write it as it is if the server refuses it."""
        copy = json.loads(json.dumps(manifest))
        try:
            self.cluster.create(copy)
            if "status" in manifest:
                self._write(manifest)
        except (ApiError, KeyError, TypeError, AttributeError, ValueError, OverflowError):
            self.refused += 1
            self._write(manifest)

    def _write(self, manifest: Object) -> None:
        """Write an object past all checks."""
        copy = json.loads(json.dumps(manifest))
        resource = self.cluster.registry.by_kind(copy["apiVersion"], copy["kind"])
        assert resource is not None, copy["kind"]
        meta = copy["metadata"]
        key = (meta.get("namespace", "") if resource.namespaced else "", meta["name"])
        before = self.cluster.store.get(resource.storage_key, key)
        known = before["metadata"] if before else {}
        uid = known.get("uid") or f"00000000-0000-4000-8000-{next(self._numbers):012}"
        made = {"uid": uid, "creationTimestamp": known.get("creationTimestamp", _now())}
        copy["metadata"] = {**made, **meta}
        if copy["kind"] == "Pod":
            copy.setdefault("status", {"phase": "Pending"})
        with suppress(TypeError, AttributeError, KeyError):
            self.cluster.store.put(resource.storage_key, resource.to_storage(copy))

    def replace(self, manifest: Object) -> None:
        """Put another object in the place of one."""
        self._write(manifest)

    def delete(self, manifest: Object) -> None:
        """Delete an object, at once."""
        resource = self.cluster.registry.by_kind(manifest["apiVersion"], manifest["kind"])
        assert resource is not None
        if self.stored(manifest) is not None:
            meta = manifest["metadata"]
            namespace = meta.get("namespace", "") if resource.namespaced else ""
            with suppress(KeyError):
                self.cluster.store.remove(resource.storage_key, (namespace, meta["name"]))

    def clear(self) -> None:
        """Delete all that the culprit has, and what became of it."""
        for name in self.cluster.store.resources():
            group, _, plural = name.partition("/")
            resource = self.cluster.registry.by_name(plural, group)
            for obj in self.cluster.store.items(name, CULPRIT):
                self.delete({**obj, "apiVersion": resource.api_version, "kind": resource.kind})

    def stored(self, manifest: Object) -> Object | None:
        """An object as it is now."""
        resource = self.cluster.registry.by_kind(manifest["apiVersion"], manifest["kind"])
        assert resource is not None
        meta = manifest["metadata"]
        namespace = meta.get("namespace", "") if resource.namespaced else ""
        return self.cluster.store.get(resource.storage_key, (namespace, meta["name"]))

    def events(self) -> Iterable[Object]:
        """All Events."""
        return self.cluster.store.items("events.k8s.io/events")

    # --- the neighbour ---------------------------------------------------------------------

    async def until_served(self, *, within: float = 60.0) -> None:
        """Until the neighbour's pod is bound and its jobs run; no bound on how long it takes."""
        deadline = time.monotonic() + within
        await self._until(self._pod_bound(self._new_pod()), deadline - time.monotonic())
        why = await self.why_jobs_wait(within=deadline - time.monotonic())
        assert why is None, f"{why}\n{self.controllers.complaints()}"

    async def settled(self) -> bool:
        """Wait until a pod of the neighbour is bound, and so all that came before it was read."""
        name = self._new_pod()
        reached = await self._until(self._pod_bound(name), SETTLED_WITHIN * slowness())
        self._delete_pod(name)
        return reached

    async def seconds_until_bound(self) -> float:
        """How long the neighbour's pod waits at best in a few tries; infinite if for long.

        In seconds of a machine that does nothing else.
        """
        best = float("inf")
        for _ in range(TRIES):
            name, slow = self._new_pod(), slowness()
            began = time.monotonic()
            if await self._until(self._pod_bound(name), 2 * BOUND_WITHIN * slow):
                best = min(best, (time.monotonic() - began) / slow)
            self._delete_pod(name)
            if best < BOUND_WITHIN or self.dead():
                break
        return best

    async def why_jobs_wait(self, *, within: float = RUNNING_WITHIN) -> str | None:
        """Why a Volcano Job and a TYJob of the neighbour do not come to run; None if they do."""
        name = f"{SECRET}-{next(self._numbers)}"
        jobs = own_jobs(name)
        for job in jobs:
            self.cluster.create(json.loads(json.dumps(job)))

        def statuses() -> list[Object]:
            store = self.cluster.store
            found = [
                store.get("batch.volcano.sh/jobs", (NEIGHBOUR, name)) or {},
                store.get("arranger.io/tyjobs", (NEIGHBOUR, name)) or {},
            ]
            return [job.get("status", {}) for job in found]

        def running() -> bool:
            first, second = statuses()
            phases = first.get("state", {}).get("phase"), second.get("stage")
            return phases == ("Running", "Running")

        why = None
        if not await self._until(running, within * slowness()):
            pods = self.cluster.store.items("/pods", NEIGHBOUR)
            why = f"jobs {statuses()}, pods {[(p['metadata']['name'], p['status']) for p in pods]}"
        for job in jobs:
            group, version = job["apiVersion"].split("/")
            plural = f"{job['kind'].lower()}s"
            path = f"/apis/{group}/{version}/namespaces/{NEIGHBOUR}/{plural}/{name}"
            self.cluster.handle(Request("DELETE", path))
        return why

    def _new_pod(self) -> str:
        name = f"{SECRET}-{next(self._numbers)}"
        self.cluster.create(own_pod(name))
        return name

    def _delete_pod(self, name: str) -> None:
        body = json.dumps({"gracePeriodSeconds": 0}).encode()
        path = f"/api/v1/namespaces/{NEIGHBOUR}/pods/{name}"
        self.cluster.handle(Request("DELETE", path, {}, body))

    def _pod_bound(self, name: str) -> Callable[[], bool]:
        def bound() -> bool:
            pod = self.cluster.store.get("/pods", (NEIGHBOUR, name))
            return bool(pod and pod["spec"].get("nodeName"))

        return bound

    async def _until(self, reached: Callable[[], bool], within: float) -> bool:
        deadline = time.monotonic() + within
        while not reached():
            if time.monotonic() > deadline or self.dead():
                return False
            await asyncio.sleep(0.005)
        return True

    # --- the rest of a cluster -------------------------------------------------------------

    def furnish(self, nodes: int = NODES) -> None:
        """Definitions, namespaces, nodes and queues."""
        for manifest in bundled_crds():
            self.cluster.create(manifest)
        for name in (CULPRIT, NEIGHBOUR, "arranger-system"):
            self.cluster.create(_namespace(name))
        for number in range(nodes):
            self.cluster.create(a_node(f"node-{number}", cpu="64", memory="256Gi"))
        self.cluster.create(own_node())
        for name in ("default", "other"):
            self.cluster.create(_a_queue(name))

    async def _run_pods(self) -> None:
        """Bound pods of the neighbour run; whatever is being deleted goes."""
        while True:
            for pod in self.cluster.store.items("/pods"):
                with suppress(ApiError, KeyError, TypeError, AttributeError):
                    self._run_pod(pod)
            await asyncio.sleep(0.05)

    def _run_pod(self, pod: Object) -> None:
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            self.cluster.store.remove("/pods", (meta["namespace"], meta["name"]))
        elif (
            meta["namespace"] == NEIGHBOUR
            and pod["spec"].get("nodeName")
            and pod["status"].get("phase") == "Pending"
        ):
            stamp = _now()
            conditions = [
                {"type": kind, "status": "True", "lastTransitionTime": stamp}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ]
            statuses = [
                {"name": c["name"], "ready": True, "state": {"running": {"startedAt": stamp}}}
                for c in pod["spec"]["containers"]
            ]
            status = {"phase": "Running", "podIP": "10.0.0.1", "startTime": stamp}
            ran = {**status, "conditions": conditions, "containerStatuses": statuses}
            after = {**pod, "metadata": {**meta}, "status": {**pod["status"], **ran}}
            self.cluster.store.put("/pods", after)


def _now() -> str:
    return second_time(utc_now())


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _a_queue(name: str) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": True},
    }


def _kubeconfig(url: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }


def _serving(port: int) -> list[str]:
    """Flags for a server of one's own that tells everybody everything."""
    paths = "/livez,/readyz,/healthz,/metrics"
    address = (f"--secure-port={port}", "--bind-address=127.0.0.1")
    return [*address, f"--authorization-always-allow-paths={paths}"]


def _config() -> Object:
    return {
        "apiVersion": "arranger.io/v1alpha1",
        "kind": "SchedulerConfiguration",
    }
