"""Queues as a tree: what is used, guaranteed, deserved, and the most that may be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from arranger.quota.queue_spec import MAX_LEVELS, QueueQuota, as_served, parts_of_queues
from arranger.ui.views.amounts import Share, shown
from arranger.ui.views.observed import Observed

#: Resources without a limit of which it is shown how much a queue uses.
_MOST_USES: Final = 50


@dataclass(frozen=True, slots=True)
class QueueUse:
    """One resource or card of a queue; texts are "" where nothing is stated."""

    share: Share
    guaranteed: str
    deserved: str


@dataclass(frozen=True, slots=True)
class QueueNode:
    """A queue with those that are part of it.

    Attributes:
        facts: what is special about it, in a few words each.
        waiting: how much waits in itself: lone pods and gangs.
        problems: what is wrong with it.
    """

    name: str
    depth: int
    is_open: bool
    facts: list[str]
    uses: list[QueueUse]
    waiting: int
    problems: list[str]
    children: list[QueueNode]

    def walk(self) -> Iterator[QueueNode]:
        """Itself and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def queue_tree(observed: Observed) -> list[QueueNode]:
    """The queues that are part of no other, in the order in which they are served."""
    ledger = observed.engine.ledger
    ledger.refresh(observed.engine.cluster)
    waiting = waiting_by_queue(observed)
    ordered = as_served(ledger.queues.values())
    parts, done = parts_of_queues(ordered), set[str]()

    def made(queue: QueueQuota, depth: int) -> QueueNode:
        done.add(queue.name)
        parts_of = parts.get(queue.name, ()) if depth < MAX_LEVELS else ()
        below = [made(each, depth + 1) for each in parts_of if each.name not in done]
        return QueueNode(
            queue.name,
            depth,
            queue.is_open,
            _facts(queue),
            queue_uses(queue),
            waiting[queue.name],
            list(queue.problems),
            below,
        )

    top = [made(queue, 0) for queue in parts.get("", ())]
    # Queues whose parents form a circle come last, and those that are too deep.
    return top + [made(queue, 0) for queue in ordered if queue.name not in done]


def waiting_by_queue(observed: Observed) -> Counter[str]:
    """How much waits in each queue: lone pods and gangs."""
    engine = observed.engine
    return Counter(
        engine.ledger.queue_name(each.representative.pod) for each in engine.queue.entities()
    )


def queue_uses(queue: QueueQuota) -> list[QueueUse]:
    """Its resources and cards; those that it neither uses nor limits are left out."""
    most = {**queue.capability, **(queue.card_quota or {})}
    names = {*most, *queue.deserved, *queue.guarantee}
    # What nobody limits pods may name in any number.
    others = (n for n, used in queue.used.items() if used and n not in names)
    names.update(nsmallest(_MOST_USES, others, key=lambda n: (n not in ("cpu", "memory"), n)))
    return [
        QueueUse(
            Share(name, queue.used[name], most.get(name)),
            shown(name, queue.guarantee[name]) if name in queue.guarantee else "",
            shown(name, queue.deserved[name]) if name in queue.deserved else "",
        )
        for name in sorted(names, key=lambda n: (n not in ("cpu", "memory"), n))
    ]


def _facts(queue: QueueQuota) -> list[str]:
    facts = []
    if queue.priority:
        facts.append(f"priority {queue.priority}")
    if queue.weight != 1:
        facts.append(f"weight {queue.weight}")
    if not queue.reclaimable:
        facts.append("not reclaimable")
    return facts
