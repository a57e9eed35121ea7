"""What places gang groups, plans their starts and evicts for them."""

from __future__ import annotations

from arranger.engine.assembly.pods import PodParts
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.assembly.state import EngineState
from arranger.engine.gang.attempt.attempts import GangAttempts
from arranger.engine.gang.attempt.basis import AttemptBasis
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle
from arranger.engine.gang.attempt.suspended_members import MemberSuspension
from arranger.engine.gang.notifier import GangNotifier
from arranger.engine.gang.placement.search import PlacementSearcher
from arranger.engine.gang.planning.assembly import start_planner
from arranger.engine.gang.planning.room_search import RoomSearch
from arranger.engine.gang.planning.trials import GroupTrials
from arranger.engine.gang.preemption.dry_steps import DrySteps
from arranger.engine.gang.preemption.executor import GangPreemptionExecutor
from arranger.engine.gang.preemption.planner import GangPreemptionPlanner
from arranger.engine.gang.preemption.plans import GangPlans
from arranger.engine.gang.scheduler import GangScheduler


def make_gang_scheduler(
    state: EngineState, pods: PodParts, settings: EngineSettings
) -> GangScheduler:
    """That of an engine."""
    context, cluster, nominator, holds = (
        state.context,
        state.cluster,
        state.nominator,
        state.holds,
    )
    policy, pod_cycle = state.policy, pods.cycle
    searcher = PlacementSearcher(cluster, pod_cycle, nominator)
    cycle = GangSchedulingCycle(cluster, pod_cycle, nominator, holds, searcher)
    # What goes on in steps: attempts to place gang groups, and plans whom to evict.
    suspension = MemberSuspension(cluster, pod_cycle, nominator, policy)
    basis = AttemptBasis(cluster, holds, state.planned_room, state.spared)
    planner = GangPreemptionPlanner(
        cluster, nominator, pod_cycle, cycle, policy, state.links, suspension
    )
    steps = DrySteps(cluster, cycle, nominator)
    plans = GangPlans(cluster, cycle, planner, steps, policy, suspension, basis)
    room = state.planned_room
    trials = GroupTrials(
        cluster, cycle, nominator, planner, steps, suspension, basis, room, pod_cycle
    )
    search = RoomSearch(
        cluster, pod_cycle, cycle, holds, state.limits.limit_of, state.reservations, trials
    )
    return GangScheduler(
        context,
        state.queue,
        GangAttempts(cluster, cycle, suspension, basis),
        cycle,
        pods.entities,
        holds,
        pods.gangs,
        pods.binding_cycle,
        GangPreemptionExecutor(context, nominator, plans, pods.preemption, policy),
        start_planner(
            context,
            state.queue,
            state.planned_room,
            pods.entities,
            search,
            settings.gang_policy,
            state.gang_objects,
        ),
        state.gang_objects,
        GangNotifier(context, state.queue, state.gate, pods.entities, holds, pods.preemption),
        pods.satisfiability,
        state.quota,
        policy,
    )
