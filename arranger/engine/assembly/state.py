"""What an engine knows: the cluster, who waits, and the rules of who may be tried or evicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_table import NodeTable
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.context.engine_context import EngineClock, EngineContext
from arranger.engine.context.pending_effects import PendingEffects
from arranger.engine.context.spared_pods import SparedPods
from arranger.engine.gang.gate import GangGate
from arranger.engine.gang.links import GangLinks
from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.pod.planned_room import PlannedRoom
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.order.job_shares import JobShares
from arranger.engine.queue.order.queue_order import FairShareOrder
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.quota.gate import QuotaGate
from arranger.engine.quota.usage_keeper import UsageKeeper
from arranger.engine.reservations.book import ReservationBook, make_book
from arranger.engine.run_time.limits import RunTimeLimits
from arranger.framework.runtime.profile import Profile
from arranger.gangs.registry import GangRegistry
from arranger.gangs.workloads.index import WorkloadIndex
from arranger.quota.admission import Admission
from arranger.quota.charging.placed_charges import PlacedCharges
from arranger.quota.decayed_usage import decayed_usage
from arranger.quota.ledger import QuotaLedger
from arranger.quota.min_resources_admission import MinResourcesAdmission
from arranger.quota.pod_owners import PodOwners
from arranger.quota.preemption.eviction_protection import EvictionProtection
from arranger.quota.preemption.policy import QueuePreemptionPolicy
from arranger.quota.quota_plugin import with_quota


@dataclass(frozen=True, slots=True)
class EngineState:
    """What all parts share; each is made from those above it."""

    profiles: Sequence[Profile]
    registry: GangRegistry
    owners: PodOwners
    workloads: WorkloadIndex
    table: NodeTable
    ledger: QuotaLedger
    cluster: Cluster
    context: EngineContext
    effects: PendingEffects
    nominator: Nominator
    limits: RunTimeLimits
    holds: GangHolds
    planned_room: PlannedRoom
    gang_objects: GangObjects
    links: GangLinks
    protection: EvictionProtection
    spared: SparedPods
    policy: QueuePreemptionPolicy
    quota: QuotaGate
    gate: GangGate
    usage: UsageKeeper
    queue: SchedulingQueue
    reservations: ReservationBook


def make_state(settings: EngineSettings) -> EngineState:
    """That of an engine which has not heard of anything."""
    quotas = settings.quota_config
    owners, table, placed = PodOwners(), NodeTable(), PlacedCharges()
    registry = GangRegistry(regrouped=placed.doubt_group)
    workloads = WorkloadIndex(settings.workload_kinds, reworded=placed.doubt_group)
    ledger = QuotaLedger(
        table,
        placed=placed,
        pod_groups=registry,
        owners=owners,
        lone_pods=workloads,
        service_by_owner=quotas.service_type_by_owner,
        exempt_card_pods=quotas.exempt_card_pods,
    )
    cluster, clock = Cluster(table, ledger), EngineClock(settings.to_unix_time)
    context = EngineContext(
        cluster, clock, settings.extenders, settings.max_grace_period, tracer=settings.tracer
    )
    effects, nominator = PendingEffects(context), Nominator(cluster)
    limits = RunTimeLimits(ledger, frozenset(settings.scheduler_names))
    holds = GangHolds(registry, settings.gang_policy)
    gang_objects = GangObjects(
        context,
        effects,
        registry,
        holds,
        settings.gang_policy,
        settings.scheduler_names,
        settings.keeps_gang_records,
    )
    links = GangLinks(registry, cluster)
    protection = EvictionProtection(
        context,
        reclaim_min_runtime=quotas.reclaim_min_runtime,
        preempt_min_runtime=quotas.preempt_min_runtime,
        cool_down=quotas.eviction_cool_down,
    )
    spared = SparedPods(registry, owners)
    policy = QueuePreemptionPolicy(
        ledger, quotas, nominator.terminating_victims, protection, links, spared=spared
    )
    admission = Admission(
        ledger, quotas.over_commit, quotas.card_request_timeout, registry.members_of
    )
    min_resources = MinResourcesAdmission(cluster, ledger, policy, registry)
    usage = decayed_usage(ledger, quotas.usage_half_life, quotas.usage_period)
    gate, order = GangGate(holds, gang_objects), FairShareOrder(ledger, usage)
    queue = SchedulingQueue(settings.queue_config, gate, order, JobShares(cluster), nominator)
    planned_room = PlannedRoom.empty(table, ledger.queue_name, limits, clock)
    return EngineState(
        profiles=[with_quota(profile, ledger) for profile in settings.profiles],
        registry=registry,
        owners=owners,
        workloads=workloads,
        table=table,
        ledger=ledger,
        cluster=cluster,
        context=context,
        effects=effects,
        nominator=nominator,
        limits=limits,
        holds=holds,
        planned_room=planned_room,
        gang_objects=gang_objects,
        links=links,
        protection=protection,
        spared=spared,
        policy=policy,
        quota=QuotaGate(context, admission, min_resources),
        gate=gate,
        usage=UsageKeeper(context, effects, usage),
        queue=queue,
        reservations=make_book(context, queue, ledger, limits, effects, registry, planned_room),
    )
