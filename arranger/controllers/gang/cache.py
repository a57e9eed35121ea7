"""All gangs in memory, and what should be written about each.

Fed with events, asked for the difference: it never says how to write, and it knows no clock. Its
gangs are those of :class:`~arranger.gangs.registry.GangRegistry`, the scheduler's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from arranger.api.gang_membership import claim_of
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import (
    POD_GROUPS,
    AnyPodGroup,
    CommunityPodGroup,
    NativePodGroup,
    SavedGang,
    VolcanoPodGroup,
)
from arranger.controllers.gang.members import Member, Muster, member_of, muster
from arranger.controllers.gang.status import (
    community_status,
    gang_spec,
    gang_status,
    native_status,
    volcano_status,
)
from arranger.gangs.gang import Gang
from arranger.gangs.registry import GangRegistry
from arranger.kube.watch.reflector import newer

Object = dict[str, Any]

GANGS: Final = "arranger.io"
GANG_VERSION: Final = "v1alpha1"
#: API group → the PodGroup it defines.
KINDS: Final[Mapping[str, type[AnyPodGroup]]] = {
    kind.api_version.partition("/")[0]: kind for kind in POD_GROUPS
}
NATIVE: Final = NativePodGroup.api_version.partition("/")[0]
#: Says whose Gang it is: another scheduler's controllers leave it alone.
MANAGED_BY: Final = "app.kubernetes.io/managed-by"


@dataclass(frozen=True, slots=True)
class Key:
    """A Gang or PodGroup: its API group, and ``namespace/name``, which names its gang."""

    group: str
    name: str


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as the server last showed it."""

    version: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    spec: Mapping[str, Any]
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """What to write to make one object right.

    Attributes:
        seen: what is there; None to create it.
        spec, status: a merge patch of each; empty for nothing to do.
        delete: whether it has to go.
    """

    key: Key
    seen: Seen | None
    spec: Object = field(default_factory=dict)
    status: Object = field(default_factory=dict)
    delete: bool = False

    @property
    def idle(self) -> bool:
        """Whether there is nothing to write."""
        return self.seen is not None and not (self.spec or self.status or self.delete)


class Ledger:
    """Pods, PodGroups and Gangs of one cluster.

    Args:
        schedulers: whose pods are ours, by ``spec.schedulerName``; the first one signs Gangs.

    Methods that take events return the names of the gangs to look at again.
    """

    def __init__(self, schedulers: Iterable[str] = ("arranger",)) -> None:
        self._schedulers = tuple(schedulers)
        self.registry = GangRegistry()
        #: Gang → uid → member.
        self._members: dict[str, dict[str, Member]] = {}
        self._seen: dict[Key, Seen] = {}
        #: API group → the status fields its definition has; None for any.
        self._served: dict[str, frozenset[str] | None] = {}
        #: Gangs that have lost their last pod, and whose PodGroup has yet to say so.
        self._left: set[str] = set()

    # --- pods ------------------------------------------------------------------------------

    def pods_replaced(self, pods: Iterable[Pod], *, namespace: str = "") -> set[str]:
        """These are all pods there are (of one namespace)."""
        names: set[str] = set()
        uids = set()
        for pod in pods:
            uids.add(pod.metadata.uid)
            names |= self.pod_set(pod)
        prefix = f"{namespace}/" if namespace else ""
        for gang, members in list(self._members.items()):
            if gang.startswith(prefix):
                for uid in members.keys() - uids:
                    names |= self.pod_gone(uid)
        return names

    def pod_set(self, pod: Pod) -> set[str]:
        """A pod was added or edited."""
        uid = pod.metadata.uid
        claim = claim_of(pod) if pod.spec.scheduler_name in self._schedulers else None
        before = self.registry.gang_of(uid)
        if claim is None:
            return set() if before is None else self.pod_gone(uid)
        changed = self.registry.pod_set(pod, claim)
        if before is not None and before.name != claim.gang:
            self._forget(before.name, uid)
            changed.add(before.name)
        member = member_of(pod, claim)
        members = self._members.setdefault(claim.gang, {})
        if members.get(uid) != member:
            members[uid] = member
            changed.add(claim.gang)
        return changed

    def pod_gone(self, uid: str) -> set[str]:
        """A pod was deleted."""
        gang = self.registry.gang_of(uid)
        if gang is None:
            return set()
        self._forget(gang.name, uid)
        return self.registry.pod_gone(uid) | {gang.name}

    def _forget(self, name: str, uid: str) -> None:
        members = self._members[name]
        del members[uid]
        if not members:
            del self._members[name]
            self._left.add(name)

    # --- objects ---------------------------------------------------------------------------

    def served(self, group: str, fields: frozenset[str] | None) -> set[str]:
        """A definition is served, with these fields in its status (None: whatever we write)."""
        if group in self._served and self._served[group] == fields:
            return set()
        self._served[group] = fields
        known = {key.name for key in self._seen if key.group == group}
        return known | self._members.keys() if group == GANGS else known

    def not_served(self, group: str) -> None:
        """A definition is gone, and its objects with it."""
        self._served.pop(group, None)
        for key in [key for key in self._seen if key.group == group]:
            self.object_gone(key)

    def object_set(self, group: str, body: Mapping[str, Any]) -> set[str]:
        """A Gang or PodGroup was added or edited, or is the answer to a write of ours.

        Raises:
            msgspec.ValidationError: it is none.
        """
        meta = body["metadata"]
        key = Key(group, f"{meta['namespace']}/{meta['name']}")
        known = self._seen.get(key)
        version = meta["resourceVersion"]
        if known and known.uid == meta["uid"] and not newer(version, known.resource_version):
            return set()
        definition = None
        if group != GANGS:
            definition = msgspec.convert(dict(body), KINDS[group], strict=False)
        self._seen[key] = Seen(
            version=body["apiVersion"].rpartition("/")[2],
            uid=meta["uid"],
            resource_version=version,
            labels=dict(meta.get("labels") or {}),
            spec=dict(body.get("spec") or {}),
            status=dict(body.get("status") or {}),
        )
        if definition is None:
            if known is not None:
                return {key.name}
            # Written by an earlier life of ours, or this moment, which is no news then.
            return self.registry.recall_bundles(msgspec.convert(dict(body), SavedGang)) | {key.name}
        return self.registry.definition_set(definition) | {key.name}

    def object_gone(self, key: Key) -> set[str]:
        """A Gang or PodGroup was deleted."""
        if self._seen.pop(key, None) is None:
            return set()
        if key.group == GANGS:
            self.registry.forget_recalled(key.name)
            return {key.name}
        return self.registry.definition_gone(KINDS[key.group], key.name) | {key.name}

    # --- what to write ---------------------------------------------------------------------

    def changes(self, name: str, now: str) -> list[Change]:
        """What is to be written about a gang, in this order; empty when all is right.

        The Gang goes last: while it is there, a restart knows that its PodGroup was ours.
        """
        gang = self.registry.gangs.get(name)
        summed = self._muster(name, gang)
        found = [
            change
            for group in KINDS
            if (change := self._pod_group_change(Key(group, name), gang, summed, now))
        ]
        if change := self._gang_change(Key(GANGS, name), gang, summed, now):
            found.append(change)
        return [change for change in found if not change.idle]

    def settled(self, name: str) -> None:
        """Everything that :meth:`changes` gave has been written."""
        if name not in self._members:
            self._left.discard(name)

    def _muster(self, name: str, gang: Gang | None) -> Muster:
        members = self._members.get(name, {}).values()
        if gang is None:
            return muster(members)
        return muster(members, minimum=gang.minimum, minima=gang.minima, defined=gang.defined)

    def _pod_group_change(
        self, key: Key, gang: Gang | None, summed: Muster, now: str
    ) -> Change | None:
        seen = self._seen.get(key)
        if seen is None or (key.group not in self._served and key.group != NATIVE):
            return None
        kind = KINDS[key.group]
        if gang is None or type(gang.definition) is not kind:
            if not self._was_ours(key, seen):
                return None
            summed = Muster(minimum=seen.spec.get("minMember") or 0)
        before = seen.status
        if kind is NativePodGroup:
            status = native_status(summed, before=before, version=seen.version, now=now)
        elif kind is VolcanoPodGroup:
            status = volcano_status(summed, before=before, now=now)
        else:
            coarse = kind is CommunityPodGroup
            status = community_status(summed, before=before, coarse=coarse)
        return Change(key, seen, status=self._difference(key.group, status, before))

    def _was_ours(self, key: Key, seen: Seen) -> bool:
        """Whether a PodGroup without pods of ours is still ours to write.

        It may be another scheduler's. So only one that nobody has written, or whose last pod was
        ours: by what we saw, or by the Gang that is still there.
        """
        if key.name in self._members or key.group == NATIVE:
            return False
        gang = self._seen.get(Key(GANGS, key.name))
        left = key.name in self._left or (gang is not None and self._signed(gang))
        return left or not seen.status.get("phase")

    def _gang_change(self, key: Key, gang: Gang | None, summed: Muster, now: str) -> Change | None:
        seen = self._seen.get(key)
        if GANGS not in self._served:
            return None
        if gang is None:
            return Change(key, seen, delete=True) if seen and self._signed(seen) else None
        before = seen.status if seen else {}
        satisfied, anew = gang.satisfied, gang.begun_anew
        status = gang_status(summed, before=before, satisfied=satisfied, now=now, anew=anew)
        spec = gang_spec(gang.settings, summed)
        return Change(
            key,
            seen,
            spec=_differing(spec, seen.spec if seen else {}),
            status=self._difference(GANGS, status, before),
        )

    def _signed(self, gang: Seen) -> bool:
        return gang.labels.get(MANAGED_BY) == self.signature

    @property
    def signature(self) -> str:
        """What Gangs are labelled with as ours."""
        return self._schedulers[0]

    def _difference(self, group: str, wanted: Object, there: Mapping[str, Any]) -> Object:
        """The patch, of fields only that the served definition has: others would be pruned."""
        fields = self._served.get(group)
        patch = _differing(wanted, there)
        return patch if fields is None else {k: v for k, v in patch.items() if k in fields}


def _differing(wanted: Object, there: Mapping[str, Any]) -> Object:
    """A merge patch that makes the named fields as wanted."""
    return {name: value for name, value in wanted.items() if there.get(name) != value}
