"""Tells clients what is served."""

from __future__ import annotations

from typing import Any

from arranger.embedded.resources import VERBS, Registry, Resource

Object = dict[str, Any]


def answer(registry: Registry, path: str) -> Object | str | None:
    """The answer to a discovery path; None when it is none."""
    parts = [part for part in path.split("/") if part]
    match parts:
        case ["version"]:
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.3", "platform": "embedded"}
        case ["healthz" | "livez" | "readyz"]:
            return "ok"
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", "v1"]:
            return _resources(registry, "", "v1")
        case ["apis"]:
            groups = sorted({r.group for r in registry if r.group})
            listed = [_group(registry, group) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["apis", group] if any(r.group == group for r in registry):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)}
        case ["apis", group, version] if _versions(registry, group).count(version):
            return _resources(registry, group, version)
        case _:
            return None


def _versions(registry: Registry, group: str) -> list[str]:
    return list(dict.fromkeys(r.version for r in registry if r.group == group))


def _group(registry: Registry, group: str) -> Object:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for version in _versions(registry, group)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resources(registry: Registry, group: str, version: str) -> Object:
    served = [r for r in registry if (r.group, r.version) == (group, version)]
    listed: list[Object] = []
    for resource in served:
        listed.append(_described(resource))
        if resource.status:
            verbs = ["get", "patch", "update"]
            listed.append(_subresource(resource, "status", resource.kind, verbs))
        if resource.key == "/pods":
            listed.append(_subresource(resource, "binding", "Binding", ["create"]))
            eviction = _subresource(resource, "eviction", "Eviction", ["create"])
            listed.append(eviction | {"group": "policy", "version": "v1"})
    where = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": where,
        "resources": listed,
    }


def _described(resource: Resource) -> Object:
    # A namespace takes its contents with it, so the server deletes them one at a time only.
    verbs = [v for v in VERBS if (resource.kind, v) != ("Namespace", "deletecollection")]
    described: Object = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs,
    }
    if resource.short:
        described["shortNames"] = list(resource.short)
    return described


def _subresource(resource: Resource, name: str, kind: str, verbs: list[str]) -> Object:
    return {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": verbs,
    }
