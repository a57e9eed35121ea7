"""PrioritySort: the order of the queue."""

from __future__ import annotations

from typing import Literal

from arranger.api.annotations import JOB_PRIORITY, JOB_QUEUE_POLICY
from arranger.cluster.pod_info import PodInfo
from arranger.framework.interface import QueueSortInput, SpecOnlyPlugin
from arranger.plugins.helpers.args import ArgsSection


class PrioritySortArgs(ArgsSection):
    """``jobQueuePolicy``: the order of jobs of equal pod priority, unless a job states its own."""

    job_queue_policy: Literal["Priority", "DRF"] = "Priority"


class PrioritySort(SpecOnlyPlugin):
    """Higher priority first, then older pods first, then by name.

    Between jobs of one pod priority: by the job's own priority or, with DRF, the job with the
    smallest dominant share first. Creation times have a resolution of a second, so the order of
    arrival decides before the name.
    """

    Args = PrioritySortArgs
    queueing_hints = ()

    def __init__(self, args: PrioritySortArgs | None = None) -> None:
        self._policy = (args or PrioritySortArgs()).job_queue_policy

    def sort_key(self, queued: QueueSortInput) -> tuple[int, int, float, float, float, str]:
        """Smallest first."""
        priority, share = 0, 0.0
        notes = queued.pod.pod.metadata.annotations
        if JOB_PRIORITY in notes or JOB_QUEUE_POLICY in notes:
            if notes.get(JOB_QUEUE_POLICY, self._policy) == "DRF":
                share = queued.job_share()
            else:
                priority = -_job_priority(queued.pod)
        arrival = queued.created, queued.queued_at, queued.name
        return -queued.pod.priority, priority, share, *arrival


def _job_priority(pod: PodInfo) -> int:
    text = pod.pod.metadata.annotations.get(JOB_PRIORITY, "")
    return int(text) if text.isdigit() else 0
