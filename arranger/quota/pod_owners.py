"""What the owners of pods say by annotations: a pod's ReplicaSet, its Deployment, and so on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from arranger.api.annotations import CARD_NAME, PREEMPTABLE, SERVICE_TYPE
from arranger.api.types.core import ObjectMeta

#: The annotations that count on an owner, for pods that do not say the same themselves.
OWNER_ANNOTATIONS: Final = (SERVICE_TYPE, PREEMPTABLE, CARD_NAME)
#: A Deployment notes it on its ReplicaSets, onto which it copies its own annotations as well, and
#: never takes one back: where the Deployment is known, the copies say nothing.
_COPIED: Final = "deployment.kubernetes.io/revision"
#: Owners above each other that are looked at; no workload has more.
_MAX_DEPTH: Final = 5
_NOTHING: Final[Mapping[str, str]] = {}


class _Owner(NamedTuple):
    """What is kept of an owner: its annotations that count, and the uid of its own owner.

    Attributes:
        namespace: its own, which is that of the pods and owners below it: nobody else's pod is its.
        copied: whether the annotations are copies of its owner's.
    """

    namespace: str
    annotations: Mapping[str, str]
    owner: str
    copied: bool = False


#: Owners that pods were traced to of which that is remembered.
MAX_ASKED: Final = 65536
#: Characters of what may be the uid of an object.
_MAX_UID: Final = 128


class PodOwners:
    """The owners of pods, of which little more than the annotations that count is kept.

    Owners may appear after their pods, and in any order.
    """

    def __init__(self) -> None:
        self._owners: dict[str, _Owner] = {}
        #: uids that pods have been traced to, whether or not they are known.
        self._asked: set[str] = set()
        #: Whether there were too many of them, so that each owner may have been asked for.
        self._any_asked = False

    def set(self, meta: ObjectMeta) -> bool:
        """An owner appeared or was edited; returns whether pods may be told otherwise."""
        said = meta.annotations
        found: dict[str, str] = {key: said[key] for key in OWNER_ANNOTATIONS if key in said}
        owner = _Owner(
            meta.namespace, found or _NOTHING, _owner_of(meta), bool(found) and _COPIED in said
        )
        return self._replace(meta, owner)

    def remove(self, meta: ObjectMeta) -> bool:
        """An owner was deleted; returns whether pods may be told otherwise."""
        changed = self._replace(meta, None)
        self._asked.discard(meta.uid)
        return changed

    def annotations_of(self, meta: ObjectMeta) -> Mapping[str, str]:
        """What the owners of a pod say about it, the nearest first."""
        uid = _owner_of(meta)
        return self._collect(uid, meta.namespace) if uid else _NOTHING

    def uids_of(self, meta: ObjectMeta) -> list[str]:
        """The owners of a pod, the nearest first; a few at most."""
        return self._path(_owner_of(meta), meta.namespace)

    def is_owned_by(self, meta: ObjectMeta, uid: str) -> bool:
        """Whether an owner is among those of a pod."""
        return uid in self.uids_of(meta)

    def _replace(self, meta: ObjectMeta, owner: _Owner | None) -> bool:
        uid, namespace = meta.uid, meta.namespace
        if self._owners.get(uid) == owner:
            return False
        asked = uid in self._asked or self._any_asked
        before = self._collect(uid, namespace) if asked else _NOTHING
        if owner is None:
            del self._owners[uid]
        else:
            self._owners[uid] = owner
        return asked and self._collect(uid, namespace) != before

    def _collect(self, uid: str, namespace: str) -> Mapping[str, str]:
        found: Mapping[str, str] = _NOTHING
        for each in self._path(uid, namespace):
            self._note_asked(each)
            known = self._of(each, namespace)
            if known is None or (known.copied and known.owner in self._owners):
                continue
            if known.annotations:
                found = {**known.annotations, **found}
        return found

    def _note_asked(self, uid: str) -> None:
        """Pods may name any owners, which nobody has ever seen, and new ones without end."""
        if self._any_asked or len(uid) > _MAX_UID:
            return
        self._asked.add(uid)
        if len(self._asked) > MAX_ASKED:
            self._asked.clear()
            self._any_asked = True

    def _of(self, uid: str, namespace: str) -> _Owner | None:
        known = self._owners.get(uid)
        return known if known is not None and known.namespace == namespace else None

    def _path(self, uid: str, namespace: str) -> list[str]:
        path: list[str] = []
        while uid and len(path) < _MAX_DEPTH:
            path.append(uid)
            known = self._of(uid, namespace)
            uid = known.owner if known is not None else ""
        return path


def _owner_of(meta: ObjectMeta) -> str:
    """The uid of the owner: the one that controls it, else the first."""
    owners = meta.owner_references
    return (meta.controller or owners[0]).uid if owners else ""
