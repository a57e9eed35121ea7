"""The object of coordination.k8s.io/v1 that replicas compete for."""

from __future__ import annotations

from typing import Final

import msgspec

from arranger.api.parsing.objects import decode_object


class LeaseSpec(msgspec.Struct, rename="camel", eq=True):
    """``spec``."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMeta(msgspec.Struct, rename="camel", omit_defaults=True):
    """``metadata``, as far as it is written."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Lease(msgspec.Struct, rename="camel"):
    """One Lease."""

    metadata: LeaseMeta
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)
    kind: str = "Lease"
    api_version: str = "coordination.k8s.io/v1"


encode_lease: Final = msgspec.json.Encoder().encode


def decode_lease(body: bytes) -> Lease:
    """A Lease in an answer; raises ParseError."""
    return decode_object(body, Lease)
