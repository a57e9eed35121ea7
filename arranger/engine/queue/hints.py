"""Whether an event may help an entity that no node would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import GANG, RESERVATION, QueuedEntity
from arranger.framework.cluster_event import ActionType, ClusterEvent


def is_asked_for(entity: QueuedEntity, event: ClusterEvent) -> bool:
    """Whether an event is of a type that may help an entity; cheap, and nothing of pods is asked.

    Entities with equal ``rejected_by`` and profile, all lone pods or all gangs, are told the same.
    """
    actions = event.action_type
    if not entity.rejected_by or ActionType.EVICTION_RULES in actions:
        return True
    if entity.group is not None and actions & ActionType.NODE_CHANGED:
        return True  # some of its members may move there
    by_name = entity.profile.by_name
    for name in entity.rejected_by:
        plugin = by_name.get(name)
        if plugin is None:
            if _concerns_the_queue(entity, name, event):
                return True
        elif any(wake.action_types & actions for wake in plugin.queueing_hints):
            return True
    return False


def may_help(
    entity: QueuedEntity, event: ClusterEvent, pods: Sequence[PodInfo] | None = None
) -> bool:
    """Whether a plugin that rejected the entity asked for such an event.

    ``pods`` are those whom it would have to help: of a gang those that could not be placed.
    """
    if not entity.rejected_by:
        return True
    if ActionType.EVICTION_RULES in event.action_type and entity.rejected_by != {GANG}:
        concerns = event.concerns
        return concerns is None or concerns(entity.representative.pod)
    if entity.group is not None:
        event = _for_any_member(entity, event)
        if _may_move_there(entity, event):
            return True
    if pods is None:
        pods = entity.blockers if entity.group is not None else ()
        pods = pods or [entity.representative.pod]
    return any(_asked_for(entity, name, pods, event) for name in entity.rejected_by)


def _asked_for(
    entity: QueuedEntity, name: str, pods: Sequence[PodInfo], event: ClusterEvent
) -> bool:
    plugin = entity.profile.by_name.get(name)
    if plugin is None:
        return _concerns_the_queue(entity, name, event)
    return any(wake.matches(pod, event) for wake in plugin.queueing_hints for pod in pods)


def _concerns_the_queue(entity: QueuedEntity, name: str, event: ClusterEvent) -> bool:
    """Whether an event may help against what is rejected in the name of no plugin."""
    if name == GANG:
        # A gang is woken by its own members and PodGroups; one of them that it keeps in a domain,
        # by nodes that may belong to the domain now.
        return entity.group is None and bool(event.action_type & ActionType.NODE_CHANGED)
    return name != RESERVATION or event.resource == RESERVATION


def _for_any_member(entity: QueuedEntity, event: ClusterEvent) -> ClusterEvent:
    """Room for any member may help: it may leave another node to the one that lacks room.

    Where none of them fits even now, no attempt can use what has become free.
    """
    could_fit, frees_quota = event.could_fit, event.frees_quota
    if could_fit is None:
        return event
    pods = [member.pod for member in entity.one_of_each_class()]
    fits = any(map(could_fit, pods))
    frees = frees_quota is not None and any(map(frees_quota, pods))
    return replace(event, could_fit=lambda _: fits, frees_quota=lambda _: frees)


def _may_move_there(entity: QueuedEntity, event: ClusterEvent) -> bool:
    """Whether a node has changed that may take members of one kind from others of its gang."""
    if event.could_fit is None or not event.action_type & ActionType.NODE_CHANGED:
        return False
    several = len(entity.one_of_each_class()) > 1 and entity.rejected_by != {GANG}
    return several and event.could_fit(entity.representative.pod)
