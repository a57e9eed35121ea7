"""PrioritySort: the order of the queue."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from arranger.api.annotations import JOB_PRIORITY, JOB_QUEUE_POLICY
from arranger.api.settings.queue_annotations import job_priority
from arranger.framework.interface import QueueSortInput, SpecOnlyPlugin
from arranger.plugins.helpers.args import ArgsSection


class PrioritySortArgs(ArgsSection):
    """``jobQueuePolicy``: the order of jobs of equal pod priority, unless a job states its own."""

    job_queue_policy: Literal["Priority", "DRF"] = "Priority"


class PrioritySort(SpecOnlyPlugin):
    """Higher priority first, then the job of higher priority, then older ones, then by name.

    Whatever states no job priority counts as a job of the default. Of one priority, jobs that ask
    for fair shares (DRF) take each other's turns, the one with the least dominant share the first.
    Creation times have a resolution of a second, so the order of arrival decides before the name.
    Where many of one priority wait, their namespaces take turns: ``docs/design/queue-order.md``.
    """

    Args = PrioritySortArgs
    queueing_hints = ()
    namespaces_take_turns = True

    def __init__(self, args: PrioritySortArgs | None = None) -> None:
        self._policy = (args or PrioritySortArgs()).job_queue_policy

    def sort_key(self, queued: QueueSortInput) -> tuple[int, int, float, float, str]:
        """Smallest first."""
        pod = queued.pod
        job = job_priority(pod.pod.metadata)
        return -pod.priority, -job, queued.created, queued.queued_at, queued.name

    def shared_turn(self, queued: QueueSortInput) -> tuple[Hashable, float] | None:
        """Jobs that ask for fair shares, with those of the same priorities."""
        notes = queued.pod.pod.metadata.annotations
        if not notes:
            return None
        default = self._policy if JOB_PRIORITY in notes else ""
        if notes.get(JOB_QUEUE_POLICY, default) != "DRF":
            return None
        return (queued.pod.priority, job_priority(queued.pod.pod.metadata)), queued.job_share()
