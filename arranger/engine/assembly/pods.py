"""What decides about pods, reserves their nodes, binds them and evicts others for them."""

from __future__ import annotations

from dataclasses import dataclass

from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.assembly.state import EngineState
from arranger.engine.evictions.notices import EvictionNotices
from arranger.engine.extenders.coordinator import ExtenderCoordinator
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.manager import GangManager
from arranger.engine.gang.placement.topology import MemberDomains
from arranger.engine.pod.binding_cycle import BindingCycle
from arranger.engine.pod.kept_rows import KeptRows
from arranger.engine.pod.node_release import NodeRelease
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.pod.requeue import PodRequeuer
from arranger.engine.pod.satisfiability import Satisfiability
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.framework.runtime.evaluation_cache import EvaluationCache


@dataclass(frozen=True, slots=True)
class PodParts:
    """From the question where a pod may run to its Binding, or what makes room for it."""

    cycle: SchedulingCycle
    release: NodeRelease
    entities: GangEntityIndex
    gangs: GangManager
    requeuer: PodRequeuer
    binding_cycle: BindingCycle
    preemption: PreemptionExecutor
    extender_calls: ExtenderCoordinator
    satisfiability: Satisfiability


def make_pod_parts(state: EngineState, settings: EngineSettings) -> PodParts:
    """Those of an engine."""
    context, queue, nominator, policy = state.context, state.queue, state.nominator, state.policy
    domains = MemberDomains(state.cluster, state.registry)
    kept_rows = KeptRows(state.table, domains, state.reservations, state.planned_room)
    evaluations = EvaluationCache(state.ledger.annotations.pod_group_of)
    cycle = SchedulingCycle(context, nominator, policy, kept_rows, evaluations)
    release = NodeRelease(context, queue, cycle, policy, nominator, state.links)
    entities = GangEntityIndex(queue, state.registry, state.holds)
    gangs = GangManager(
        context,
        state.registry,
        settings.gang_policy,
        state.quota,
        release,
        entities,
        state.holds,
        state.gang_objects,
        state.spared,
    )
    requeuer = PodRequeuer(queue, state.registry, entities, gangs)
    binding_cycle = BindingCycle(context, queue, state.effects, release, requeuer, gangs)
    notices = EvictionNotices(
        context,
        nominator,
        policy,
        state.registry,
        state.limits,
        frozenset(settings.scheduler_names),
        settings.max_checkpoint_time,
    )
    preemption = PreemptionExecutor(
        context,
        queue,
        nominator,
        policy,
        state.ledger,
        state.effects,
        release,
        binding_cycle,
        requeuer,
        state.protection,
        gangs,
        notices,
    )
    return PodParts(
        cycle=cycle,
        release=release,
        entities=entities,
        gangs=gangs,
        requeuer=requeuer,
        binding_cycle=binding_cycle,
        preemption=preemption,
        extender_calls=ExtenderCoordinator(
            context, queue, cycle, state.effects, settings.parallel_extender_calls
        ),
        satisfiability=Satisfiability(state.cluster, state.ledger),
    )
