"""What takes in the events of the watches, and keeps the fault of one object from all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arranger.engine.assembly.drivers import Drivers
from arranger.engine.assembly.pods import PodParts
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.assembly.state import EngineState
from arranger.engine.faults.barrier import Barrier
from arranger.engine.faults.failed_deletions import FailedDeletions
from arranger.engine.faults.fault_notes import FaultNotes
from arranger.engine.faults.held_by_objects import HeldByObjects
from arranger.engine.faults.held_room import HeldRoom
from arranger.engine.faults.known_objects import KnownObjects
from arranger.engine.faults.left_out import LeftOutObjects
from arranger.engine.faults.object_trials import ObjectTrials
from arranger.engine.faults.pod_facts import PodFactFinder
from arranger.engine.faults.rollback import Rollback
from arranger.engine.gang.hold_recovery import HoldRecovery
from arranger.engine.gang.priority import EffectivePriorities
from arranger.engine.gang.scheduler import GangScheduler
from arranger.engine.handlers.closed_nodes import ClosedNodes
from arranger.engine.handlers.event_handlers import EventHandlers
from arranger.engine.handlers.gang_handlers import GangHandlers
from arranger.engine.handlers.initial_objects import InitialObjects
from arranger.engine.handlers.owned_pods import OwnedPods
from arranger.engine.handlers.owner_handlers import OwnerHandlers
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.engine.handlers.tenant_handlers import TenantHandlers
from arranger.engine.handlers.watched_kinds import WatchedKinds
from arranger.engine.handlers.workload_gangs import WorkloadGangs
from arranger.engine.handlers.workload_handlers import WorkloadHandlers
from arranger.framework.runtime.profile import Profile


@dataclass(frozen=True, slots=True)
class Inputs:
    """The handlers of events, and the barrier around them."""

    handlers: EventHandlers
    owner_handlers: OwnerHandlers
    workload_handlers: WorkloadHandlers
    owned_pods: OwnedPods
    priorities: EffectivePriorities
    barrier: Barrier


def make_inputs(
    state: EngineState,
    pods: PodParts,
    gangs: GangScheduler,
    drivers: Drivers,
    settings: EngineSettings,
) -> Inputs:
    """Those of an engine."""
    context, queue, registry, ledger = state.context, state.queue, state.registry, state.ledger
    nominator, gang_objects, initial = state.nominator, state.gang_objects, InitialObjects()
    priorities = EffectivePriorities(context, nominator, registry, ledger, queue)
    tenants = TenantHandlers(context, queue, ledger, state.quota, priorities)
    gang_handlers = GangHandlers(
        initial, context, queue, registry, ledger, priorities, state.quota, gangs, gang_objects
    )
    workloads = WorkloadGangs(initial, context, registry, state.workloads)
    pod_handlers = PodHandlers(
        initial,
        context,
        {profile.scheduler_name: profile for profile in state.profiles},
        queue,
        registry,
        ledger,
        nominator,
        pods.release,
        pods.requeuer,
        pods.binding_cycle,
        pods.preemption,
        gang_objects,
        HoldRecovery(context, ledger, state.holds, gang_objects, pods.gangs, pods.cycle),
        gang_handlers,
        workloads,
        priorities,
        tenants,
        state.planned_room.timeline.run_times.history,
        (drivers.run_times, drivers.evictions),
        _ignored_everywhere(state.profiles),
    )
    owned = OwnedPods(context, state.owners, ledger, queue, priorities, tenants)
    rollback = Rollback(
        context,
        queue,
        pods.cycle,
        pods.release,
        nominator,
        pods.requeuer,
        pods.gangs,
        pod_handlers,
        pods.preemption,
    )
    notes = FaultNotes(settings.quarantine, context, frozenset(settings.scheduler_names))
    kinds: WatchedKinds = {}
    closed = ClosedNodes()
    objects = KnownObjects(kinds, state.cluster, registry, ledger, gang_objects, closed)
    held_room = HeldRoom(
        PodFactFinder(notes, context, ledger, registry, initial, state.workloads),
        notes,
        objects,
        context,
        pod_handlers,
        ledger,
        nominator,
        closed,
        queue,
        settings.uncounted,
        state.spared,
    )
    by_objects = HeldByObjects(state.cluster, ledger, state.spared)
    trials = ObjectTrials(notes, objects, by_objects, state.table, rollback.hurry)
    barrier = Barrier(
        notes,
        trials,
        held_room,
        context,
        pod_handlers,
        ledger,
        registry,
        rollback,
        LeftOutObjects(dict(settings.left_out)),
        FailedDeletions(notes, trials, held_room),
        settings.time_spent,
    )
    return Inputs(
        handlers=EventHandlers(
            initial,
            context,
            queue,
            pods.release,
            ledger,
            nominator,
            pods.preemption,
            gangs,
            gang_objects,
            gang_handlers,
            barrier,
            tenants,
            closed,
            pod_handlers,
            kinds,
        ),
        owner_handlers=OwnerHandlers(state.owners, owned),
        owned_pods=owned,
        priorities=priorities,
        workload_handlers=WorkloadHandlers(workloads, gang_handlers, pod_handlers, owned),
        barrier=barrier,
    )


def _ignored_everywhere(profiles: Sequence[Profile]) -> Callable[[str], bool] | None:
    """Whether a plugin of each profile is told to ignore a resource; None where none is."""
    told = [[p.ignores for p in each.by_name.values() if p.ignores] for each in profiles]
    if not all(told):
        return None
    return lambda resource: all(any(ignores(resource) for ignores in each) for each in told)
