"""Writing ResourceClaims: who may use one, what it has been given, and taking both back.

Pods that share a claim, and the controllers that clean up behind them, write it at the same time.
So every write is made on one state of the claim, and a refused one is made again on the next.
"""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec

from arranger.api.effects import Applied, ClaimRef, Outcome, Refused, ReleaseClaim, ReserveClaim
from arranger.api.types.resource_claims import (
    FINALIZER,
    GROUP,
    Allocation,
    ClaimConsumer,
    ResourceClaim,
)
from arranger.kube.client.status import parse_status, retry_after
from arranger.kube.client.transport import RefusedConnectionError, Response, TransportError
from arranger.kube.writes import protobuf
from arranger.kube.writes.call import Again, Done, Job, NotLeaderError, Wire
from arranger.kube.writes.call_queue import Urgency
from arranger.kube.writes.pods import MERGE_PATCH

_claim: Final = msgspec.json.Decoder(ResourceClaim)
_encode: Final = msgspec.json.Encoder().encode

#: How often a write is made again because somebody else was faster.
CONFLICT_TRIES: Final = 8


#: What to patch: the claim ("") or its status, and how.
_Steps = list[tuple[str, dict[str, Any]]]


class ClaimJob(Job):
    """Brings one claim to where an effect wants it.

    Reading first makes every attempt safe to repeat, whatever became of the one before.
    """

    kind = "claim"
    urgency = Urgency.NEEDED

    def __init__(self, effect: ReserveClaim | ReleaseClaim, done: Done, rng: random.Random) -> None:
        super().__init__(done, rng)
        self._effect = effect
        self._path = _path(effect.claim)
        self._conflicts = 0
        self._as_bytes = False

    async def attempt(self, wire: Wire) -> Outcome | Again:
        """Read the claim and write what is missing."""
        try:
            answer = await wire.read(self._path)
        except TransportError as error:
            return self.again(wire.now(), Refused(0, "DeadlineExceeded", str(error)))
        if not 200 <= answer.status < 300:
            return self._refused(wire, answer)
        claim = _claim.decode(answer.body)
        if claim.metadata.uid != self._effect.claim.uid:
            return self._gone()
        if isinstance(self._effect, ReleaseClaim):
            found = _release(self._effect, claim)
        else:
            found = _reserve(self._effect, claim)
        return await self._write(wire, claim, found) if isinstance(found, list) else found

    async def _write(self, wire: Wire, claim: ResourceClaim, steps: _Steps) -> Outcome | Again:
        version = claim.metadata.resource_version
        for suffix, change in steps:
            metadata = {"uid": claim.metadata.uid, "resourceVersion": version}
            body = _encode({**change, "metadata": {**metadata, **change.get("metadata", {})}})
            try:
                answer = await wire.write("PATCH", self._path + suffix, body, MERGE_PATCH)
            except NotLeaderError:
                return self.doubt("NotLeader") if self.doubtful else Refused(0, "NotLeader")
            except RefusedConnectionError as error:
                return self.again(wire.now(), Refused(0, "Unreachable", str(error)))
            except TransportError as error:
                return self.doubt(str(error))
            if answer.status >= 500:
                return self.doubt(f"{answer.status}")
            if answer.status == 422 and not suffix and not self._as_bytes:
                self._as_bytes = True
                return await self._protect_as_it_is(wire)
            if not 200 <= answer.status < 300:
                return self._refused(wire, answer)
            version = _claim.decode(answer.body).metadata.resource_version
        return Applied()

    async def _protect_as_it_is(self, wire: Wire) -> Outcome | Again:
        """Add the finalizer without putting what drivers are told through JSON once more.

        The API server takes a claim's spec for changed if the JSON in it has lost its spaces.
        """
        try:
            answer = await wire.read(self._path, accept=protobuf.CONTENT_TYPE)
            if answer.status == 200:
                body = protobuf.with_finalizer(answer.body, FINALIZER)
                answer = await wire.write("PUT", self._path, body, protobuf.CONTENT_TYPE)
        except (NotLeaderError, TransportError) as error:
            # Nothing but the finalizer can have been written, and the next attempt looks for it.
            return self.again(wire.now(), Refused(0, "DeadlineExceeded", str(error)))
        except protobuf.FormError as error:
            return Refused(422, "Invalid", f"adding a finalizer to claim {self._path}: {error}")
        return Again(0.0) if 200 <= answer.status < 300 else self._refused(wire, answer)

    def _gone(self) -> Outcome:
        if isinstance(self._effect, ReleaseClaim):
            return Applied()
        message = f'resourceclaims.{GROUP} "{self._effect.claim.name}" not found'
        return Refused(404, "NotFound", message)

    def _refused(self, wire: Wire, answer: Response) -> Outcome | Again:
        code = answer.status
        status = parse_status(answer.body, code)
        refusal = Refused(code, status.reason, status.message)
        if code in (401, 429) or code >= 500:
            late = Refused(code, "DeadlineExceeded", status.message)
            return self.again(wire.now(), late, at_least=retry_after(answer))
        if code == 404:
            return self._gone()
        if code == 409 and self._conflicts < CONFLICT_TRIES:
            self._conflicts += 1
            return self.again(wire.now(), refusal)
        return refusal


def _reserve(effect: ReserveClaim, claim: ResourceClaim) -> _Steps | Outcome:
    """What is missing until the pod may use the claim."""
    given, wanted = claim.status.allocation, effect.allocation
    if claim.metadata.deletion_timestamp is not None:
        return _refusal(effect, "got deleted in the meantime")
    if given is None and wanted is None:
        return _refusal(effect, "got deallocated elsewhere in the meantime")
    ours = None if wanted is None else msgspec.convert(wanted, Allocation)
    if given is not None and ours is not None and not given.same_devices(ours):
        return _refusal(effect, "got allocated elsewhere in the meantime")
    if claim.is_reserved_for(effect.pod.uid):
        return Applied()
    pod = ClaimConsumer(resource="pods", name=effect.pod.name, uid=effect.pod.uid)
    status: dict[str, Any] = {"reservedFor": [*claim.status.reserved_for, pod]}
    if given is not None:
        return [("/status", {"status": status})]
    steps: _Steps = [("/status", {"status": {**status, "allocation": wanted}})]
    if FINALIZER not in claim.metadata.finalizers:
        finalizers = [*claim.metadata.finalizers, FINALIZER]
        steps.insert(0, ("", {"metadata": {"finalizers": finalizers}}))
    return steps


def _release(effect: ReleaseClaim, claim: ResourceClaim) -> _Steps | Outcome:
    """What is missing until the pod does not hold the claim any more."""
    left = [consumer for consumer in claim.status.reserved_for if consumer.uid != effect.pod.uid]
    status: dict[str, Any] = {}
    if len(left) < len(claim.status.reserved_for):
        status["reservedFor"] = left or None
    if effect.deallocate and not left and claim.status.allocation is not None:
        # What drivers say of devices that are not given to it any more has to go with them.
        status |= {"allocation": None, "devices": None}
    return [("/status", {"status": status})] if status else []


def _refusal(effect: ReserveClaim, why: str) -> Refused:
    return Refused(409, "Conflict", f"claim {effect.claim} {why}")


def _path(claim: ClaimRef) -> str:
    return f"/apis/{GROUP}/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
