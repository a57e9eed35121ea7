"""What is known of a pod when it is set aside: for others it stays so meanwhile."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from arranger.api.annotations import (
    CHECKPOINT_BEFORE_EVICTION,
    PREEMPTABLE,
    SERVICE_TYPE,
)
from arranger.api.settings.gang_membership import gang_membership
from arranger.api.settings.queue_annotations import DEFAULT_QUEUE, declared_queue
from arranger.api.types.core import ObjectMeta, Pod
from arranger.api.types.pod_groups import GANG_DEFINERS
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.faults.fault_notes import FaultNotes
from arranger.engine.faults.states import PodFacts
from arranger.engine.handlers.initial_objects import InitialObjects
from arranger.gangs.registry import GangRegistry
from arranger.gangs.workloads.index import WorkloadIndex
from arranger.quota.ledger import QuotaLedger

#: What is said of a pod, by whomever, and decides who may evict it.
_SAID: Final = (PREEMPTABLE, SERVICE_TYPE)


@dataclass(frozen=True, slots=True)
class PodFactFinder:
    """Looks up what is known of a pod, while the books have it."""

    _notes: FaultNotes
    _context: EngineContext
    _ledger: QuotaLedger
    _registry: GangRegistry
    _initial: InitialObjects
    _workloads: WorkloadIndex

    def of(self, pod: Pod) -> PodFacts:
        """What is known of a pod; best asked while it is in its gang."""
        meta, uid = pod.metadata, pod.metadata.uid
        queue, placed = self._queue_of(pod), None
        with suppress(Exception):
            placed = self._context.cluster.pod(uid)
        priority = None if placed is None else placed.priority
        try:
            gang = self._gang_of(pod)
            annotations = self._ledger.annotations
            info = placed or PodInfo(pod)
            said = {key: annotations.get(info, key) for key in _SAID} | _own_words(meta)
        except Exception:
            return PodFacts(queue, priority, _own_words(meta))
        unknown = not queue and self._ledger.active
        alone = not gang and not self._workloads.concerns(meta)
        spared = not alone or unknown or CHECKPOINT_BEFORE_EVICTION in meta.annotations
        return PodFacts(queue, priority, said, gang, spared, alone)

    def _gang_of(self, pod: Pod) -> str:
        gang = self._registry.gang_of(pod.metadata.uid)
        if gang is not None:
            return gang.name
        own = gang_membership(pod)
        return "" if own is None else own.gang

    def _queue_of(self, pod: Pod) -> str:
        """The queue that a pod is charged to.

        Outside its gang it is the one that its PodGroup names, unless that is set aside.
        """
        uid = pod.metadata.uid
        if (named := declared_queue(pod.metadata)) or not self._initial.taken:
            return named
        with suppress(Exception):
            placed = self._context.cluster.pod(uid)
            gang = self._registry.gang_of(uid)
            if gang is not None and gang.pod_group is not None:
                return self._ledger.queue_name(placed or PodInfo(pod))
            if gang is not None:
                return self._queue_of_gang(gang.name)
            if (membership := gang_membership(pod)) is not None:
                return self._queue_of_gang(membership.gang)
            if not pod.metadata.owner_references:
                return DEFAULT_QUEUE
            if (said := self._workloads.queue_of(pod)) is not None:
                allowed = self._ledger.rights.may_use(said, pod.metadata.namespace)
                return said if said and allowed else DEFAULT_QUEUE
            if (charge := self._ledger.charge_of(uid)) is not None:
                return charge.queue
        return ""

    def _queue_of_gang(self, gang: str) -> str:
        found = [self._registry.pod_group(kind, gang) for kind in GANG_DEFINERS]
        queues = {self._ledger.queue_of_group(each)[0] for each in found if each is not None}
        if not queues and self._notes.quarantine.get("PodGroup", *gang.split("/", 1)) is None:
            return DEFAULT_QUEUE
        return queues.pop() if len(queues) == 1 else ""


def _own_words(meta: ObjectMeta) -> dict[str, str]:
    said = meta.annotations
    own = {key: text for key in _SAID if (text := said.get(key))}
    if PREEMPTABLE not in said and (label := meta.labels.get(PREEMPTABLE)):
        own[PREEMPTABLE] = label
    return own
