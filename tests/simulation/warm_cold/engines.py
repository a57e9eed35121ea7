"""An engine that is told of API objects, and what can be seen of its state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from arranger.api.effects import (
    Applied,
    Bind,
    DeletePod,
    Effect,
    PatchPodStatus,
    PublishEvent,
)
from arranger.api.types.core import Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.pod_groups import AnyPodGroup, GangObject
from arranger.api.types.queue import Queue
from arranger.cluster.object_store import STORED_KINDS
from arranger.engine.engine import Engine
from arranger.engine.gang.policy import GangPolicy
from arranger.plugins import default_profile
from tests.builders import Manifest

_POD_GROUPS = {kind.api_version: kind for kind in get_args(AnyPodGroup)}
_KINDS: dict[str, type[Any]] = {
    **STORED_KINDS,
    "Node": Node,
    "Pod": Pod,
    "PodDisruptionBudget": PodDisruptionBudget,
    "Queue": Queue,
    "Gang": GangObject,
}


def an_engine(policy: GangPolicy | None = None) -> Engine:
    """An engine with the default plugins."""
    return Engine([default_profile()], gang_policy=policy)


def tell(engine: Engine, manifests: Iterable[Manifest], now: float = 0.0) -> None:
    """The watches show objects, one after the other."""
    handlers = engine.handlers
    for manifest in manifests:
        kind = manifest["kind"]
        known = _POD_GROUPS[manifest["apiVersion"]] if kind == "PodGroup" else _KINDS[kind]
        obj = msgspec.convert(manifest, known)
        match obj:
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
            case _ if kind == "PodGroup":
                handlers.on_pod_group_updated(obj, now)
            case _:
                handlers.on_object_updated(obj, now)


def decide(engine: Engine, now: float) -> list[str]:
    """Run until nothing is ready; every write succeeds.

    Returns the decisions in their order, then what is told about them, in any order.
    """
    decided: list[str] = []
    told: list[str] = []
    ready = True
    while ready:
        effects = engine.run(now)
        engine.check_consistent()
        decided += [_describe(each) for each in effects if isinstance(each, Bind | DeletePod)]
        told += [_describe(each) for each in effects if not isinstance(each, Bind | DeletePod)]
        for effect in effects:
            if engine.awaits(effect):
                engine.on_outcome(effect, Applied(), now)
        engine.check_consistent()
        ready = engine.ready
    return [*decided, *sorted(told)]


def _describe(effect: Effect) -> str:
    match effect:
        case Bind():
            return f"bind {effect.pod.name} to {effect.node}"
        case DeletePod():
            return f"evict {effect.pod.name}"
        case PatchPodStatus():
            reason = effect.condition.message if effect.condition is not None else ""
            return f"tell {effect.pod.name}: {effect.nominated_node} {reason}"
        case PublishEvent():
            return f"event {effect.regarding.name}: {effect.reason} {effect.note}"
        case _:
            return f"{effect}"


def state_of(engine: Engine) -> dict[str, Any]:
    """What decisions depend on: what waits where, who uses what, how far each gang is."""
    cluster, table = engine.cluster, engine.cluster.table
    return {
        "queue": {
            entity.key: (entity.state.value, list(entity.members), entity.attempts)
            for entity in engine.queue.entities()
        },
        "lanes": lanes_of(engine),
        "used": {name: dict(+quota.used) for name, quota in engine.ledger.queues.items()},
        "gangs": {
            name: (gang.satisfied, gang.blocked, gang.settings, sorted(gang.memberships))
            for name, gang in engine.registry.gangs.items()
        },
        "nominations": {
            pod.uid: engine._nominator.node_of(pod.uid) for pod in engine._nominator.visible_pods()
        },
        "nodes": [(table.name(row), list(table.pods[row])) for row in range(table.size)],
        "assumed": sorted(cluster.assumed),
    }


def lanes_of(engine: Engine) -> dict[str, list[str]]:
    """Quota queue → what is to be tried of it, first to last."""
    heaps = engine.queue._active._heaps
    valid = engine.queue._active._valid
    return {
        name: [entity.key for _, _, entity in sorted(filter(valid, heap), key=lambda e: e[:2])]
        for name, heap in heaps.items()
        if any(map(valid, heap))
    }
