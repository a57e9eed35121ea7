"""What the builders of all kinds share."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Self

Manifest = dict[str, Any]
Quantity = str | int


class ManifestBuilder:
    """A manifest under construction."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    def manifest(self) -> Manifest:
        """A copy of the object as the API would serve it."""
        return deepcopy(self._manifest)

    def labelled(self, more: Mapping[str, str] | None = None, /, **labels: str) -> Self:
        return self._merge("metadata", labels={**(more or {}), **labels})

    def annotated(self, more: Mapping[str, str] | None = None, /, **annotations: str) -> Self:
        return self._merge("metadata", annotations={**(more or {}), **annotations})

    def created(self, at: str) -> Self:
        """``at`` as in ``2026-01-01T00:00:00Z``."""
        return self._set("metadata", creationTimestamp=at)

    def deleting(self, since: str = "2026-01-01T00:00:00Z") -> Self:
        return self._set("metadata", deletionTimestamp=since)

    def with_uid(self, uid: str) -> Self:
        return self._set("metadata", uid=uid)

    def at_version(self, resource_version: str) -> Self:
        return self._set("metadata", resourceVersion=resource_version)

    def with_spec(self, **fields: Any) -> Self:
        """Set spec fields by their API names, for what no method covers."""
        return self._set("spec", **fields)

    def with_status(self, **fields: Any) -> Self:
        """Set status fields by their API names, for what no method covers."""
        return self._set("status", **fields)

    def _set(self, section: str, **fields: Any) -> Self:
        copy = deepcopy(self._manifest)
        copy.setdefault(section, {}).update(deepcopy(fields))
        return type(self)(copy)

    def _merge(self, section: str, **fields: Mapping[str, Any]) -> Self:
        copy = deepcopy(self._manifest)
        for name, more in fields.items():
            copy.setdefault(section, {}).setdefault(name, {}).update(more)
        return type(self)(copy)

    def _append(self, section: str, **fields: Any) -> Self:
        copy = deepcopy(self._manifest)
        for name, item in fields.items():
            copy.setdefault(section, {}).setdefault(name, []).append(deepcopy(item))
        return type(self)(copy)


def expr(key: str, operator: str, *values: str) -> Manifest:
    """One expression of a node selector term or a label selector."""
    return {"key": key, "operator": operator, "values": list(values)}


def quantity_texts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    """Amounts as the API writes them; ``ephemeral_storage`` stands for ``ephemeral-storage``."""
    names = {"ephemeral_storage": "ephemeral-storage"}
    return {names.get(name, name): str(amount) for name, amount in amounts.items()}
