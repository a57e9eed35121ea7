"""What counts for a pod: its own annotations, else those of its PodGroup, else its owners'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from arranger.api.annotations import CARD_NAME, PREEMPTABLE
from arranger.api.settings.queue_annotations import is_preemptable, requested_cards
from arranger.api.types.pod_groups import AnyPodGroup, WorkloadGroup
from arranger.cluster import PodInfo
from arranger.quota.pod_owners import PodOwners


class PodGroups(Protocol):
    """Knows the PodGroups of pods."""

    def pod_group_of(self, uid: str) -> AnyPodGroup | None:
        """The PodGroup of a pod, if it has one."""
        ...


class LonePods(Protocol):
    """Knows what the owners of gangs say of their pods that are in none."""

    def settings_of(self, uid: str) -> WorkloadGroup | None:
        """Queue and annotations for a pod, by the same object for all like it."""
        ...


@dataclass(frozen=True, slots=True)
class PodAnnotations:
    """Looks up what is said of pods; without ``_pod_groups`` they have none.

    A PyTorchJob or another owner of gangs stands for the PodGroup of those of its pods that are in
    no gang, like the driver of a SparkApplication.
    """

    _pod_groups: PodGroups | None
    _owners: PodOwners
    _lone_pods: LonePods | None = None

    def pod_group_of(self, pod: PodInfo) -> AnyPodGroup | None:
        """The PodGroup of a pod, or what stands for it; None if there is neither."""
        uid = pod.uid
        group = None if self._pod_groups is None else self._pod_groups.pod_group_of(uid)
        if group is None and self._lone_pods is not None:
            return self._lone_pods.settings_of(uid)
        return group

    def get(self, pod: PodInfo, key: str) -> str:
        """What counts for a pod; "" where nobody says anything."""
        meta = pod.pod.metadata
        if own := meta.annotations.get(key):
            return own
        group = self.pod_group_of(pod)
        if group is not None and (said := group.metadata.annotations.get(key)):
            return said
        return self._owners.annotations_of(meta).get(key, "")

    def said_by_owners(self, pod: PodInfo) -> tuple[tuple[str, str], ...]:
        """The annotations of a pod's owners that count for it; "queue" for what one names."""
        said = dict(self._owners.annotations_of(pod.pod.metadata))
        group = None if self._lone_pods is None else self._lone_pods.settings_of(pod.uid)
        if group is not None:
            said |= {**group.metadata.annotations, "queue": group.spec.queue}
        return tuple(sorted(said.items()))

    def cards_wanted_by(self, pod: PodInfo) -> tuple[str, ...]:
        """The cards that a pod can use, in its order of preference; empty when it names none."""
        return requested_cards(self.get(pod, CARD_NAME))

    def is_preemptable(self, pod: PodInfo) -> bool:
        """Whether a pod may be evicted: yes unless the pod, its PodGroup or its owners say no."""
        meta = pod.pod.metadata
        label = "" if PREEMPTABLE in meta.annotations else meta.labels.get(PREEMPTABLE)
        return is_preemptable(label or self.get(pod, PREEMPTABLE))


def queue_named_by(group: AnyPodGroup | None) -> str:
    """The queue that a PodGroup names; "" for one of a kind that names none."""
    named: str = getattr(getattr(group, "spec", None), "queue", "")
    return named
