"""Which queue a pod is of."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from arranger.api.settings.queue_annotations import DEFAULT_QUEUE, queue_of
from arranger.api.types.pod_groups import AnyPodGroup
from arranger.cluster import PodInfo
from arranger.quota.charging.kept_queues import KeptQueues
from arranger.quota.pod_annotations import PodAnnotations, queue_named_by
from arranger.quota.queue_rights import TenantRights


@dataclass(frozen=True, slots=True)
class PodQueues:
    """Says which queue pods are of, by what is said of them and who may use it.

    Attributes:
        _queues: the names of all that there are.
    """

    _queues: Collection[str]
    _rights: TenantRights
    _annotations: PodAnnotations
    _kept: KeptQueues

    def stated_by(self, pod: PodInfo) -> str:
        """The queue that a pod names, else its PodGroup or owner, whether or not it may use it."""
        return queue_of(pod.pod, queue_named_by(self._annotations.pod_group_of(pod)))

    def of(self, pod: PodInfo) -> str:
        """The queue of a pod: the default one where it names one that is not for it.

        One on a node stays in the queue that it was charged to until another one takes it, and is
        of the default queue where the one that it names is not there. One that waits is of that all
        the same: it may come.
        """
        if self._kept and (kept := self._kept.of(pod)) and self.may_use(kept, pod.namespace):
            return kept
        return self.named_by(pod)

    def named_by(self, pod: PodInfo) -> str:
        """The same, wherever it was charged before."""
        stated = self.stated_by(pod)
        rights = self if pod.pod.spec.node_name else self._rights
        return stated if rights.may_use(stated, pod.namespace) else DEFAULT_QUEUE

    def of_group(self, group: AnyPodGroup) -> tuple[str, bool]:
        """(the queue of a PodGroup as of its pods, whether it is the one that it names)."""
        stated = queue_named_by(group) or DEFAULT_QUEUE
        allowed = self._rights.may_use(stated, group.metadata.namespace)
        return (stated if allowed else DEFAULT_QUEUE), allowed

    @property
    def version(self) -> int:
        """Another number whenever :meth:`may_use` may say otherwise."""
        return self._rights.version

    def may_use(self, queue: str, namespace: str) -> bool:
        """Whether pods of a namespace can be charged to a queue: it is there, and for them.

        Without any queues each is there.
        """
        known = queue in self._queues or queue == DEFAULT_QUEUE or not self._queues
        return known and self._rights.may_use(queue, namespace)
