"""What the API server does with the writes of the scheduler about Gang objects."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from arranger.api.effects import (
    Applied,
    CreateObject,
    DeleteObject,
    Effect,
    Outcome,
    PatchObject,
    Refused,
)
from arranger.api.types.pod_groups import GangObject

GangWrite = CreateObject | PatchObject | DeleteObject


class GangServer:
    """Gang objects by ``namespace/name``, written by effects.

    Attributes:
        served: whether the definition of Gangs is installed.
        writes: all that it was asked for, in order.
    """

    def __init__(self) -> None:
        self.served = True
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[GangWrite] = []
        self._created = 0

    def create(self, name: str, **parts: Any) -> GangObject:
        """Somebody makes an object; returns what the watch shows."""
        self._created += 1
        namespace, _, own = name.partition("/")
        meta = {
            "name": own,
            "namespace": namespace,
            "uid": f"uid-gang-{self._created}",
            "labels": {"app.kubernetes.io/managed-by": "arranger"},
            "creationTimestamp": "2030-01-01T00:00:00Z",
        }
        self.objects[name] = {"metadata": meta, "spec": {}, "status": {}, **parts}
        return self.get(name)

    def get(self, name: str) -> GangObject:
        """An object as the scheduler reads it."""
        return msgspec.convert(deepcopy(self.objects[name]), GangObject)

    def status(self, name: str) -> dict[str, Any]:
        """The status of an object; empty where there is none."""
        return dict(self.objects.get(name, {}).get("status", {}))

    def apply(self, effect: GangWrite) -> tuple[str, Outcome]:
        """Carry a write out; returns the gang it was about, and what became of it."""
        self.writes.append(effect)
        parts = effect.path.split("/")
        namespace = parts[parts.index("namespaces") + 1]
        if isinstance(effect, CreateObject):
            name = f"{namespace}/{effect.manifest['metadata']['name']}"
            if not self.served:
                return name, Refused(404, "NotFound", "the server could not find the resource")
            if name not in self.objects:
                self.create(name, spec=dict(effect.manifest["spec"]))
            return name, Applied()
        name = f"{namespace}/{parts[parts.index('gangs') + 1]}"
        there = self.objects.get(name)
        uid = effect.uid if isinstance(effect, DeleteObject) else effect.change["metadata"]["uid"]
        if there is None or there["metadata"]["uid"] != uid:
            gone = isinstance(effect, DeleteObject)
            return name, Applied() if gone else Refused(404, "NotFound", "no such object")
        if isinstance(effect, DeleteObject):
            del self.objects[name]
            return name, Applied()
        for part in ("spec", "status"):
            there[part] |= effect.change.get(part, {})
        there["status"] = {k: v for k, v in there["status"].items() if v is not None}
        return name, Applied()


def is_gang_write(effect: Effect) -> bool:
    """Whether an effect writes a Gang object."""
    return isinstance(effect, GangWrite) and "/gangs" in effect.path
