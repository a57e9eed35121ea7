"""What becomes of a preemption when extenders have had their say about the victims."""

from __future__ import annotations

from dataclasses import replace

from arranger.api.effects import NodeVictims, VictimAdvice
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context import Desk
from arranger.engine.pod.schedule_result import Unplaced
from arranger.engine.queued_pod import Member
from arranger.preemption.evicting_plugin import evicts
from arranger.preemption.importance import Candidate, in_order

NO_CANDIDATE = "no candidate node for preemption"


def choose(desk: Desk, member: Member, unplaced: Unplaced, advice: VictimAdvice) -> Unplaced:
    """The cheapest of what extenders agree to that makes room, as things are now."""
    found = [
        candidate
        for node, victims in advice.victims.items()
        if (candidate := _candidate(desk, member, node, victims)) is not None
    ]
    for candidate in sorted(found, key=lambda c: (*c.cost(), c.row)):
        if desk.cycle.fits_without(member, candidate.row, candidate.victims):
            node = desk.cluster.table.name(candidate.row)
            return replace(unplaced, nominated=node, victims=candidate.victims, options=())
    return replace(without_victims(unplaced, NO_CANDIDATE), nominated="")


def without_victims(unplaced: Unplaced, why: str) -> Unplaced:
    """Nobody is evicted, for that reason, and nothing changes about a nomination."""
    message = f"{unplaced.message} preemption: {why}"
    return replace(unplaced, message=message, nominated=None, victims=(), options=())


def _candidate(desk: Desk, member: Member, node: str, said: NodeVictims) -> Candidate | None:
    """What an extender agreed to, unless it is out of date or we do not agree."""
    cluster, cycle = desk.cluster, desk.cycle
    plugin, row = evicts(member.profile), cluster.table.index.get(node)
    if plugin is None or row is None:
        return None
    alone: list[PodInfo] = []
    for uid in said.uids:
        pod = cluster.pod(uid)
        if pod is None or cluster.node_of(uid) != node:
            return None
        alone.append(pod)
    victims = in_order(cycle.company(alone), cycle.weight)
    if not victims or not cycle.allows(victims):
        return None
    if not all(cycle.may_take(member.pod, pod) and plugin.may_leave(pod) for pod in victims):
        return None
    return Candidate(row, tuple(victims), said.violations, cycle.weight)
