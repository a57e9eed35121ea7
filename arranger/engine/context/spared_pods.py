"""Pods that nobody evicts: who may say that they are to stay is set aside, and not known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from arranger.api.settings.gang_membership import gang_membership
from arranger.cluster.pod_info import PodInfo
from arranger.gangs.gang import Gang
from arranger.quota.pod_owners import PodOwners


class Gangs(Protocol):
    """Knows which pods belong together."""

    def gang_of(self, uid: str) -> Gang | None:
        """The gang of a pod."""


@dataclass(slots=True, eq=False)
class SparedPods:
    """Pods that are set aside, and those of PodGroups, owners and namespaces of which nothing is
    known.

    Attributes:
        version: another number whenever others may be spared.
    """

    _gangs: Gangs
    _owners: PodOwners
    version: int = field(default=0, init=False)
    #: uid → the pod's gang; "" for none.
    _pods: dict[str, str] = field(default_factory=dict, init=False)
    #: PodGroups (``namespace/name``).
    _groups: set[str] = field(default_factory=set, init=False)
    #: Namespaces.
    _spaces: set[str] = field(default_factory=set, init=False)
    #: uid of an owner → (namespace, kind and name: ``PyTorchJob train``).
    _by_owner: dict[str, tuple[str, str]] = field(default_factory=dict, init=False)

    def __bool__(self) -> bool:
        return bool(self._pods or self._groups or self._by_owner or self._spaces)

    def spare_pod(self, uid: str, gang: str) -> None:
        """A pod is set aside, and with it what protects it; it is of this gang, if of any."""
        self._pods[uid] = gang
        self.version += 1

    def end_pod(self, uid: str) -> None:
        """A pod counts again, or is gone."""
        self.version += self._pods.pop(uid, None) is not None

    def spare_group(self, group: str) -> None:
        """Nothing is known of a PodGroup that there is."""
        self._groups.add(group)
        self.version += 1

    def end_group(self, group: str) -> None:
        """Something is known of a PodGroup, or it is gone."""
        self.version += group in self._groups
        self._groups.discard(group)

    def spare_namespace(self, name: str) -> None:
        """Nothing is known of a namespace that there is."""
        self._spaces.add(name)
        self.version += 1

    def end_namespace(self, name: str) -> None:
        """Something is known of a namespace, or it is gone."""
        self.version += name in self._spaces
        self._spaces.discard(name)

    def spare_owned(self, namespace: str, uid: str, title: str) -> None:
        """Nothing is known of an owner of pods that there is: its kind and name are its title."""
        self._by_owner[uid] = namespace, title
        self.version += 1

    def end_owned(self, uid: str) -> None:
        """Something is known of an owner, or it is gone."""
        self.version += self._by_owner.pop(uid, None) is not None

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
        meta = pod.pod.metadata
        return any(
            namespace == meta.namespace and self._owners.is_owned_by(meta, uid)
            for uid, (namespace, _) in self._by_owner.items()
        )

    def spares_any_of(self, gang: Gang) -> bool:
        """Whether a gang has a pod, on a node perhaps, that nobody evicts."""
        return bool(self) and (gang.name in self._pods.values() or self._concerns(gang))

    def _concerns(self, gang: Gang) -> bool:
        """Whether nothing is known of what defines a gang."""
        if gang.name in self._groups or gang.name.partition("/")[0] in self._spaces:
            return True
        if not self._by_owner:
            return False
        titles = {each.owner for each in gang.memberships.values() if each.owner}
        namespace = gang.name.partition("/")[0]
        return any((namespace, title) in self._by_owner.values() for title in titles)
