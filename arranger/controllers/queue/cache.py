"""All queues, and what is in them: who uses how much, and how many groups wait or run.

Fed with events, asked for sums: it knows no clock and writes nothing. The limits are read and the
pods are charged as the scheduler does it (:mod:`arranger.quota.queue_spec`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from arranger.api.gang_membership import claim_of
from arranger.api.quantity import QuantityError
from arranger.api.resource_requests import pod_requests
from arranger.api.types.core import Node, ObjectMeta, Pod, Struct
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.queue import (
    DEFAULT_QUEUE,
    QUEUE_NAME,
    Amounts,
    Queue,
    QueueSpec,
    QueueStatus,
)
from arranger.kube.watch.reflector import newer
from arranger.quota.cards import NO_CARDS, Cards, cards_of
from arranger.quota.queue_spec import QueueState, chain, demand, faults, read_queue

WAITING: Final = "waiting"
BOUND: Final = "bound"
ENDED: Final = "ended"


class ShownQueue(Struct):
    """A Queue as the server shows it, with all of its status."""

    metadata: ObjectMeta
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name; queues have no namespace."""
        return self.metadata.name

    def read(self) -> Queue:
        """The queue as the scheduler sees it."""
        return Queue(self.metadata, self.spec, QueueStatus(str(self.status.get("state") or "")))


QUEUE_API: Final = "scheduling.volcano.sh/v1beta1"
QUEUES: Final = f"/apis/{QUEUE_API}/queues"
#: Where everything that a book is made of comes from, but the pods.
PATHS: Final[Mapping[type[Any], str]] = {
    ShownQueue: QUEUES,
    Node: "/api/v1/nodes",
    VolcanoPodGroup: f"/apis/{QUEUE_API}/podgroups",
}


@dataclass(slots=True)
class Use:
    """What pods have: resources, and cards by name."""

    resources: Counter[str] = field(default_factory=Counter)
    cards: Counter[str] = field(default_factory=Counter)

    def add(self, other: Use, sign: int = 1) -> None:
        """Count what others have, or (-1) no longer have."""
        for mine, theirs in ((self.resources, other.resources), (self.cards, other.cards)):
            for name, n in theirs.items():
                mine[name] += sign * n


@dataclass(slots=True)
class Entry:
    """A pod in a queue.

    Attributes:
        said: the queue that the pod itself names, "" for none.
        gang: ``namespace/name`` of the PodGroup that may name one, "" for none.
        unit: what it is counted with: its gang, or itself.
        standing: whether it waits, is on a node, or has ended.
        ours: whether it is of one of our schedulers; others use room, and are not counted.
    """

    pod: Pod
    said: str
    gang: str
    unit: str
    standing: str
    ours: bool
    requests: Amounts
    queue: str = ""
    use: Use = field(default_factory=Use)


class QueueBook:
    """Queues, nodes, pods and PodGroups. Methods that take events return the queues concerned.

    Args:
        schedulers: whose pods are counted as groups, by ``spec.schedulerName``.
    """

    def __init__(self, schedulers: Iterable[str] = ("arranger",)) -> None:
        self._schedulers = frozenset(schedulers)
        self.shown: dict[str, ShownQueue] = {}
        self.states: dict[str, QueueState] = {}
        self._cards: dict[str, Cards] = {}
        self._pods: dict[str, Entry] = {}
        self._on_node: dict[str, set[str]] = {}
        self._of_gang: dict[str, set[str]] = {}
        self._groups: dict[str, VolcanoPodGroup] = {}
        #: Queue → what the pods in it have, those of its children not counted.
        self._used: dict[str, Use] = {}
        #: Queue → unit → standing → pods; and queue → PodGroups.
        self._units: dict[str, dict[str, Counter[str]]] = {}
        self._groups_in: dict[str, set[str]] = {}

    # --- queues ----------------------------------------------------------------------------

    def queues_replaced(self, queues: Iterable[ShownQueue]) -> set[str]:
        """These are all queues."""
        now = {queue.name: queue for queue in queues}
        names = set[str]().union(*map(self.queue_gone, self.shown.keys() - now.keys()))
        return names.union(*map(self.queue_set, now.values()))

    def queue_set(self, queue: ShownQueue) -> set[str]:
        """A queue was added or edited, or is the answer to a write of ours."""
        known = self.shown.get(queue.name)
        if known is not None and _is_older(queue.metadata, known.metadata):
            return set()
        state = read_queue(queue.read())
        self.shown[queue.name] = queue
        old, self.states[queue.name] = self.states.get(queue.name), state
        # What is wrong with one queue may be due to another.
        return {queue.name} if old == state else set(self.states)

    def queue_gone(self, name: str) -> set[str]:
        """A queue was deleted."""
        self.shown.pop(name, None)
        self.states.pop(name, None)
        return set(self.states)

    # --- nodes -----------------------------------------------------------------------------

    def nodes_replaced(self, nodes: Iterable[Node]) -> set[str]:
        """These are all nodes."""
        now = {node.metadata.name: node for node in nodes}
        names = set[str]().union(*map(self.node_gone, self._cards.keys() - now.keys()))
        return names.union(*map(self.node_set, now.values()))

    def node_set(self, node: Node) -> set[str]:
        """A node was added or edited."""
        return self._charge_anew(node.metadata.name, cards_of(node))

    def node_gone(self, name: str) -> set[str]:
        """A node was deleted."""
        return self._charge_anew(name, NO_CARDS)

    def _charge_anew(self, node: str, cards: Cards) -> set[str]:
        if self._cards.get(node, NO_CARDS) == cards:
            return set()
        if cards:
            self._cards[node] = cards
        else:
            del self._cards[node]
        return self._again(self._on_node.get(node, ()))

    # --- PodGroups -------------------------------------------------------------------------

    def groups_replaced(self, groups: Iterable[VolcanoPodGroup]) -> set[str]:
        """These are all PodGroups."""
        now = {group.name: group for group in groups}
        names = set[str]().union(*map(self.group_gone, self._groups.keys() - now.keys()))
        return names.union(*map(self.group_set, now.values()))

    def group_set(self, group: VolcanoPodGroup) -> set[str]:
        """A PodGroup was added or edited."""
        return self._regroup(group.name, group)

    def group_gone(self, name: str) -> set[str]:
        """A PodGroup was deleted."""
        return self._regroup(name, None)

    def _regroup(self, name: str, group: VolcanoPodGroup | None) -> set[str]:
        before = self._groups.pop(name, None)
        names: set[str] = set()
        if before is not None:
            self._groups_in[_queue(before)].discard(name)
            names.add(_queue(before))
        if group is not None:
            self._groups[name] = group
            self._groups_in.setdefault(_queue(group), set()).add(name)
            names.add(_queue(group))
        same_queue = len(names) == 1 and before is not None and group is not None
        if same_queue and before is not None and group is not None:
            return set() if before.status.phase == group.status.phase else names
        return names | self._again(self._of_gang.get(name, ()))

    # --- pods ------------------------------------------------------------------------------

    def pods_replaced(self, pods: Iterable[Pod]) -> set[str]:
        """These are all pods."""
        now = {pod.metadata.uid: pod for pod in pods}
        names = set[str]().union(*map(self.pod_gone, self._pods.keys() - now.keys()))
        return names.union(*map(self.pod_set, now.values()))

    def pod_set(self, pod: Pod) -> set[str]:
        """A pod was added or edited."""
        before = self._pods.get(pod.metadata.uid)
        entry = self._entry(pod)
        if before is not None:
            known = (before.said, before.gang, before.standing, before.ours, before.requests)
            if known == (entry.said, entry.gang, entry.standing, entry.ours, entry.requests):
                before.pod = pod
                return set()
        left = self.pod_gone(pod.metadata.uid)
        return left | self._enter(entry)

    def pod_gone(self, uid: str) -> set[str]:
        """A pod was deleted."""
        entry = self._pods.pop(uid, None)
        if entry is None:
            return set()
        _drop(self._on_node, entry.pod.spec.node_name, uid)
        _drop(self._of_gang, entry.gang, uid)
        self._used[entry.queue].add(entry.use, -1)
        if entry.ours:
            units = self._units[entry.queue]
            units[entry.unit][entry.standing] -= 1
            if not units[entry.unit].total():
                del units[entry.unit]
        return self._above(entry.queue)

    def _enter(self, entry: Entry) -> set[str]:
        uid, node = entry.pod.metadata.uid, entry.pod.spec.node_name
        group = self._groups.get(entry.gang)
        entry.queue = entry.said or (_queue(group) if group is not None else DEFAULT_QUEUE)
        entry.use = Use()
        if entry.standing == BOUND:
            cards = self._cards.get(node, NO_CARDS)
            names = set(cards.values())
            for name, n in demand(entry.requests, cards).items():
                (entry.use.cards if name in names else entry.use.resources)[name] += n
            self._on_node.setdefault(node, set()).add(uid)
        if entry.gang:
            self._of_gang.setdefault(entry.gang, set()).add(uid)
        self._pods[uid] = entry
        self._used.setdefault(entry.queue, Use()).add(entry.use)
        if entry.ours:
            units = self._units.setdefault(entry.queue, {})
            units.setdefault(entry.unit, Counter())[entry.standing] += 1
        return self._above(entry.queue)

    def _again(self, uids: Iterable[str]) -> set[str]:
        names: set[str] = set()
        for uid in list(uids):
            entry = self._pods[uid]
            names |= self.pod_gone(uid)
            names |= self._enter(entry)
        return names

    def _entry(self, pod: Pod) -> Entry:
        meta, claim = pod.metadata, claim_of(pod)
        defined = claim is not None and claim.definition in (None, VolcanoPodGroup)
        try:
            requests = pod_requests(pod)
        except QuantityError:
            requests = {}
        standing = ENDED if pod.terminal else BOUND if pod.spec.node_name else WAITING
        return Entry(
            pod,
            said=meta.annotations.get(QUEUE_NAME) or meta.labels.get(QUEUE_NAME, ""),
            gang=claim.gang if claim is not None and defined else "",
            unit=claim.gang if claim is not None else meta.uid,
            standing=standing,
            ours=pod.spec.scheduler_name in self._schedulers,
            requests=requests,
        )

    def _above(self, queue: str) -> set[str]:
        return {state.name for state in chain(self.states, queue)}

    # --- sums ------------------------------------------------------------------------------

    def below(self, name: str) -> Iterator[str]:
        """A queue and all that are part of it."""
        return (other for other in self.states if name in self._above(other))

    def used(self, name: str) -> Use:
        """What the pods of a queue and of its children have."""
        total = Use()
        for queue in self.below(name):
            total.add(self._used.get(queue, Use()))
        total.resources, total.cards = +total.resources, +total.cards
        return total

    def counts(self, name: str) -> Counter[str]:
        """Phase → groups of a queue; a pod of no gang is a group of its own.

        Of a PodGroup of Volcano's its phase counts, of all else what its pods do.
        """
        found = Counter(
            self._groups[group].status.phase or "Pending" for group in self._groups_in.get(name, ())
        )
        for unit, pods in self._units.get(name, {}).items():
            if unit not in self._groups:
                phases = ((BOUND, "Running"), (WAITING, "Pending"), (ENDED, "Completed"))
                found[next(phase for standing, phase in phases if pods[standing])] += 1
        return found

    def busy(self, name: str) -> bool:
        """Whether there is still work in a queue or its children."""
        return any(
            n
            for queue in self.below(name)
            for phase, n in self.counts(queue).items()
            if phase != "Completed"
        ) or bool(self.used(name).resources)

    def faults(self, name: str) -> list[str]:
        """What is wrong with a queue's limits and its place; see :func:`faults`."""
        return faults(self.states, name)

    def waiting(self) -> dict[str, list[Entry]]:
        """Queue → pods of ours that wait for it, whether or not there is such a queue."""
        found: dict[str, list[Entry]] = {}
        for entry in self._pods.values():
            if entry.ours and entry.standing == WAITING:
                found.setdefault(entry.queue, []).append(entry)
        return found


def _queue(group: VolcanoPodGroup) -> str:
    return group.spec.queue or DEFAULT_QUEUE


def _is_older(metadata: ObjectMeta, known: ObjectMeta) -> bool:
    """Whether this is no later state of the same object."""
    same = metadata.uid == known.uid
    return same and not newer(metadata.resource_version, known.resource_version)


def _drop(index: dict[str, set[str]], key: str, uid: str) -> None:
    if key in index:
        index[key].discard(uid)
        if not index[key]:
            del index[key]
