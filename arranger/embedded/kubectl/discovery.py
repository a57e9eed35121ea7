"""Discovery: what is served, path by path or aggregated in one answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from arranger.embedded import Object
from arranger.embedded.kubectl import openapi
from arranger.embedded.kubectl.content_negotiation import prefers
from arranger.embedded.registry import VERBS, Registry, Resource

_AGGREGATED: Final = ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")
#: The answer's media type, by which a client that accepts several forms knows this one.
_AGGREGATED_MEDIA_TYPE: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)
_VERSION: Final = {"major": "1", "minor": "36", "gitVersion": "v1.36.3", "platform": "embedded"}


def respond(registry: Registry, path: str, accept: str) -> tuple[Object | str, str] | None:
    """The answer to a discovery path and its media type, "" for the usual; None when it is none."""
    parts = [part for part in path.split("/") if part]
    if parts in (["api"], ["apis"]) and prefers(accept, *_AGGREGATED):
        groups = [""] if parts == ["api"] else _groups(registry)
        return _aggregated(registry, groups), _AGGREGATED_MEDIA_TYPE
    plain: Object | str | None = openapi.respond(registry, path)
    plain = _unaggregated(registry, parts) if plain is None else plain
    return None if plain is None else (plain, "")


def _unaggregated(registry: Registry, parts: list[str]) -> Object | str | None:
    match parts:
        case ["version"]:
            return _VERSION
        case ["healthz" | "livez" | "readyz"]:
            return "ok"
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", "v1"]:
            return _api_resource_list(registry, "", "v1")
        case ["apis"]:
            listed = [_api_group(registry, group) for group in _groups(registry)]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["apis", group] if group in _groups(registry):
            return {"kind": "APIGroup", "apiVersion": "v1", **_api_group(registry, group)}
        case ["apis", group, version] if version in _versions(registry, group):
            return _api_resource_list(registry, group, version)
        case _:
            return None


def _groups(registry: Registry) -> list[str]:
    return sorted({r.group for r in registry if r.group})


def _versions(registry: Registry, group: str) -> list[str]:
    return list(dict.fromkeys(r.version for r in registry if r.group == group))


def _api_group(registry: Registry, group: str) -> Object:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for version in _versions(registry, group)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _served(registry: Registry, group: str, version: str) -> list[Resource]:
    return [r for r in registry if (r.group, r.version) == (group, version)]


def _verbs_and_aliases(resource: Resource) -> Object:
    # A namespace takes its contents with it, so the server deletes them one at a time only.
    verbs = [v for v in VERBS if (resource.kind, v) != ("Namespace", "deletecollection")]
    aliases = {"shortNames": resource.short_names, "categories": resource.categories}
    return {"verbs": verbs, **{name: [*listed] for name, listed in aliases.items() if listed}}


def _subresources(resource: Resource) -> Iterable[tuple[str, str, list[str]]]:
    """Name, kind and verbs of each subresource."""
    if resource.status:
        yield "status", resource.kind, ["get", "patch", "update"]
    if resource.storage_key == "/pods":
        yield "binding", "Binding", ["create"]
        yield "eviction", "Eviction", ["create"]


# --- path by path -------------------------------------------------------------------------------


def _api_resource_list(registry: Registry, group: str, version: str) -> Object:
    listed: list[Object] = []
    for resource in _served(registry, group, version):
        listed.append(_api_resource(resource))
        for name, kind, verbs in _subresources(resource):
            described = {
                "name": f"{resource.plural}/{name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": kind,
                "verbs": verbs,
            }
            if name == "eviction":
                described |= {"group": "policy", "version": "v1"}
            listed.append(described)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": listed,
    }


def _api_resource(resource: Resource) -> Object:
    return {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        **_verbs_and_aliases(resource),
    }


# --- all in one answer --------------------------------------------------------------------------


def _aggregated(registry: Registry, groups: list[str]) -> Object:
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "resources": [
                        _aggregated_resource(r) for r in _served(registry, group, version)
                    ],
                    "freshness": "Current",
                }
                for version in _versions(registry, group)
            ],
        }
        for group in groups
    ]
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    return {**head, "metadata": {}, "items": items}


def _aggregated_resource(resource: Resource) -> Object:
    def kind_of(kind: str) -> Object:
        where = {"group": resource.group, "version": resource.version}
        if kind == "Eviction":
            where = {"group": "policy", "version": "v1"}
        return {**where, "kind": kind}

    found: Object = {
        "resource": resource.plural,
        "responseKind": kind_of(resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.kind.lower(),
        **_verbs_and_aliases(resource),
    }
    if below := [
        {"subresource": name, "responseKind": kind_of(kind), "verbs": verbs}
        for name, kind, verbs in _subresources(resource)
    ]:
        found["subresources"] = below
    return found
