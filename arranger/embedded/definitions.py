"""CustomResourceDefinitions: what one says of itself once it is served."""

from __future__ import annotations

from typing import Any, Final

from arranger.embedded.errors import bad_request
from arranger.embedded.resources import Registry
from arranger.embedded.store import Store

Object = dict[str, Any]

_CONDITIONS: Final = (
    ("NamesAccepted", "NoConflicts"),
    ("Established", "InitialNamesAccepted"),
)


def status(definition: Object, now: str) -> Object:
    """The status of a definition; here every one is accepted at once."""
    spec = definition["spec"]
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": now}
        for kind, reason in _CONDITIONS
    ]
    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    return {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored}


def serve(definition: Object, registry: Registry, store: Store) -> None:
    """Begin to serve what a new definition defines.

    Raises:
        ApiError: 400, the schema has what we cannot honour.
    """
    try:
        registry.define(definition)
    except ValueError as error:
        raise bad_request(str(error)) from error
    spec = definition["spec"]
    store.begin(f"{spec['group']}/{spec['names']['plural']}")
