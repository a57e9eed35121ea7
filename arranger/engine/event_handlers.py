"""What the watches tell, and what it does to the state of the core."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from arranger.api.annotation_checks import misread
from arranger.api.extenders import Extender
from arranger.api.gang_membership import claim_of
from arranger.api.quantity import QuantityError
from arranger.api.types.core import Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.pod_groups import AnyPodGroup, PodGroup, SavedGang
from arranger.api.types.queue import SERVICE_TYPE, Queue, is_preemptable, queue_of
from arranger.cluster.cluster import Cluster
from arranger.cluster.object_store import StoredObject, alike
from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import Desk
from arranger.engine.extenders.coordinator import Consulting
from arranger.engine.gang.holds import GangPolicy
from arranger.engine.gang.manager import GangWork
from arranger.engine.gang.priority import priority_of, rank_anew
from arranger.engine.phases import Phase
from arranger.engine.pod.binding_cycle import Binder
from arranger.engine.pod.preemption_executor import PREEMPTION, Preempting
from arranger.engine.queue.cluster_events import node_change, placed_pod_change, waiting_pod_change
from arranger.engine.queue.fair_share import QueueLanes
from arranger.engine.queue.job_shares import JobShares
from arranger.engine.queue.scheduling_queue import QueueSettings, SchedulingQueue
from arranger.engine.queued_pod import Member
from arranger.engine.quota_timers import QueueTimers
from arranger.framework.cluster_event import ClusterEvent, EventKind
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import Status
from arranger.gangs.group import GangGroup
from arranger.gangs.registry import GangRegistry
from arranger.quota.admission import Admission
from arranger.quota.ledger import QueueLedger
from arranger.quota.preemption_policy import QueuePolicy, QueueRules

log = logging.getLogger(__name__)

#: Phases of a PodGroup that has had its minimum bound before.
_HAS_RUN = frozenset({"Scheduled", "Running", "Finished", "Failed", "Completed"})


class Intake:
    """Owns all state, and takes in what happens to it.

    Attributes:
        cluster: nodes and placed pods.
        queue: what is not placed.
        registry: the gangs.
    """

    def __init__(
        self,
        profiles: Sequence[Profile],
        *,
        settings: QueueSettings | None = None,
        gangs: GangPolicy | None = None,
        queues: QueueRules | None = None,
        calendar: Callable[[float], float] = float,
        extenders: Sequence[Extender] = (),
        parallel_consultations: int = 1,
        perf_counter: Callable[[], float] | None = None,
    ) -> None:
        """``calendar`` turns the engine's clock into seconds since 1970.

        ``perf_counter`` measures, in seconds, how long attempts take; no decision depends on it.
        Without one they are not measured.

        ``parallel_consultations``: see :class:`~arranger.engine.extenders.coordinator.Consulting`.
        """
        self.cluster = Cluster()
        self.registry = GangRegistry()
        rules = queues or QueueRules()
        self.ledger = QueueLedger(
            self.cluster,
            group_of=lambda pod: self.registry.definition_of(pod.uid),
            by_owner=rules.by_owner,
            cards_unlimit=rules.cards_unlimit,
        )
        self.cluster.companions[QueueLedger] = self.ledger
        self.queue = SchedulingQueue(
            settings or QueueSettings(),
            lambda entity: self._gangs.gate(entity),
            QueueLanes(self.ledger),
            JobShares(self.cluster).of,
        )
        self._profiles: Mapping[str, Profile] = {p.scheduler_name: p for p in profiles}
        self._desk = Desk(self.cluster, self.queue, extenders)
        self._consulting = Consulting(self._desk, parallel_consultations)
        self._desk.calendar = calendar
        self._binder = Binder(
            self._desk, retry=self._retry, reject=self._rejected, bound=self._bound
        )
        self._preempting = Preempting(self._desk, reject=self._binder.reject, retry=self._retry)
        self._gangs = GangWork(
            self._desk,
            self.registry,
            gangs or GangPolicy(),
            self._binder.begin,
            self._preempting,
        )
        cycle = self._desk.cycle
        self._admission = Admission(self.ledger, rules.over_commit, rules.card_request_timeout)
        self._desk.let_in, self._desk.half_bound = self._let_in, self._gangs.is_half_bound
        self._queue_timers = QueueTimers(self._desk, self.registry, rules, self._admission)
        sparing = self._queue_timers.sparing
        self._desk.evicted, self._desk.spared = self._evicted, self._gangs.spared
        policy = QueuePolicy(self.ledger, rules, cycle.nominations.leaving, sparing)
        cycle.spared = policy if sparing.active else None
        cycle.others_choose = lambda pod: bool(self._consulting.minding_victims(pod))
        cycle.company, cycle.may_take = self._gangs.company, policy.may_take
        cycle.in_gang = lambda pod: self.registry.gang_of(pod.uid) is not None
        cycle.weight, cycle.allows, cycle.quota = policy.weight, policy.allows, policy
        self._perf_counter = perf_counter
        self._uid_of: dict[str, str] = {}
        self._started = False

    # --- events: nodes ---------------------------------------------------------------------

    def node_set(self, node: Node, now: float) -> None:
        """A node appeared or was edited."""
        try:
            before = self.cluster.set_node(node)
        except QuantityError as error:
            # Its last good state stays; a node never seen in a good state stays unknown.
            log.warning("node %s ignored: allocatable: %s", node.metadata.name, error)
            return
        event = node_change(before, node)
        if event is not None:
            self.ledger.changed()
            self._desk.happened(event, now)

    def node_gone(self, name: str, now: float) -> None:
        """A node was deleted."""
        for member in self._desk.cycle.nominations.on(name):
            self._preempting.break_promise(member, now)
        before = self.cluster.remove_node(name)
        if before is not None:
            self.ledger.changed()
            self._desk.happened(ClusterEvent(EventKind.NODE_REMOVED, node_before=before), now)

    # --- events: what plugins look up ------------------------------------------------------

    def object_set(self, stored: StoredObject, now: float) -> None:
        """An object that plugins look up appeared or was edited."""
        before = self.cluster.objects.set(stored)
        if before is None or not alike(before, stored):
            self._desk.happened(_stored_event(before, stored), now)

    def object_gone(self, stored: StoredObject, now: float) -> None:
        """An object that plugins look up was deleted."""
        self.cluster.objects.remove(stored)
        self._desk.happened(_stored_event(stored, None), now)

    # --- events: budgets -------------------------------------------------------------------

    def budget_set(self, budget: PodDisruptionBudget, now: float) -> None:
        """A PodDisruptionBudget appeared or was edited."""
        self.cluster.set_budget(budget)

    def budget_gone(self, budget: PodDisruptionBudget, now: float) -> None:
        """A PodDisruptionBudget was deleted."""
        self.cluster.remove_budget(budget)

    # --- events: queues --------------------------------------------------------------------

    def queue_set(self, queue: Queue, now: float) -> None:
        """A Queue appeared or was edited."""
        before = self.ledger.queues.get(queue.name)
        if not self.ledger.set_queue(queue):
            return
        problems = self.ledger.queues[queue.name].problems
        if problems and (before is None or before.problems != problems):
            self._desk.outbox += pod_events.queue_problems(queue, problems)
        self._desk.happened(ClusterEvent(EventKind.OTHER, resource="Queue"), now)

    def _let_in(self, group: GangGroup) -> str:
        # Who has had its minimum has its cards; they count by its pods.
        asking = [g.definition for g in group.gangs if g.definition and not g.satisfied]
        refusal = self._admission.refusal(asking, self._desk.cycle.now)
        self._queue_timers.tell()
        return refusal

    def _leave_inside(self, gang: str, now: float) -> None:
        """A gang that was let in is gone: others may have what it was to get."""
        if self._admission.placed(gang):
            self._desk.happened(ClusterEvent(EventKind.OTHER, resource="PodGroup"), now)

    def queue_gone(self, queue: Queue, now: float) -> None:
        """A Queue was deleted."""
        self.ledger.remove_queue(queue.name)
        self._desk.happened(ClusterEvent(EventKind.OTHER, resource="Queue"), now)

    # --- events: gangs ---------------------------------------------------------------------

    def pod_group_set(self, group: AnyPodGroup, now: float) -> None:
        """A PodGroup appeared or was edited."""
        if not self._started and isinstance(group, PodGroup) and group.status.phase in _HAS_RUN:
            self._regroup(self.registry.recall(group.name), now)
        gang = self.registry.gangs.get(group.name)
        before = list(gang.problems) if gang is not None else []
        if self.registry.changes_substance(group):
            self.ledger.changed()  # its queue or service type may be another
        changed = self.registry.definition_set(group)
        rank_anew(self._desk, self.registry, group)
        self._regroup(changed, now)
        if gang is not None and gang.problems != before:
            self._desk.outbox += pod_events.pod_group_problems(group, gang.problems)

    def pod_group_gone(self, group: AnyPodGroup, now: float) -> None:
        """A PodGroup was deleted."""
        self._leave_inside(group.name, now)
        self.ledger.changed()
        changed = self.registry.definition_gone(type(group), group.name)
        rank_anew(self._desk, self.registry, group)
        self._regroup(changed, now)

    def gang_recalled(self, gang: SavedGang, now: float) -> None:
        """A Gang object tells, at the start, what has become of a gang before."""
        self._gangs.rounds.saw(gang, now)
        if self._started:
            return
        if gang.status.resource_satisfied:
            self._regroup(self.registry.recall(gang.name), now)
        self._regroup(self.registry.recall_bundles(gang), now)

    def gang_forgotten(self, gang: SavedGang, now: float) -> None:
        """A Gang object was deleted."""
        self.registry.forget_recalled(gang.name)
        self._gangs.rounds.gone(gang.name)

    def _regroup(self, names: set[str], now: float) -> None:
        if names:
            self._gangs.changed(names, now)

    # --- events: pods ----------------------------------------------------------------------

    def pod_set(self, pod: Pod, now: float) -> None:
        """A pod appeared or was edited."""
        meta = pod.metadata
        earlier = self._uid_of.get(pod.key)
        if earlier is not None and earlier != meta.uid:
            # Deleted and recreated under one name, and the watch folded that into one event.
            self.pod_gone(pod.key, now)
        self._uid_of[pod.key] = meta.uid
        try:
            info = PodInfo(pod)
        except QuantityError as error:
            log.warning("pod %s ignored: resources: %s", pod.key, error)
            return
        changed = self._see_claim(pod)
        info.priority = priority_of(self.registry, pod)
        if pod.terminal:
            self._ended(meta.uid, now)
        elif pod.spec.node_name:
            self._observed_on_node(info, now)
        elif pod.spec.scheduler_name in self._profiles:
            self._observed_pending(info, now)
        self._regroup(changed, now)

    def pod_gone(self, key: str, now: float) -> None:
        """A pod (``namespace/name``) was deleted."""
        uid = self._uid_of.pop(key, None)
        if uid is not None:
            gang = self.registry.gang_of(uid)
            self._ended(uid, now)
            self._regroup(self.registry.pod_gone(uid), now)
            if gang is not None and gang.name not in self.registry.gangs:
                self._leave_inside(gang.name, now)

    def _see_claim(self, pod: Pod) -> set[str]:
        """Take the pod up in its gang; returns the gangs that this changes."""
        uid = pod.metadata.uid
        gang = self.registry.gang_of(uid)
        before = gang.claims[uid] if gang is not None else None
        claim = claim_of(pod)
        if claim is None and before is None:
            return set()
        changed = self.registry.pod_set(pod, claim)
        if (
            claim is not None
            and claim.problems
            and (not before or before.problems != claim.problems)
        ):
            self._desk.outbox += pod_events.pod_problems(pod, claim.problems)
        return changed

    def _observed_on_node(self, info: PodInfo, now: float) -> None:
        before = self.cluster.pod(info.uid)
        reserved = self.cluster.node_of(info.uid)
        member = self._desk.members.get(info.uid)
        if info.uid in self._desk.cycle.nominations:
            self._preempting.gone(info.uid)  # somebody has bound it
            reserved = None
        if member is not None and not self._is_ours_to_settle(member, info):
            self._drop(member, now)
        if before is not None and _says(before.pod) != _says(info.pod):
            self.ledger.changed()
        self.cluster.observe(info)
        if before is not None and reserved != info.pod.spec.node_name:
            # Somebody else bound it elsewhere: what we had reserved is free again.
            self._desk.happened(ClusterEvent(EventKind.POD_REMOVED, pod=before.pod), now)
            before = None
        event = placed_pod_change(before, info)
        if event is not None:
            self._desk.happened(event, now)

    def _is_ours_to_settle(self, member: Member, info: PodInfo) -> bool:
        """Whether the pod is where we are binding it, so that the outcome will end the story."""
        return (
            member.phase in (Phase.BINDING, Phase.UNKNOWN)
            and member.node == info.pod.spec.node_name
        )

    def _observed_pending(self, info: PodInfo, now: float) -> None:
        member = self._desk.members.get(info.uid)
        if info.pod.metadata.deletion_timestamp is not None:
            if member is not None and member.phase in (Phase.QUEUED, Phase.WAITING):
                self._ended(info.uid, now)
            elif member is not None:
                member.newest = info
            return
        if member is None:
            if info.uid in self.cluster:
                return  # bound by an earlier life of ours or by others; this event is older
            member = Member(info, self._profiles[info.pod.spec.scheduler_name], now)
            self._desk.members[info.uid] = member
            self._desk.outbox += pod_events.misread_notes(member)
            if node := info.pod.status.nominated_node_name:
                # Promised by an earlier life of ours: its victims may be gone already.
                self._desk.cycle.nominations.promise(member, node)
            self._gangs.enqueue(self._gangs.home(member, now), now)
            return
        if member.phase is not Phase.QUEUED:
            member.newest = info
            return
        entity, change = member.entity, waiting_pod_change(member.pod, info)
        earlier = member.pod
        assert entity is not None, f"{member} is queued nowhere"
        if change is None:
            member.pod = info
        elif (home := self._gangs.home(member, now)) is entity:
            self.queue.updated(entity, member, info, change, now)
        else:
            member.update(info)
            self._gangs.enqueue(home, now)
        if earlier.pod.metadata.annotations != info.pod.metadata.annotations:
            told = misread(earlier.pod, member.profile.by_name)
            self._desk.outbox += pod_events.misread_notes(member, told)
        self._desk.cycle.nominations.updated(member)

    def _ended(self, uid: str, now: float) -> None:
        freed, node = self.cluster.pod(uid), self.cluster.node_of(uid)  # on it, or promised it
        self._preempting.gone(uid)
        member = self._desk.members.get(uid)
        if member is not None:
            self._drop(member, now)
        self.cluster.remove(uid)
        if freed is not None and node is not None:
            self._desk.freed(freed, node, now)
            self._preempting.left(node)

    def _drop(self, member: Member, now: float) -> None:
        """Forget a pod that is not ours to place any more; its reservation stays counted."""
        self._binder.forget(member)
        self._gangs.left(member, now)
        self._desk.forget(member)

    # --- what becomes of placed pods -------------------------------------------------------

    def _retry(self, member: Member, now: float) -> None:
        """A pod has lost its node to an error: again after a back-off."""
        self._gangs.refused(member, now)
        entity = self._gangs.home(member, now)
        entity.attempts = max(entity.attempts, 1)
        entity.last_attempt = now
        self._gangs.enqueue(entity, now)

    def _rejected(self, member: Member, refusal: Status, now: float) -> None:
        """A pod has lost its node to a plugin: again when the plugin's events say so.

        To preemption: again after a back-off, for what it lacks now only a new attempt tells.
        """
        if refusal.plugin == PREEMPTION:
            self._retry(member, now)
            return
        self._gangs.refused(member, now)
        entity = self._gangs.home(member, now)
        entity.blockers = (member.pod,)
        self.queue.rest(entity, frozenset({refusal.plugin}), now)

    def _evicted(self, victim: PodInfo) -> None:
        self._queue_timers.sparing.evicted(victim)
        self._gangs.evicted(victim)

    def _bound(self, member: Member, now: float) -> None:
        satisfied = self.registry.bound(member.uid)
        for name in satisfied:
            self._admission.placed(name)
        self._regroup(satisfied, now)


def _says(pod: Pod) -> tuple[str, str, bool]:
    """What a pod says that its queue's ledger notes: its queue and service, and if it may go."""
    notes = pod.metadata.annotations
    return queue_of(pod), notes.get(SERVICE_TYPE, ""), is_preemptable(pod)


def _stored_event(before: StoredObject | None, after: StoredObject | None) -> ClusterEvent:
    resource = type(after or before).__name__
    return ClusterEvent(EventKind.OTHER, resource=resource, stored=after, stored_before=before)
