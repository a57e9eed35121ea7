"""What must be true of every pod of ours, whatever it has been through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized

from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.phases import HOLDS_NODE, Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.scheduling_queue import SchedulingQueue


def check_pods(
    context: EngineContext,
    queue: SchedulingQueue,
    nominator: Nominator,
    is_held: Callable[[QueuedPod], bool],
) -> None:
    """Check our pods against the queue, the nodes, the nominations and who is held.

    Raises:
        AssertionError: they disagree.
    """
    for uid, member in context.pods.items():
        assert member.uid == uid, f"{member} is filed under {uid}"
        entity = member.entity
        if member.phase is Phase.QUEUED:
            assert entity is not None, f"{member}: no entity"
            assert uid in entity.members, f"{member}: not in its entity"
            assert entity.key in queue, f"{member}: queue"
        elif entity is not None:
            assert entity.key not in queue, f"{member}: queue"
            assert entity.state is QueueState.NOT_QUEUED, f"{member}: part"
        has_room = member.phase in HOLDS_NODE or uid in nominator
        assert has_room == (uid in context.cluster), f"{member}: reservation"
        held = uid in context.waiting_pods or is_held(member)
        assert (member.phase is Phase.WAITING) == held, f"{member}: waiting"
    queued = {uid for entity in queue.entities() for uid in entity.members}
    assert queued <= context.pods.keys(), "the queue holds pods that are not ours"


def summarize(
    context: EngineContext, counted: Mapping[str, Sized], queued: Mapping[QueueState, int]
) -> dict[str, int]:
    """How much of everything there is; ``queued``: by part of the queue."""
    return {
        "nodes": context.cluster.table.count,
        "placed": len(context.cluster),
        "assumed": len(context.cluster.assumed),
        **{what: len(each) for what, each in counted.items()},
        "waiting": len(context.waiting_pods),
        **{part.value: count for part, count in queued.items()},
    }
