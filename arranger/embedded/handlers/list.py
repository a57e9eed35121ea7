"""Lists: selectors, consistent pages, and lists at a past version."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping

from arranger.embedded import Object
from arranger.embedded.builtin.field_selectors import parse_selection
from arranger.embedded.errors import ApiError, bad_request, expired, invalid_list_option
from arranger.embedded.registry import Resource
from arranger.embedded.storage.store import Store


def list_objects(
    store: Store, resource: Resource, namespace: str, query: Mapping[str, str]
) -> Object:
    """The list object that answers a GET of a collection, its items as they are stored.

    Raises:
        ApiError: 400, 410 or 504: the query is invalid, or its version is gone or not there yet.
    """
    selected = parse_selection(resource, query)
    limit = _number(query.get("limit", "0"), "limit")
    version, start = _position(store, query)
    items = _items_at(store, resource.storage_key, version, namespace)
    items = [item for item in items if _key(item) > start]
    matching = items if selected is None else [item for item in items if selected(item)]
    meta: Object = {"resourceVersion": str(version)}
    if limit and len(matching) > limit:
        left = len(matching) - limit
        matching = matching[:limit]
        meta["continue"] = _continue_token(version, _key(matching[-1]))
        if selected is None:
            meta["remainingItemCount"] = left
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": meta,
        "items": matching,
    }


def _position(store: Store, query: Mapping[str, str]) -> tuple[int, str]:
    """The version to list, and the key after which the page begins."""
    if token := query.get("continue"):
        try:
            place = json.loads(base64.urlsafe_b64decode(token))
            version, start = int(place["v"]), str(place["k"])
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise bad_request("continue key is not valid") from error
        if version < store.compacted:
            raise expired("The provided continue parameter is too old")
        return version, start
    asked, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if match:
        _check_match(asked, match)
    if not asked:
        return store.version, ""
    version = _number(asked, "resourceVersion")
    if version > store.version:
        raise _too_large_version(version, store.version)
    if match == "Exact":
        if version < store.compacted:
            raise expired(f"The resourceVersion for the provided list is too old: {version}")
        return version, ""
    return store.version, ""


def _check_match(asked: str, match: str) -> None:
    why = ""
    if match not in ("Exact", "NotOlderThan"):
        why = f'Unsupported value: "{match}"'
    elif not asked:
        why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match == "Exact" and asked == "0":
        why = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if why:
        raise invalid_list_option(why)


def _too_large_version(version: int, current: int) -> ApiError:
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return ApiError(504, "Timeout", message, details=details, headers={"retry-after": "1"})


def _items_at(store: Store, resource: str, version: int, namespace: str) -> list[Object]:
    """The objects as they were at ``version``: the present with later writes undone."""
    if version == store.version:
        return store.items(resource, namespace)
    state = {_key(item): item for item in store.items(resource)}
    for change in reversed([c for c in store.changes_since(version) if c.resource == resource]):
        if change.before is None:
            state.pop(_key(change.after), None)
        else:
            state[_key(change.before)] = change.before
    items = [state[key] for key in sorted(state)]
    return [i for i in items if not namespace or i["metadata"].get("namespace") == namespace]


def _key(obj: Object) -> str:
    meta = obj["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


def _continue_token(version: int, key: str) -> str:
    return base64.urlsafe_b64encode(json.dumps({"v": version, "k": key}).encode()).decode()


def _number(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise bad_request(f'invalid {name} "{text}": not a number') from error
