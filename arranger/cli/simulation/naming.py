"""How objects of an embedded cluster are named in what people read."""

from __future__ import annotations

from arranger.embedded import Object
from arranger.embedded.workloads.ownership import controllers_of


def namespaced_name(named: Object) -> str:
    """``namespace/name`` of metadata or of a reference."""
    return f"{named.get('namespace', '')}/{named['name']}"


def counted_with(obj: Object) -> str:
    """Its controller if it has one, because pods change names; else itself: ``Job default/a``."""
    meta = obj["metadata"]
    owner = next(iter(controllers_of(obj)), None)
    kind, name = (owner["kind"], owner["name"]) if owner else (obj["kind"], meta["name"])
    return f"{kind} {meta['namespace']}/{name}" if meta.get("namespace") else f"{kind} {name}"
