"""A cluster of two tenants: one whose objects are spoilt, and one whose jobs must run to their end.

All controllers are at work, in virtual time; definitions are of a kind that checks nothing, as a
peer's may be. Who binds and runs pods is played by hand, so that only the controllers are judged.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec

from arranger.controllers.assembly import Controllers
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from arranger.kube.client.metrics import NullMetricsRecorder
from arranger.kube.client.transport import Request, Response, Stream
from tests.judged import JudgedTrace, loop_time
from tests.project.crds.samples import definitions
from tests.specification.premises import Premises
from tests.tyjobs import a_tyjob

Object = dict[str, Any]

#: Where the spoilt objects are, and where the good ones.
CULPRIT, NEIGHBOUR = "culprit", "neighbour"
#: Stands in objects for what no Python program can send, and becomes it on its way out.
DEEP, DIGITS = "@deep@", "@digits@"
_MONSTERS = {
    f'"{DEEP}"'.encode(): b"[" * 4_900 + b"]" * 4_900,
    f'"{DIGITS}"'.encode(): b"9" * 5_000,
}
_PATCH = "application/merge-patch+json"


def a_vcjob(name: str = "job", namespace: str = NEIGHBOUR, **spec: Any) -> Object:
    """A Job of two tasks."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    tasks = [{"name": name, "replicas": 2, "template": template} for name in ("master", "worker")]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"tasks": tasks, "queue": "q", "plugins": {"svc": [], "env": []}, **spec},
    }


class Gauges(NullMetricsRecorder):
    """Levels as they were set last."""

    def __init__(self) -> None:
        self.levels: dict[tuple[str, str], float] = {}

    def set_gauge(self, name: str, value: float, /, **labels: str) -> None:
        self.levels[name, labels.get("kind", "")] = value


class TwoTenants:
    """See the module.

    Attributes:
        controllers: those at work.
    """

    def __init__(self, seed: int = 1) -> None:
        self.cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(seed))
        #: Judged as far as it can be: no scheduler is here, and the culprit's objects are spoilt.
        self.trace = JudgedTrace(now=loop_time, premises=Premises(scheduler_names=set()))
        self.trace.may_be_unreadable = True
        self.trace.follow(self.cluster.store)
        self.gauges = Gauges()
        self.transport = _MonstrousTransport(self.cluster)
        for name in (CULPRIT, NEIGHBOUR):
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for definition in definitions().values():
            self.create(unchecked(definition))
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        self.create({**head, "metadata": {"name": "p"}, "value": 1})
        self.create(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": "q"},
                "spec": {},
            }
        )

    def create(self, manifest: Object) -> None:
        """Somebody creates an object, and writes its status if it has one."""
        self.cluster.create(manifest)
        if "status" in manifest:
            self._send("PATCH", f"{self._path(manifest)}/status", {"status": manifest["status"]})

    def replace(self, manifest: Object) -> None:
        """Somebody edits all of an object."""
        path = self._path(manifest)
        there = self.cluster.handle(Request("GET", path, {})).body
        if isinstance(there, dict) and there.get("kind") == manifest["kind"]:
            manifest["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
            self._send("PUT", path, manifest)

    def delete(self, manifest: Object) -> None:
        """Somebody deletes an object."""
        self._send("DELETE", self._path(manifest), {})

    def _path(self, manifest: Object) -> str:
        meta, plural = manifest["metadata"], manifest["kind"].lower() + "s"
        where = f"namespaces/{meta['namespace']}/" if "namespace" in meta else ""
        return f"/apis/{manifest['apiVersion']}/{where}{plural}/{meta['name']}"

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[Controllers]:
        """The controllers, and somebody who runs the pods of the neighbour."""
        options = ControllerOptions(
            rng=random.Random(1), now=virtual_now, debounce=0.05, metrics=self.gauges
        )
        controllers = Controllers(self.transport, options)
        for definition in self.cluster.objects("customresourcedefinitions", "apiextensions.k8s.io"):
            controllers.on_definition_event(definition, False)
        tasks = [asyncio.create_task(each) for each in (*controllers.tasks(), self._run_pods())]
        try:
            yield controllers
        finally:
            ended = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert not ended, [task.exception() for task in ended]
            self.trace.check()

    async def _run_pods(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            for pod in self.cluster.objects("pods"):
                if pod["metadata"]["namespace"] == NEIGHBOUR:
                    self._advance(pod)

    def _advance(self, pod: Object) -> None:
        meta, phase = pod["metadata"], pod.get("status", {}).get("phase", "")
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
            self._send("POST", f"{path}/binding", {"metadata": {}, "target": target})
        elif phase == "Pending":
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [ready]}
            self._send("PATCH", f"{path}/status", {"status": status})
        elif phase == "Running":
            self._send("PATCH", f"{path}/status", {"status": {"phase": "Succeeded"}})

    def _send(self, method: str, path: str, body: Object) -> None:
        kind = _PATCH if method == "PATCH" else "application/json"
        self.cluster.handle(Request(method, path, {}, msgspec.json.encode(body), kind))

    async def neighbour_ends(self, name: str, within: float = 60.0) -> None:
        """Two jobs of the other tenant run to their end."""
        self.create(a_vcjob(name))
        tyjob = a_tyjob(f"ty{name}", queue="q")
        tyjob["metadata"]["namespace"] = NEIGHBOUR
        self.create(tyjob)
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        while (ends := (self._phase(name), self._stage(f"ty{name}"))) != ("Completed", "Succeeded"):
            assert loop.time() < until, ends
            await asyncio.sleep(0.2)

    def _phase(self, name: str) -> Any:
        return self._status("jobs", "batch.volcano.sh", name).get("state", {}).get("phase")

    def _stage(self, name: str) -> Any:
        return self._status("tyjobs", "arranger.io", name).get("stage")

    def _status(self, plural: str, group: str, name: str, namespace: str = NEIGHBOUR) -> Object:
        for obj in self.cluster.objects(plural, group):
            if (obj["metadata"].get("namespace"), obj["metadata"]["name"]) == (namespace, name):
                return dict(obj.get("status") or {})
        return {}

    def quarantined(self) -> dict[str, float]:
        """Kind → quarantined objects, as the metrics say."""
        levels = self.gauges.levels.items()
        return {kind: level for (name, kind), level in levels if name == "quarantined_objects"}

    def told(self, kind: str, name: str) -> list[str]:
        """The notes of the Events about an object of the culprit."""
        about = {"kind": kind, "name": name}
        return [
            event["note"]
            for event in self.cluster.objects("events", "events.k8s.io")
            if about.items() <= event["regarding"].items()
        ]


def unchecked(definition: Object) -> Object:
    """A definition that lets anything in."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for version in definition["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": anything}
        version.pop("additionalPrinterColumns", None)
        version["subresources"] = {"status": {}}
    return definition


class _MonstrousTransport(InProcessTransport):
    """Puts in what only a hostile client sends: thousands of levels, thousands of digits."""

    async def send(self, request: Request) -> Response:
        answer = await super().send(request)
        return replace(answer, body=_monstrous(answer.body))

    @asynccontextmanager
    async def stream(self, request: Request, *, inactivity: float = 70.0) -> AsyncIterator[Stream]:
        async with super().stream(request, inactivity=inactivity) as stream:
            yield _MonstrousStream(stream)


class _MonstrousStream:
    def __init__(self, stream: Stream) -> None:
        self.status, self.headers, self._stream = stream.status, stream.headers, stream

    async def frames(self) -> AsyncIterator[bytes]:
        async with aclosing(self._stream.frames()) as lines:  # type: ignore[type-var]
            async for line in lines:
                yield _monstrous(line)

    async def body(self) -> bytes:
        return await self._stream.body()


def _monstrous(body: bytes) -> bytes:
    for name, monster in _MONSTERS.items():
        body = body.replace(name, monster)
    return body
