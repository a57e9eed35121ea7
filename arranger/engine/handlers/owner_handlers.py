"""What the watches of owners deliver: what Deployments and others say about their pods."""

from __future__ import annotations

from dataclasses import dataclass

from arranger.api.types.workloads import AnyOwner
from arranger.engine.handlers.owned_pods import OwnedPods
from arranger.quota.pod_owners import PodOwners


@dataclass(frozen=True, slots=True)
class OwnerHandlers:
    """Notes what owners say, and has their pods looked at again when that has changed."""

    _owners: PodOwners
    _pods: OwnedPods

    def on_updated(self, owner: AnyOwner, _now: float) -> None:
        """An owner appeared or was edited."""
        if self._owners.set(owner.metadata):
            self._pods.note_owner(owner.metadata)

    def on_deleted(self, owner: AnyOwner, _now: float) -> None:
        """An owner was deleted."""
        if self._owners.remove(owner.metadata):
            self._pods.note_owner(owner.metadata)
