"""Whether a Job's queue takes any work."""

from __future__ import annotations

from arranger.api.types.queue import Queue
from arranger.quota.queue_spec import QueueQuota, read_queue, why_no_pods_in


class JobQueues:
    """The Queues there are; without any, nothing is limited, and no job is refused."""

    def __init__(self) -> None:
        self._queues: dict[str, QueueQuota] = {}

    def on_updated(self, queue: Queue) -> bool:
        """A queue was added or edited; returns whether that matters."""
        state = read_queue(queue)
        changed = self._queues.get(queue.name) != state
        self._queues[queue.name] = state
        return changed

    def on_deleted(self, queue: Queue) -> bool:
        """A queue was deleted."""
        return self._queues.pop(queue.name, None) is not None

    def problem(self, name: str) -> str:
        """Why a queue takes no work, by the rules of the scheduler; "" if it does."""
        return why_no_pods_in(self._queues, name)
