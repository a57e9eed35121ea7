"""As much of the OpenAPI documents as kubectl asks for: whether the server checks fields itself.

kubectl downloads the document of a group's version to see whether patches take ``fieldValidation``;
where they do, it leaves checking to the server. The documents have no
schemas, so ``kubectl explain`` has nothing to explain.
"""

from __future__ import annotations

from typing import Final

from arranger.embedded import Object
from arranger.embedded.registry import Registry, Resource

_ROOT: Final = "/openapi/v3"
_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def respond(registry: Registry, path: str) -> Object | None:
    """The answer to a path of the OpenAPI documents; None when it is none."""
    if not path.startswith(_ROOT):
        return None
    served: dict[str, list[Resource]] = {}
    for resource in registry:
        served.setdefault(_base(resource), []).append(resource)
    if path.rstrip("/") == _ROOT:
        return {"paths": {base: {"serverRelativeURL": f"{_ROOT}/{base}"} for base in served}}
    resources = served.get(path.removeprefix(f"{_ROOT}/"))
    if resources is None:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": {_path(resource): {"patch": _patch(resource)} for resource in resources},
    }


def _base(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _path(resource: Resource) -> str:
    where = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{_base(resource)}{where}/{resource.plural}/{{name}}"


def _patch(resource: Resource) -> Object:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {
        "parameters": _PARAMETERS,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind,
    }
