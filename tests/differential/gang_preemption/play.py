"""Shows a small world to the engine, and looks at whom it evicts and whether that was of use."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import msgspec

from arranger.api.annotations import TOPOLOGY
from arranger.api.effects import Bind, DeletePod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.pod_groups import AnyPodGroup, NativePodGroup, VolcanoPodGroup
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, a_queue
from tests.differential.gang_preemption.world import Budget, Gang, Node, Pod, World
from tests.queueing import CARD, GPU
from tests.unit.engine.harness import EngineHarness, of_kind

#: So long the engine has to place the taker once its victims have gone, in seconds.
PATIENCE = (20.0, 400.0, 1000.0)
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


@dataclass
class Played:
    """What the engine did.

    Attributes:
        evicted: whom it evicted first; ``later`` whom it evicted after those had gone.
        bound: taker's member → node.
    """

    evicted: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()
    bound: dict[str, str] = field(default_factory=dict)


def play(world: World) -> Played:
    """Let the taker come, and its victims go."""
    harness, pods = EngineHarness(default_profile(), queues=QuotaConfig()), _pods(world)
    harness.observe(*map(_node, world.nodes))
    for queue in world.queues:
        quota = {"cpu": str(queue.quota["cpu"])} if "cpu" in queue.quota else {}
        guarantee = {what: str(n) for what, n in queue.guarantee.items()}
        harness.observe(
            a_queue(
                queue.name,
                cards={CARD: queue.quota["cards"]} if "cards" in queue.quota else None,
                priority=queue.priority,
                reclaimable=queue.reclaimable,
                capability=quota,
                guarantee={"resource": guarantee},
                deserved={GPU if w == "cards" else w: str(n) for w, n in queue.deserved.items()},
                parent=queue.parent,
            )
        )
    handlers = harness.engine.handlers
    for budget in world.budgets:
        handlers.on_disruption_budget_updated(_budget(budget), 0.0)
    for gang in (*world.gangs, *world.taker.gangs):
        handlers.on_pod_group_updated(_pod_group(gang, world), 0.0)
    harness.observe(*(pods[pod.name] for pod in world.running))
    harness.run()
    takers = [pods[pod.name] for pod in (*world.taker.bound, *world.taker.members)]
    harness.observe(*takers)
    harness.effects.clear()
    played = Played()
    harness.run()
    played.evicted = _evicted(harness)
    _let_go(harness, pods, played)
    for now in PATIENCE if played.evicted else ():
        if played.bound:
            break
        harness.effects.clear()
        harness.advance_to(now)
        played.later |= _evicted(harness) - played.evicted
        _let_go(harness, pods, played)
    return played


def _let_go(harness: EngineHarness, pods: dict[str, PodBuilder], played: Played) -> None:
    """Victims leave one after the other, and Bindings are made, until nothing more happens."""
    while todo := [e for e in harness.effects if isinstance(e, Bind | DeletePod)]:
        harness.effects.clear()
        for effect in todo:
            if isinstance(effect, Bind):
                played.bound[effect.pod.name] = effect.node
            harness.settle(effect)
            if isinstance(effect, DeletePod):
                harness.observe_deleted(pods[effect.pod.name])
        harness.run()
        if not played.bound:
            played.later |= _evicted(harness) - played.evicted


def _evicted(harness: EngineHarness) -> frozenset[str]:
    return frozenset(delete.pod.name for delete in of_kind(DeletePod, harness.effects))


# --- as the API serves it --------------------------------------------------------------------


def _node(node: Node) -> NodeBuilder:
    built = a_node(node.name).offers(cpu=node.cpu)
    if node.zone:
        built = built.in_zone(node.zone)
    if node.cards:
        labels = {f"{GPU}.product": CARD, f"{GPU}.count": str(node.cards), f"{GPU}.memory": "24564"}
        built = built.labelled(labels).offers({GPU: node.cards})
    return built


def _pods(world: World) -> dict[str, PodBuilder]:
    gangs, taker = {gang.name: gang for gang in world.gangs}, world.taker
    built = {pod.name: _running(pod, gangs.get(pod.gang)) for pod in world.running}
    for pod in (*taker.bound, *taker.members):
        each = _pod(pod, taker.gang).labelled(t="t")
        each = each.on(pod.node) if pod.node else each
        each = each.selects({ZONE: pod.zone}) if pod.zone else each
        if taker.topology:
            each = each.annotated({TOPOLOGY: f"{taker.topology}={ZONE}"})
        each = each.apart(HOST, {"t": "t"}) if taker.apart else each
        each = each.apart(HOST, {"app": taker.away_from}) if taker.away_from else each
        built[pod.name] = each.spreads(ZONE, over={"t": "t"}) if taker.spread else each
    types = {queue.name: queue.service for queue in world.queues}
    for pod in (*world.running, *taker.bound, *taker.members):
        if pod.queue:
            built[pod.name] = built[pod.name].in_queue(pod.queue)
            if types[pod.queue]:
                built[pod.name] = built[pod.name].serving(types[pod.queue])
    return built


def _running(pod: Pod, gang: Gang | None) -> PodBuilder:
    built = _pod(pod, gang).on(pod.node)
    built = built.with_status(startTime=f"2026-01-01T00:00:{pod.start:02}Z")
    if not pod.preemptable:
        built = built.annotated({"volcano.sh/preemptable": "false"})
    built = built.apart(HOST, {"t": "t"}) if pod.shuns else built
    return built.labelled(app=pod.app) if pod.app else built


def _pod(pod: Pod, gang: Gang | None) -> PodBuilder:
    built = a_pod(pod.name).needs(cpu=pod.cpu).with_priority(pod.priority)
    built = built.needs({GPU: pod.cards}) if pod.cards else built
    built = built.host_port(pod.port) if pod.port else built
    if gang is not None and gang.together:
        return built.with_spec(schedulingGroup={"podGroupName": gang.name})
    if pod.gang:
        built = built.annotated({"scheduling.k8s.io/group-name": pod.gang})
    return built.annotated({"volcano.sh/task-spec": pod.role}) if pod.role else built


def _pod_group(gang: Gang, world: World) -> AnyPodGroup:
    gangs = (*world.gangs, *world.taker.gangs)
    partners = [f"default/{each.name}" for each in gangs if each.group == gang.group]
    meta = {"name": gang.name, "namespace": "default", "uid": f"uid-{gang.name}"}
    if gang.together:
        spec = {"schedulingPolicy": {"gang": {"minCount": gang.minimum}}}
        return msgspec.convert(
            {"metadata": meta, "spec": {**spec, "disruptionMode": {"all": {}}}}, NativePodGroup
        )
    notes = {"gang.scheduling.koordinator.sh/groups": json.dumps(partners)} if gang.group else {}
    return msgspec.convert(
        {
            "metadata": {**meta, "annotations": notes},
            "spec": {"minMember": gang.minimum, "minTaskMember": dict(gang.roles)},
        },
        VolcanoPodGroup,
    )


def _budget(budget: Budget) -> PodDisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": budget.app, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": budget.app}}},
            "status": {"disruptionsAllowed": budget.allowed},
        },
        PodDisruptionBudget,
    )
