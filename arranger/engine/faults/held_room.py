"""What pods hold on their nodes stays taken while the pods are set aside.

Something stands there for a pod that takes what it takes. Where nothing can, what is left of its
node and of its queue is not known, so these are closed: they take no pods until the pod counts, or
is gone. There is no limit to that: pods on a node that is full already would be worse than a node
that takes none.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from arranger.api.annotations import QUEUE_NAME
from arranger.api.quarantine import QuarantineKey, UnreadableError
from arranger.api.settings.gang_membership import gang_membership
from arranger.api.settings.queue_annotations import DEFAULT_QUEUE, queue_of
from arranger.api.types.core import Node, ObjectMeta, Pod
from arranger.api.types.pod_groups import GANG_DEFINERS
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo, requests_follow_from
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.phases import Phase
from arranger.engine.faults.fault_notes import FaultNotes
from arranger.engine.faults.known_objects import KnownObjects
from arranger.engine.faults.states import holding_pod, key_of_pod, succeeds
from arranger.engine.handlers.closed_nodes import ClosedNodes
from arranger.engine.handlers.initial_objects import InitialObjects
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.engine.handlers.watched_kinds import WatchedKind
from arranger.engine.queue.cluster_events import quota_change
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.gangs.registry import GangRegistry
from arranger.quota.ledger import QuotaLedger


@dataclass(slots=True, eq=False)
class HeldRoom:
    """Puts something on nodes in place of pods, or closes the nodes.

    Args:
        uncounted: the pods that no book can take in: with them books come to be wrong.
    """

    _notes: FaultNotes
    _known: KnownObjects
    _context: EngineContext
    _pods: PodHandlers
    _ledger: QuotaLedger
    _registry: GangRegistry
    _nominator: Nominator
    _closed: ClosedNodes
    _initial: InitialObjects
    _queue: SchedulingQueue
    _uncounted: set[QuarantineKey]
    #: Whether a queue takes pods again, which those that wait have not been told.
    _opened: bool = field(default=False, init=False)

    def node_of(self, pod: Pod) -> str:
        """The node that a pod is on, or may be bound to by us though no watch has shown it yet."""
        if pod.spec.node_name:
            return pod.spec.node_name
        uid = pod.metadata.uid
        cluster, member = self._context.cluster, self._context.pods.get(uid)
        if uid in self._nominator or (
            member is not None
            and member.phase is not Phase.UNKNOWN
            and (member.phase is not Phase.BINDING or member.binding is None)
        ):
            return ""
        return cluster.node_of(uid) or ""

    def queue_of(self, pod: Pod) -> str:
        """The queue that a pod is charged to; "" where it is not known.

        Best asked while it is in its gang; later it is the queue that its PodGroup names, unless
        that is set aside.
        """
        uid = pod.metadata.uid
        if (named := _named_by(pod.metadata)) or not self._initial.taken:
            return named
        with suppress(Exception):
            placed = self._context.cluster.pod(uid)
            gang = self._registry.gang_of(uid)
            if gang is not None and gang.pod_group is not None:
                return self._ledger.queue_name(placed or PodInfo(pod))
            if gang is not None:
                return self._queue_of_gang(gang.name)
            if (membership := gang_membership(pod)) is not None:
                return self._queue_of_gang(membership.gang)
            if not pod.metadata.owner_references:
                return DEFAULT_QUEUE
            if (charge := self._ledger.charge_of(uid)) is not None:
                return charge.queue
        return ""

    def _queue_of_gang(self, gang: str) -> str:
        found = [self._registry.pod_group(kind, gang) for kind in GANG_DEFINERS]
        queues = {self._ledger.queue_of_group(each)[0] for each in found if each is not None}
        if not queues and self._notes.quarantine.get("PodGroup", *gang.split("/", 1)) is None:
            return DEFAULT_QUEUE
        return queues.pop() if len(queues) == 1 else ""

    def why_uncountable(self, pod: Pod) -> Exception | None:
        """What a pod makes our code raise that could not be counted before, found out apart."""
        if not self._uncounted or key_of_pod(pod.metadata) not in self._uncounted or pod.terminal:
            return None
        try:
            apart = Cluster()
            apart.set_node(Node(ObjectMeta(name=pod.spec.node_name)))
            apart.observe_pod(PodInfo(pod))
        except Exception as error:
            return error
        return None

    def keep(
        self, pod: Pod, node: str, queue: str, before: Pod | None, error: Exception, now: float
    ) -> None:
        """A pod that was set aside, in none of the books now, still takes what it takes."""
        state = holding_pod(pod, node, queue)
        if self.why_uncountable(state) is None:
            known = [before] if before is not None and self._takes_as_much(before, state) else []
            for each in (*known, state):
                if succeeds(self._pods.on_updated, each, now):
                    self._on_counted(pod, queue)
                    return
                succeeds(self._pods.on_deleted, pod.key, now)
            if succeeds(self._pods.hold_room, state, now):
                self._on_counted(pod, queue)
                return
            succeeds(self._pods.on_deleted, pod.key, now)
        self._uncounted.add(key_of_pod(pod.metadata))
        self._ledger.uncharged.set(pod.metadata.uid, queue, pod.metadata.namespace)
        self._close(pod.metadata.uid, node, error, now)

    def on_undecodable(self, meta: Any, node: str, now: float) -> None:
        """A pod is on a node, and more of it cannot be read; the last known state holds, if any."""
        if meta.uid and meta.uid not in self._context.cluster:
            self._ledger.uncharged.set(meta.uid, _named_by(meta), meta.namespace)
            self._close(meta.uid, node, UnreadableError("a pod on it cannot be decoded"), now)

    def end(self, meta: Any) -> None:
        """A pod is counted, or takes nothing any more."""
        if self._closed or self._uncounted or self._ledger.uncharged:
            uid = meta.uid
            self._closed.end(uid)
            self._uncounted.discard(key_of_pod(meta))
            self._opened |= self._ledger.uncharged.end(uid)

    def take_open(self, now: float) -> list[tuple[WatchedKind[Node], Node]]:
        """The nodes that are to be heard of again, as all of their pods are counted.

        Those that wait for a queue are tried again that takes pods again.
        """
        if self._opened:
            self._opened = False
            self._queue.wake(quota_change("Pod"), now)
        return [(self._known.kinds[Node], node) for node in self._closed.take_open()]

    def closes(self, kind: str, name: str) -> bool:
        """Whether this is a node that is there, and takes no pods."""
        return kind == "Node" and self._closed.closes(name)

    # --- inside ----------------------------------------------------------------------------

    def _on_counted(self, pod: Pod, queue: str) -> None:
        """A pod takes what it takes of its node; perhaps it is not known of which queue."""
        self.end(pod.metadata)
        if not queue:
            self._ledger.uncharged.set(pod.metadata.uid, queue, pod.metadata.namespace)

    def _close(self, uid: str, node: str, error: Exception, now: float) -> None:
        self._closed.close_for(uid, node)
        found = self._known.find(("Node", "", node))
        if found is None:
            return  # it is closed once it comes
        kind, obj = found
        if self._notes.quarantine.get("Node", "", node) is None:
            noted = self._notes.quarantine.add(kind.about(obj.metadata), error, now)
            self._notes.tell(noted, obj)
        if not succeeds(kind.updated, obj, now):
            succeeds(kind.deleted, obj, now)

    def _takes_as_much(self, before: Pod, state: Pod) -> bool:
        with suppress(Exception):
            return (
                before.spec.node_name == state.spec.node_name
                and requests_follow_from(before) == requests_follow_from(state)
                and self.queue_of(before) == queue_of(state)
            )
        return False


def _named_by(meta: Any) -> str:
    """The queue that a pod names itself; "" for none."""
    return str(meta.annotations.get(QUEUE_NAME) or meta.labels.get(QUEUE_NAME, ""))
