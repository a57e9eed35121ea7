"""All queues in memory, and what is in them: what is used, and how many groups wait or run.

It is fed with events and asked for sums; it reads no clock and writes nothing. Limits are read and
pods are charged as the scheduler does it (:mod:`arranger.quota.queue_spec`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

from arranger.api.effects import ObjectReference
from arranger.api.quantity import QuantityError
from arranger.api.resource_requests import Amounts, add_amounts, parse_resource_list, pod_requests
from arranger.api.settings.gang_membership import gang_membership
from arranger.api.settings.queue_annotations import DEFAULT_QUEUE, ROOT_QUEUE, declared_queue
from arranger.api.types.core import Namespace, Node, ObjectMeta, Pod
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.queue import QUEUE_API_VERSION
from arranger.controllers.queue.entries import (
    BOUND,
    ENDED,
    WAITING,
    ObservedQueue,
    PodEntry,
    Usage,
    discard,
    queue_of,
)
from arranger.controllers.queue.promises import Promises
from arranger.controllers.queue.sums import QueueSums
from arranger.controllers.runtime.objects import is_stale
from arranger.quota.cards import NO_CARDS, Cards, cards_of
from arranger.quota.min_resources import requested_minimum
from arranger.quota.queue_rights import TenantRights
from arranger.quota.queue_spec import (
    MAX_LEVELS,
    QueueQuota,
    charges_for,
    path_or_default,
    path_self_to_root,
    read_queue,
    validate,
    why_no_pods_in,
)

QUEUES_PATH: Final = f"/apis/{QUEUE_API_VERSION}/queues"
#: Pods counted anew at once, some 8 ms: one edit may concern all pods of a large group.
RECOUNTED_AT_ONCE: Final = 256


class QueueCache:
    """Queues, nodes, pods and PodGroups. Methods that take events return the queues concerned.

    Args:
        schedulers: whose pods are counted as groups, by ``spec.schedulerName``.

    Attributes:
        served: whether the definition of Queues is installed.
        status_fields: the fields that it has in ``status``; None for any.
        pod_groups: ``namespace/name`` → PodGroup.
        total_requests: what all bound pods ask for.
        total_allocatable: what all nodes have together.
        promises: what PodGroups are still to get.
        rights: which queues namespaces may use; who names another is counted in the default one.
    """

    def __init__(self, schedulers: Iterable[str] = ("arranger",)) -> None:
        self._schedulers = frozenset(schedulers)
        self.served = False
        self.status_fields: frozenset[str] | None = None
        self.observed: dict[str, ObservedQueue] = {}
        self.states: dict[str, QueueQuota] = {}
        self.pod_groups: dict[str, VolcanoPodGroup] = {}
        self.total_requests: Counter[str] = Counter()
        self.total_allocatable: Counter[str] = Counter()
        self.promises = Promises()
        #: Queue → queues that name it as their parent, whether or not it is there.
        self._children: dict[str, set[str]] = {}
        self._node_cards: dict[str, Cards] = {}
        self._allocatable: dict[str, Amounts] = {}
        self._pods: dict[str, PodEntry] = {}
        #: Pods that could not be counted anew when something else had changed.
        self._uncounted: set[str] = set()
        #: Queues of those that were counted beside them, and of which nobody knows.
        self._untold: set[str] = set()
        #: Pods that are still to be counted anew, in this order; see :meth:`recount_due`.
        self._due: dict[str, None] = {}
        self._pods_on_node: dict[str, set[str]] = {}
        self._pods_of_pod_group: dict[str, set[str]] = {}
        self._sums = QueueSums()
        self.rights = TenantRights(
            lambda: (state.rights for state in self.states.values()),
            lambda name: (state.rights for state in self.path_self_to_root(name)),
        )
        #: Queue → PodGroups.
        self._pod_groups_in_queue: dict[str, set[str]] = {}
        self._queue_of_pod_group: dict[str, str] = {}

    def on_definition_updated(self, fields: frozenset[str] | None) -> set[str]:
        """Queues are served, with these fields in their status (None: whatever is written)."""
        self.served, self.status_fields = True, fields
        return set(self.observed)

    def on_definition_deleted(self) -> None:
        """Queues are served no more."""
        self.served = False

    def on_queue_updated(self, queue: ObservedQueue, *, asked_at: str = "") -> set[str]:
        """A queue was added or edited, or is the answer to a write of ours (``is_stale``)."""
        if is_stale(queue, self.observed.get(queue.name), asked_at=asked_at):
            return set()
        state = read_queue(queue.to_queue())
        self.observed[queue.name] = queue
        if self._set_state(queue.name, state) == state:
            return {queue.name}
        # Whether a queue is valid depends on others: it may be its own ancestor, or have none.
        return self._on_rights_changed() | set(self.states)

    def on_queue_deleted(self, name: str) -> set[str]:
        """A queue was deleted."""
        self.observed.pop(name, None)
        self._set_state(name, None)
        return self._on_rights_changed() | set(self.states)

    def on_namespace_updated(self, namespace: Namespace) -> set[str]:
        """A namespace was added or edited."""
        return self._move_all() if self.rights.set_namespace(namespace) else set()

    def on_namespace_deleted(self, name: str) -> set[str]:
        """A namespace was deleted."""
        return self._move_all() if self.rights.remove_namespace(name) else set()

    def _on_rights_changed(self) -> set[str]:
        was_limited = self.rights.limited
        self.rights.on_queues_changed()
        return self._move_all() if was_limited or self.rights.limited else set()

    def _move_all(self) -> set[str]:
        """Count all pods and PodGroups where they may be counted now."""
        moved = [u for u, e in self._pods.items() if self._queue_for(e) != e.queue]
        names = self._recount_in_slices(moved)
        for name, group in list(self.pod_groups.items()):
            if self._queue_of_pod_group[name] != self._allowed(queue_of(group), group.metadata):
                names |= self._set_pod_group(name, group)
        return names

    def _set_state(self, name: str, state: QueueQuota | None) -> QueueQuota | None:
        """Keep what a queue says, None once it is gone; returns what it said before."""
        old = self.states.pop(name, None)
        if old is not None:
            discard(self._children, old.parent or ROOT_QUEUE, name)
        if state is not None:
            self.states[name] = state
            self._children.setdefault(state.parent or ROOT_QUEUE, set()).add(name)
        return old

    def on_node_updated(self, node: Node) -> set[str]:
        """A node was added or edited."""
        with suppress(QuantityError):
            self._set_allocatable(node.metadata.name, parse_resource_list(node.status.allocatable))
        return self._set_node_cards(node.metadata.name, cards_of(node))

    def on_node_deleted(self, name: str) -> set[str]:
        """A node was deleted."""
        self._set_allocatable(name, {})
        return self._set_node_cards(name, NO_CARDS)

    def _set_allocatable(self, node: str, amounts: Amounts) -> None:
        add_amounts(self.total_allocatable, self._allocatable.pop(node, {}), -1)
        add_amounts(self.total_allocatable, amounts)
        if amounts:
            self._allocatable[node] = amounts

    def _set_node_cards(self, node: str, cards: Cards) -> set[str]:
        if self._node_cards.get(node, NO_CARDS) == cards:
            return self._recount(())
        if cards:
            self._node_cards[node] = cards
        else:
            del self._node_cards[node]
        return self._recount(self._pods_on_node.get(node, ()))

    def on_pod_group_updated(self, group: VolcanoPodGroup) -> set[str]:
        """A PodGroup was added or edited."""
        return self._set_pod_group(group.key, group)

    def on_pod_group_deleted(self, name: str) -> set[str]:
        """A PodGroup was deleted."""
        return self._set_pod_group(name, None)

    def _set_pod_group(self, name: str, group: VolcanoPodGroup | None) -> set[str]:
        allowed = "" if group is None else self._allowed(queue_of(group), group.metadata)
        wanted = {} if group is None else requested_minimum(group)
        before = self.pod_groups.pop(name, None)
        names: set[str] = set()
        self.promises.remove_group(name)
        if before is not None:
            queue = self._queue_of_pod_group.pop(name)
            self._pod_groups_in_queue[queue].discard(name)
            names.add(queue)
        if group is not None:
            self.pod_groups[name], self._queue_of_pod_group[name] = group, allowed
            self.promises.set_group(name, allowed, group.status.phase, wanted)
            self._pod_groups_in_queue.setdefault(allowed, set()).add(name)
            names.add(allowed)
        # A queue is Closing as long as one below it has work.
        concerned = {queue for each in names for queue in self._with_ancestors(each)}
        if len(names) == 1 and before is not None and group is not None:
            changed = before.status.phase != group.status.phase
            return self._recount_in_slices(()) | (concerned if changed else set())
        return concerned | self._recount_in_slices(sorted(self._pods_of_pod_group.get(name, ())))

    def on_pod_updated(self, pod: Pod) -> set[str]:
        """A pod was added or edited."""
        before = self._pods.get(pod.metadata.uid)
        # What may go wrong goes wrong before anything is counted anew.
        charged = self._charged(self._entry_for(pod))
        self._uncounted.discard(pod.metadata.uid)
        if before is not None and before.charged_by == charged.charged_by:
            self._pods[pod.metadata.uid] = charged
            return set()
        left = self.on_pod_deleted(pod.metadata.uid)
        return left | self._add_pod(charged)

    def on_pod_deleted(self, uid: str) -> set[str]:
        """A pod was deleted."""
        entry = self._pods.pop(uid, None)
        self._uncounted.discard(uid)
        if entry is None:
            return set()
        discard(self._pods_on_node, entry.pod.spec.node_name, uid)
        discard(self._pods_of_pod_group, entry.pod_group, uid)
        add_amounts(self.total_requests, entry.bound_requests, -1)
        if entry.pod_group:
            self.promises.add_pod(entry.pod_group, entry.bound_requests, -1)
        self._sums.remove(entry)
        return self._with_ancestors(entry.queue)

    def _add_pod(self, entry: PodEntry) -> set[str]:
        uid, node = entry.pod.metadata.uid, entry.pod.spec.node_name
        if entry.state == BOUND:
            add_amounts(self.total_requests, entry.requests)
            self._pods_on_node.setdefault(node, set()).add(uid)
        if entry.pod_group:
            self._pods_of_pod_group.setdefault(entry.pod_group, set()).add(uid)
            self.promises.add_pod(entry.pod_group, entry.bound_requests)
        self._pods[uid] = entry
        self._sums.add(entry)
        return self._with_ancestors(entry.queue)

    def _charged(self, entry: PodEntry) -> PodEntry:
        """A pod where it is charged now, and with what."""
        usage = Usage()
        if entry.state == BOUND:
            cards = self._node_cards.get(entry.pod.spec.node_name, NO_CARDS)
            names = set(cards.values())
            for name, n in charges_for(entry.requests, cards).items():
                (usage.cards if name in names else usage.resources)[name] += n
        return replace(entry, queue=self._queue_for(entry), usage=usage)

    def _queue_for(self, entry: PodEntry) -> str:
        group = self.pod_groups.get(entry.pod_group)
        inherited = queue_of(group) if group is not None else DEFAULT_QUEUE
        return self._allowed(entry.declared_queue or inherited, entry.pod.metadata)

    def _allowed(self, queue: str, of: ObjectMeta) -> str:
        return queue if self.rights.may_use(queue, of.namespace) else DEFAULT_QUEUE

    @property
    def has_due(self) -> bool:
        """Whether there is more to do for :meth:`recount_due`."""
        return bool(self._due)

    def recount_due(self) -> set[str]:
        """Count some of the pods anew that are counted as they were before an edit."""
        some = list(islice(self._due, RECOUNTED_AT_ONCE))
        for uid in some:
            del self._due[uid]
        return self._count_anew(some)

    def _recount_in_slices(self, uids: Iterable[str]) -> set[str]:
        """Count pods anew, the first of them now; then some queue has to be looked at for more."""
        self._due |= dict.fromkeys(uids)
        names = {DEFAULT_QUEUE} if len(self._due) > RECOUNTED_AT_ONCE else set[str]()
        return names | self._recount(()) | self.recount_due()

    def _recount(self, uids: Iterable[str]) -> set[str]:
        return self._count_anew(self._uncounted.union(uids))

    def _count_anew(self, uids: Iterable[str]) -> set[str]:
        """Count pods in the queues where they belong now. What they ask for stays the same, and so
        does what their PodGroups are promised."""
        queues: set[str] = set()
        errors: list[Exception] = []
        for uid in uids:
            if (before := self._pods.get(uid)) is None:
                continue
            try:
                entry = self._charged(before)
            except Exception as error:  # the others are counted all the same
                errors.append(error)
                self._uncounted.add(uid)
                continue
            self._uncounted.discard(uid)
            self._sums.remove(before)
            self._pods[uid] = entry
            self._sums.add(entry)
            queues |= {before.queue, entry.queue}
        self._untold.update(*map(self._with_ancestors, queues))
        if errors:
            raise errors[0]
        names, self._untold = self._untold, set()
        return names

    def _entry_for(self, pod: Pod) -> PodEntry:
        meta, membership = pod.metadata, gang_membership(pod)
        defined = membership is not None and membership.pod_group_type in (None, VolcanoPodGroup)
        try:
            requests = pod_requests(pod)
        except QuantityError:
            requests = {}
        state = ENDED if pod.terminal else BOUND if pod.spec.node_name else WAITING
        return PodEntry(
            pod,
            declared_queue=declared_queue(meta),
            pod_group=membership.gang if membership is not None and defined else "",
            workload=membership.gang if membership is not None else meta.uid,
            state=state,
            ours=pod.spec.scheduler_name in self._schedulers,
            requests=requests,
        )

    def _with_ancestors(self, queue: str) -> set[str]:
        return {state.name for state in path_self_to_root(self.states, queue)}

    def with_descendants(self, name: str) -> Iterator[str]:
        """A queue and its descendants, as deep as they count for it."""
        seen, level = {name}, [name] if name in self.states else []
        for _ in range(MAX_LEVELS):
            yield from level
            children = (child for queue in level for child in self._children.get(queue, ()))
            level = [child for child in dict.fromkeys(children) if child not in seen]
            seen.update(level)

    def usage_of(self, name: str) -> Usage:
        """What the pods of a queue and of its descendants use."""
        total = Usage()
        for queue in self.with_descendants(name):
            total.add(self._sums.usage_of(queue))
        return Usage(+total.resources, +total.cards)

    def path_self_to_root(self, name: str) -> list[QueueQuota]:
        """A queue and its ancestors; nothing if there is no such queue."""
        return path_or_default(self.states, name)

    def why_no_pods(self, name: str) -> str:
        """Why a queue takes no pods; "" if it does, as where there are no queues at all."""
        return why_no_pods_in(self.states, name)

    def phase_counts(self, name: str) -> Counter[str]:
        """Phase → groups of a queue; a pod of no gang is a group of its own.

        Of a PodGroup of Volcano's its phase counts, of all else what its pods do.
        """
        found = self._sums.phase_counts(name, leave_out=self.pod_groups)
        groups = self._pod_groups_in_queue.get(name, ())
        found.update(self.pod_groups[group].status.phase or "Pending" for group in groups)
        return found

    def has_work(self, name: str) -> bool:
        """Whether there is still work in a queue or its children."""
        return any(
            n
            for queue in self.with_descendants(name)
            for phase, n in self.phase_counts(queue).items()
            if phase != "Completed"
        ) or bool(self.usage_of(name).resources)

    def problems_of(self, name: str) -> list[str]:
        """What is wrong with a queue's limits and its place; see :func:`validate`."""
        return validate(self.states, name)

    def reference(self, name: str) -> ObjectReference:
        """A queue, for Events."""
        known = self.observed.get(name)
        uid = known.metadata.uid if known is not None else ""
        return ObjectReference(QUEUE_API_VERSION, "Queue", "", name, uid)

    def waiting_pods(self) -> dict[str, list[PodEntry]]:
        """Queue → pods of ours that wait for it, whether or not there is such a queue."""
        found: dict[str, list[PodEntry]] = {}
        for entry in self._pods.values():
            if entry.ours and entry.state == WAITING:
                found.setdefault(entry.queue, []).append(entry)
        return found
