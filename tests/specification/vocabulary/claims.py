"""Claims of volumes and of devices that a pod makes, as its scheduler must know them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tests.specification.trace import CLAIMS, VOLUME_CLAIMS, VOLUMES
from tests.specification.vocabulary.manifests import Object, terms_allow

if TYPE_CHECKING:
    from tests.specification.vocabulary.bindings import Binding


@dataclass(eq=False)
class VolumeClaim:
    """A PersistentVolumeClaim that a pod names.

    Attributes:
        found: as it is, if there is one.
    """

    binding: Binding
    name: str
    found: Object | None

    @property
    def is_missing(self) -> bool:
        """Whether there is none, nor was any lately."""
        return self.found is None and not self._was_another

    @property
    def is_unbound(self) -> bool:
        """Whether it has no volume that is there.

        Nobody can have seen one bound that never was; else it may have been a moment ago.
        """
        if self.found is None or self._volume is not None:
            return False
        never_was = not self.found["spec"].get("volumeName") and not self._was_another
        return never_was or self.binding.knows(VOLUME_CLAIMS, self.found)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the node cannot reach its volume."""
        if self._volume is None:
            return False
        required = (self._volume["spec"].get("nodeAffinity") or {}).get("required")
        if required is None or self.binding.node is None:
            return False
        if not self.binding.knows(VOLUMES, self._volume) or not self.binding.knows_node:
            return False
        return not terms_allow(required["nodeSelectorTerms"], self.binding.node)

    @cached_property
    def _volume(self) -> Object | None:
        name = "" if self.found is None else self.found["spec"].get("volumeName") or ""
        return self.binding.world.get(VOLUMES, name)

    @property
    def _was_another(self) -> bool:
        return self.binding.lately_gone(VOLUME_CLAIMS)


@dataclass(eq=False)
class DeviceClaim:
    """A ResourceClaim that a pod names."""

    binding: Binding
    name: str
    found: Object

    @property
    def is_new(self) -> bool:
        """Whether it is as it was created, so that nobody can have seen it otherwise."""
        return self.binding.world.is_as_created(CLAIMS, self.found)

    @cached_property
    def is_known(self) -> bool:
        """Whether it must be known as it is."""
        return self.binding.knows(CLAIMS, self.found)

    @property
    def is_empty(self) -> bool:
        """Whether it has no devices."""
        return not self._allocation and (self.is_new or self.is_known)

    @property
    def is_reserved(self) -> bool:
        """Whether it is reserved for the pod."""
        reserved = (self.found.get("status") or {}).get("reservedFor") or ()
        return self.binding.uid in {each.get("uid") for each in reserved}

    @property
    def is_elsewhere(self) -> bool:
        """Whether its devices are not on the node."""
        if not self._allocation or not self.is_known or self.binding.node is None:
            return False
        terms = (self._allocation.get("nodeSelector") or {}).get("nodeSelectorTerms")
        return bool(terms) and not terms_allow(terms, self.binding.node)

    @property
    def _allocation(self) -> Object | None:
        return (self.found.get("status") or {}).get("allocation")
