"""Resources that serve the stored objects of another API version (conversion)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class VersionView:
    """How one API version shows objects that are stored as another one.

    Attributes:
        storage_key: the name in the store of the resource that the objects are stored as.
        api_version, storage_api_version: of the two forms.
        stored_names: the stored name of each field that is shown by another.
    """

    storage_key: str
    api_version: str
    storage_api_version: str
    stored_names: Mapping[str, str]

    def from_storage(self, stored: Object) -> Object:
        """The object in this version; values are shared with the stored one."""
        renamed = {stored_name: name for name, stored_name in self.stored_names.items()}
        return {
            **{renamed.get(name, name): value for name, value in stored.items()},
            "apiVersion": self.api_version,
        }

    def to_storage(self, shown: Object) -> Object:
        """The object as it is stored."""
        return {
            **{self.stored_names.get(name, name): value for name, value in shown.items()},
            "apiVersion": self.storage_api_version,
        }


#: ``v1`` events: the older form of ``events.k8s.io/v1`` ones.
CORE_EVENTS: Final = VersionView(
    "events.k8s.io/events",
    "v1",
    "events.k8s.io/v1",
    {
        "involvedObject": "regarding",
        "message": "note",
        "reportingComponent": "reportingController",
        "source": "deprecatedSource",
        "firstTimestamp": "deprecatedFirstTimestamp",
        "lastTimestamp": "deprecatedLastTimestamp",
        "count": "deprecatedCount",
    },
)
