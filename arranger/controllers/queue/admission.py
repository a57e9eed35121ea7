"""Whether a PodGroup that has no pods yet may have them: what Volcano's enqueue action asks.

Operators make the pods of a PodGroup once it is Inqueue. The rule is the scheduler's, which asks
again when there are pods (:mod:`arranger.quota.min_resources`); but nobody is evicted for pods that
are not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from arranger.api.resource_requests import Amounts
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.controllers.queue.cache import QueueCache
from arranger.controllers.queue.entries import queue_of
from arranger.quota.min_resources import Room, cluster_limit, requested_minimum, why_not_admitted
from arranger.quota.queue_rights import not_for_namespace


@dataclass(frozen=True, slots=True)
class PodGroupAdmission:
    """Admits PodGroups beside what pods use, and what is promised to others of their namespace that
    were admitted. Pods that are being counted anew may be counted where they were before."""

    _cache: QueueCache

    def why_not(self, group: VolcanoPodGroup) -> str:
        """Why a PodGroup is not admitted; "" if it is."""
        cache, queue = self._cache, queue_of(group)
        if not cache.rights.may_use(queue, group.metadata.namespace):
            return not_for_namespace(queue, group.metadata.namespace)
        if why := cache.why_no_pods(queue):
            return why
        if group.status.phase == "Inqueue":
            return ""
        wanted = requested_minimum(group)
        return why_not_admitted(wanted, self._rooms(group, wanted)) if wanted else ""

    def _rooms(self, group: VolcanoPodGroup, wanted: Amounts) -> Iterator[Room]:
        cache, promises = self._cache, self._cache.promises
        own, namespace = promises.of(group.key), group.metadata.namespace
        for resource in wanted:
            promised = promises.in_namespace(namespace, resource) - own.get(resource, 0)
            used = cache.total_requests[resource] + promised
            limit = cluster_limit(group, cache.total_allocatable[resource])
            yield Room("", resource, used, limit)
        for state in cache.path_self_to_root(queue_of(group)):
            limited = wanted.keys() & state.capability.keys()
            if not limited:
                continue
            usage = cache.usage_of(state.name).resources
            queues = list(cache.with_descendants(state.name))
            for resource in limited:
                found = (promises.in_queue(queue, namespace, resource) for queue in queues)
                promised = sum(found)
                used = usage[resource] + promised - own.get(resource, 0)
                yield Room(state.name, resource, used, state.capability[resource])
