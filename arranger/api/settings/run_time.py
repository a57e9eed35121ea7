"""How long a pod may run: its ``activeDeadlineSeconds``, and the annotation ``max-run-time``.

The smaller of the two counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from arranger.api.annotations import MAX_RUN_TIME
from arranger.api.parsing.duration import lasting_duration_of
from arranger.api.types.core import Pod

#: The most that ``activeDeadlineSeconds`` may be.
_MAX_DEADLINE: Final = 2**31 - 1


def annotated_run_time(pod: Pod) -> float | None:
    """The maximum run time that a pod's annotation says, in seconds.

    None where it says nothing, or nothing that can be read.
    """
    return lasting_duration_of(pod.metadata.annotations, MAX_RUN_TIME)


def deadline_for(annotations: Mapping[str, str], stated: int | None) -> int | None:
    """``activeDeadlineSeconds`` of a pod that is made with such annotations.

    Args:
        stated: what its template says.
    """
    seconds = lasting_duration_of(annotations, MAX_RUN_TIME)
    if seconds is None:
        return stated
    limit = min(math.ceil(seconds), _MAX_DEADLINE)
    return limit if stated is None else min(limit, stated)


def run_time_limit(pod: Pod) -> float | None:
    """How long a pod may run once it has started, in seconds; None if it may run for ever.

    The smaller of ``spec.activeDeadlineSeconds`` and the annotation.
    """
    deadline, annotated = pod.spec.active_deadline_seconds, annotated_run_time(pod)
    if deadline is None or annotated is None:
        return annotated if deadline is None else deadline
    return min(deadline, annotated)
