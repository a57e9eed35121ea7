"""From sums to status: what is written on a Queue. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from arranger.api.types.queue import wanted_state, write_amount, write_amounts
from arranger.controllers.gang.status import with_condition
from arranger.controllers.queue.cache import QueueBook, ShownQueue, Use
from arranger.quota.queue_spec import QueueState

Object = dict[str, Any]

OPEN: Final = "Open"
CLOSING: Final = "Closing"
CLOSED: Final = "Closed"
#: Whether the queue's specification can be read and makes sense.
VALID: Final = "Valid"


def queue_status(book: QueueBook, name: str, now: str) -> Object:
    """``status`` of a queue: every field we keep, ``None`` for one that must not be there.

    Args:
        now: RFC 3339.
    """
    shown, state = book.shown[name], book.states[name]
    used, counts = book.used(name), book.counts(name)
    wrong = [*state.problems, *book.faults(name)]
    said = (VALID, "False", "Invalid", "; ".join(wrong)) if wrong else (VALID, "True", "Valid", "")
    conditions = with_condition(list(shown.status.get("conditions") or ()), said, now)
    seen = shown.metadata.generation
    return {
        "state": state_of(book, name),
        "allocated": write_amounts(used.resources),
        "cards": _cards(state, used),
        "usage": _usage(state, used),
        **{phase.lower(): counts[phase] for phase in _PHASES},
        "conditions": [
            {**each, "observedGeneration": seen} if each["type"] == VALID else each
            for each in conditions
        ],
    }


_PHASES: Final = ("Unknown", "Pending", "Running", "Inqueue", "Completed")


def state_of(book: QueueBook, name: str) -> str:
    """Whether a queue takes work.

    Its user's word counts; where there is none, what is written stays, for others may have closed
    it. A queue to be closed is closing until its work has ended, and then stays closed.
    """
    before = str(book.shown[name].status.get("state") or "")
    if not _to_be_closed(book.shown[name], before):
        return OPEN
    return CLOSING if before != CLOSED and book.busy(name) else CLOSED


def _to_be_closed(queue: ShownQueue, before: str) -> bool:
    try:
        wanted = wanted_state(queue.read())
    except ValueError:
        wanted = ""
    return wanted == CLOSED or (not wanted and before in (CLOSING, CLOSED))


def patch_of(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object:
    """A merge patch that makes the fields named in ``wanted`` exactly so; empty if they are."""
    patch: Object = {}
    for name, value in wanted.items():
        old = there.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = patch_of(old, {**dict.fromkeys(old), **value})
            if inner:
                patch[name] = inner
        elif value != old:
            patch[name] = value
    return patch


def _cards(state: QueueState, used: Use) -> Object | None:
    if state.quota is None:
        return None
    names = sorted({*state.quota, *used.cards})
    return {n: {"allocated": used.cards[n], "quota": state.quota.get(n, 0)} for n in names} or None


def _usage(state: QueueState, used: Use) -> Object:
    """For people: what is used of how much, ``-`` for no limit."""
    shown: Object = {name: usage(name, state, used) for name in ("cpu", "memory")}
    cards = sorted({*(state.quota or {}), *used.cards})
    shown["cards"] = ", ".join(f"{card}: {usage(card, state, used)}" for card in cards) or None
    return shown


def usage(name: str, state: QueueState, used: Use) -> str:
    """``used/limit`` of a resource or card, ``-`` for no limit."""
    have, limit = limit_of(name, state, used)
    return f"{write_amount(name, have)}/{'-' if limit is None else write_amount(name, limit)}"


def limit_of(name: str, state: QueueState, used: Use) -> tuple[int, int | None]:
    """(used, limit) of a resource or card; None for no limit."""
    if name in used.cards or name in (state.quota or {}):
        return used.cards[name], None if state.quota is None else state.quota.get(name, 0)
    return used.resources[name], state.capability.get(name)
