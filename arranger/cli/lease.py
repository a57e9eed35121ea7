"""Who leads, as the Lease tells: for ``arranger doctor`` and the pages of ``arranger ui``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object
from arranger.daemon.config.schema import LeaderElectionConfig
from arranger.kube.client.transport import Request, Transport
from arranger.kube.lease import Lease, decode_lease

_LEASES: Final = "/apis/coordination.k8s.io/v1"
_SECONDS: Final = 5.0


class _Leases(msgspec.Struct):
    items: list[Lease] = []


@dataclass(frozen=True, slots=True)
class Leadership:
    """What the Lease says.

    Attributes:
        status: of the server's answer; 404 where there is no Lease of that name in any namespace
            that may be looked at, 0 where what there is cannot be read.
        namespace: where the Lease is, or would be.
        name: of the Lease.
        holder: who leads; "" for nobody.
        renewed: when that was last said, with a zone; None where that was never said.
        duration: seconds for which it holds; None where that is not said.
        problem: why it cannot be read; "" where it can.
    """

    status: int
    namespace: str
    name: str
    holder: str = ""
    renewed: datetime | None = None
    duration: int | None = None
    problem: str = ""

    def age(self, now: datetime) -> float | None:
        """Seconds since the holder was last heard of."""
        return None if self.renewed is None else max(0.0, (now - self.renewed).total_seconds())

    def text(self, now: datetime) -> str:
        """In a few words."""
        lease, age = f"Lease {self.namespace}/{self.name}", self.age(now)
        if self.problem:
            return f"{lease} cannot be read: {self.problem}"
        if self.status == 404:
            return f"nobody has led yet: there is no {lease}"
        if self.status != 200:
            return f"{lease} may not be read"
        if not self.holder or age is None:
            return f"nobody leads: {lease} was given back"
        return f"{self.holder} leads, said {age:.0f} s ago in {lease}"


async def read_leadership(transport: Transport, election: LeaderElectionConfig) -> Leadership:
    """Read the Lease of the configuration; where there is none, one of its name elsewhere.

    Raises:
        TransportError: there was no answer.
    """
    name, namespace = election.resource_name, election.resource_namespace
    path = f"{_LEASES}/namespaces/{namespace}/leases/{name}"
    answer = await transport.send(Request("GET", path, timeout=_SECONDS))
    if answer.status == 404:
        return await _elsewhere(transport, namespace, name)
    if answer.status != 200:
        return Leadership(answer.status, namespace, name)
    try:
        return _said(decode_lease(answer.body), namespace, name)
    except ValueError as error:
        return Leadership(0, namespace, name, problem=str(error))


async def _elsewhere(transport: Transport, namespace: str, name: str) -> Leadership:
    """The Lease of that name in another namespace, said last; who may not look sees none."""
    query = {"fieldSelector": f"metadata.name={name}"}
    answer = await transport.send(Request("GET", f"{_LEASES}/leases", query, timeout=_SECONDS))
    found: list[Leadership] = []
    if answer.status == 200:
        try:
            listed = decode_object(answer.body, _Leases)
            found = [_said(each, each.metadata.namespace, name) for each in listed.items]
        except ParseError:
            found = []
    return max(
        (each for each in found if each.renewed is not None),
        key=lambda each: each.renewed or datetime.min.replace(tzinfo=UTC),
        default=Leadership(404, namespace, name),
    )


def _said(lease: Lease, namespace: str, name: str) -> Leadership:
    spec, problem = lease.spec, ""
    renewed = None
    try:
        if spec.renew_time:
            renewed = datetime.fromisoformat(spec.renew_time)
            renewed = renewed.replace(tzinfo=renewed.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        problem = str(error)
    status = 0 if problem else 200
    holder, duration = spec.holder_identity or "", spec.lease_duration_seconds
    return Leadership(status, namespace, name, holder, renewed, duration, problem)
