"""The rights that requests take, and those that ``manifests/`` give our service accounts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, Final

import yaml

from tests.paths import REPO

#: API group ("" for the core), resource with its subresource, verb.
Right = tuple[str, str, str]

#: Service account → the roles that it is bound to.
ROLES: Final = {
    "arranger": ("arranger", "arranger-lease", "arranger-usage"),
    "arranger-controllers": ("arranger-controllers",),
}
_VERBS: Final = {
    "GET": ("get", "list"),
    "POST": ("create", "create"),
    "PUT": ("update", "update"),
    "PATCH": ("patch", "patch"),
    "DELETE": ("delete", "deletecollection"),
}


@lru_cache(maxsize=65536)
def right_of(method: str, path: str, *, watch: bool = False) -> Right | None:
    """The right that a request takes; None for what everybody may ask, as which kinds there are."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"]:
        group, rest = "", parts[2:]
    elif parts[:1] == ["apis"]:
        group, rest = (parts[1] if len(parts) > 1 else ""), parts[3:]
    else:
        return None
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest:
        return None
    one, all_ = _VERBS[method]
    verb = one if len(rest) > 1 else all_
    if watch:
        verb = "watch"
    return group, "/".join((rest[0], *rest[2:])), verb


@cache
def granted(account: str) -> frozenset[Right]:
    """All that a service account may do, be it to objects of one name only."""
    found: set[Right] = set()
    for role in ROLES[account]:
        found |= rights_of_rules(_role(role)["rules"])
    return frozenset(found)


def rights_of_rules(rules: Iterable[dict[str, Any]]) -> set[Right]:
    """What the rules of a role allow."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _role(name: str) -> dict[str, Any]:
    for file in ("20-rbac.yaml", "60-controllers-rbac.yaml"):
        for document in yaml.safe_load_all((REPO / "manifests" / file).read_text()):
            if document["kind"].endswith("Role") and document["metadata"]["name"] == name:
                return dict(document)
    raise LookupError(f"there is no role {name}")
