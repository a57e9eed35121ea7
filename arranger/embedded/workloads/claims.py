"""Claims of volumes: what a provisioner of every storage class would make of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from arranger.embedded import Object

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: The provisioner of classes whose volumes people make by hand.
_BY_HAND: Final = "kubernetes.io/no-provisioner"


def volume_for(claim: Object, classes: Sequence[Object]) -> Object | None:
    """The volume that a claim is given, from whichever node it can be reached; None if it waits.

    It waits for a pod if its class says so, and for ever if its volumes are made by hand. A class
    that is not there counts as one that provisions at once.
    """
    meta, spec = claim["metadata"], claim["spec"]
    if spec.get("volumeName") or spec.get("storageClassName") == "":
        return None
    name, found = spec.get("storageClassName"), {c["metadata"]["name"]: c for c in classes}
    default = next(filter(_is_default, classes), None)
    storage_class = found.get(name) if name else default
    if storage_class is not None:
        name = storage_class["metadata"]["name"]
        late = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        chosen = _SELECTED_NODE in (meta.get("annotations") or {})
        if storage_class.get("provisioner") == _BY_HAND or (late and not chosen):
            return None
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    identity = {key: meta[key] for key in ("namespace", "name", "uid")}
    requests = (spec.get("resources") or {}).get("requests") or {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{meta['uid']}"},
        "spec": {
            "capacity": {"storage": requests.get("storage", "1Gi")},
            "accessModes": list(spec.get("accessModes") or ["ReadWriteOnce"]),
            "claimRef": {**reference, **identity},
            **({"storageClassName": name} if name else {}),
        },
        "status": {"phase": "Bound"},
    }


def chosen_volume(claim: Object, volumes: Sequence[Object]) -> Object | None:
    """The volume that has been given to a claim which does not say so yet, as a scheduler does."""
    meta, spec = claim["metadata"], claim["spec"]
    if (claim.get("status") or {}).get("phase") == "Bound":
        return None
    for volume in volumes:
        ref = volume["spec"].get("claimRef") or {}
        same = all(ref.get(key) == meta[key] for key in ("namespace", "name"))
        if same and ref.get("uid", meta["uid"]) == meta["uid"]:
            ours = spec.get("volumeName") in (None, "", volume["metadata"]["name"])
            return volume if ours else None
    return None


def bound(volume: Object) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a claim says of its volume: the change of the claim, and of its status."""
    by = {f"pv.kubernetes.io/{what}": "yes" for what in ("bind-completed", "bound-by-controller")}
    spec = volume["spec"]
    status = {
        "phase": "Bound",
        "capacity": spec["capacity"],
        "accessModes": spec["accessModes"],
    }
    change = {"metadata": {"annotations": by}, "spec": {"volumeName": volume["metadata"]["name"]}}
    return change, {"status": status}


def _is_default(storage_class: Object) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return bool(annotations.get(_DEFAULT_CLASS) == "true")
