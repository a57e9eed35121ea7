"""Room for a whole gang, on paper first: nobody is evicted unless all that it needs then fits.

As kube-scheduler does it for its own groups, all pods of lower priority leave in thought, and are
spared one after the other, the protected and the important ones first, if the group fits all the
same. Where that would take too long nodes are emptied in thought, those first that cost least for
the room they give, until the group fits, and every pod that it can do without is put back. In both
ways the victims left are all needed. Gangs leave whole or give their surplus.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from arranger.api.effects import PatchPodStatus
from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import Desk
from arranger.engine.entity import Entity
from arranger.engine.gang.scheduling_cycle import GangCycle, GangDecision
from arranger.engine.pod.preemption_executor import Preempting
from arranger.engine.pod.schedule_result import Within
from arranger.engine.queued_pod import Member
from arranger.framework.runtime.dry_run import Company, WhatIf
from arranger.preemption.disruption_budgets import split
from arranger.preemption.evicting_plugin import evicts
from arranger.preemption.importance import in_order
from arranger.preemption.victims import allowed

#: Where only this plugin looks at pods, room is all that counts.
ROOM_ONLY: Final = frozenset({"NodeResourcesFit"})
#: Members placed in thought at most when pods are spared one by one; each takes about 0.1 ms.
SPARING: Final = 2048
#: Said of pods that only time protects.
SPARED: Final = "Others have not run their minimum time, or are back from an eviction"
#: How often a plan is tried with fewer victims: each costs as much as placing the group.
TRIES: Final = 16
#: Seconds between two evictions for one group at first, and at most.
PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 300.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the members go once the victims are gone."""

    places: tuple[tuple[Member, str], ...]
    victims: tuple[PodInfo, ...]


@dataclass(frozen=True, slots=True)
class _Question:
    """Which group is to fit, with the members that have a node, and within which rows."""

    entity: Entity
    held: Sequence[Member]
    within: Within | None


class GangPreemption:
    """Plans preemption for gang groups.

    Args:
        company: who must leave together.
        partners: the uids of a pod's gang group, none for a pod on its own.
    """

    def __init__(
        self,
        desk: Desk,
        cycle: GangCycle,
        company: Company,
        partners: Callable[[PodInfo], AbstractSet[str]],
    ) -> None:
        self._desk = desk
        self._cluster = desk.cluster
        self._cycle = cycle
        self._company = company
        self._partners = partners
        self._may_leave: Callable[[PodInfo], bool] = _nobody
        #: Whether some pods were out of the question last time for the time being only.
        self.spared = False

    def plan(self, entity: Entity, held: Sequence[Member]) -> Plan | None:
        """The cheapest way found to make room for the group, None if there is none."""
        members = list(entity.ready())
        plugin = evicts(entity.profile)
        if plugin is None:
            return None
        self._may_leave = plugin.may_leave
        if any(m.pod.pod.spec.preemption_policy == "Never" for m in members):
            return None
        if any(gang.settings.preempts is False for gang in entity.gang_group.gangs):
            return None
        weakest = min(members, key=lambda member: member.pod.priority)
        rows = self._in_order_of_cost(members[0].pod, self._potential(weakest.pod))
        if not rows:
            return None
        with self._cycle.on_paper(entity):
            for within in self._cycle.scopes(entity, held):
                asked = _Question(entity, held, within)
                everybody = [pod for _, pods in rows for pod in pods]
                if len(everybody) * len(members) <= SPARING:
                    cycle = self._desk.cycle
                    ordered = in_order(everybody, cycle.weight)
                    may = allowed(ordered, self._company, cycle.allows)
                    if self._fits_without(asked, may):
                        return self._by_sparing(asked, may)
                    continue
                count = self._fewest(asked, [pods for _, pods in rows])
                if count is not None:
                    chosen = [pod for _, pods in rows[:count] for pod in pods]
                    return self._best(asked, chosen)
        return None

    # --- whom to think away ----------------------------------------------------------------

    def _potential(self, taker: PodInfo) -> dict[int, list[PodInfo]]:
        """Row → the pods there that could be evicted for a pod, and so for its group."""
        table, leaving = self._cluster.table, self._desk.cycle.nominations.leaving
        promised = self._desk.cycle.nominations
        unbroken: dict[str, bool] = {}

        spared = self._desk.cycle.spared
        self.spared = False

        def takes(pod: PodInfo) -> bool:
            if not self._may_leave(pod):
                return False
            if self._desk.cycle.may_take(taker, pod):
                return True
            self.spared |= spared is not None and spared.until(taker, pod) > spared.now
            return False

        def may_go(pod: PodInfo) -> bool:
            if pod.uid in promised or not takes(pod):
                return False
            if pod.uid not in unbroken:
                company = self._company([pod])
                whole = all(map(takes, company))
                unbroken.update((each.uid, whole) for each in company)
            return unbroken[pod.uid]

        found: dict[int, list[PodInfo]] = {}
        for row in range(table.size):
            pods = [p for p in table.pods[row].values() if p.uid not in leaving and may_go(p)]
            if pods:
                found[row] = pods
        return found

    def _in_order_of_cost(
        self, like: PodInfo, potential: dict[int, list[PodInfo]]
    ) -> list[tuple[int, list[PodInfo]]]:
        """The rows, those first whose pods cost least for each pod like that they make room for."""
        table, budgets = self._cluster.table, tuple(self._cluster.budgets.values())
        columns, wanted = table.vector(like)
        weight = self._desk.cycle.weight

        def cost(row: int) -> tuple[int, int, float, int]:
            pods = potential[row]
            free = {c: int(table.allocatable[c, row] - table.requested[c, row]) for c in columns}
            for pod in pods:
                for column, amount in zip(*table.vector(pod), strict=True):
                    if column in free:
                        free[column] += amount
            room = min(free[c] // n for c, n in zip(columns, wanted, strict=True) if n)
            broken = len(split(in_order(pods, weight), budgets)[0])
            return broken, max(map(weight, pods)), len(pods) / max(room, 0.01), row

        return [(row, potential[row]) for row in sorted(potential, key=cost)]

    def _fewest(self, asked: _Question, groups: Sequence[list[PodInfo]]) -> int | None:
        """How many of the nodes must be emptied for the group to fit, roughly; None if all is too
        little."""

        def fits(count: int) -> bool:
            return self._fits_without(asked, [pod for pods in groups[:count] for pod in pods])

        high = 1
        while not fits(min(high, len(groups))):
            if high >= len(groups):
                return None
            high *= 2
        low, high = high // 2, min(high, len(groups))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def _fits_without(self, asked: _Question, victims: Sequence[PodInfo]) -> bool:
        with self._cluster.without(victims):
            decision = self._attempt(asked)
            self._cycle.give_back(decision)
        return decision.complete

    # --- whom to spare ---------------------------------------------------------------------

    def _by_sparing(self, asked: _Question, everybody: Sequence[PodInfo]) -> Plan | None:
        """The plan left when as many as possible are spared, the most important first.

        The members may go elsewhere with each that is spared (``podGroupPreemption``).
        """
        order = in_order(everybody, self._desk.cycle.weight)
        protected, free = split(order, self._cluster.budgets.values())
        victims = {pod.uid: pod for pod in (*protected, *free)}
        for pod in list(victims.values()):
            partners = self._partners(pod) or {pod.uid}
            gang = [uid for uid in victims if uid in partners]
            # Of a gang as many as possible; and alone it would be left in pieces.
            for count in range(len(gang) if pod.uid in victims else 0, 0, -1):
                spared = frozenset(gang[:count])
                rest = [each for uid, each in victims.items() if uid not in spared]
                leaving = {each.uid for each in self._company(rest)}
                if leaving.isdisjoint(spared) and self._fits_without(asked, rest):
                    victims = {each.uid: each for each in rest}
                    break
        return self._on_paper(asked, list(victims.values()))

    # --- whom to put back ------------------------------------------------------------------

    def _best(self, asked: _Question, chosen: Sequence[PodInfo]) -> Plan | None:
        """The plan that needs the fewest of the pods, roughly.

        Where the members go decides who must leave; so they are placed again with half of the
        victims left alone, with a quarter, and so on, for as long as that is worth its time.
        """
        plan, tries = self._on_paper(asked, chosen), TRIES
        size = 0 if plan is None else len(plan.victims) // 2
        while plan is not None and size and tries:
            for start in range(0, len(plan.victims), size):
                rest = [*plan.victims[:start], *plan.victims[start + size :]]
                tries -= 1
                other = self._on_paper(asked, rest) if rest else None
                if other is not None and len(other.victims) < len(plan.victims):
                    plan = other
                    break
                if not tries:
                    break
            else:
                size //= 2
            size = min(size, len(plan.victims) // 2)
        return plan

    def _attempt(self, asked: _Question) -> GangDecision:
        """Place what the group needs; for members beyond that nobody has to leave."""
        return self._cycle.attempt(asked.entity, asked.held, asked.within, surplus=False)

    def _on_paper(self, asked: _Question, chosen: Sequence[PodInfo]) -> Plan | None:
        node_of = {pod.uid: str(self._cluster.node_of(pod.uid)) for pod in chosen}
        with self._cluster.without(chosen):
            decision = self._attempt(asked)
            if not decision.complete:
                self._cycle.give_back(decision)
                return None
            places = tuple((member, member.node) for member, _ in decision.placed)
            victims = self._needed(chosen, node_of, decision)
            self._cycle.give_back(decision)
        leaving = in_order(self._company(victims), self._desk.cycle.weight)
        if leaving and not self._desk.cycle.allows(leaving):
            return None
        return Plan(places, tuple(leaving))

    def _needed(
        self, chosen: Sequence[PodInfo], node_of: dict[str, str], decision: GangDecision
    ) -> list[PodInfo]:
        """Put back whom the group can do without; returns the others."""
        there: dict[str, list[Member]] = {}
        for member, _ in decision.placed:
            there.setdefault(member.node, []).append(member)
        kinds = _one_of_each(member for member, _ in decision.placed)

        def spared(pod: PodInfo) -> bool:
            node = node_of[pod.uid]
            self._cluster.put_back(pod, node)
            if self._all_fit(node, there.get(node, ())) and self._within_quotas(kinds):
                return True
            self._cluster.think_away(pod)
            return False

        protected, free = split(
            in_order(chosen, self._desk.cycle.weight), self._cluster.budgets.values()
        )
        victims = [pod for pod in (*protected, *free) if not spared(pod)]
        # A gang that loses too many leaves whole, which may spare others.
        whole = {pod.uid for pod in self._company(victims)}
        for pod in chosen:
            if pod.uid in whole and pod.uid in self._cluster:
                self._cluster.think_away(pod)
        alone = [pod for pod in victims if len(self._company([pod])) == 1]
        spared_now = {pod.uid for pod in in_order(alone, self._desk.cycle.weight) if spared(pod)}
        return [pod for pod in victims if pod.uid not in spared_now]

    def _within_quotas(self, members: Iterable[Member]) -> bool:
        """Whether no quota of placed members is exceeded, which pods on any node count towards."""
        quota = self._desk.cycle.quota
        if quota is None or not quota.active:
            return True
        for member in members:
            mine = dict(quota.frees(member.pod))
            room = quota.room(member.pod, member.node)
            if any(left + mine.get(limit, 0) < 0 for limit, left in room.items()):
                return False
        return True

    def _all_fit(self, node: str, members: Collection[Member]) -> bool:
        """Whether members that were placed on a node would still be, with what is there now."""
        table = self._cluster.table
        row = table.index[node]
        if not members:
            return True
        if (table.requested[:, row] > table.allocatable[:, row]).any():
            return False
        return all(self._fits(member, row) for member in _one_of_each(members))

    def _fits(self, member: Member, row: int) -> bool:
        evaluation = self._desk.cycle.evaluate(member.profile, member.pod, member.sign)
        if evaluation.reads_pods <= ROOM_ONLY:
            return True
        with self._cluster.without([member.pod]):
            what_if = WhatIf(member.profile, self._cluster, member.pod, evaluation)
            return what_if.fits(row)


class GangEviction:
    """Carries plans out, and not too often for one group."""

    def __init__(self, desk: Desk, plans: GangPreemption, preempting: Preempting) -> None:
        self._desk = desk
        self._plans = plans
        self._preempting = preempting

    def try_for(self, entity: Entity, held: Sequence[Member], now: float) -> bool:
        """Make room for a group that does not fit; whether anybody is evicted.

        Not while its last victims are still leaving, and the more rarely the more often it has
        been done in vain.
        """
        leaving = self._desk.cycle.nominations.leaving
        entity.victims &= leaving
        if entity.victims or now < entity.evict_after:
            return False
        plan = self._plans.plan(entity, held)
        if plan is None or not plan.victims:
            if self._plans.spared:
                entity.reason += f" {SPARED}."
            for member in entity.members.values():
                self._preempting.withdraw(member, now)  # what it was promised is not enough
            return False
        entity.evictions += 1
        entity.evict_after = now + min(PAUSE * 2.0**entity.evictions, LONGEST_PAUSE)
        for member, node in plan.places:
            self._preempting.nominate(member, node, (), now)
            self._desk.outbox.append(
                PatchPodStatus(pod_events.pod_ref(member.pod.pod), nominated_node=node)
            )
        for victim in plan.victims:
            node = self._desk.cluster.node_of(victim.uid) or ""
            self._preempting.evict(victim, entity.lead, node, now, group=entity.gang_group.name)
            entity.victims.add(victim.uid)
        self._desk.outbox.append(pod_events.preempting(entity.lead, plan.victims))
        return True


def _nobody(pod: PodInfo) -> bool:
    del pod
    return False


def _one_of_each(members: Iterable[Member]) -> list[Member]:
    """One member of each class: the others fare alike."""
    seen: dict[object, Member] = {}
    for member in members:
        seen.setdefault(member.sign if member.sign is not None else member.uid, member)
    return list(seen.values())
