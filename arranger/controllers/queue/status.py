"""The status of a Queue, worked out from the sums over its pods. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from arranger.api.annotations import CLOSED_BY_PARENT
from arranger.api.resource_requests import format_quantity, format_resource_list
from arranger.controllers.queue.cache import QueueCache
from arranger.controllers.queue.entries import Usage
from arranger.controllers.runtime.objects import Object, conditions_of, with_condition
from arranger.quota.queue_spec import QueueQuota, path_self_to_root

OPEN: Final = "Open"
CLOSING: Final = "Closing"
CLOSED: Final = "Closed"
#: Whether the queue's specification can be read and makes sense.
VALID: Final = "Valid"
#: Resources of which it is shown how much is used, those first that are limited.
MAX_ALLOCATED: Final = 256


def queue_status(cache: QueueCache, name: str, now: str) -> Object:
    """``status`` of a queue: every field we keep, ``None`` for one that must not be there.

    Args:
        now: RFC 3339.
    """
    observed, state = cache.observed[name], cache.states[name]
    used, counts = cache.usage_of(name), cache.phase_counts(name)
    problems = [*state.problems, *cache.problems_of(name)]
    condition = (
        (VALID, "False", "Invalid", "; ".join(problems))
        if problems
        else (VALID, "True", "Valid", "")
    )
    conditions = with_condition(conditions_of(observed.status.get("conditions")), condition, now)
    generation = observed.metadata.generation
    return {
        "state": state_of(cache, name),
        "allocated": format_resource_list(_shown(state, used.resources)),
        "cards": _cards(state, used),
        "usage": _usage(state, used),
        **{phase.lower(): counts[phase] for phase in _PHASES},
        "conditions": [
            {**each, "observedGeneration": generation} if each.get("type") == VALID else each
            for each in conditions
        ],
    }


_PHASES: Final = ("Unknown", "Pending", "Running", "Inqueue", "Completed")


def state_of(cache: QueueCache, name: str) -> str:
    """Whether a queue takes work.

    It does not if it is closed, or one that it is part of. To be closed, it is Closing until its
    work has ended, then Closed.
    """
    if all(state.is_open for state in path_self_to_root(cache.states, name)):
        return OPEN
    before = cache.observed[name].status.get("state")
    return CLOSING if before != CLOSED and cache.has_work(name) else CLOSED


def closed_by_parent(cache: QueueCache, name: str) -> str:
    """What the mark of a queue must be changed to that is closed only by one above it; "" if right.

    It is set before the state is written, and taken back after: so the queue opens with the others,
    whenever a controller dies.
    """
    marked = cache.observed[name].metadata.annotations.get(CLOSED_BY_PARENT) == "true"
    itself, *above = path_self_to_root(cache.states, name)
    if all(state.is_open for state in above):
        return "false" if marked else ""
    return "true" if itself.is_open and not marked else ""


def _shown(state: QueueQuota, used: Mapping[str, int]) -> Mapping[str, int]:
    """What is used, as far as it is shown: what nobody has limited may be named by tenants alone,
    in any number, and a status must have room for all."""
    if len(used) <= MAX_ALLOCATED:
        return used
    limited = {"cpu", "memory", *state.capability, *state.deserved, *state.guarantee}
    first = sorted(used, key=lambda name: (name not in limited, name))
    return {name: used[name] for name in first[:MAX_ALLOCATED]}


def _cards(state: QueueQuota, used: Usage) -> Object | None:
    if state.card_quota is None:
        return None
    names = sorted({*state.card_quota, *used.cards})
    return {
        n: {"allocated": used.cards[n], "quota": state.card_quota.get(n, 0)} for n in names
    } or None


def _usage(state: QueueQuota, used: Usage) -> Object:
    """``used/limit`` of everything, for people to read."""
    shown: Object = {name: usage(name, state, used) for name in ("cpu", "memory")}
    cards = sorted({*(state.card_quota or {}), *used.cards})
    shown["cards"] = ", ".join(f"{card}: {usage(card, state, used)}" for card in cards) or None
    return shown


def usage(name: str, state: QueueQuota, used: Usage) -> str:
    """``used/limit`` of a resource or card, ``-`` for no limit."""
    have, limit = limit_of(name, state, used)
    return f"{format_quantity(name, have)}/{'-' if limit is None else format_quantity(name, limit)}"


def limit_of(name: str, state: QueueQuota, used: Usage) -> tuple[int, int | None]:
    """(used, limit) of a resource or card; None for no limit."""
    if name in used.cards or name in (state.card_quota or {}):
        return used.cards[name], None if state.card_quota is None else state.card_quota.get(name, 0)
    return used.resources[name], state.capability.get(name)
