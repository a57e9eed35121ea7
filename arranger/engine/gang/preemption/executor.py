"""Carries out preemption plans for gang groups, not too often for one group."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.preemption.planner import PreemptionPlan
from arranger.engine.gang.preemption.plans import GangPlans, PlanState
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy

#: Said of pods that only time protects.
PROTECTED_MESSAGE: Final = "Others have not run their minimum time, or are back from an eviction"
#: Said where so many pods could leave, or the members may be placed in so many ways, that not all
#: of these were compared.
BOUNDED_MESSAGE: Final = "There are too many ways to make room for it to compare them all"
#: Said where nobody is evicted because it takes too long to find out who would have to be.
GIVEN_UP_MESSAGE: Final = "It takes too long to find out whom to evict for it: nobody is for now"
#: Seconds between two evictions for one group: doubled with each, up to the maximum.
MIN_EVICTION_INTERVAL: Final = 10.0
MAX_EVICTION_INTERVAL: Final = 300.0
#: Seconds after the end of their grace for which victims of an earlier run of ours are waited for.
LATE_VICTIMS: Final = 60.0


def interval_after(times: int) -> float:
    """Seconds until the next plan after so many."""
    return min(MIN_EVICTION_INTERVAL * 2.0 ** min(times, 32), MAX_EVICTION_INTERVAL)


def told_of(plan: PreemptionPlan) -> str:
    """What is said of a plan in the members' conditions; "" for nothing."""
    if plan.given_up:
        return f" {GIVEN_UP_MESSAGE}."
    told = "" if plan.proven else f" {BOUNDED_MESSAGE}."
    protected = plan.time_protected and not plan.victims
    return f"{told} {PROTECTED_MESSAGE}." if protected else told


@dataclass(frozen=True, slots=True)
class GangPreemptionExecutor:
    """Evicts the victims of a plan and nominates the members to their nodes."""

    _context: EngineContext
    _nominator: Nominator
    _plans: GangPlans
    _executor: PreemptionExecutor
    _policy: EvictionPolicy

    def nominations_of(self, entity: QueuedEntity) -> dict[str, str]:
        """Member's uid → the node that it is nominated for."""
        nominator = self._nominator
        members = entity.members if len(nominator) else ()
        return {uid: nominator.node_of(uid) for uid in members if uid in nominator}

    def release_unused(
        self,
        entity: QueuedEntity,
        placed: Iterable[QueuedPod],
        nominated: Mapping[str, str],
        now: float,
    ) -> None:
        """Members have got nodes: others that they were nominated for are free.

        So are those of members that the group does without and that have lost their nominations.
        """
        with self._executor.together(now):
            for member in placed if nominated else ():
                self._executor.release_unused(member, nominated.get(member.uid, ""), now)
            for uid, node in nominated.items():
                lost = entity.members.get(uid)
                if lost is not None and uid not in self._nominator:
                    self._executor.release_lost(lost, node, now)

    def give_up_refused(self, entity: QueuedEntity, now: float) -> None:
        """No member keeps its nomination when extenders have refused one of them its node.

        What they refuse to one they refuse to all of its class: for none of these is anybody
        evicted there for some time.
        """
        nominated, members = self.nominations_of(entity), entity.members
        refused = {
            (members[uid].equivalence_key, node)
            for uid, node in nominated.items()
            if node in members[uid].refused_nominations.closed(now)
        }
        if not refused:
            return
        nodes: dict[Hashable, list[str]] = {}
        for key, node in refused:
            nodes.setdefault(key, []).append(node)
        for member in members.values():
            for node in nodes.get(member.equivalence_key, ()):
                member.refused_nominations.note(node, now)
        self._executor.clear_nominations(members.values(), now)

    def may_plan(self, entity: QueuedEntity, now: float) -> bool:
        """Whether room may be made for a group that does not fit.

        Not while its last victims are still terminating; and the less often the more evictions have
        been in vain. Victims of a time before our start may be its own.
        """
        entity.victims &= self._nominator.terminating_victims
        ends = self._ends_of_inherited(entity)
        if math.isfinite(soonest := min(ends, default=math.inf)):
            entity.plan_again_at = self._context.clock.from_unix_time(soonest, now)
        return not (entity.victims or ends or now < entity.evict_after)

    def plan(
        self, entity: QueuedEntity, *, in_steps: bool, begin_later: bool
    ) -> PreemptionPlan | PlanState:
        """The next step of a plan for the group, or all of it; nothing yet with ``begin_later``."""
        return self._plans.go_on(entity, in_steps=in_steps, begin_later=begin_later)

    def plan_again_later(self, entity: QueuedEntity, plan: PreemptionPlan, now: float) -> None:
        """Where a plan that found nothing is outdated: another one is due then, whatever happens.

        Each time in twice as long. That pods come that others may evict wakes nobody.
        """
        entity.outdated_plans = entity.outdated_plans + 1 if plan.outdated else 0
        if plan.outdated:
            entity.plan_again_at = now + interval_after(entity.outdated_plans - 1)

    def carry_out(self, entity: QueuedEntity, plan: PreemptionPlan, now: float) -> bool:
        """Make room for the group; returns whether anybody is evicted.

        Without a plan the members lose the nominations that they have, unless they fit once those
        have left that are leaving.
        """
        if plan.waits:
            return False
        entity.reason += told_of(plan)
        self._context.record_gang_plan(found=bool(plan.victims), proven=plan.proven)
        if plan.given_up:
            entity.evict_after = now + MAX_EVICTION_INTERVAL
        if not plan.victims:
            self._executor.clear_nominations(entity.members.values(), now)
            return False
        entity.evictions += 1
        entity.evict_after = now + interval_after(entity.evictions)
        going = {member.uid for member, _ in plan.destinations}
        stay = [member for member in entity.members.values() if member.uid not in going]
        self._executor.clear_nominations(stay, now)
        for member, node in plan.destinations:
            self._executor.nominate(member, node, (), now)
            self._context.outbox.append(pod_events.nominated(member, node))
        first, group = entity.representative, entity.gang_group.name
        node_of = self._context.cluster.node_of
        victims = [(victim, node_of(victim.uid) or "") for victim in plan.victims]
        self._executor.evict(victims, first, now, group=group)
        entity.victims.update(victim.uid for victim in plan.victims)
        self._context.outbox.append(pod_events.preempting(first, plan.victims))
        return True

    def _ends_of_inherited(self, entity: QueuedEntity) -> list[float]:
        """Until when victims of a time before our start are waited for that may be its own.

        In seconds since 1970; infinity for one that only has notice. One that has not gone in
        time may never go: its node may be dead.
        """
        cluster, preemptor = self._context.cluster, entity.representative.pod
        ends = []
        for uid in self._nominator.inherited_victims:
            victim = cluster.pod(uid)
            if victim is None or not self._policy.can_preempt(preemptor, victim):
                continue
            deleted = victim.pod.metadata.deletion_timestamp
            until = math.inf if deleted is None else deleted.timestamp() + LATE_VICTIMS
            if until > self._context.unix_now:
                ends.append(until)
        return ends
