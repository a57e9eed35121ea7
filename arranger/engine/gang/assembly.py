"""What goes on in steps for gang groups: attempts to place them, and plans whom to evict."""

from __future__ import annotations

from arranger.cluster.cluster import Cluster
from arranger.engine.gang.attempt.attempts import GangAttempts
from arranger.engine.gang.attempt.basis import AttemptBasis
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle
from arranger.engine.gang.attempt.suspended_members import MemberSuspension
from arranger.engine.gang.links import GangLinks
from arranger.engine.gang.preemption.planner import GangPreemptionPlanner
from arranger.engine.gang.preemption.plans import GangPlans
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.pod.planned_room import PlannedRoom
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy


def attempts_and_plans(
    cluster: Cluster,
    pod_cycle: SchedulingCycle,
    cycle: GangSchedulingCycle,
    nominator: Nominator,
    holds: GangHolds,
    planned_room: PlannedRoom,
    policy: EvictionPolicy,
    links: GangLinks,
) -> tuple[GangAttempts, GangPlans]:
    """Those of an engine."""
    suspension = MemberSuspension(cluster, pod_cycle, nominator, policy)
    basis = AttemptBasis(cluster, holds, planned_room)
    planner = GangPreemptionPlanner(cluster, nominator, pod_cycle, cycle, policy, links, suspension)
    return (
        GangAttempts(cluster, cycle, suspension, basis),
        GangPlans(cluster, cycle, planner, nominator, policy, suspension, basis),
    )
