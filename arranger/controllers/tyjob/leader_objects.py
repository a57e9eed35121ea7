"""The Service and the ConfigMap by which a TYJob's workers find their leader, as they are read."""

from __future__ import annotations

import msgspec

from arranger.api.types.core import ObjectMeta, Struct


class ServicePort(Struct):
    """A port of a Service."""

    port: int = 0


class LeaderServiceSpec(Struct):
    """``spec`` of the Service of a job."""

    ports: list[ServicePort] = msgspec.field(default_factory=list)


class LeaderService(Struct):
    """The headless Service of a job."""

    metadata: ObjectMeta
    spec: LeaderServiceSpec = msgspec.field(default_factory=LeaderServiceSpec)

    @property
    def ports(self) -> list[int]:
        """The numbers of its ports."""
        return [port.port for port in self.spec.ports]


class LeaderConfigMap(Struct):
    """The ConfigMap from which a job's workers have their leader's address, by the leader's uid."""

    metadata: ObjectMeta
    data: dict[str, str] = msgspec.field(default_factory=dict)
