"""Volcano's Command: something that a Job or a Queue is to do once."""

from __future__ import annotations

from typing import Final

import msgspec

from arranger.api.types.core import NamespacedObject, OwnerReference

COMMAND_API: Final = "bus.volcano.sh/v1alpha1"


class Command(NamespacedObject):
    """A Command of ``bus.volcano.sh``; it has no ``spec``."""

    action: str = ""
    target: OwnerReference = msgspec.field(default_factory=OwnerReference)

    @property
    def path(self) -> str:
        """Where the server has it."""
        meta = self.metadata
        return f"/apis/{COMMAND_API}/namespaces/{meta.namespace}/commands/{meta.name}"

    def is_for(self, group: str, kind: str) -> bool:
        """Whether its target is of this kind, in any version."""
        target = self.target
        return (target.api_version.partition("/")[0], target.kind) == (group, kind)
