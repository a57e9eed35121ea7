"""What is served: the built-in resources, and those that CustomResourceDefinitions add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from arranger.embedded import Object
from arranger.embedded.crd.schema import CustomSchema

VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


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


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource.

    Attributes:
        status: whether ``/status`` is a subresource, and so isolated from the rest.
        schema: of a custom resource, which also tells custom from built-in.
        categories: names that stand for it and others, ``all`` for one.
        columns: ``additionalPrinterColumns`` of a custom resource.
        view: how it shows the stored objects of another resource, if it has none itself.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    custom: bool = False
    schema: CustomSchema | None = None
    columns: tuple[Object, ...] = ()
    view: VersionView | None = None

    #: ``v1`` or ``group/version``.
    api_version: str = field(init=False)
    #: The name in the store of its objects.
    storage_key: str = field(init=False)
    #: ``plural.group`` as messages have it.
    qualified_name: str = field(init=False)
    #: What may follow the name of an object in a path.
    subresources: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        group, stored_as = self.group, f"{self.group}/{self.plural}"
        parts = {"", "status"} if self.status else {""}
        if stored_as == "/pods":
            parts |= {"binding", "eviction"}
        derived = {
            "api_version": f"{group}/{self.version}" if group else self.version,
            "storage_key": self.view.storage_key if self.view else stored_as,
            "qualified_name": f"{self.plural}.{group}" if group else self.plural,
            "subresources": frozenset(parts),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def from_storage(self, stored: Object) -> Object:
        """A stored object as this resource has it."""
        return self.view.from_storage(stored) if self.view else stored

    def to_storage(self, shown: Object) -> Object:
        """The reverse of :meth:`from_storage`."""
        return self.view.to_storage(shown) if self.view else shown


def _builtin() -> Iterator[Resource]:
    def one(group: str, version: str, plural: str, kind: str, *short: str, **more: Any) -> Resource:
        return Resource(group, version, plural, kind, short_names=short, **more)

    cluster_scoped, with_status = {"namespaced": False}, {"status": True}
    workload = {"status": True, "categories": ("all",)}
    yield one("", "v1", "pods", "Pod", "po", **workload)
    yield one("", "v1", "nodes", "Node", "no", **cluster_scoped, **with_status)
    yield one("", "v1", "namespaces", "Namespace", "ns", **cluster_scoped, **with_status)
    yield one("", "v1", "events", "Event", "ev", view=CORE_EVENTS)
    yield one("", "v1", "services", "Service", "svc", **workload)
    yield one("", "v1", "configmaps", "ConfigMap", "cm")
    yield one("", "v1", "secrets", "Secret")
    yield one("", "v1", "serviceaccounts", "ServiceAccount", "sa")
    yield one(
        "", "v1", "persistentvolumes", "PersistentVolume", "pv", **cluster_scoped, **with_status
    )
    yield one("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", **with_status)
    yield one("", "v1", "replicationcontrollers", "ReplicationController", "rc", **workload)
    yield one("apps", "v1", "deployments", "Deployment", "deploy", **workload)
    yield one("apps", "v1", "replicasets", "ReplicaSet", "rs", **workload)
    yield one("apps", "v1", "statefulsets", "StatefulSet", "sts", **workload)
    yield one("apps", "v1", "daemonsets", "DaemonSet", "ds", **workload)
    yield one("batch", "v1", "jobs", "Job", **workload)
    yield one("batch", "v1", "cronjobs", "CronJob", "cj", **workload)
    yield one("coordination.k8s.io", "v1", "leases", "Lease")
    yield one("events.k8s.io", "v1", "events", "Event", "ev")
    yield one("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "netpol")
    budgets = "poddisruptionbudgets"
    yield one("policy", "v1", budgets, "PodDisruptionBudget", "pdb", **with_status)
    yield one("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc", **cluster_scoped)
    yield one("storage.k8s.io", "v1", "storageclasses", "StorageClass", "sc", **cluster_scoped)
    yield one("storage.k8s.io", "v1", "csinodes", "CSINode", **cluster_scoped)
    yield one("storage.k8s.io", "v1", "csidrivers", "CSIDriver", **cluster_scoped)
    yield one("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", **cluster_scoped)
    yield one("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
    devices = "resource.k8s.io"
    yield one(devices, "v1", "deviceclasses", "DeviceClass", **cluster_scoped)
    yield one(devices, "v1", "resourceslices", "ResourceSlice", **cluster_scoped)
    yield one(devices, "v1", "resourceclaims", "ResourceClaim", **with_status)
    yield one(devices, "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
    crds = "customresourcedefinitions"
    kind = "CustomResourceDefinition"
    yield one("apiextensions.k8s.io", "v1", crds, kind, "crd", **cluster_scoped, **with_status)


class Registry:
    """Served resources by group, version and plural."""

    def __init__(self) -> None:
        self._resources = {(r.group, r.version, r.plural): r for r in _builtin()}

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource, if it is served."""
        return self._resources.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource whose objects have this ``apiVersion`` and ``kind``."""
        return next((r for r in self if r.kind == kind and r.api_version == api_version), None)

    def by_name(self, plural: str, group: str = "") -> Resource:
        """A resource by plural and group.

        Raises:
            KeyError: it is not served.
        """
        for resource in self:
            if (resource.group, resource.plural) == (group, plural):
                return resource
        raise KeyError(f"{group}/{plural} is not served")

    def define(self, definition: Object, schemas: Mapping[str, CustomSchema]) -> None:
        """Serve what a CustomResourceDefinition defines, replacing its earlier form.

        ``schemas`` are those of its versions, by name.
        """
        spec = definition["spec"]
        names = spec["names"]
        for version in spec["versions"]:
            resource = Resource(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                namespaced=spec.get("scope", "Namespaced") == "Namespaced",
                short_names=tuple(names.get("shortNames", ())),
                categories=tuple(names.get("categories", ())),
                status="status" in (version.get("subresources") or {}),
                custom=True,
                schema=schemas[version["name"]],
                columns=tuple(version.get("additionalPrinterColumns") or ()),
            )
            place = resource.group, resource.version, resource.plural
            if version.get("served"):
                self._resources[place] = resource
            else:
                self._resources.pop(place, None)

    def undefine(self, definition: Object) -> None:
        """Stop serving what a deleted definition defined."""
        spec = definition["spec"]
        for version in spec["versions"]:
            self._resources.pop((spec["group"], version["name"], spec["names"]["plural"]), None)
