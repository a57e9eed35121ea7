"""From a path to the resource, object and subresource it names."""

from __future__ import annotations

from dataclasses import dataclass

from arranger.embedded.errors import no_such_path
from arranger.embedded.registry import Registry, Resource


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about; ``name`` is "" for a collection."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def route(registry: Registry, path: str) -> Target:
    """Resolve ``/api/v1/…`` or ``/apis/GROUP/VERSION/…``.

    Raises:
        ApiError: 404 for a path that nothing is served at.
    """
    parts = [part for part in path.split("/") if part]
    match parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            raise no_such_path()
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > 3:
        raise no_such_path()
    plural, name, subresource = (*rest, "", "")[:3]
    if plural == "bindings" and namespace and not name:
        plural, subresource = "pods", "binding"
    resource = registry.find(group, version, plural)
    if resource is None or (namespace and not resource.namespaced):
        raise no_such_path()
    if subresource not in resource.subresources:
        raise no_such_path()
    return Target(resource, namespace, name, subresource)
