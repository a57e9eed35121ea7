"""The first page: how the cluster is, and what waits longest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from arranger.api.types.core import Node
from arranger.cluster.columns import BASIC_RESOURCES, exact_sum
from arranger.gangs.member_state import MemberState
from arranger.quota.cards import is_card_resource
from arranger.ui.views.amounts import Share
from arranger.ui.views.observed import STATES, Observed
from arranger.ui.views.queues import QueueNode, queue_tree
from arranger.ui.views.workloads import WorkloadRow, waiting_rows

#: Of what waits, the first that are named.
_FIRST: Final = 8
_SHOWN: Final = ("cpu", "memory", "pods")


@dataclass(frozen=True, slots=True)
class Overview:
    """The numbers of the first page.

    Attributes:
        nodes, ready, cordoned: how many nodes there are, and are so.
        pods: (state, how many), in the order in which people care.
        shares: what all nodes have, and what of it is requested.
        entities: (part of the queue, how much waits there).
        first: what is tried first.
        waiting: how much waits: lone pods and gangs.
        gangs, gangs_waiting: how many there are, and have members without a node.
        quarantined: objects set aside.
        queues: the first of them, each with what it has used most of.
        unread: what cannot be seen.
    """

    nodes: int
    ready: int
    cordoned: int
    pods: list[tuple[str, int]]
    shares: list[Share]
    entities: list[tuple[str, int]]
    first: list[WorkloadRow]
    waiting: int
    gangs: int
    gangs_waiting: int
    quarantined: int
    queues: list[tuple[QueueNode, Share | None]]
    unread: tuple[str, ...]


def overview(observed: Observed) -> Overview:
    """The numbers of the first page."""
    engine, table = observed.engine, observed.engine.cluster.table
    nodes = list(observed.objects.of(Node))
    first, waiting = waiting_rows(observed, _FIRST)
    gangs = engine.registry.gangs.values()
    return Overview(
        nodes=len(nodes),
        ready=sum(is_ready(node) for node in nodes),
        cordoned=int(table.unschedulable[: table.size].sum()),
        pods=[(state, observed.states[state]) for state in STATES if observed.states[state]],
        shares=cluster_shares(observed),
        entities=[(part.value, count) for part, count in engine.queue.count().items() if count],
        first=first,
        waiting=waiting,
        gangs=len(gangs),
        gangs_waiting=sum(bool(gang.count(MemberState.PENDING)) for gang in gangs),
        quarantined=sum(engine.barrier.quarantine.count().values()),
        queues=[(queue, _fullest(queue)) for queue in _first_queues(observed)],
        unread=observed.unread,
    )


def cluster_shares(observed: Observed) -> list[Share]:
    """What all nodes have of cpu, memory, pod slots and each kind of device, and what is used."""
    table = observed.engine.cluster.table
    found = []
    for column, name in enumerate(table.resources.values):
        if name in _SHOWN or (name not in BASIC_RESOURCES and is_card_resource(name)):
            total = exact_sum(table.allocatable[column, : table.size])
            if total:
                used = exact_sum(table.requested[column, : table.size])
                found.append(Share(name, used, total))
    return sorted(found, key=lambda each: (each.name in _SHOWN, each.name))


def _first_queues(observed: Observed) -> list[QueueNode]:
    """Those with work before those without, within the order in which they are served."""
    found = [each for top in queue_tree(observed) for each in top.walk()]
    return sorted(found, key=lambda queue: not (queue.waiting or queue.uses))[:_FIRST]


def _fullest(queue: QueueNode) -> Share | None:
    shares = [use.share for use in queue.uses]
    limited = [share for share in shares if share.total is not None]
    cards = [share for share in shares if is_card_resource(share.name)]
    return max(limited, key=lambda share: share.percent, default=next(iter(cards or shares), None))


def is_ready(node: Node) -> bool:
    """Whether a node says so; one that says nothing, as in a hand-written file, counts as ready."""
    stated = [each.status for each in node.status.conditions if each.type == "Ready"]
    return not stated or stated[0] == "True"
