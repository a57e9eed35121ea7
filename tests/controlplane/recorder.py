"""Records what a real API server shows a watch, and has the specification judge it.

Watches of several resources are put in one order by their versions, which etcd counts together.
Who has written what nobody records; see :attr:`~tests.specification.trace.Step.writer`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import aiohttp

from arranger.api.parsing.nesting import cut_deep_parts
from tests.specification.legal import Specification
from tests.specification.premises import Premises
from tests.specification.trace import Step

Object = dict[str, Any]

#: ``group/plural`` → where it is served; definitions may come late.
WATCHED: Final = {
    "/pods": "/api/v1/pods",
    "/nodes": "/api/v1/nodes",
    "/namespaces": "/api/v1/namespaces",
    "/persistentvolumes": "/api/v1/persistentvolumes",
    "/persistentvolumeclaims": "/api/v1/persistentvolumeclaims",
    "apps/replicasets": "/apis/apps/v1/replicasets",
    "apps/deployments": "/apis/apps/v1/deployments",
    "apps/statefulsets": "/apis/apps/v1/statefulsets",
    "batch/jobs": "/apis/batch/v1/jobs",
    "events.k8s.io/events": "/apis/events.k8s.io/v1/events",
    "resource.k8s.io/resourceclaims": "/apis/resource.k8s.io/v1/resourceclaims",
    "scheduling.volcano.sh/queues": "/apis/scheduling.volcano.sh/v1beta1/queues",
    "scheduling.volcano.sh/podgroups": "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "scheduling.sigs.k8s.io/podgroups": "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
    "scheduling.x-k8s.io/podgroups": "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
    "batch.volcano.sh/jobs": "/apis/batch.volcano.sh/v1alpha1/jobs",
    "arranger.io/tyjobs": "/apis/arranger.io/v1alpha1/tyjobs",
}
#: Seconds that news may take, and that a gang may take to be bound, on a busy machine.
NOTICE: Final = 30.0
BIND_SECONDS: Final = 60.0
#: Seconds to wait for what the server has yet to send, at the end.
LAST_NEWS: Final = 0.5


class Recorder:
    """Watches a cluster from :meth:`start` on.

    Attributes:
        premises: what holds in the cluster.
    """

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.premises = Premises(notice=NOTICE, bind_seconds=BIND_SECONDS)
        self._url, self._session = url, session
        self._tasks: list[asyncio.Task[None]] = []
        #: (time, resource, line) as they came.
        self._lines: list[tuple[float, str, bytes]] = []
        self._pods_are_watched = asyncio.Event()

    def configure(self, config: Mapping[str, Any]) -> None:
        """A scheduler with this configuration is at work."""
        queues = config.get("queues") or {}
        premises = self.premises
        premises.preempt_within_queue = queues.get("preemptWithinQueue", True)
        premises.respect_priority = queues.get("respectPriority", True)
        premises.exempt_card_pods = queues.get("cardUnlimitedCpuMemory", False)
        for profile in config.get("profiles") or ():
            premises.scheduler_names.add(profile.get("schedulerName", "arranger"))

    async def start(self) -> None:
        """Begin to watch, and return when pods are; idempotent."""
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._watch(resource, path))
                for resource, path in WATCHED.items()
            ]
        await self._pods_are_watched.wait()

    async def stop(self) -> None:
        """No more news."""
        if self._tasks:
            await asyncio.sleep(LAST_NEWS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _watch(self, resource: str, path: str) -> None:
        version = ""
        now = asyncio.get_running_loop().time
        while True:
            query = {"watch": "1", "resourceVersion": version} if version else {"watch": "1"}
            timeout = aiohttp.ClientTimeout(total=None, sock_read=None)
            try:
                async with self._session.get(
                    self._url + path, params=query, timeout=timeout, read_bufsize=2**22
                ) as answer:
                    if resource == "/pods" and answer.status == 200:
                        self._pods_are_watched.set()
                    while answer.status == 200 and (line := await answer.content.readline()):
                        self._lines.append((now(), resource, line))
                if self._lines and self._lines[-1][1] == resource:
                    last = json.loads(self._lines[-1][2])["object"]
                    version = last["metadata"].get("resourceVersion", "")
            except (aiohttp.ClientError, TimeoutError, ValueError):
                pass
            await asyncio.sleep(1.0)  # not served yet, or it has ended

    def bindings(self, node: str) -> set[str]:
        """Names of the pods that were seen on a node."""
        pods = (obj for _, _, resource, _, obj in self._changes() if resource == "/pods")
        return {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node}

    def judged(self) -> Specification:
        """What the specification says of all that was seen."""
        spec = Specification(self.premises)
        known: dict[tuple[str, str], Object] = {}
        clock = float("-inf")
        for version, at, resource, kind, after in sorted(self._changes(), key=lambda c: c[:2]):
            uid = after["metadata"]["uid"]
            before = known.pop((resource, uid), None)
            if kind == "DELETED" and before is None:
                continue
            if kind != "DELETED":
                known[resource, uid] = after
                kind = "ADDED" if before is None else "MODIFIED"
            clock = max(clock, at)
            spec.take(Step(version, clock, resource, kind, before, after))  # type: ignore[arg-type]
        spec.settle(clock)
        return spec

    def _changes(self) -> list[tuple[int, float, str, str, Object]]:
        found = []
        for at, resource, line in self._lines:
            said = json.loads(cut_deep_parts(line))
            if said["type"] in ("ADDED", "MODIFIED", "DELETED"):
                obj = said["object"]
                version = int(obj["metadata"]["resourceVersion"])
                found.append((version, at, resource, said["type"], obj))
        return found

    def check(self) -> None:
        """Nothing was wrong."""
        spec = self.judged()
        found = [str(each) for each in spec.violations]
        assert not found, "\n".join(found[:20])
        assert not spec.unreadable, spec.unreadable[:20]
