"""Whether a Job's queue takes any work."""

from __future__ import annotations

from arranger.api.queue_annotations import DEFAULT_QUEUE
from arranger.api.types.queue import Queue
from arranger.quota.queue_spec import QueueQuota, path_self_to_root, read_queue, why_no_pods


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
        if not self._queues:
            return ""
        path = list(path_self_to_root(self._queues, name))
        if not path and name == DEFAULT_QUEUE:
            path = [QueueQuota(DEFAULT_QUEUE)]
        children = sum(q.parent == name for q in self._queues.values() if q.name != name)
        return why_no_pods(name, path, children)
