"""The objects that select or own pods: Services and workload controllers.

Pods that one of these selects belong together, and are spread by default.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from arranger.api.types.core import LabelSelector, ObjectMeta, Struct


class ServiceSpec(Struct):
    """``spec`` of a Service or ReplicationController."""

    selector: Mapping[str, str] = msgspec.field(default_factory=dict)


class Service(Struct):
    """A Service."""

    metadata: ObjectMeta
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class ReplicationController(Struct):
    """A ReplicationController."""

    metadata: ObjectMeta
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class WorkloadSpec(Struct):
    """``spec`` of a ReplicaSet or StatefulSet."""

    selector: LabelSelector | None = None


class ReplicaSet(Struct):
    """A ReplicaSet."""

    metadata: ObjectMeta
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)


class StatefulSet(Struct):
    """A StatefulSet."""

    metadata: ObjectMeta
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)


class Owner(Struct):
    """Any object that owns pods, or owns what owns them; only its metadata is read."""

    metadata: ObjectMeta


class Workload(Struct):
    """An owner whose pods are a gang; what is read of it says the configuration."""

    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


#: What pods may be owned by.
AnyOwner = Owner | Workload | ReplicaSet | StatefulSet | ReplicationController
