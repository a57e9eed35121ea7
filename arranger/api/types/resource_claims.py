"""Dynamic resource allocation as the scheduler reads and writes it (``resource.k8s.io/v1``).

Structs with only the fields we use, as in :mod:`arranger.api.types.core`; what a driver is told
(``opaque``) is carried along as it is.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from arranger.api.quantity import RawQuantity
from arranger.api.types.core import (
    NamespacedObject,
    NodeSelector,
    ObjectMeta,
    Struct,
    Taint,
    Toleration,
)

GROUP: Final = "resource.k8s.io"
#: Keeps a claim from being deleted while it is allocated.
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
#: Before the name of a class: the extended resource that every class stands for.
IMPLICIT_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
#: Devices that one claim may have (``AllocationResultsMaxSize``).
MAX_DEVICES: Final = 32
#: Alternatives that one request may have (``FirstAvailableDeviceRequestMaxSize``).
MAX_ALTERNATIVES: Final = 8
#: Requests, constraints and configurations of one claim, and selectors of one request
#: (``DeviceRequestsMaxSize`` and others).
MAX_PER_CLAIM: Final = 32
#: Tolerations of one request (``DeviceTolerationsMaxLength``).
MAX_TOLERATIONS: Final = 16

EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"


class PoolId(NamedTuple):
    """A pool of devices."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """A device, among those of all drivers."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


# --- what there is -----------------------------------------------------------------------------


class DeviceAttribute(Struct):
    """A value of one type; lists are alpha, and refused."""

    int_value: int | None = msgspec.field(name="int", default=None)
    bool_value: bool | None = msgspec.field(name="bool", default=None)
    string_value: str | None = msgspec.field(name="string", default=None)
    version_value: str | None = msgspec.field(name="version", default=None)


class DeviceCapacity(Struct):
    """An amount that a device has of something."""

    value: RawQuantity = 0


class Device(Struct):
    """A device; attributes and capacities without a domain are of its driver's."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    taints: list[Taint] = msgspec.field(default_factory=list)
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    consumes_counters: list[dict[str, Any]] = msgspec.field(default_factory=list)
    binds_to_node: bool = False
    binding_conditions: list[str] = msgspec.field(default_factory=list)
    allow_multiple_allocations: bool = False


class ResourcePool(Struct):
    """``spec.pool``: a newer generation replaces all slices of older ones."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Struct):
    """``spec`` of a ResourceSlice; one of four fields says from which nodes it can be used."""

    driver: str = ""
    pool: ResourcePool = msgspec.field(default_factory=ResourcePool)
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: list[Device] = msgspec.field(default_factory=list)
    shared_counters: list[dict[str, Any]] = msgspec.field(default_factory=list)


class ResourceSlice(Struct):
    """A part of a pool of devices."""

    metadata: ObjectMeta
    spec: ResourceSliceSpec = msgspec.field(default_factory=ResourceSliceSpec)

    @property
    def pool_id(self) -> PoolId:
        """The pool it is a part of."""
        return PoolId(self.spec.driver, self.spec.pool.name)


# --- what is wanted ----------------------------------------------------------------------------


class CELSelector(Struct):
    """``selectors[].cel``."""

    expression: str = ""


class DeviceSelector(Struct):
    """``selectors[]``; one without ``cel`` is of a kind we do not know."""

    cel: CELSelector | None = None


class DeviceToleration(Toleration):
    """``tolerations[]`` of a request."""

    toleration_seconds: int | None = None


class DeviceSubRequest(Struct):
    """A request, or one of the alternatives of one: so many devices of a class."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] = msgspec.field(default_factory=list)
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] = msgspec.field(default_factory=list)
    capacity: dict[str, Any] | None = None


class DeviceRequest(Struct):
    """``requests[]``: exactly something, or the first of several that can be had."""

    name: str = ""
    exactly: DeviceSubRequest | None = None
    first_available: list[DeviceSubRequest] = msgspec.field(default_factory=list)


class DeviceConstraint(Struct):
    """What devices of some requests, or of all, must or must not have in common."""

    requests: list[str] = msgspec.field(default_factory=list)
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceConfiguration(Struct):
    """``config[]`` of a claim or, without requests, of a class."""

    requests: list[str] = msgspec.field(default_factory=list)
    opaque: dict[str, Any] | None = None


class DeviceClaim(Struct):
    """``spec.devices`` of a claim."""

    requests: list[DeviceRequest] = msgspec.field(default_factory=list)
    constraints: list[DeviceConstraint] = msgspec.field(default_factory=list)
    config: list[DeviceConfiguration] = msgspec.field(default_factory=list)


class ResourceClaimSpec(Struct):
    """``spec`` of a ResourceClaim."""

    devices: DeviceClaim = msgspec.field(default_factory=DeviceClaim)


class ResourceClaimTemplateSpec(Struct):
    """``spec`` of a ResourceClaimTemplate."""

    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(NamespacedObject):
    """What claims that are made for pods ask for; the scheduler reads only these."""

    spec: ResourceClaimTemplateSpec = msgspec.field(default_factory=ResourceClaimTemplateSpec)


class DeviceClassSpec(Struct):
    """``spec`` of a DeviceClass."""

    extended_resource_name: str = ""
    selectors: list[DeviceSelector] = msgspec.field(default_factory=list)
    config: list[DeviceConfiguration] = msgspec.field(default_factory=list)


class DeviceClass(Struct):
    """A kind of devices, by selectors that all must hold."""

    metadata: ObjectMeta
    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


# --- what is given -----------------------------------------------------------------------------


class AllocatedDevice(Struct):
    """``results[]`` of an allocation."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] = msgspec.field(default_factory=list)
    binding_conditions: list[str] = msgspec.field(default_factory=list)
    share_id: str | None = msgspec.field(name="shareID", default=None)

    @property
    def id(self) -> DeviceId:
        """Which device it is."""
        return DeviceId(self.driver, self.pool, self.device)


class AllocatedConfiguration(Struct):
    """``config[]`` of an allocation: what the driver is told, and by whom."""

    source: str = ""
    requests: list[str] = msgspec.field(default_factory=list)
    opaque: dict[str, Any] | None = None


class DeviceAllocation(Struct):
    """``allocation.devices``."""

    results: list[AllocatedDevice] = msgspec.field(default_factory=list)
    config: list[AllocatedConfiguration] = msgspec.field(default_factory=list)


class Allocation(Struct):
    """``status.allocation``: the devices, and the nodes that they can be used from."""

    devices: DeviceAllocation = msgspec.field(default_factory=DeviceAllocation)
    node_selector: NodeSelector | None = None

    def same_devices(self, other: Allocation) -> bool:
        """Whether it gives the same devices to the same requests."""
        mine = [(result.request, result.id) for result in self.devices.results]
        return mine == [(result.request, result.id) for result in other.devices.results]

    def exclusive_devices(self) -> list[DeviceId]:
        """The devices that nobody else can have; access for administration takes none."""
        return [result.id for result in self.devices.results if not result.admin_access]


class ResourceClaimConsumer(Struct):
    """``reservedFor[]``: who may use an allocated claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Struct):
    """``status`` of a ResourceClaim."""

    allocation: Allocation | None = None
    reserved_for: list[ResourceClaimConsumer] = msgspec.field(default_factory=list)


class ResourceClaim(NamespacedObject):
    """Devices that pods ask for together."""

    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = msgspec.field(default_factory=ResourceClaimStatus)

    def is_reserved_for(self, uid: str) -> bool:
        """Whether the pod of that uid may use it."""
        return any(consumer.uid == uid for consumer in self.status.reserved_for)
