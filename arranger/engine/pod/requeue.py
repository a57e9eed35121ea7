"""Queues pods again that have lost their node or their nomination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.gangs.registry import GangRegistry


class GangEntities(Protocol):
    """Knows which pods are placed together."""

    def entity_for(self, pod: QueuedPod, now: float) -> QueuedEntity:
        """The entity that a pod without a node belongs to; it joins it, and is not queued yet."""

    def enqueue(self, entity: QueuedEntity, now: float) -> None:
        """Queue an entity."""


class GangMembers(Protocol):
    """Follows what becomes of the members of gangs."""

    def on_node_lost(self, pod: QueuedPod, now: float) -> None:
        """A member of a gang has lost its node."""

    def on_pod_removed(self, pod: QueuedPod, now: float) -> None:
        """A pod that is or was a member of a gang is gone, or is not ours any more."""
        ...


@dataclass(slots=True, eq=False)
class PodRequeuer:
    """Finds the entity of a pod that has no node, and queues it.

    A lone pod is its own entity; only pods that are or were in a gang concern the gangs.
    """

    _queue: SchedulingQueue
    _registry: GangRegistry
    _entities: GangEntities
    _gangs: GangMembers

    def entity_for(self, pod: QueuedPod, now: float) -> QueuedEntity:
        """The entity that a pod without a node belongs to; it joins it, and is not queued yet."""
        if self._is_lone(pod):
            return pod.entity or QueuedEntity.from_pod(pod)
        return self._entities.entity_for(pod, now)

    def enqueue(self, entity: QueuedEntity, now: float) -> None:
        """Queue an entity that is new, or whose gates may have changed."""
        if entity.group is None:
            self._queue.add(entity, now)
        else:
            self._entities.enqueue(entity, now)

    def remove(self, pod: QueuedPod, now: float) -> None:
        """A pod is gone, or is not ours any more: take it out of its entity and of the queue."""
        entity = pod.entity
        if entity is not None and self._is_lone(pod):
            self._queue.remove(entity)
            entity.remove_member(pod)
        else:
            # Also one without an entity: an incomplete group may still hold its node.
            self._gangs.on_pod_removed(pod, now)

    def requeue_with_backoff(self, pod: QueuedPod, now: float) -> None:
        """A pod has lost its node or its nomination: again after a back-off."""
        entity = self._entity_after_loss(pod, now)
        entity.count_loss()
        entity.last_attempt = now
        self.enqueue(entity, now)

    def requeue(self, pod: QueuedPod, now: float) -> None:
        """A pod has lost its nomination to another: it looks for another node at once."""
        self.enqueue(self._entity_after_loss(pod, now), now)

    def requeue_unschedulable(self, pod: QueuedPod, plugin: str, now: float) -> None:
        """A pod has lost its node to a plugin: again when the plugin's hints say so."""
        entity = self._entity_after_loss(pod, now)
        entity.blockers = (pod.pod,)
        self._queue.add_unschedulable(entity, frozenset({plugin}), now)

    def _entity_after_loss(self, pod: QueuedPod, now: float) -> QueuedEntity:
        if not self._is_lone(pod):
            self._gangs.on_node_lost(pod, now)
        return self.entity_for(pod, now)

    def _is_lone(self, pod: QueuedPod) -> bool:
        """Whether a pod is in no gang, and waits with none that it was in."""
        entity = pod.entity
        return self._registry.gang_of(pod.uid) is None and (entity is None or entity.group is None)
