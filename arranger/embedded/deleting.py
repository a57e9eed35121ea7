"""Deletion: preconditions, grace, finalizers, and what goes along with an owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from arranger.embedded.errors import conflict
from arranger.embedded.resources import Resource
from arranger.embedded.store import Key, Store

Object = dict[str, Any]


def check_preconditions(resource: Resource, obj: Object, options: Mapping[str, Any]) -> None:
    """Refuse to delete another object than the one that is meant.

    Raises:
        ApiError: 409.
    """
    meta, wanted = obj["metadata"], options.get("preconditions") or {}
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if field in wanted and wanted[field] != meta[field]:
            why = (
                f"the {label} in the precondition ({wanted[field]}) does not match the {label} in "
                f"record ({meta[field]}). The object might have been deleted and then recreated"
            )
            raise conflict(resource.qualified, meta["name"], why)


def grace_of(resource: Resource, obj: Object, options: Mapping[str, Any]) -> int:
    """Seconds that a pod is given; 0 for everything else, and for pods no kubelet looks after."""
    if resource.key != "/pods":
        return 0
    unbound = not obj["spec"].get("nodeName")
    if unbound or obj["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    own = obj["spec"].get("terminationGracePeriodSeconds", 30)
    return max(0, int(own if asked is None else asked))


class Deleter:
    """Deletes objects of one store.

    Args:
        stamp: the time that ``deletionTimestamp`` gets, ``grace`` seconds from now.
        resource_of: finds a resource by its name in the store.
        removed: told of everything that has gone.
    """

    def __init__(
        self,
        store: Store,
        *,
        stamp: Callable[[int], str],
        resource_of: Callable[[str], Resource],
        removed: Callable[[Resource, Object], None],
    ) -> None:
        self._store = store
        self._stamp = stamp
        self._resource_of = resource_of
        self._removed = removed

    def delete(
        self, resource: Resource, obj: Object, options: Mapping[str, Any]
    ) -> tuple[Object, bool]:
        """Delete, or mark for deletion; the last state, and whether it is gone.

        Raises:
            ApiError: 409 for a false precondition.
        """
        check_preconditions(resource, obj, options)
        grace = grace_of(resource, obj, options)
        if options.get("propagationPolicy") == "Orphan":
            self._orphan(obj["metadata"]["uid"])
        meta = obj["metadata"]
        held = bool(meta.get("finalizers"))
        if meta.get("deletionTimestamp"):
            if held or (grace and grace >= meta.get("deletionGracePeriodSeconds", 0)):
                return obj, False
            if grace == 0:
                return self.remove(resource, obj), True
        if grace == 0 and not held and resource.key != "/pods":
            return self.remove(resource, obj), True
        marked = self._mark(resource, obj, grace)
        if grace == 0 and not held:
            return self.remove(resource, marked), True
        return marked, False

    def remove(self, resource: Resource, obj: Object) -> Object:
        """Take an object out of the store, and with it what only it owned."""
        meta = obj["metadata"]
        key: Key = (meta.get("namespace", ""), meta["name"])
        last = self._store.remove(resource.key, key)
        self._removed(resource, last)
        self._collect(meta["uid"])
        return last

    def collect_orphan(self, resource: Resource, obj: Object) -> None:
        """Delete a new object whose owners are all gone already."""
        owners = obj["metadata"].get("ownerReferences") or []
        if owners and not any(self._store.find(owner["uid"]) for owner in owners):
            self.delete(resource, obj, {})

    def _orphan(self, uid: str) -> None:
        """Part an owner from its dependents, so that they stay."""
        for name, dependent in self._store.owned_by(uid):
            meta = dict(dependent["metadata"])
            left = [o for o in meta.pop("ownerReferences") if o["uid"] != uid]
            if left:
                meta["ownerReferences"] = left
            self._store.put(name, {**dependent, "metadata": meta})

    def _mark(self, resource: Resource, obj: Object, grace: int) -> Object:
        meta = {
            **obj["metadata"],
            "deletionTimestamp": self._stamp(grace),
            "deletionGracePeriodSeconds": grace,
        }
        if "generation" in meta:
            meta["generation"] += 1
        return self._store.put(resource.key, {**obj, "metadata": meta})

    def _collect(self, uid: str) -> None:
        """Delete the dependents all of whose owners are gone."""
        for name, obj in self._store.owned_by(uid):
            owners = obj["metadata"]["ownerReferences"]
            if not any(o["uid"] != uid and self._store.find(o["uid"]) for o in owners):
                self.delete(self._resource_of(name), obj, {})
