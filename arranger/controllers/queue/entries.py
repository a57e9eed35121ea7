"""What is kept in memory of queues and of what is in them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from arranger.api.resource_requests import Amounts, add_amounts
from arranger.api.settings.queue_annotations import DEFAULT_QUEUE
from arranger.api.types.core import ObjectMeta, Pod, Struct
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.queue import Queue, QueueSpec, QueueStatus

WAITING: Final = "waiting"
BOUND: Final = "bound"
ENDED: Final = "ended"


class ObservedQueue(Struct):
    """A Queue as the server shows it, with all of its status."""

    metadata: ObjectMeta
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name; queues have no namespace."""
        return self.metadata.name

    def to_queue(self) -> Queue:
        """The queue as the scheduler sees it."""
        return Queue(self.metadata, self.spec, QueueStatus(str(self.status.get("state") or "")))


@dataclass(slots=True)
class Usage:
    """What bound pods use: resources, and cards by name."""

    resources: Counter[str] = field(default_factory=Counter)
    cards: Counter[str] = field(default_factory=Counter)

    def add(self, other: Usage, sign: int = 1) -> None:
        """Add what others use, or with -1 subtract it."""
        add_amounts(self.resources, other.resources, sign)
        add_amounts(self.cards, other.cards, sign)


@dataclass(frozen=True, slots=True)
class PodEntry:
    """A pod in a queue.

    Attributes:
        declared_queue: the queue that the pod itself names, "" for none.
        pod_group: ``namespace/name`` of the PodGroup that may name one, "" for none.
        workload: what it is counted with: its gang, or itself.
        state: whether it waits, is on a node, or has ended.
        ours: whether it is of one of our schedulers; others use capacity, and are not counted.
        queue, usage: where it is charged, and with what.
    """

    pod: Pod
    declared_queue: str
    pod_group: str
    workload: str
    state: str
    ours: bool
    requests: Amounts
    queue: str = ""
    usage: Usage = field(default_factory=Usage)

    @property
    def bound_requests(self) -> Amounts:
        """What it asks for on its node."""
        return self.requests if self.state == BOUND else {}

    @property
    def charged_by(self) -> tuple[object, ...]:
        """What of the pod decides how it is charged and counted."""
        what = (self.declared_queue, self.pod_group, self.workload, self.queue)
        return *what, self.state, self.ours, self.requests, self.usage


def queue_of(group: VolcanoPodGroup) -> str:
    """The queue that a PodGroup names, or the default one."""
    return group.spec.queue or DEFAULT_QUEUE


def discard(index: dict[str, set[str]], key: str, uid: str) -> None:
    """Take one out of a set of an index; a set that is empty then is not kept."""
    if key in index:
        index[key].discard(uid)
        if not index[key]:
            del index[key]
