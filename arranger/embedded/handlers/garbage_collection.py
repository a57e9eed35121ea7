"""Garbage collection: dependents follow their owners, foreground owners wait for dependents.

The real cluster's garbage collector does the same in the background, object by object; here it is
done before the request that causes it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from arranger.embedded import Object
from arranger.embedded.storage.store import Store

#: Finalizer of an owner that goes only after the dependents that block it.
FOREGROUND: Final = "foregroundDeletion"
#: Finalizer of an owner whose dependents stay.
ORPHAN: Final = "orphan"


@dataclass(slots=True)
class GarbageCollector:
    """Follows owner references in one store.

    Attributes:
        delete: deletes an object of a resource, with options.
        finish_deletion: removes an object that is marked and that nothing holds any more.
    """

    store: Store
    delete: Callable[[str, Object, Mapping[str, Any]], object]
    finish_deletion: Callable[[str, Object], object]

    def orphan_dependents(self, uid: str) -> None:
        """Remove the owner from its dependents, so that they stay."""
        for resource, dependent in self.store.owned_by(uid):
            self._filter(resource, dependent, "ownerReferences", lambda owner: owner["uid"] != uid)

    def on_foreground_deletion(self, owner: Object) -> None:
        """An owner is deleted in the foreground: its dependents go first, then itself."""
        uid = owner["metadata"]["uid"]
        for _, dependent in self.store.owned_by(uid):
            self.attempt_to_delete(dependent["metadata"]["uid"])
        self._process_deleting_dependents(uid)

    def on_deleted(self, last: Object) -> None:
        """An object was removed; dependents may follow, and owners that waited for it may now."""
        meta = last["metadata"]
        for _, dependent in self.store.owned_by(meta["uid"]):
            self.attempt_to_delete(dependent["metadata"]["uid"])
        for owner in meta.get("ownerReferences") or ():
            self._process_deleting_dependents(owner["uid"])

    def on_updated(self, before: Object, after: Object) -> None:
        """An object was written; if its owner references changed, former owners may go now."""
        old = before["metadata"].get("ownerReferences") or []
        if old != (after["metadata"].get("ownerReferences") or []):
            self.attempt_to_delete(after["metadata"]["uid"])
            for owner in old:
                self._process_deleting_dependents(owner["uid"])

    def attempt_to_delete(self, uid: str) -> None:
        """Delete a dependent without a solid owner, or drop its references to absent ones."""
        found = self.store.find_by_uid(uid)
        if found is None:
            return
        resource, obj = found
        owners = obj["metadata"].get("ownerReferences") or []
        solid = [owner for owner in owners if self._is_solid(owner["uid"])]
        if len(solid) == len(owners) or obj["metadata"].get("deletionTimestamp"):
            return
        if solid:
            self._filter(resource, obj, "ownerReferences", lambda owner: owner in solid)
            for owner in owners:
                self._process_deleting_dependents(owner["uid"])
            return
        waiting = any(self.store.find_by_uid(owner["uid"]) for owner in owners)
        dependents = self.store.owned_by(uid)
        if waiting and any(_is_deleting_dependents(dependent) for _, dependent in dependents):
            # Owners that own each other would wait for ever.
            obj = self._unblock_owner_references(resource, obj)
        policy = {"propagationPolicy": "Foreground"} if waiting and dependents else {}
        self.delete(resource, obj, policy)

    def _is_solid(self, uid: str) -> bool:
        found = self.store.find_by_uid(uid)
        return found is not None and not _is_deleting_dependents(found[1])

    def _process_deleting_dependents(self, uid: str) -> None:
        """Remove a foreground owner that no dependent blocks any more."""
        found = self.store.find_by_uid(uid)
        if found is None or not _is_deleting_dependents(found[1]):
            return
        resource, owner = found
        for _, dependent in self.store.owned_by(uid):
            references = dependent["metadata"]["ownerReferences"]
            if any(r["uid"] == uid and r.get("blockOwnerDeletion") for r in references):
                return
        left = self._filter(resource, owner, "finalizers", lambda name: name != FOREGROUND)
        self.finish_deletion(resource, left)

    def _filter(
        self, resource: str, obj: Object, field: str, keeps: Callable[[Any], bool]
    ) -> Object:
        """Write an object with some items of a list in its metadata; returns it as stored."""
        meta = dict(obj["metadata"])
        if kept := [item for item in meta.pop(field) if keeps(item)]:
            meta[field] = kept
        return self.store.put(resource, {**obj, "metadata": meta})

    def _unblock_owner_references(self, resource: str, obj: Object) -> Object:
        owners = [
            {**owner, "blockOwnerDeletion": False} for owner in obj["metadata"]["ownerReferences"]
        ]
        meta = {**obj["metadata"], "ownerReferences": owners}
        return self.store.put(resource, {**obj, "metadata": meta})


def _is_deleting_dependents(obj: Object) -> bool:
    meta = obj["metadata"]
    return bool(meta.get("deletionTimestamp")) and FOREGROUND in (meta.get("finalizers") or ())
