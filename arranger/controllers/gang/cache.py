"""All gangs in memory, and what should be written about each.

It is fed with events and asked for the changes to write; it writes nothing itself and reads no
clock. Its gangs are those of :class:`~arranger.gangs.registry.GangRegistry`, the scheduler's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from arranger.api.effects import ObjectReference
from arranger.api.parsing.objects import convert_object
from arranger.api.types.core import ObjectMeta, Pod, Struct
from arranger.api.types.pod_groups import (
    POD_GROUPS,
    AnyPodGroup,
    CommunityPodGroup,
    GangObject,
    NativePodGroup,
    VolcanoPodGroup,
    WorkloadGroup,
)
from arranger.controllers.gang.gang_members import GangMembers
from arranger.controllers.gang.members import GangSummary, summarize
from arranger.controllers.gang.status import (
    NOT_ADMITTED,
    community_status,
    gang_status,
    native_status,
    volcano_status,
)
from arranger.controllers.runtime.objects import (
    Object,
    UnstructuredObject,
    conditions_of,
    is_stale,
    merge_patch,
)
from arranger.controllers.runtime.tombstones import Tombstones
from arranger.controllers.runtime.trimming import trimmed
from arranger.gangs.gang import Gang
from arranger.gangs.gang_object import GANG_API_VERSION, MANAGED_BY, gang_object_spec
from arranger.gangs.registry import GangRegistry
from arranger.kube.watch.sink import is_newer

GANG_GROUP, _, GANG_VERSION = GANG_API_VERSION.partition("/")
#: API group → the PodGroup it defines.
POD_GROUP_KINDS: Final[Mapping[str, type[AnyPodGroup]]] = {
    kind.api_version.partition("/")[0]: kind for kind in POD_GROUPS
}
API_VERSIONS: Final = {
    GANG_GROUP: GANG_API_VERSION,
    **{group: kind.api_version for group, kind in POD_GROUP_KINDS.items()},
}
VOLCANO_GROUP: Final = VolcanoPodGroup.api_version.partition("/")[0]
NATIVE_GROUP: Final = NativePodGroup.api_version.partition("/")[0]


@dataclass(frozen=True, slots=True)
class GangObjectKey:
    """A Gang or PodGroup: its API group, and ``namespace/name``, which names its gang."""

    group: str
    name: str


class ObservedObject(Struct):
    """An object as the server last showed it."""

    api_version: str
    metadata: ObjectMeta
    spec: Object = msgspec.field(default_factory=dict)
    status: Object = msgspec.field(default_factory=dict)

    @property
    def version(self) -> str:
        """The version of its API group."""
        return self.api_version.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """What is to be written about one object.

    Attributes:
        observed: what is there; None to create it.
        spec, status: a merge patch of each; empty for nothing to do.
        delete: whether it is to be deleted.
    """

    key: GangObjectKey
    observed: ObservedObject | None
    spec: Object = field(default_factory=dict)
    status: Object = field(default_factory=dict)
    delete: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return self.observed is not None and not (self.spec or self.status or self.delete)


class GangCache:
    """Pods, PodGroups and Gangs of one cluster.

    Args:
        schedulers: whose pods are ours, by ``spec.schedulerName``; the first one signs Gangs.
        gang_wait_time: the scheduler's, seconds, for gangs that ask for none.
        why_not_admitted: why a PodGroup of Volcano may not have pods yet; "" if it may.
        pod_groups_read: whether all PodGroups have been listed once: until then no Gang is deleted,
            by which PodGroups without pods are known to be ours.

    Attributes:
        tombstones: Gangs and PodGroups that went since the reconcile of their gang began, which no
            answer brings back.

    Methods that take events return the names of the gangs to reconcile.
    """

    def __init__(
        self,
        schedulers: Iterable[str] = ("arranger",),
        *,
        gang_wait_time: float = 600.0,
        why_not_admitted: Callable[[VolcanoPodGroup], str] = lambda _: "",
        pod_groups_read: Callable[[], bool] = lambda: True,
    ) -> None:
        self._schedulers = tuple(schedulers)
        self._gang_wait_time = gang_wait_time
        self._why_not_admitted = why_not_admitted
        self._pod_groups_read = pod_groups_read
        self.registry = GangRegistry()
        self.tombstones = Tombstones()
        self._members = GangMembers(self._schedulers)
        self._observed: dict[GangObjectKey, ObservedObject] = {}
        #: API group → the status fields its definition has; None for any.
        self._status_fields: dict[str, frozenset[str] | None] = {}
        #: Gangs that have lost their last pod, until their PodGroup has been written.
        self._without_pods: set[str] = set()
        #: Those whose PodGroup has been written since: a backup may undo that.
        self._left: set[str] = set()

    def on_pod_updated(self, pod: Pod) -> set[str]:
        """A pod was added or edited."""
        uid = pod.metadata.uid
        membership = self._members.membership_of(pod)
        before = self.registry.gang_of(uid)
        if membership is None:
            return set() if before is None else self.on_pod_deleted(uid)
        changed = self.registry.on_pod_updated(pod, membership)
        if before is not None and before.name != membership.gang:
            self._remove_member(before.name, uid)
            changed.add(before.name)
        self._left.discard(membership.gang)
        if self._members.update(pod, membership):
            changed.add(membership.gang)
        return changed

    def on_pod_deleted(self, uid: str) -> set[str]:
        """A pod was deleted."""
        gang = self.registry.gang_of(uid)
        if gang is None:
            return set()
        self._remove_member(gang.name, uid)
        return self.registry.on_pod_deleted(uid) | {gang.name}

    def _remove_member(self, name: str, uid: str) -> None:
        if self._members.remove(name, uid):  # it is not there if its update has failed half-way
            self._without_pods.add(name)

    def on_definition_updated(self, group: str, fields: frozenset[str] | None) -> set[str]:
        """A definition is served, with these fields in its status (None: whatever is written)."""
        if group in self._status_fields and self._status_fields[group] == fields:
            return set()
        self._status_fields[group] = fields
        known = {key.name for key in self._observed if key.group == group}
        return known | {*self._members.gangs()} if group == GANG_GROUP else known

    def on_definition_deleted(self, group: str) -> None:
        """A definition is gone, and its objects with it."""
        self._status_fields.pop(group, None)
        for key in [key for key in self._observed if key.group == group]:
            self.on_object_deleted(key)

    def on_object_updated(
        self, group: str, obj: UnstructuredObject, *, asked_at: str = ""
    ) -> set[str]:
        """A Gang or PodGroup was added or edited, or is the answer to a write of ours.

        Args:
            asked_at: see :func:`~arranger.controllers.runtime.objects.is_stale`.

        Raises:
            ParseError: it is none.
        """
        obj = trimmed(obj)
        gang: GangObject | None = None
        definition: AnyPodGroup | None = None
        if group == GANG_GROUP:
            gang = convert_object(obj.body(), GangObject, strict=False)
        else:
            definition = convert_object(obj.body(), POD_GROUP_KINDS[group], strict=False)
        meta = obj.metadata
        version = obj.api_version or API_VERSIONS[group]
        observed = ObservedObject(version, meta, obj.spec_fields, obj.status_fields)
        key = GangObjectKey(group, f"{meta.namespace}/{meta.name}")
        known = self._observed.get(key)
        gone = self.tombstones.has(key.name, meta.uid, asked_at=asked_at)
        if gone or is_stale(observed, known, asked_at=asked_at):
            return set()
        if known is not None and known.metadata.uid != meta.uid:
            self.tombstones.add(key.name, known.metadata.uid)
        changed: set[str] = set()
        if definition is not None:
            changed = self.registry.on_pod_group_updated(definition)
            version = "" if known is None else known.metadata.resource_version
            if version and not is_newer(meta.resource_version, version):  # of a backup
                self._without_pods |= self._left & {key.name}
        self._observed[key] = observed
        if gang is not None and (known is None or known.metadata.uid != meta.uid):
            # Written before a restart; or a moment ago, and then the registry knows the bundles.
            changed = self.registry.restore_recorded_bundles(gang)
        elif gang is not None and known is not None and observed.spec != known.spec:
            changed = self.registry.restore_recorded_bundles(gang, edited=True)
        return changed | {key.name}

    def on_object_deleted(self, key: GangObjectKey, uid: str = "") -> set[str]:
        """A Gang or PodGroup was deleted: the one of this uid, or whichever it is."""
        self.tombstones.add(key.name, uid)
        known = self._observed.get(key)
        if known is None or uid not in ("", known.metadata.uid):
            return set()
        del self._observed[key]
        if key.group == GANG_GROUP:
            self.registry.forget_records(key.name)
            return {key.name}
        self._left.discard(key.name)
        return self.registry.on_pod_group_deleted(POD_GROUP_KINDS[key.group], key.name) | {key.name}

    def reference(self, name: str) -> ObjectReference:
        """What says that there is a gang, for Events: its PodGroup before its Gang."""
        for group in (*POD_GROUP_KINDS, GANG_GROUP):
            if (known := self._observed.get(GangObjectKey(group, name))) is not None:
                kind = "Gang" if group == GANG_GROUP else "PodGroup"
                meta = known.metadata
                return ObjectReference(known.api_version, kind, meta.namespace, meta.name, meta.uid)
        namespace, _, gang = name.partition("/")
        return ObjectReference(GANG_API_VERSION, "Gang", namespace, gang)

    def summarizer(self, name: str) -> tuple[Callable[[], GangSummary], int]:
        """What sums up the members of a gang as they are now, and how many there are."""
        members, gang = self._members.of(name), self._gang(name)
        if gang is None:
            return partial(summarize, members), len(members)
        minimums = dict(gang.bundle_minimums)
        work = partial(
            summarize, members, minimum=gang.minimum, minimums=minimums, defined=gang.is_defined
        )
        return work, len(members)

    def changes(
        self, name: str, now: str, summary: GangSummary | None = None
    ) -> list[ObjectChange]:
        """What is to be written about a gang, in this order; nothing when all is right.

        The Gang is created first and deleted last: by it a restart knows that a PodGroup was ours.

        Args:
            summary: of its members; worked out where it is not given.
        """
        gang = self._gang(name)
        if summary is None:
            summary = self.summarizer(name)[0]()
        found = [
            change
            for group in POD_GROUP_KINDS
            if (change := self._pod_group_change(GangObjectKey(group, name), gang, summary, now))
        ]
        if change := self._gang_change(GangObjectKey(GANG_GROUP, name), gang, summary):
            found.insert(0 if change.observed is None else len(found), change)
        return [change for change in found if not change.is_empty]

    def mark_written(self, name: str) -> None:
        """Everything that :meth:`changes` gave has been written."""
        if name in self._without_pods and not self._members.has_ours(name):
            self._without_pods.discard(name)
            if any(GangObjectKey(group, name) in self._observed for group in POD_GROUP_KINDS):
                self._left.add(name)

    def waits(self, name: str) -> bool:
        """Whether a gang is to be looked at again though nothing happens to it."""
        observed = self._observed.get(GangObjectKey(VOLCANO_GROUP, name))
        not_admitted = observed is not None and _waits_for_admission(observed)
        return not_admitted or self._waits_for_pod_groups(name)

    def _waits_for_pod_groups(self, name: str) -> bool:
        if self._pod_groups_read() or self._gang(name) is not None:
            return False
        return self._is_managed_by_us(self._observed.get(GangObjectKey(GANG_GROUP, name)))

    def _gang(self, name: str) -> Gang | None:
        """A gang that has pods of ours."""
        return self.registry.gangs.get(name) if self._members.has_ours(name) else None

    def _pod_group_change(
        self, key: GangObjectKey, gang: Gang | None, summary: GangSummary, now: str
    ) -> ObjectChange | None:
        observed = self._observed.get(key)
        if observed is None or (key.group not in self._status_fields and key.group != NATIVE_GROUP):
            return None
        kind = POD_GROUP_KINDS[key.group]
        if gang is None or type(gang.pod_group) is not kind:
            if not self._owns_without_pods(key, observed):
                return None
            summary = GangSummary(minimum=observed.spec.get("minMember") or 0)
        before = observed.status
        if kind is NativePodGroup:
            status = native_status(summary, before=before, version=observed.version, now=now)
        elif kind is VolcanoPodGroup:
            refusal = "" if summary.total.members else self._why_not_admitted(_pod_group(observed))
            status = volcano_status(summary, before=before, now=now, refusal=refusal)
        else:
            coarse = kind is CommunityPodGroup
            status = community_status(summary, before=before, coarse_phases=coarse)
        return ObjectChange(key, observed, status=self._status_patch(key.group, status, before))

    def _owns_without_pods(self, key: GangObjectKey, observed: ObservedObject) -> bool:
        """Whether a PodGroup without pods of ours is still ours to write.

        It may be another scheduler's. So only one that nobody has written, or whose last pod was
        ours: by what we saw, or by the Gang that is still there.
        """
        if self._members.has_ours(key.name) or key.group == NATIVE_GROUP:
            return False
        gang = self._observed.get(GangObjectKey(GANG_GROUP, key.name))
        left = key.name in self._without_pods or self._is_managed_by_us(gang)
        return left or not observed.status.get("phase") or _waits_for_admission(observed)

    def _gang_change(
        self, key: GangObjectKey, gang: Gang | None, summary: GangSummary
    ) -> ObjectChange | None:
        observed = self._observed.get(key)
        if GANG_GROUP not in self._status_fields:
            return None
        if observed is not None and observed.spec.get("source") == WorkloadGroup.api_version:
            # Of pods that are a gang because of their owner, which only the scheduler reads.
            return None
        if gang is None:
            is_over = self._is_managed_by_us(observed) and self._pod_groups_read()
            return ObjectChange(key, observed, delete=True) if is_over else None
        before = observed.status if observed else {}
        status = gang_status(summary, before=before)
        spec = gang_object_spec(
            gang.settings, sources=[summary.source], wait_time=self._gang_wait_time
        )
        return ObjectChange(
            key,
            observed,
            spec=merge_patch(observed.spec if observed else {}, spec),
            status=self._status_patch(GANG_GROUP, status, before),
        )

    def _is_managed_by_us(self, gang: ObservedObject | None) -> bool:
        return gang is not None and gang.metadata.labels.get(MANAGED_BY) == self.managed_by

    @property
    def managed_by(self) -> str:
        """The label value of our Gangs."""
        return self._schedulers[0]

    def _status_patch(self, group: str, desired: Object, current: Mapping[str, Any]) -> Object:
        """The patch of the fields that the served definition has; others would be pruned."""
        fields = self._status_fields.get(group)
        patch = merge_patch(current, desired)
        return patch if fields is None else {k: v for k, v in patch.items() if k in fields}


def _pod_group(observed: ObservedObject) -> VolcanoPodGroup:
    whole = {"spec": observed.spec, "status": observed.status}
    group = convert_object({"metadata": {"name": ""}, **whole}, VolcanoPodGroup, strict=False)
    group.metadata = observed.metadata
    return group


def _waits_for_admission(group: ObservedObject) -> bool:
    return any(
        c.get("reason") == NOT_ADMITTED for c in conditions_of(group.status.get("conditions"))
    )
