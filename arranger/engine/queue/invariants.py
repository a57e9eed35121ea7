"""What must be true of every entity in the scheduling queue."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping

from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.queue_state import QueueState

#: Parts in which an entity waits without an entry among the timers.
_UNTIMED = (QueueState.ACTIVE, QueueState.GATED)


def check_parts(
    entities: Mapping[str, QueuedEntity],
    active: Container[int],
    timers: Container[tuple[int, int]],
    unschedulable: Mapping[str, QueuedEntity],
    gated: Mapping[Hashable, QueuedEntity],
) -> None:
    """Check that every entity is in exactly one part and has a way out of it.

    Args:
        active: ids of the entities in the heap.
        timers: (heap version, id) of the entities that are woken by time.

    Raises:
        AssertionError: one is not, or has not.
    """
    parts = (QueueState.UNSCHEDULABLE, unschedulable), (QueueState.GATED, gated)
    for key, entity in entities.items():
        assert entity.key == key, f"{entity} is filed under {key}"
        assert entity.members, f"{entity} is empty"
        assert entity.state is not QueueState.NOT_QUEUED, f"{entity} is in no part"
        if entity.state is QueueState.ACTIVE:
            assert id(entity) in active, f"{entity} is not in the heap"
        if entity.state not in _UNTIMED:
            assert (entity.heap_version, id(entity)) in timers, f"{entity} has no future wake-up"
        for state, part in parts:
            assert (entity.state is state) == (key in part), f"{entity} {state.value}"
    assert unschedulable.keys() | gated.keys() <= entities.keys(), "a ghost"
