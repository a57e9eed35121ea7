"""The queues of a cluster and what waits in them, as ``arranger queue`` shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object
from arranger.api.resource_requests import format_resource_list
from arranger.api.settings.queue_annotations import job_priority
from arranger.api.settings.usage_record import USAGE_KEY, parse_usage
from arranger.api.types.core import Namespace, Node, Pod
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.queue import QUEUE_API_VERSION
from arranger.controllers.queue.cache import QUEUES_PATH, QueueCache
from arranger.controllers.queue.entries import ObservedQueue, PodEntry, Usage
from arranger.controllers.queue.status import limit_of, state_of, usage
from arranger.kube.client.transport import Request, Transport
from arranger.kube.watch.decoder import Decoder, T
from arranger.kube.watch.listing import list_collection
from arranger.quota.queue_spec import MAX_LEVELS, QueueQuota, as_served, parts_of_queues

#: Sorts after every time stamp.
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A gang or a lone pod that waits.

    Attributes:
        position: its place in its queue; 1 is next.
        name: ``namespace/name`` of the gang or the pod.
        pods: how many of its pods wait.
        priority, job_priority: by PriorityClass, and of its job among those of that priority.
        reason: the message that most of its pods have.
    """

    position: int
    name: str
    pods: int
    priority: int
    job_priority: int
    since: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue as it is shown; ``state`` is None for one that pods name and that does not exist.

    ``mean`` is what it has used on average, where that counts.
    """

    name: str
    state: QueueQuota | None
    phase: str
    used: Usage
    counts: Mapping[str, int]
    waiting: tuple[WaitingRow, ...]
    problems: tuple[str, ...] = ()
    mean: Mapping[str, float] = field(default_factory=dict)

    def usage_rows(self) -> Iterator[tuple[str, int, int | None, str]]:
        """(resource or card, used, limit, both as text); resources without either are left out."""
        state = self.state or QueueQuota(self.name)
        names = {
            *state.capability,
            *self.used.resources,
            *(state.card_quota or {}),
            *self.used.cards,
        }
        for name in sorted(names, key=lambda n: (n not in ("cpu", "memory"), n)):
            used, limit = limit_of(name, state, self.used)
            if used or limit is not None:
                yield name, used, limit, usage(name, state, self.used)

    def shares(self) -> Iterator[tuple[str, str]]:
        """(what of, amounts) of what is guaranteed to it, what it deserves, and what it has used on
        average, if anything is."""
        state = self.state or QueueQuota(self.name)
        lately = {name: round(n) for name, n in self.mean.items() if n >= 0.5}
        shares = ("guarantee", state.guarantee), ("deserved", state.deserved)
        for what, amounts in (*shares, ("used on average", lately)):
            if amounts:
                texts = format_resource_list(amounts).items()
                yield what, ", ".join(f"{name} {amount}" for name, amount in texts)

    def as_json(self) -> dict[str, Any]:
        """The same for programs; cpu in thousandths, memory in bytes."""
        state = self.state or QueueQuota(self.name)
        return {
            "name": self.name,
            "parent": state.parent or None,
            "state": self.phase,
            "weight": state.weight,
            "priority": state.priority,
            "reclaimable": state.reclaimable,
            "guarantee": dict(state.guarantee),
            "deserved": dict(state.deserved),
            "usedOnAverage": dict(self.mean),
            "use": [{"name": n, "used": u, "limit": most} for n, u, most, _ in self.usage_rows()],
            "groups": {phase.lower(): n for phase, n in sorted(self.counts.items())},
            "problems": list(self.problems),
            "waiting": [
                {
                    **{k: v for k, v in asdict(each).items() if k != "job_priority"},
                    "jobPriority": each.job_priority,
                    "since": each.since.isoformat() if each.since else None,
                }
                for each in self.waiting
            ],
        }


async def load_queue_cache(
    transport: Transport,
    schedulers: Iterable[str] = ("arranger",),
    unread: Callable[[str], None] = lambda _: None,
) -> QueueCache:
    """All queues of a cluster and what is in them, as of now.

    Args:
        unread: told of each object that is left out, since it cannot be decoded.

    Raises:
        LookupError: the server refused to show them.
        TransportError: there was no answer.
    """

    async def all_of(path: str, kind: type[T]) -> list[T]:
        listed = await list_collection(transport, path, Decoder(kind))
        if listed is None:
            return []  # the server does not know it
        for each in listed.undecodable:
            meta = each.metadata
            where = f"{meta.namespace}/{meta.name}".removeprefix("/")
            unread(f"{path}: {where}: {each.error}")
        return listed.objects

    cache = QueueCache(schedulers)
    for queue in await all_of(QUEUES_PATH, ObservedQueue):
        cache.on_queue_updated(queue)
    for namespace in await all_of("/api/v1/namespaces", Namespace):
        cache.on_namespace_updated(namespace)
    for node in await all_of("/api/v1/nodes", Node):
        cache.on_node_updated(node)
    pod_groups = f"/apis/{QUEUE_API_VERSION}/podgroups"
    for group in await all_of(pod_groups, VolcanoPodGroup):
        cache.on_pod_group_updated(group)
    for pod in await all_of("/api/v1/pods", Pod):
        cache.on_pod_updated(pod)
    return cache


async def load_mean_usage(transport: Transport, path: str) -> dict[str, dict[str, float]]:
    """Queue → what it has used on average, by the scheduler's record at ``path``.

    Nothing where there is no record that may be read, and that can be.
    """
    answer = await transport.send(Request("GET", path))
    try:
        data = decode_object(answer.body)["data"] if answer.status == 200 else {}
        return parse_usage(data[USAGE_KEY]).means()
    except (ParseError, KeyError, TypeError):
        return {}


def queue_views(
    cache: QueueCache,
    name: str | None = None,
    means: Mapping[str, Mapping[str, float]] | None = None,
) -> list[QueueView]:
    """The queues to show, parents before their children, in the order in which they are served.

    Args:
        means: queue → what it has used on average.

    Raises:
        LookupError: there is no queue ``name``.
    """
    waiting = cache.waiting_pods()
    if name is not None and name not in cache.states and name not in waiting:
        raise LookupError(f"there is no queue {name}")
    chosen = {name, *cache.with_descendants(name)} if name else {*cache.states, *waiting}
    views = (_queue_view(cache, each, waiting.get(each, [])) for each in _tree_order(cache, chosen))
    return [replace(view, mean=(means or {}).get(view.name, {})) for view in views]


def _tree_order(cache: QueueCache, chosen: set[str]) -> Iterator[str]:
    ordered = as_served(cache.states.get(name) or QueueQuota(name) for name in chosen)
    parts, done = parts_of_queues(ordered), set[str]()

    def children(parent: str, level: int = 0) -> Iterator[str]:
        for queue in parts.get(parent, ()):
            if queue.name not in done:
                done.add(queue.name)
                yield queue.name
                if level < MAX_LEVELS:
                    yield from children(queue.name, level + 1)

    yield from children("")
    # Queues whose parents form a circle come last, and those that are too deep.
    yield from (queue.name for queue in ordered if queue.name not in done)


def _queue_view(cache: QueueCache, name: str, entries: list[PodEntry]) -> QueueView:
    state = cache.states.get(name)
    rows = _waiting_rows(entries, partial(cache.rights.believed_priority, name))
    if state is None:
        phase = "Open" if name == "default" else "there is no such queue"
        return QueueView(name, None, phase, Usage(), Counter(Pending=len(rows)), rows)
    phase, used, counts = state_of(cache, name), cache.usage_of(name), cache.phase_counts(name)
    problems = (*state.problems, *cache.problems_of(name))
    return QueueView(name, state, phase, used, counts, rows, problems)


def _waiting_rows(
    entries: list[PodEntry], believed: Callable[[int], int]
) -> tuple[WaitingRow, ...]:
    """What waits, in the order of the queue: priorities, then age, then name (PrioritySort).

    Turns that jobs take by fair shares are not worked out.
    """
    workloads: dict[str, list[Pod]] = {}
    for entry in entries:
        workloads.setdefault(entry.workload, []).append(entry.pod)

    rows = [_waiting_row(workload, pods, believed) for workload, pods in workloads.items()]
    rows.sort(key=lambda row: (-row.priority, -row.job_priority, row.since or _NEVER, row.name))
    return tuple(replace(row, position=n) for n, row in enumerate(rows, start=1))


def _waiting_row(workload: str, pods: list[Pod], believed: Callable[[int], int]) -> WaitingRow:
    name, reasons = workload if "/" in workload else pods[0].key, Counter(map(_reason, pods))
    # Among equally frequent ones the first alphabetically, so that the text is stable.
    reason = min(reasons, key=lambda text: (-reasons[text], text))
    since = min(filter(None, (pod.metadata.creation_timestamp for pod in pods)), default=None)
    first = min(pods, key=lambda pod: (-pod.priority, pod.metadata.creation_timestamp or _NEVER))
    job = job_priority(first.metadata)
    return WaitingRow(0, name, len(pods), believed(first.priority), job, since, reason)


def _reason(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    if pod.status.nominated_node_name:
        return f"waits for its victims to leave {pod.status.nominated_node_name}"
    return "has not been tried yet"
