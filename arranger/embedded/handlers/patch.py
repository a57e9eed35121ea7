"""The three patch formats, and apply patches as a merge.

JSON patch is RFC 6902 (by the ``jsonpatch`` package), merge patch RFC 7386. Strategic merge is the
API server's own: lists of built-in kinds are merged by key. An apply patch is merged here like one
of the others: fields are set, but no ownership of fields is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import jsonpatch

from arranger.embedded import Object, copy_json
from arranger.embedded.errors import ApiError, bad_request, unsupported_media_type

#: The type of apply patches, which alone may create what they patch.
APPLY_MEDIA_TYPE: Final = "application/apply-patch+yaml"
#: The key that items of a list are matched by, by the list's field name.
_MERGE_KEYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers", "volumes"), "name"),
    **dict.fromkeys(("env", "imagePullSecrets", "resourceClaims", "schedulingGates"), "name"),
    **dict.fromkeys(("conditions", "addresses"), "type"),
    **dict.fromkeys(("podIPs", "hostIPs", "hostAliases"), "ip"),
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ownerReferences": "uid",
    "topologySpreadConstraints": "topologyKey",
}
_SET_LISTS: Final = frozenset({"finalizers"})
_BUILT_IN: Final = frozenset({"", "apps", "batch", "policy"})


def apply_patch(current: Object, patch: object, content_type: str, *, group: str) -> Object:
    """The patched object; neither argument is changed.

    Raises:
        ApiError: 400 malformed, 415 a type that the kind does not take, 422 not applicable.
    """
    built_in = group in _BUILT_IN or (group.endswith(".k8s.io") and group.count(".") <= 2)
    match content_type:
        case "application/json-patch+json":
            return _json_patch(current, patch)
        case "application/strategic-merge-patch+json" | "application/apply-patch+yaml" if built_in:
            return _strategic_merge(current, _check_object(patch))
        case "application/merge-patch+json" | "application/apply-patch+yaml":
            merged: Object = _json_merge(current, _check_object(patch))
            return merged
        case _:
            raise unsupported_media_type(content_type)


def _check_object(patch: object) -> Object:
    if not isinstance(patch, dict):
        raise bad_request("the patch is not a JSON object")
    return patch


def _json_patch(current: Object, patch: object) -> Object:
    if not isinstance(patch, list):
        raise bad_request("a JSON patch is a list of operations")
    try:
        operations = jsonpatch.JsonPatch(patch)
    except (jsonpatch.InvalidJsonPatch, jsonpatch.JsonPointerException) as error:
        raise bad_request(str(error)) from error
    try:
        patched: Object = operations.apply(copy_json(current))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = f"the server rejected our request due to an error in our request: {error}"
        raise ApiError(422, "Invalid", message) from error
    return patched


def _json_merge(current: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy_json(patch)
    merged = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _json_merge(merged.get(key), value)
    return merged


def _strategic_merge(current: Any, patch: Object) -> Object:
    directive = patch.get("$patch")
    if directive == "replace":
        return {k: copy_json(v) for k, v in patch.items() if k != "$patch"}
    if directive == "delete":
        return {}
    merged: Object = dict(current) if isinstance(current, dict) else {}
    if (kept := patch.get("$retainKeys")) is not None:
        merged = {k: v for k, v in merged.items() if k in kept}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.split("/", 1)[1]
            merged[field] = [item for item in merged.get(field) or [] if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _strategic_merge(merged.get(key), value)
        elif isinstance(value, list):
            merged[key] = _merge_list(key, merged.get(key) or [], value)
        else:
            merged[key] = value
    return merged


def _merge_list(field: str, current: list[Any], patch: list[Any]) -> list[Any]:
    if field in _SET_LISTS:
        return [*current, *(item for item in patch if item not in current)]
    key = _MERGE_KEYS.get(field) or _port_key(field, current, patch)
    if key is None:
        return list(copy_json(patch))
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [copy_json(item) for item in patch if "$patch" not in item]
    merged = list(current)
    for item in patch:
        if key not in item:
            raise ApiError(500, "", f"map: {item} does not contain declared merge key: {key}")
        place = next((n for n, old in enumerate(merged) if old.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if place is not None:
                del merged[place]
        elif place is None:
            merged.append(_strategic_merge({}, item))
        else:
            merged[place] = _strategic_merge(merged[place], item)
    return merged


def _port_key(field: str, current: list[Any], patch: list[Any]) -> str | None:
    """The merge key of ``ports``, which containers and services have by different names."""
    if field != "ports":
        return None
    of_container = any("containerPort" in p for p in [*current, *patch] if isinstance(p, dict))
    return "containerPort" if of_container else "port"
