"""What a Command for a Queue comes to. Pure.

To open or to close a queue twice is as good as once, so it is done first, and then the Command is
deleted: no crash and no lost answer makes it forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from arranger.api import event_reasons
from arranger.api.annotations import QUEUE_STATE
from arranger.api.settings.queue_annotations import ROOT_QUEUE
from arranger.api.types.command import Command
from arranger.controllers.queue.cache import QueueCache
from arranger.controllers.queue.status import CLOSED, CLOSING, OPEN
from arranger.controllers.runtime.objects import Object

_STATES: Final = {"OpenQueue": OPEN, "CloseQueue": CLOSED}


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """What is to be written about a queue, and told of it.

    Attributes:
        annotations, status: a merge patch of each; empty for nothing to write.
    """

    reason: str
    note: str
    warning: bool = False
    annotations: Object = field(default_factory=dict)
    status: Object = field(default_factory=dict)


def commanded_queue(command: Command, namespaces: Sequence[str]) -> str | None:
    """The name of the Queue that a Command is for; None for other targets.

    Args:
        namespaces: where Commands for queues are obeyed; empty for everywhere.
    """
    heard = not namespaces or command.metadata.namespace in namespaces
    is_for_queue = command.is_for("scheduling.volcano.sh", "Queue")
    return command.target.name if heard and is_for_queue else None


def obey(cache: QueueCache, command: Command) -> CommandOutcome | None:
    """What becomes of a Command; None where its target is gone.

    Where the queue's owner has set the annotation with its state, that is changed, because it goes
    before the status.
    """
    name, action = command.target.name, command.action
    observed = cache.observed.get(name)
    if observed is None or command.target.uid not in ("", observed.metadata.uid):
        return None
    wanted = _STATES.get(action)
    if wanted is None:
        note = f"Command {command.metadata.name}: {action[:60]!r} is ignored; it may be "
        note += " or ".join(sorted(_STATES))
        return CommandOutcome(event_reasons.INVALID_ACTION, note, warning=True)
    if wanted == CLOSED and name == ROOT_QUEUE:
        return CommandOutcome(action, "Root queue cannot be closed", warning=True)
    parent = cache.observed.get(observed.spec.parent)
    if wanted == OPEN and parent is not None and parent.status.get("state") in (CLOSING, CLOSED):
        note = f"its parent queue {parent.name} is closing or closed. Open the parent queue first."
        return CommandOutcome(action, f"Failed to open queue {name} because {note}", warning=True)
    note = "Open queue succeed" if wanted == OPEN else "Close queue succeed"
    if QUEUE_STATE in observed.metadata.annotations:
        changed = observed.metadata.annotations[QUEUE_STATE] != wanted
        return CommandOutcome(action, note, annotations={QUEUE_STATE: wanted} if changed else {})
    state = observed.status.get("state")
    done = state == OPEN if wanted == OPEN else state in (CLOSING, CLOSED)
    begun = OPEN if wanted == OPEN else CLOSING
    return CommandOutcome(action, note, status={} if done else {"state": begun})
