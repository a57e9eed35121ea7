"""What drives pods and gangs: the next one's attempt, and what waits for a time."""

from __future__ import annotations

from dataclasses import dataclass

from arranger.engine.assembly.pods import PodParts
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.assembly.state import EngineState
from arranger.engine.extenders.preemption import AgreedVictims
from arranger.engine.gang.scheduler import GangScheduler
from arranger.engine.pod.waiting_pods import WaitingPods
from arranger.engine.quota.recharging import Recharging
from arranger.engine.quota.timers import QuotaTimers
from arranger.engine.reservations.evictions import ReservationEvictions
from arranger.engine.run_time.enforcer import RunTimeEnforcer
from arranger.engine.schedule_one import EntityScheduler
from arranger.quota.preemption.reclaim import DeservedReclaim


@dataclass(frozen=True, slots=True)
class Drivers:
    """What is called in every run of an engine."""

    scheduler: EntityScheduler
    waiting_pods: WaitingPods
    quota_timers: QuotaTimers
    recharging: Recharging
    run_times: RunTimeEnforcer
    evictions: ReservationEvictions


def make_drivers(
    state: EngineState, pods: PodParts, gangs: GangScheduler, settings: EngineSettings
) -> Drivers:
    """Those of an engine."""
    context, queue = state.context, state.queue
    ours, leaving = frozenset(settings.scheduler_names), state.nominator.terminating_victims
    return Drivers(
        scheduler=EntityScheduler(
            context,
            queue,
            pods.cycle,
            state.nominator,
            AgreedVictims(pods.cycle, state.nominator, state.policy, context.is_leaving),
            pods.binding_cycle,
            pods.preemption,
            pods.extender_calls,
            gangs,
            pods.satisfiability,
            state.ledger.queue_name,
            settings.perf_counter,
        ),
        waiting_pods=WaitingPods(context, queue, pods.binding_cycle, gangs),
        quota_timers=QuotaTimers(
            context,
            queue,
            state.registry,
            state.protection,
            state.quota,
            pods.release,
            DeservedReclaim(state.ledger),
        ),
        recharging=Recharging(context, state.ledger, queue),
        run_times=RunTimeEnforcer(
            context, state.limits, state.effects, leaving, pods.gangs, state.spared
        ),
        evictions=ReservationEvictions(
            context,
            ours,
            state.reservations,
            state.effects,
            leaving,
            pods.gangs,
            settings.max_checkpoint_time,
            state.limits,
            state.spared,
        ),
    )
