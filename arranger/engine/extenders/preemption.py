"""What becomes of a preemption when extenders have had their say about the victims."""

from __future__ import annotations

from dataclasses import replace

from arranger.api.effects import ExtenderPreemptionDecision, NodeVictims
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.engine.pod.schedule_result import Unschedulable
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.framework.preemption import EvictionPolicy
from arranger.preemption.importance import Candidate, by_importance

NO_CANDIDATE = "no candidate node for preemption"


def select_candidate(
    cycle: SchedulingCycle,
    policy: EvictionPolicy,
    member: QueuedPod,
    unschedulable: Unschedulable,
    decision: ExtenderPreemptionDecision,
) -> Unschedulable:
    """The cheapest candidate that extenders agree to and that lets the pod fit now."""
    cluster = cycle.cluster
    found = [
        candidate
        for node, proposed in decision.victims.items()
        if (candidate := _candidate(cluster, policy, member, node, proposed)) is not None
    ]
    for candidate in sorted(found, key=lambda c: (*c.cost(), c.row)):
        if cycle.fits_after_evicting(member, candidate.row, candidate.victims):
            node = cluster.table.name(candidate.row)
            victims = candidate.victims
            return replace(unschedulable, nominated_node=node, victims=victims, options=())
    return replace(without_victims(unschedulable, NO_CANDIDATE), nominated_node="")


def without_victims(unschedulable: Unschedulable, why: str) -> Unschedulable:
    """Nobody is evicted, for that reason, and nothing changes about a nomination."""
    message = f"{unschedulable.message} preemption: {why}"
    return replace(unschedulable, message=message, nominated_node=None, victims=(), options=())


def _candidate(
    cluster: Cluster, policy: EvictionPolicy, member: QueuedPod, node: str, proposed: NodeVictims
) -> Candidate | None:
    """What an extender agreed to, unless it is out of date or we do not agree."""
    plugin, row = member.profile.evicting_plugin, cluster.table.index.get(node)
    if plugin is None or row is None:
        return None
    named: list[PodInfo] = []
    for uid in proposed.uids:
        pod = cluster.pod(uid)
        if pod is None or cluster.node_of(uid) != node:
            return None
        named.append(pod)
    victims = by_importance(policy.expand_to_gang(named), policy.importance)
    may_go = (policy.can_preempt(member.pod, v) and plugin.is_preemptable(v) for v in victims)
    if not victims or not policy.losses((member.pod,)).may_add(victims) or not all(may_go):
        return None
    return Candidate(row, tuple(victims), proposed.violations, policy.importance)
