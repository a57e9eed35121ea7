"""What pods hold on their nodes stays taken while the pods are set aside.

Something stands there for a pod that takes what it takes, and keeps away whom it keeps away. Where
nothing can, what is left of its node and of its queue is not known, so these are closed: they take
no pods until the pod counts, or is gone; so is the node of a pod whose labels and affinity are what
makes our code raise. There is no limit to that: pods on a node that is full already would be worse
than a node that takes none.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from arranger.api.quarantine import QuarantineKey, UnreadableError
from arranger.api.settings.gang_membership import GANG_LABELS
from arranger.api.settings.queue_annotations import declared_queue, queue_of
from arranger.api.types.core import Node, ObjectMeta, Pod
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo, requests_follow_from
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.phases import Phase
from arranger.engine.context.spared_pods import SparedPods
from arranger.engine.faults.fault_notes import FaultNotes
from arranger.engine.faults.known_objects import KnownObjects
from arranger.engine.faults.pod_facts import PodFactFinder
from arranger.engine.faults.states import PodFacts, holding_pod, key_of_pod, succeeds
from arranger.engine.handlers.closed_nodes import ClosedNodes
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.engine.handlers.watched_kinds import WatchedKind
from arranger.engine.queue.cluster_events import quota_change
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.quota.ledger import QuotaLedger


class _Standing(NamedTuple):
    """What stands on a node for a pod.

    Attributes:
        state: as it counts.
        pod: as it was last said to be.
        facts: what was known of it when it was set aside.
    """

    state: Pod
    pod: Pod
    facts: PodFacts


@dataclass(slots=True, eq=False)
class HeldRoom:
    """Puts something on nodes in place of pods, or closes the nodes.

    Args:
        uncounted: the pods that no book can take in: with them books come to be wrong.
    """

    _finder: PodFactFinder
    _notes: FaultNotes
    _known: KnownObjects
    _context: EngineContext
    _pods: PodHandlers
    _ledger: QuotaLedger
    _nominator: Nominator
    _closed: ClosedNodes
    _queue: SchedulingQueue
    _uncounted: set[QuarantineKey]
    _spared: SparedPods
    #: uid → what stands there for a pod.
    _standing: dict[str, _Standing] = field(default_factory=dict, init=False)
    #: uid → how often what stood there was accused: first the labels and the affinity may be what
    #: raises; where that goes on without them it is not.
    _accused: Counter[str] = field(default_factory=Counter, init=False)
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

    def facts_of(self, pod: Pod) -> PodFacts:
        """What is known of a pod; asked while the books have it, or what stands there for it."""
        known = self._standing.get(pod.metadata.uid)
        if known is None:
            return self._finder.of(pod)
        if known.pod is pod:
            return known.facts
        return self._finder.of(pod).or_else(known.facts)

    def on_accused(self, pod: Pod) -> Pod:
        """A pod in the books makes our code raise: as it was last said to be, if it is not that."""
        uid = pod.metadata.uid
        known = self._standing.get(uid)
        if known is None or known.state is not pod:
            return pod
        self._accused[uid] += 1
        return known.pod

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
        self, pod: Pod, node: str, facts: PodFacts, before: Pod | None, error: Exception, now: float
    ) -> None:
        """A pod that was set aside, in none of the books now, still takes what it takes."""
        uid, full = pod.metadata.uid, holding_pod(pod, node, facts)
        if facts.spared:
            self._spared.spare_pod(uid, facts.gang)
        if self.why_uncountable(full) is None:
            known = [before] if before is not None and self._takes_as_much(before, full) else []
            bare = holding_pod(pod, node, facts, bare=True)
            attempts = [
                *((each, self._pods.on_updated) for each in (*known, full)),
                (full, self._pods.hold_room),
            ]
            if self._accused[uid] == 1:
                attempts = []
            attempts += [(bare, self._pods.on_updated), (bare, self._pods.hold_room)]
            for state, hear in attempts:
                if succeeds(hear, state, now):
                    self._on_counted(pod, facts.queue)
                    self._standing[uid] = _Standing(state, pod, facts)
                    if state is bare and _keeps_others_away(pod):
                        # Whom it keeps away is not known now, from anywhere near.
                        self._close(uid, node, error, now)
                    return
                succeeds(self._pods.on_deleted, pod.key, now)
        self._uncounted.add(key_of_pod(pod.metadata))
        self._ledger.uncharged.set(uid, facts.queue, pod.metadata.namespace)
        self._close(uid, node, error, now)

    def on_undecodable(self, meta: Any, node: str, now: float) -> None:
        """A pod is on a node, and more of it cannot be read; the last known state holds, if any."""
        if meta.uid and meta.uid not in self._context.cluster:
            self._ledger.uncharged.set(meta.uid, declared_queue(meta), meta.namespace)
            self._close(meta.uid, node, UnreadableError("a pod on it cannot be decoded"), now)

    def end(self, meta: Any) -> None:
        """A pod counts again, or takes nothing any more."""
        self._standing.pop(meta.uid, None)
        self._accused.pop(meta.uid, None)
        self._spared.end_pod(meta.uid)
        self._end_closed(meta)

    def _end_closed(self, meta: Any) -> None:
        """A pod is counted, by whatever stands there for it."""
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
        self._end_closed(pod.metadata)
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
                and self._finder.of(before).queue == queue_of(state)
            )
        return False


def _keeps_others_away(pod: Pod) -> bool:
    """Whether others look at more of a pod than at what it takes."""
    affinity = pod.spec.affinity
    terms = affinity is not None and affinity.pod_anti_affinity is not None
    return terms or not pod.metadata.labels.keys() <= GANG_LABELS.keys()
