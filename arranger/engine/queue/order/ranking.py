"""The place of an entity in the order of its quota queue, by the profile's QueueSort plugin."""

from __future__ import annotations

from collections.abc import Callable

from arranger.engine.context.entity import QueuedEntity
from arranger.framework.runtime.plugin_errors import error_text


def set_rank(entity: QueuedEntity, share_of: Callable[[QueuedEntity], float]) -> None:
    """Ask the plugin for the entity's place, and for those with whom it shares or takes turns.

    Gangs bound in part come first; what the plugin raised on comes last, where it meets nobody it
    cannot be compared with.
    """
    plugin, first = entity.profile.queue_sort, 0 if entity.urgent else 1
    entity.turn = None
    try:
        queued = entity.sort_input(share_of)
        key = plugin.sort_key(queued)
        entity.rank = first, key
        entity.lane = (first,), ""
        if plugin.namespaces_take_turns:
            entity.lane = (first, key[0]), entity.representative.pod.namespace
        turn = plugin.shared_turn(queued)
    except Exception as error:
        entity.plugin_error = error_text(plugin.name, "QueueSort", error)
        entity.plugin_fault = error
        entity.rank, entity.lane = (2,), ((2,), "")
        return
    if turn is not None:
        sharing, share = turn
        entity.turn = (first, sharing), share
