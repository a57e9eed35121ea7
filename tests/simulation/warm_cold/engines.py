"""An engine that is told of API objects, and what can be seen of its state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from arranger.api.effects import (
    Applied,
    Bind,
    DeletePod,
    Effect,
    ExtenderDecision,
    ExtenderPreemptionDecision,
    Outcome,
    QueryExtenderPreemption,
    QueryExtenders,
)
from arranger.api.extenders import Extender
from arranger.api.types.core import Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.pod_groups import POD_GROUPS, GangObject, NativePodGroup, PodGroup
from arranger.api.types.queue import Queue
from arranger.api.types.workloads import AnyOwner, Owner, Workload
from arranger.cluster.object_store import STORED_KINDS
from arranger.daemon.config.schema import Config, GangConfig, LeaderElectionConfig
from arranger.embedded.virtual_time import EPOCH
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.context.queue_state import QueueState
from arranger.engine.engine import Engine
from arranger.engine.handlers.initial_objects import WatchedObject
from arranger.plugins import default_profile
from tests.builders import Manifest

_POD_GROUPS = {kind.api_version: kind for kind in POD_GROUPS}
_KINDS: dict[str, type[Any]] = {
    **STORED_KINDS,
    "Node": Node,
    "Pod": Pod,
    "PodDisruptionBudget": PodDisruptionBudget,
    "Queue": Queue,
    "Gang": GangObject,
    **dict.fromkeys(("Deployment", "DaemonSet", "Job", "TYJob"), Owner),
}
#: The kinds of owners that make gangs in these worlds.
WORKLOADS = ("PyTorchJob",)
#: As in a process; no gang is starved while we look, since the time of that is not in the API.
CONFIG = Config(
    leader_election=LeaderElectionConfig(resource_namespace="kube-system"),
    gangs=GangConfig(starvation_after_seconds=1e6),
)


class ShownWorkload(NamedTuple):
    """An owner whose pods are a gang."""

    kind: str
    workload: Workload


#: What can be shown to an engine.
Shown = WatchedObject | Owner | ShownWorkload


def an_engine(config: Config = CONFIG, extenders: Sequence[Extender] = ()) -> Engine:
    """An engine with the default plugins, whose clock began with the calendar."""
    began = EPOCH.timestamp()
    return Engine(
        EngineSettings(
            [default_profile()],
            queue_config=config.scheduling_queue_config(),
            gang_policy=config.gang_policy(),
            quota_config=config.quota_config(),
            workload_kinds=config.workload_kinds(),
            to_unix_time=lambda now: began + now,
            extenders=extenders,
        )
    )


def typed(manifests: Iterable[Manifest]) -> list[Shown]:
    """The objects as watches show them."""
    return [shown(each) for each in manifests]


def shown(manifest: Manifest) -> Shown:
    """An object as a watch shows it."""
    if manifest["kind"] in WORKLOADS:
        workload = msgspec.json.decode(msgspec.json.encode(manifest), type=Workload)
        return ShownWorkload(manifest["kind"], workload)
    found: Shown = msgspec.convert(manifest, _kind_of(manifest))
    return found


def _kind_of(manifest: Manifest) -> type[Any]:
    kind = manifest["kind"]
    return _POD_GROUPS[manifest["apiVersion"]] if kind == "PodGroup" else _KINDS[kind]


def tell(engine: Engine, objects: Iterable[Shown], now: float = 0.0) -> None:
    """The watches show objects, one after the other."""
    handlers = engine.handlers
    for obj in objects:
        if isinstance(obj, AnyOwner):
            engine.owner_handlers.on_updated(obj, now)
        match obj:
            case Owner():
                pass
            case ShownWorkload():
                kinds = engine.workload_handlers.kinds
                kind = next(each for each in kinds if each.kind == obj.kind)
                engine.workload_handlers.on_updated(kind, obj.workload, now)
            case Node():
                handlers.on_node_updated(obj, now)
            case Pod():
                handlers.on_pod_updated(obj, now)
            case PodDisruptionBudget():
                handlers.on_disruption_budget_updated(obj, now)
            case Queue():
                handlers.on_queue_updated(obj, now)
            case GangObject():
                handlers.on_gang_updated(obj, now)
            case PodGroup() | NativePodGroup():
                handlers.on_pod_group_updated(obj, now)
            case _:
                handlers.on_object_updated(obj, now)


def decide(engine: Engine, now: float) -> list[str]:
    """Run until nothing is ready; every write succeeds, and extenders say what they always say.

    Returns the decisions in their order.
    """
    decided: list[str] = []
    ready = True
    while ready:
        effects = engine.run(now)
        engine.check_consistent()
        decided += [_describe(each) for each in effects if isinstance(each, Bind | DeletePod)]
        for effect in effects:
            if engine.awaits(effect):
                engine.on_outcome(effect, _answer(effect), now)
        engine.check_consistent()
        ready = engine.ready
    return decided


def _answer(effect: Effect) -> Outcome:
    """What becomes of an effect: extenders like some nodes for some pods, and any victims."""
    match effect:
        case QueryExtenders():
            likes = {node: crc32(f"{effect.pod.name} {node}".encode()) % 8 for node in effect.nodes}
            nodes = tuple(node for node, score in likes.items() if score)
            return ExtenderDecision(nodes, scores=likes)
        case QueryExtenderPreemption():
            return ExtenderPreemptionDecision(effect.victims)
        case _:
            return Applied()


def _describe(effect: Bind | DeletePod) -> str:
    if isinstance(effect, Bind):
        return f"bind {effect.pod.name} to {effect.node}"
    return f"evict {effect.pod.name}"


def state_of(engine: Engine) -> dict[str, Any]:
    """What decisions depend on: what waits, who uses what, how far each gang is, by names."""
    cluster, table = engine.cluster, engine.cluster.table
    names = {pod.uid: pod.key for pod, _ in cluster.placed_pods()}
    names |= {pod.uid: pod.pod.key for pod in engine.pods()}
    return {
        "queue": {
            pod.pod.key: entity.state is QueueState.GATED
            for entity in engine.queue.entities()
            for pod in entity.members.values()
        },
        "used": {name: dict(+quota.used) for name, quota in engine.ledger.queues.items()},
        "gangs": {
            name: (gang.satisfied, gang.blocked, gang.minimum, gang.bundle_minimums)
            for name, gang in engine.registry.gangs.items()
        },
        "holds": {
            hold.entity.gang_group.name: (
                hold.unix_since,
                {member.pod.key: member.node for member in hold.members.values()},
            )
            for hold in engine._gangs._holds
        },
        "nominations": {
            pod.key: engine._nominator.node_of(pod.uid) for pod in engine._nominator.visible_pods()
        },
        "nodes": {
            table.name(row): sorted(names[uid] for uid in table.pods[row])
            for row in range(table.size)
            if table.alive[row]
        },
        "assumed": sorted(names[uid] for uid in cluster.assumed),
    }


def lanes_of(engine: Engine) -> dict[str, list[str]]:
    """Quota queue → what is to be tried of it, first to last."""
    heaps = engine.queue._active._heap._heaps
    waiting = {name: heap.entities() for name, heap in heaps.items()}
    return {
        name: [each.key for each in sorted(entities, key=lambda e: (e.rank, e.heap_version))]
        for name, entities in waiting.items()
        if entities
    }
