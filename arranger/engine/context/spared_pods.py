"""Pods that nobody evicts: who may say that they are to stay is set aside, and not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from arranger.api.settings.gang_membership import gang_membership
from arranger.cluster.pod_info import PodInfo
from arranger.gangs.gang import Gang
from arranger.quota.pod_owners import PodOwners

T = TypeVar("T", bound=Hashable)
#: The namespace of an owner, and its kind and name.
_Titled = tuple[str, str]


class Gangs(Protocol):
    """Knows which pods belong together."""

    def gang_of(self, uid: str) -> Gang | None:
        """The gang of a pod."""


@dataclass(slots=True, eq=False)
class SparedPods:
    """Pods that are set aside, and those of PodGroups, owners and namespaces of which nothing is
    known.

    Whether a pod is among them is asked for every pod on a node: what that costs does not depend on
    how many are spared, nor on how large the pod's gang is.

    Attributes:
        version: another number whenever others may be spared.
    """

    _gangs: Gangs
    _owners: PodOwners
    version: int = field(default=0, init=False)
    #: uid → the pod's gang; "" for none.
    _pods: dict[str, str] = field(default_factory=dict, init=False)
    #: Gang → how many of the pods are of it.
    _by_gang: Counter[str] = field(default_factory=Counter, init=False)
    #: PodGroups (``namespace/name``).
    _groups: set[str] = field(default_factory=set, init=False)
    #: Namespaces.
    _spaces: set[str] = field(default_factory=set, init=False)
    #: uid of an owner → (namespace, kind and name: ``PyTorchJob train``).
    _by_owner: dict[str, _Titled] = field(default_factory=dict, init=False)
    #: The same → how many owners; one that is made again has another uid.
    _titles: Counter[_Titled] = field(default_factory=Counter, init=False)

    def __bool__(self) -> bool:
        return bool(self._pods or self._groups or self._by_owner or self._spaces)

    def spare_pod(self, uid: str, gang: str) -> None:
        """A pod is set aside, and with it what protects it; it is of this gang, if of any."""
        if self._pods.get(uid) != gang:
            self.end_pod(uid)
            self._pods[uid] = gang
            self._by_gang[gang] += 1
            self.version += 1

    def end_pod(self, uid: str) -> None:
        """A pod counts again, or is gone."""
        if (gang := self._pods.pop(uid, None)) is not None:
            _count_down(self._by_gang, gang)
            self.version += 1

    def spare_group(self, group: str) -> None:
        """Nothing is known of a PodGroup that there is."""
        self.version += group not in self._groups
        self._groups.add(group)

    def end_group(self, group: str) -> None:
        """Something is known of a PodGroup, or it is gone."""
        self.version += group in self._groups
        self._groups.discard(group)

    def spare_namespace(self, name: str) -> None:
        """Nothing is known of a namespace that there is."""
        self.version += name not in self._spaces
        self._spaces.add(name)

    def end_namespace(self, name: str) -> None:
        """Something is known of a namespace, or it is gone."""
        self.version += name in self._spaces
        self._spaces.discard(name)

    def spare_owned(self, namespace: str, uid: str, title: str) -> None:
        """Nothing is known of an owner of pods that there is: its kind and name are its title."""
        titled = namespace, title
        if self._by_owner.get(uid) != titled:
            self.end_owned(uid)
            self._by_owner[uid] = titled
            self._titles[titled] += 1
            self.version += 1

    def end_owned(self, uid: str) -> None:
        """Something is known of an owner, or it is gone."""
        if (titled := self._by_owner.pop(uid, None)) is not None:
            _count_down(self._titles, titled)
            self.version += 1

    def spares(self, pod: PodInfo) -> bool:
        """Whether nobody evicts a pod."""
        if not self:
            return False
        if pod.uid in self._pods or pod.namespace in self._spaces:
            return True
        gang = self._gangs.gang_of(pod.uid)
        if gang is not None and self._concerns(gang):
            return True
        if gang is None and self._groups and (own := gang_membership(pod.pod)) is not None:
            return own.gang in self._groups
        if not self._by_owner:
            return False
        meta, known = pod.pod.metadata, self._by_owner
        owners = self._owners.uids_of(meta)
        return any(uid in known and known[uid][0] == meta.namespace for uid in owners)

    def spares_any_of(self, gang: Gang) -> bool:
        """Whether a gang has a pod, on a node perhaps, that nobody evicts."""
        return bool(self) and (gang.name in self._by_gang or self._concerns(gang))

    def _concerns(self, gang: Gang) -> bool:
        """Whether nothing is known of what defines a gang."""
        namespace = gang.name.partition("/")[0]
        if gang.name in self._groups or namespace in self._spaces:
            return True
        if not self._titles:
            return False
        return any((namespace, title) in self._titles for title in gang.member_owners)


def _count_down(counts: Counter[T], key: T) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
