"""Deletion: preconditions, grace periods, finalizers, dependents; and evictions by budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from arranger.embedded import Object
from arranger.embedded.errors import ApiError, bad_request, conflict, not_found
from arranger.embedded.handlers.garbage_collection import FOREGROUND, ORPHAN, GarbageCollector
from arranger.embedded.registry import Resource
from arranger.embedded.storage.selectors import label_selector_of
from arranger.embedded.storage.store import Store


def _check_preconditions(resource: Resource, obj: Object, options: Mapping[str, Any]) -> None:
    meta, wanted = obj["metadata"], options.get("preconditions") or {}
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if field in wanted and wanted[field] != meta[field]:
            why = (
                f"the {label} in the precondition ({wanted[field]}) does not match the {label} in "
                f"record ({meta[field]}). The object might have been deleted and then recreated"
            )
            raise conflict(resource.qualified_name, meta["name"], why)


def _grace_period(resource: Resource, obj: Object, options: Mapping[str, Any]) -> int:
    """Seconds that a pod is given; 0 for other kinds, and for pods without a node or ended."""
    if resource.storage_key != "/pods" or not obj["spec"].get("nodeName"):
        return 0
    if obj["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    own = obj["spec"].get("terminationGracePeriodSeconds", 30)
    return max(0, int(own if asked is None else asked))


class Deleter:
    """Deletes objects of one store, given as they are stored.

    Args:
        timestamp: the time that ``deletionTimestamp`` gets, ``grace`` seconds from now.
        resource_of: finds a resource by its name in the store.
        on_removed: called with every object that was removed.

    Attributes:
        garbage: applies deletions to owners and dependents.
    """

    def __init__(
        self,
        store: Store,
        timestamp: Callable[[int], str],
        *,
        resource_of: Callable[[str], Resource],
        on_removed: Callable[[Resource, Object], None],
    ) -> None:
        self._store = store
        self._timestamp = timestamp
        self._on_removed = on_removed
        self.garbage = GarbageCollector(
            store,
            delete=lambda name, obj, options: self.delete(resource_of(name), obj, options),
            finish_deletion=lambda name, obj: self.finish_deletion(resource_of(name), obj),
        )

    def delete(
        self, resource: Resource, obj: Object, options: Mapping[str, Any]
    ) -> tuple[Object, bool]:
        """Delete or mark for deletion; returns the last state, and whether the object is gone.

        Raises:
            ApiError: 409 for a false precondition.
        """
        _check_preconditions(resource, obj, options)
        meta = obj["metadata"]
        grace, policy = _grace_period(resource, obj, options), _propagation_policy(meta, options)
        if policy == "Orphan":
            self.garbage.orphan_dependents(meta["uid"])
        finalizers = [f for f in meta.get("finalizers") or () if f not in (FOREGROUND, ORPHAN)]
        if policy == "Foreground":
            finalizers.append(FOREGROUND)
        marked = bool(meta.get("deletionTimestamp"))
        if not grace and not finalizers and (marked or resource.storage_key != "/pods"):
            return self.remove(resource, obj), True
        if marked:
            same = finalizers == (meta.get("finalizers") or [])
            if same and grace >= meta["deletionGracePeriodSeconds"]:
                return obj, False
            grace = min(grace, meta["deletionGracePeriodSeconds"])
        going = self._mark_for_deletion(resource, obj, grace, finalizers)
        if policy == "Foreground":
            self.garbage.on_foreground_deletion(going)
        elif not grace and not finalizers:
            return self.remove(resource, going), True
        return going, False

    def remove(self, resource: Resource, obj: Object) -> Object:
        """Take an object out of the store, and with it what only it owned."""
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        last = self._store.remove(resource.storage_key, key)
        self._on_removed(resource, last)
        self.garbage.on_deleted(last)
        return last

    def finish_deletion(self, resource: Resource, obj: Object) -> Object | None:
        """Remove an object that is marked and that neither finalizers nor grace hold; else None."""
        meta = obj["metadata"]
        if not meta.get("deletionTimestamp") or meta.get("finalizers"):
            return None
        if resource.storage_key == "/pods" and meta.get("deletionGracePeriodSeconds"):
            return None
        return self.remove(resource, obj)

    def _mark_for_deletion(
        self, resource: Resource, obj: Object, grace: int, finalizers: list[str]
    ) -> Object:
        meta = {
            **obj["metadata"],
            "deletionTimestamp": self._timestamp(grace),
            "deletionGracePeriodSeconds": grace,
        }
        meta.pop("finalizers", None)
        if finalizers:
            meta["finalizers"] = finalizers
        if "generation" in meta and "deletionTimestamp" not in obj["metadata"]:
            meta["generation"] += 1
        return self._store.put(resource.storage_key, {**obj, "metadata": meta})


def _propagation_policy(meta: Object, options: Mapping[str, Any]) -> str:
    """Orphan, Foreground or Background: as the options say, or else the finalizers."""
    if (asked := options.get("propagationPolicy")) in ("Orphan", "Foreground", "Background"):
        return str(asked)
    finalizers = meta.get("finalizers") or ()
    if options.get("orphanDependents") or ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def evict(
    pod: Object | None, name: str, eviction: Object, budgets: Iterable[Object], now: str
) -> tuple[Object, Object | None]:
    """Decide on an eviction: the options to delete with, and the budget after it was charged.

    Raises:
        ApiError: 429 when a budget has nothing left, 500 when several apply, 404, 400.
    """
    if (eviction.get("metadata") or {}).get("name", name) != name:
        raise bad_request("name in URL does not match name in Eviction object")
    if pod is None:
        raise not_found("pods", name)
    options: Object = dict(eviction.get("deleteOptions") or {})
    pending = pod["status"].get("phase") == "Pending" or not pod["spec"].get("nodeName")
    if pending or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return options, None
    labels = pod["metadata"].get("labels") or {}
    matching = [b for b in budgets if label_selector_of(b["spec"].get("selector")).matches(labels)]
    if len(matching) > 1:
        why = "This pod has more than one PodDisruptionBudget, which the eviction subresource"
        raise ApiError(500, "", f"{why} does not support.")
    if not matching:
        return options, None
    budget = matching[0]
    status = budget.get("status") or {}
    disruptions_allowed = status.get("disruptionsAllowed", 0)
    if disruptions_allowed <= 0:
        raise _budget_exhausted(budget)
    disrupted = {**(status.get("disruptedPods") or {}), name: now}
    charged = {**status, "disruptionsAllowed": disruptions_allowed - 1, "disruptedPods": disrupted}
    return options, {**budget, "metadata": dict(budget["metadata"]), "status": charged}


def _budget_exhausted(budget: Object) -> ApiError:
    name = budget["metadata"]["name"]
    status = budget.get("status") or {}
    cause = {
        "reason": "DisruptionBudget",
        "message": f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy "
        f"pods and has {status.get('currentHealthy', 0)} currently",
    }
    why = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiError(429, "TooManyRequests", why, details={"causes": [cause]})
