"""Schedulers measured one after the other, each on a real control plane of its own.

The rate counts from the first Binding seen to the last, by a watch; start-up is the time from
starting the process to the first Binding. CPU counts until all Events are written, which may be
seconds after the last Binding, if not said otherwise. Compare ratios within one run only.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp

from tests.controlplane.admin import until
from tests.controlplane.daemon import Daemon, install_rbac
from tests.controlplane.harness import ControlPlane, cpu_seconds

PODS: Final = "/api/v1/namespaces/default/pods"
CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
HEADING: Final = (
    "contender        pods/s   start-up s   pods/s in all   CPU ms/pod   apiserver CPU ms/pod"
)
#: Seconds without a Binding after which the rest is given up.
MAX_IDLE_SECONDS: Final = 60.0
#: Seconds in which all claims have to be made.
CLAIMS_PATIENCE: Final = 600.0
#: Seconds between two looks at the number of Events, and after which they are not waited for.
EVENTS_INTERVAL: Final = 1.0
EVENTS_PATIENCE: Final = 60.0
#: Seconds from the end of one watch to the next.
WATCH_INTERVAL: Final = 0.05

Object = dict[str, Any]
#: Starts a contender; returns its process id, None for one that runs in this process.
Starter = Callable[[ControlPlane], Awaitable[int | None]]


class SeenBinding(NamedTuple):
    """A pod that was seen bound, at this time of ``time.perf_counter``."""

    pod: str
    at: float


@dataclass(frozen=True, slots=True)
class Result:
    """One contender's run: CPU of the scheduler and of the API server in seconds.

    Attributes:
        memory: MiB, the most that the scheduler ever held; 0 if it was not measured.
    """

    name: str
    pods: int
    start_up: float
    seconds: float
    scheduler_cpu: float
    server_cpu: float
    memory: float = 0.0

    @property
    def rate(self) -> float:
        """Bindings a second, from the first to the last; 0 for one pod."""
        return (self.pods - 1) / self.seconds if self.seconds else 0.0

    @property
    def overall(self) -> float:
        """Bindings a second, from the start of the process."""
        return self.pods / (self.start_up + self.seconds)

    def row(self) -> str:
        """The result under :data:`HEADING`."""
        return (
            f"{self.name:15} {self.rate:7.0f} {self.start_up:12.2f} {self.overall:15.0f}"
            f" {1000 * self.scheduler_cpu / self.pods:12.2f}"
            f" {1000 * self.server_cpu / self.pods:22.2f}"
        )


async def measure(
    name: str,
    start: Starter,
    *,
    nodes: Iterable[Object],
    pods: Mapping[str, Iterable[Object]],
    seen: str,
    count: int,
    claims: int = 0,
    with_events: bool = True,
) -> Result:
    """Fill a new cluster, start the contender, and watch it bind.

    Args:
        pods: what else there is, by the path of its collection; created in this order.
        seen: what the names of the pods that count begin with.
        count: how many of these there are. A contender that leaves some waiting (kube-scheduler may
            do so for five minutes) is judged by those it has bound.
        claims: how many the controller-manager is to make from templates before the contender
            starts; it runs only if there are any.
        with_events: whether CPU counts until all Events are written, or until the last Binding.
    """
    async with ControlPlane(controllers=claims > 0, is_judged=False) as plane:
        await install_rbac(plane)
        await plane.post_all("/api/v1/nodes", nodes)
        for path, objects in pods.items():
            await plane.post_all(path, objects)

        async def made() -> bool:
            return await number_of(plane, CLAIMS) >= claims

        await until(made, within=CLAIMS_PATIENCE, what="all claims")
        async with watch_bindings(plane, seen) as bindings:
            server = plane.components["kube-apiserver"]
            before = server.cpu_seconds()
            started = time.perf_counter()
            pid = await start(plane)
            first = last = (await anext(bindings)).at
            bound = 1
            with suppress(TimeoutError):
                while bound < count:
                    last = (await asyncio.wait_for(anext(bindings), MAX_IDLE_SECONDS)).at
                    bound += 1
            if with_events and pid is not None:
                await events_written(plane)
            return Result(
                name,
                bound,
                first - started,
                last - first,
                0.0 if pid is None else cpu_seconds(pid),
                server.cpu_seconds() - before,
                0.0 if pid is None else most_memory(pid),
            )


async def number_of(plane: ControlPlane, collection: str) -> int:
    """How many objects there are."""
    page = await plane.get(f"{collection}?limit=1")
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


async def events_written(plane: ControlPlane) -> None:
    """Return when no more of them have come for two looks, or the patience is at its end."""
    end, counts = time.perf_counter() + EVENTS_PATIENCE, [-2, -1]
    while len({*counts[-3:]}) > 1 and time.perf_counter() < end:
        await asyncio.sleep(EVENTS_INTERVAL)
        counts.append(await number_of(plane, EVENTS))


def most_memory(pid: int) -> float:
    """MiB, the most that a process that runs has ever held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (held,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(held) / 1024


@asynccontextmanager
async def watch_bindings(
    plane: ControlPlane, names: str
) -> AsyncIterator[AsyncIterator[SeenBinding]]:
    """When each pod of such a name is seen bound; metadata only, to cost little.

    A server under load ends the watches of slow readers: it goes on where it was, or, where the
    server does not remember that, from a new list. No pod counts twice.

    Raises:
        aiohttp.ClientResponseError: the server refuses for good.
    """
    selected = f"{plane.url}{PODS}?fieldSelector=spec.nodeName!="
    accept = "application/json;as={};g=meta.k8s.io;v=v1"
    as_list = {"Accept": accept.format("PartialObjectMetadataList")}
    as_event = {"Accept": accept.format("PartialObjectMetadata")}
    version = (await plane.get(f"{PODS}?limit=1"))["metadata"]["resourceVersion"]

    async def seen(session: aiohttp.ClientSession) -> AsyncIterator[SeenBinding]:
        at = version
        counted: set[str] = set()

        def is_new(meta: Object) -> bool:
            name = meta["name"]
            new = name.startswith(names) and name not in counted
            counted.add(name)
            return new

        while True:
            try:
                if not at:
                    async with session.get(selected, headers=as_list) as answer:
                        bound = await answer.json()
                    at = bound["metadata"]["resourceVersion"]
                    for item in bound["items"]:
                        if is_new(item["metadata"]):
                            yield SeenBinding(item["metadata"]["name"], time.perf_counter())
                query = f"&watch=1&timeoutSeconds=3000&resourceVersion={at}"
                async with session.get(selected + query, headers=as_event) as answer:
                    async for line in answer.content:
                        if not line.endswith(b"\n"):
                            break  # cut in its midst
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            at = ""
                            break
                        meta = event["object"]["metadata"]
                        at = meta["resourceVersion"]
                        if event["type"] == "ADDED" and is_new(meta):
                            yield SeenBinding(meta["name"], time.perf_counter())
            except aiohttp.ClientResponseError as error:
                if error.status in (401, 403, 404):
                    raise
                at = ""
            except aiohttp.ClientError:
                pass  # a cut that shows
            await asyncio.sleep(WATCH_INTERVAL)

    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=plane.ssl_context()),
        timeout=aiohttp.ClientTimeout(total=None),
        headers={"Authorization": f"Bearer {plane.token}"},
        raise_for_status=True,
    ) as session:
        yield seen(session)


async def start_arranger(plane: ControlPlane) -> int:
    """Our daemon, with Events on and the rights of ``manifests/``."""
    daemon = await Daemon.start(plane, config={"leaderElection": {"leaderElect": False}})
    assert plane.recorder is None, "it would take half a core, of ours only"
    return daemon.process.pid


async def start_kube_scheduler(plane: ControlPlane) -> int:
    """The same binary's kube-scheduler, QPS 5000."""
    await plane.start_scheduler()
    return plane.components["kube-scheduler"].process.pid


#: Name → how it is started, and the ``schedulerName`` it answers to.
CONTENDERS: Final[Mapping[str, tuple[Starter, str]]] = {
    "arranger": (start_arranger, "arranger"),
    "kube-scheduler": (start_kube_scheduler, "default-scheduler"),
}


def compare(results: Mapping[str, Result]) -> str:
    """How the two compare, in words; "" unless both have run."""
    if not CONTENDERS.keys() <= results.keys():
        return ""
    ours, theirs = results["arranger"], results["kube-scheduler"]
    return (
        f"arranger is {ours.rate / theirs.rate:.2f} times as fast as kube-scheduler"
        f" ({ours.overall / theirs.overall:.2f} times from the start),"
        f" with 1/{theirs.scheduler_cpu / ours.scheduler_cpu:.1f} of its CPU"
    )
