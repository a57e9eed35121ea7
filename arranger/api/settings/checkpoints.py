"""What a pod says of saving its state: how long that takes, and when it last did."""

from __future__ import annotations

from arranger.api.annotations import (
    CHECKPOINT_BEFORE_EVICTION,
    CHECKPOINTED_AT,
    EVICTION_DEADLINE,
)
from arranger.api.parsing.duration import lasting_duration_of
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.timestamps import parse_time
from arranger.api.types.core import Pod


def checkpoint_time(pod: Pod) -> float:
    """The seconds that a pod asks for before it is evicted.

    0 where it says nothing, or nothing that can be read.
    """
    return lasting_duration_of(pod.metadata.annotations, CHECKPOINT_BEFORE_EVICTION) or 0.0


def checkpointed_at(pod: Pod) -> float:
    """When a pod says that it has last saved its state, in seconds since 1970; 0 if it does not."""
    return _moment(pod, CHECKPOINTED_AT)


def eviction_deadline(pod: Pod) -> float:
    """Until when a pod was given time by a notice, in seconds since 1970; 0 if nothing says so."""
    return _moment(pod, EVICTION_DEADLINE)


def _moment(pod: Pod, key: str) -> float:
    text = pod.metadata.annotations.get(key)
    if not text:
        return 0.0
    try:
        return max(parse_time(text).timestamp(), 0.0)
    except ParseError:
        return 0.0
