"""The queues of a cluster, and what waits in them, as ``arranger queue`` shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import msgspec

from arranger.api.types.core import Node, Pod, Struct
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.controllers.queue.cache import PATHS, Entry, QueueBook, ShownQueue, Use
from arranger.controllers.queue.status import limit_of, state_of, usage
from arranger.kube.client.status import parse_status
from arranger.kube.client.transport import Transport
from arranger.quota.queue_spec import QueueState

T = TypeVar("T")

_PAGE: Final = 500
#: After every time stamp.
_NEVER: Final = datetime.max.replace(tzinfo=UTC)

# --- reading -------------------------------------------------------------------------------------


class _ListMeta(Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _Page(Struct, Generic[T]):
    items: list[T] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


async def read_book(transport: Transport, schedulers: Iterable[str] = ("arranger",)) -> QueueBook:
    """All queues of a cluster and what is in them, as of now.

    Raises:
        LookupError: the server refused to show them.
        TransportError: there was no answer.
    """
    book = QueueBook(schedulers)
    book.queues_replaced(await _all(transport, PATHS[ShownQueue], ShownQueue))
    book.nodes_replaced(await _all(transport, PATHS[Node], Node))
    book.groups_replaced(await _all(transport, PATHS[VolcanoPodGroup], VolcanoPodGroup))
    book.pods_replaced(await _all(transport, "/api/v1/pods", Pod))
    return book


async def _all(transport: Transport, path: str, kind: type[T]) -> list[T]:
    """Every object of a collection; none where the server does not know it."""
    found: list[T] = []
    query = {"limit": str(_PAGE)}
    while True:
        answer = await transport.request("GET", path, query=query)
        if answer.status == 404:
            return found
        if answer.status != 200:
            raise LookupError(f"{path}: {parse_status(answer.body, answer.status).message}")
        page = msgspec.json.decode(answer.body, type=_Page[kind])  # type: ignore[valid-type]
        found += page.items or []
        if not page.metadata.continue_:
            return found
        query = {"limit": str(_PAGE), "continue": page.metadata.continue_}


# --- what is shown -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Waiting:
    """A gang or a lone pod that waits.

    Attributes:
        position: its place in its queue; 1 is next.
        name: ``namespace/name`` of the gang or the pod.
        pods: how many of its pods wait.
        reason: what the scheduler told most of them.
    """

    position: int
    name: str
    pods: int
    priority: int
    since: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class View:
    """A queue as it is shown; ``state`` is None for one that is not there."""

    name: str
    state: QueueState | None
    phase: str
    used: Use
    counts: Mapping[str, int]
    waiting: tuple[Waiting, ...]
    problems: tuple[str, ...] = ()

    def bars(self) -> Iterator[tuple[str, int, int | None, str]]:
        """(resource or card, used, limit, both for people); what has neither is left out."""
        state = self.state or QueueState(self.name)
        names = {*state.capability, *self.used.resources, *(state.quota or {}), *self.used.cards}
        for name in sorted(names, key=lambda n: (n not in ("cpu", "memory"), n)):
            used, limit = limit_of(name, state, self.used)
            if used or limit is not None:
                yield name, used, limit, usage(name, state, self.used)

    def as_json(self) -> dict[str, Any]:
        """The same for programs; cpu in thousandths, memory in bytes."""
        state = self.state or QueueState(self.name)
        return {
            "name": self.name,
            "parent": state.parent or None,
            "state": self.phase,
            "weight": state.weight,
            "priority": state.priority,
            "reclaimable": state.reclaimable,
            "use": [{"name": n, "used": u, "limit": most} for n, u, most, _ in self.bars()],
            "groups": {phase.lower(): n for phase, n in sorted(self.counts.items())},
            "problems": list(self.problems),
            "waiting": [
                {
                    "position": each.position,
                    "name": each.name,
                    "pods": each.pods,
                    "priority": each.priority,
                    "since": each.since.isoformat() if each.since else None,
                    "reason": each.reason,
                }
                for each in self.waiting
            ],
        }


def views_of(book: QueueBook, name: str | None = None) -> list[View]:
    """The queues to show, parents before their children, in the order in which they are served.

    Raises:
        LookupError: there is no queue ``name``.
    """
    waiting = book.waiting()
    if name is not None and name not in book.states and name not in waiting:
        raise LookupError(f"there is no queue {name}")
    chosen = set(book.states) | set(waiting) if name is None else {name, *book.below(name)}
    return [_view(book, each, waiting.get(each, [])) for each in _in_order(book, chosen)]


def _in_order(book: QueueBook, chosen: set[str]) -> Iterator[str]:
    def rank(name: str) -> tuple[int, str]:
        state = book.states.get(name)
        return -(state.priority if state else 0), name

    def children(parent: str) -> Iterator[str]:
        for name in sorted(chosen, key=rank):
            if name not in done and _parent(book, name, chosen) == parent:
                done.add(name)
                yield name
                yield from children(name)

    done: set[str] = set()
    yield from children("")
    # Those in a circle hang from nobody.
    yield from sorted(chosen - done, key=rank)


def _parent(book: QueueBook, name: str, chosen: set[str]) -> str:
    state = book.states.get(name)
    return state.parent if state is not None and state.parent in chosen else ""


def _view(book: QueueBook, name: str, entries: list[Entry]) -> View:
    state, lines = book.states.get(name), tuple(_line_up(entries))
    if state is None:
        used, counts = Use(), Counter(Pending=len(lines))
        missing = "" if name == "default" else "there is no such queue"
        return View(name, None, missing or "Open", used, counts, lines)
    wrong = (*state.problems, *book.faults(name))
    return View(name, state, state_of(book, name), book.used(name), book.counts(name), lines, wrong)


def _line_up(entries: list[Entry]) -> Iterator[Waiting]:
    """What waits, in the order of the queue: priority, then age, then name (PrioritySort)."""
    units: dict[str, list[Pod]] = {}
    for entry in entries:
        units.setdefault(entry.unit, []).append(entry.pod)

    def rank(unit: str) -> tuple[int, bool, datetime, str]:
        since = _since(units[unit])
        return -_priority(units[unit]), since is None, since or _NEVER, _name(unit, units[unit])

    for place, unit in enumerate(sorted(units, key=rank), start=1):
        pods = units[unit]
        name, told = _name(unit, pods), Counter(map(_reason, pods))
        # Of equally many the first by the alphabet, so that the text does not flap.
        reason = min(told, key=lambda text: (-told[text], text))
        yield Waiting(place, name, len(pods), _priority(pods), _since(pods), reason)


def _priority(pods: list[Pod]) -> int:
    return max(pod.priority for pod in pods)


def _since(pods: list[Pod]) -> datetime | None:
    stamps = [stamp for pod in pods if (stamp := pod.metadata.creation_timestamp) is not None]
    return min(stamps, default=None)


def _name(unit: str, pods: list[Pod]) -> str:
    return unit if "/" in unit else pods[0].key


def _reason(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    if pod.status.nominated_node_name:
        return f"waits for its victims to leave {pod.status.nominated_node_name}"
    return "has not been tried yet"
