"""Writing ResourceClaims: reservations for pods, the allocation, and releasing both.

Pods that share a claim, and the controllers that clean up after them, write it at the same time.
So every write names the version of the claim that it is made for, and after a conflict it is made
anew for the next.
"""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec

from arranger.api.effects import Applied, Outcome, Refused, ReleaseClaim, ReserveClaim
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import convert_object, decode_object
from arranger.api.parsing.protobuf import MEDIA_TYPE
from arranger.api.types.resource_claims import (
    FINALIZER,
    GROUP,
    Allocation,
    ResourceClaim,
    ResourceClaimConsumer,
)
from arranger.kube.client.status import AnswerClass, classify
from arranger.kube.client.transport import (
    MERGE_PATCH,
    RefusedConnectionError,
    Response,
    TransportError,
)
from arranger.kube.watch.decoder import decode_metadata
from arranger.kube.writes.call import (
    ApiCall,
    CallContext,
    CallPriority,
    NotLeaderError,
    OutcomeCallback,
    Retry,
)
from arranger.kube.writes.protobuf import add_finalizer

_encode: Final = msgspec.json.Encoder().encode

#: How often a write is made anew because somebody else was faster.
MAX_CONFLICT_RETRIES: Final = 8

#: What to patch: the claim ("") or its status, and how.
_Patches = list[tuple[str, dict[str, Any]]]


class ResourceClaimCall(ApiCall):
    """Brings one claim into the state that an effect asks for.

    Reading first makes every attempt safe to repeat, whatever became of the one before.
    """

    call_type = "claim"
    priority = CallPriority.BLOCKING

    def __init__(
        self, effect: ReserveClaim | ReleaseClaim, on_outcome: OutcomeCallback, rng: random.Random
    ) -> None:
        super().__init__(on_outcome, rng)
        self._effect, self._tried_protobuf = effect, False
        claim = effect.claim
        self._path = f"/apis/{GROUP}/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}"

    async def execute(self, context: CallContext) -> Outcome | Retry:
        """Read the claim and write what is missing."""
        try:
            answer = await context.read(self._path)
        except TransportError as error:
            return self.retry(context.now(), Refused(0, "DeadlineExceeded", str(error)))
        if classify(answer.status) is not AnswerClass.SUCCESS:
            return self._on_failure(context, answer)
        try:
            claim = decode_object(answer.body, ResourceClaim, cut=True)
        except ParseError as error:
            return self.retry(context.now(), Refused(answer.status, "Invalid", str(error)))
        if claim.metadata.uid != self._effect.claim.uid:
            return self._claim_deleted_outcome()
        if isinstance(self._effect, ReleaseClaim):
            missing = _release_patches(self._effect, claim)
        else:
            missing = _reserve_patches(self._effect, claim)
        return await self._write(context, claim, missing) if isinstance(missing, list) else missing

    async def _write(
        self, context: CallContext, claim: ResourceClaim, patches: _Patches
    ) -> Outcome | Retry:
        version = claim.metadata.resource_version
        for suffix, change in patches:
            metadata = {"uid": claim.metadata.uid, "resourceVersion": version}
            body = _encode({**change, "metadata": {**metadata, **change.get("metadata", {})}})
            try:
                answer = await context.write("PATCH", self._path + suffix, body, MERGE_PATCH)
            except NotLeaderError:
                why = "NotLeader"
                return self.mark_ambiguous(why) if self.ambiguous else Refused(0, why)
            except RefusedConnectionError as error:
                return self.retry(context.now(), Refused(0, "Unreachable", str(error)))
            except TransportError as error:
                return self.mark_ambiguous(str(error))
            match classify(answer.status):
                case AnswerClass.SUCCESS:
                    version = decode_metadata(answer.body).resource_version
                case AnswerClass.SERVER_ERROR:
                    return self.mark_ambiguous(f"{answer.status}")
                case AnswerClass.INVALID if not suffix and not self._tried_protobuf:
                    self._tried_protobuf = True
                    return await self._add_finalizer_protobuf(context)
                case _:
                    return self._on_failure(context, answer)
        return Applied()

    async def _add_finalizer_protobuf(self, context: CallContext) -> Outcome | Retry:
        """Add the finalizer in the binary form, which leaves the driver parameters untouched.

        The API server takes a claim's spec for changed if the JSON in it has lost its spaces.
        """
        try:
            answer = await context.read(self._path, accept=MEDIA_TYPE)
            if answer.status == 200:
                body = add_finalizer(answer.body, FINALIZER)
                answer = await context.write("PUT", self._path, body, MEDIA_TYPE)
        except (NotLeaderError, TransportError) as error:
            # Nothing but the finalizer can have been written, and the next attempt looks for it.
            return self.retry(context.now(), Refused(0, "DeadlineExceeded", str(error)))
        except ParseError as error:
            return Refused(422, "Invalid", f"adding a finalizer to claim {self._path}: {error}")
        if classify(answer.status) is AnswerClass.SUCCESS:
            return Retry(0.0)
        return self._on_failure(context, answer)

    def _claim_deleted_outcome(self) -> Outcome:
        if isinstance(self._effect, ReleaseClaim):
            return Applied()
        message = f'resourceclaims.{GROUP} "{self._effect.claim.name}" not found'
        return Refused(404, "NotFound", message)

    def _on_failure(self, context: CallContext, answer: Response) -> Outcome | Retry:
        if classify(answer.status) is AnswerClass.NOT_FOUND:
            return self._claim_deleted_outcome()
        return self.retry_or_refuse(context.now(), answer, max_conflicts=MAX_CONFLICT_RETRIES)


def _reserve_patches(effect: ReserveClaim, claim: ResourceClaim) -> _Patches | Outcome:
    """The patches that are missing until the pod may use the claim, or why it cannot."""
    allocated, requested = claim.status.allocation, effect.allocation
    if claim.metadata.deletion_timestamp is not None:
        return _conflict(effect, "got deleted in the meantime")
    if allocated is None and requested is None:
        return _conflict(effect, "got deallocated elsewhere in the meantime")
    ours = None if requested is None else convert_object(requested, Allocation)
    if allocated is not None and ours is not None and not allocated.same_devices(ours):
        return _conflict(effect, "got allocated elsewhere in the meantime")
    if claim.is_reserved_for(effect.pod.uid):
        return Applied()
    pod = ResourceClaimConsumer(resource="pods", name=effect.pod.name, uid=effect.pod.uid)
    status: dict[str, Any] = {"reservedFor": [*claim.status.reserved_for, pod]}
    if allocated is not None:
        return [("/status", {"status": status})]
    patches: _Patches = [("/status", {"status": {**status, "allocation": requested}})]
    if FINALIZER not in claim.metadata.finalizers:
        finalizers = [*claim.metadata.finalizers, FINALIZER]
        patches.insert(0, ("", {"metadata": {"finalizers": finalizers}}))
    return patches


def _release_patches(effect: ReleaseClaim, claim: ResourceClaim) -> _Patches | Outcome:
    """The patches that are missing until the pod does not hold the claim any more."""
    left = [consumer for consumer in claim.status.reserved_for if consumer.uid != effect.pod.uid]
    status: dict[str, Any] = {}
    if len(left) < len(claim.status.reserved_for):
        status["reservedFor"] = left or None
    if effect.deallocate and not left and claim.status.allocation is not None:
        # The status that drivers report of devices goes with their allocation.
        status |= {"allocation": None, "devices": None}
    return [("/status", {"status": status})] if status else []


def _conflict(effect: ReserveClaim, why: str) -> Refused:
    return Refused(409, "Conflict", f"claim {effect.claim} {why}")
