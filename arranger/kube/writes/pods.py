"""Writes that may be repeated until they are answered: status patches, other patches, deletes."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from arranger.api.effects import (
    AnnotatePod,
    Applied,
    CreateObject,
    DeleteObject,
    DeletePod,
    ObjectKey,
    Outcome,
    PatchObject,
    PatchPodStatus,
    PodCondition,
    Refused,
)
from arranger.api.timestamps import second_time
from arranger.kube.client.status import AnswerClass, classify, parse_status
from arranger.kube.client.transport import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Response,
    TransportError,
)
from arranger.kube.writes.call import (
    ApiCall,
    CallContext,
    CallPriority,
    NotLeaderError,
    OutcomeCallback,
    Retry,
    ignore_outcome,
    pod_path,
)
from arranger.kube.writes.pod_status import CoalescedStatusPatch

#: A 409 to a patch is a race with another writer, or a uid that is gone, one to a delete may be a
#: webhook's: try again this often.
MAX_CONFLICT_RETRIES: Final = 3
MAX_REMEMBERED: Final = 20_000

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class CallStep:
    """One request of a call."""

    method: str
    path: str
    body: bytes
    content_type: str = "application/json"
    #: 404 means that the aim of the whole call is reached, and so does that the name has passed to
    #: another object: 409 about the uid to a delete, 422 about ``metadata.uid`` to a patch.
    gone_is_success: bool = False
    #: 409 means that the aim of this step is reached: an object of the name is there.
    there_is_success: bool = False
    #: It names the version it is meant for: after a 409 it cannot succeed any more.
    versioned: bool = False


class IdempotentCall(ApiCall):
    """Steps one after the other, each repeated until answered or until the deadline.

    It never reports Ambiguous: a repeated patch or delete has the same effect as one. If no answer
    comes it ends as Refused ``DeadlineExceeded``, with the code of the last answer or 0.
    """

    def __init__(
        self,
        call_type: str,
        steps: Sequence[CallStep],
        on_outcome: OutcomeCallback,
        rng: random.Random,
        priority: CallPriority = CallPriority.NORMAL,
    ) -> None:
        super().__init__(on_outcome, rng)
        self.call_type, self.priority = call_type, priority
        self._steps = steps
        self._next_step = 0

    async def execute(self, context: CallContext) -> Outcome | Retry:
        """Go on from the step that is not done yet."""
        while self._next_step < len(self._steps):
            step = self._steps[self._next_step]
            try:
                answer = await context.write(step.method, step.path, step.body, step.content_type)
            except NotLeaderError:
                return Refused(0, "NotLeader")
            except TransportError as error:
                return self.retry(context.now(), Refused(0, "DeadlineExceeded", str(error)))
            match classify(answer.status):
                case AnswerClass.SUCCESS:
                    pass
                case AnswerClass.CONFLICT if step.there_is_success:
                    pass
                case found if step.gone_is_success and _is_gone(step, found, answer):
                    return Applied()
                case _:
                    tries = 0 if step.versioned else MAX_CONFLICT_RETRIES
                    return self.retry_or_refuse(context.now(), answer, max_conflicts=tries)
            self._next_step += 1
        return Applied()


def _is_gone(step: CallStep, found: AnswerClass, answer: Response) -> bool:
    """Whether an answer says that the object is not there, or is another one of its name."""
    if found is AnswerClass.INVALID or (
        found is AnswerClass.CONFLICT and step.method == "DELETE"  # to a patch it is a race
    ):
        return parse_status(answer.body, answer.status).names_another_uid
    return found is AnswerClass.NOT_FOUND


class PodCallFactory:
    """Makes calls of the effects on pods.

    ``lastTransitionTime`` is that of the first patch to a status, and is sent with each: an API
    server restored from a backup may not have it. It is remembered for the last
    :data:`MAX_REMEMBERED` conditions.
    """

    def __init__(self, rng: random.Random, clock: Callable[[], datetime]) -> None:
        self._rng, self._clock = rng, clock
        #: By uid of the pod: its patches that have not been answered yet.
        self._pending_patches: dict[str, CoalescedStatusPatch] = {}
        #: By uid of the pod and type: the status of a condition, and since when it has it.
        self._since: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()

    def patch_status(
        self, effect: PatchPodStatus, on_outcome: OutcomeCallback
    ) -> CoalescedStatusPatch | None:
        """A strategic merge of the condition and the nomination; the uid is a precondition.

        None if it was merged into an earlier one of the pod that has not been answered yet.
        """
        pending = self._pending_patches.get(effect.pod.uid)
        if pending is not None:
            pending.merge(effect, on_outcome)
            return None

        def finish(outcome: Outcome) -> None:
            self._pending_patches.pop(effect.pod.uid, None)
            on_outcome(outcome)

        patch = CoalescedStatusPatch(effect, finish, self._status_call, self._rng)
        self._pending_patches[effect.pod.uid] = patch
        return patch

    def on_binding(self, pod: ObjectKey) -> None:
        """A Binding is about to be sent: it overtakes a waiting status patch and outdates it."""
        pending = self._pending_patches.get(pod.uid)
        if pending is not None:
            pending.drop_outdated()

    def _status_call(self, effect: PatchPodStatus) -> IdempotentCall:
        step = self._status_step(effect.pod, effect.condition, nominated=effect.nominated_node)
        return IdempotentCall("patch_status", [step], ignore_outcome, self._rng)

    def delete(self, effect: DeletePod, on_outcome: OutcomeCallback) -> IdempotentCall:
        """The condition first, then the delete; a pod already gone or replaced is Applied.

        A condition that is refused ends it, as kube-scheduler's preemption does: nobody is made to
        leave without being told why.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        options["preconditions"] = {"uid": effect.pod.uid}
        if effect.grace_seconds is not None:
            options["gracePeriodSeconds"] = effect.grace_seconds
        steps = [CallStep("DELETE", pod_path(effect.pod), _encode(options), gone_is_success=True)]
        if effect.condition is not None:
            steps.insert(0, self._status_step(effect.pod, effect.condition, before_delete=True))
        return IdempotentCall("delete", steps, on_outcome, self._rng, CallPriority.BLOCKING)

    def annotate(self, effect: AnnotatePod, on_outcome: OutcomeCallback) -> IdempotentCall:
        """A merge of the annotations; a pod that is gone or replaced ends as Refused."""
        metadata = {"uid": effect.pod.uid, "annotations": dict(effect.annotations)}
        body = _encode({"metadata": metadata})
        step = CallStep("PATCH", pod_path(effect.pod), body, MERGE_PATCH)
        return IdempotentCall("annotate", [step], on_outcome, self._rng)

    def patch_object(self, effect: PatchObject, on_outcome: OutcomeCallback) -> IdempotentCall:
        """A merge into one version of an object; an object that has changed ends as Refused.

        So it does if a lost attempt of ours has changed it: the watch will show that.
        """
        change = _encode(effect.change)
        step = CallStep("PATCH", effect.path, change, MERGE_PATCH, versioned=True)
        return IdempotentCall("patch_object", [step], on_outcome, self._rng, CallPriority.BLOCKING)

    def create_object(self, effect: CreateObject, on_outcome: OutcomeCallback) -> IdempotentCall:
        """A create; a conflict means that an object of the name is there, ours or another's."""
        step = CallStep("POST", effect.path, _encode(effect.manifest), there_is_success=True)
        return IdempotentCall("create_object", [step], on_outcome, self._rng)

    def delete_object(self, effect: DeleteObject, on_outcome: OutcomeCallback) -> IdempotentCall:
        """A delete; an object already gone or replaced is Applied."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions"}
        body = _encode({**options, "preconditions": {"uid": effect.uid}})
        step = CallStep("DELETE", effect.path, body, gone_is_success=True)
        return IdempotentCall("delete_object", [step], on_outcome, self._rng)

    def _status_step(
        self,
        pod: ObjectKey,
        condition: PodCondition | None,
        *,
        nominated: str | None = None,
        before_delete: bool = False,
    ) -> CallStep:
        status: dict[str, Any] = {}
        if condition is not None:
            status["conditions"] = [self._condition(pod.uid, condition)]
        if nominated is not None:
            status["nominatedNodeName"] = nominated or None
        path, body = pod_path(pod), _encode({"metadata": {"uid": pod.uid}, "status": status})
        patch = ("PATCH", f"{path}/status", body, STRATEGIC_MERGE_PATCH)
        return CallStep(*patch, gone_is_success=before_delete)

    def _condition(self, uid: str, condition: PodCondition) -> dict[str, Any]:
        fields = asdict(condition)
        if generation := fields.pop("observed_generation"):
            fields["observedGeneration"] = generation
        key = uid, condition.type
        status, since = self._since.get(key, ("", ""))
        if status != condition.status:
            since = second_time(self._clock())
            self._since[key] = condition.status, since
            if len(self._since) > MAX_REMEMBERED:
                self._since.popitem(last=False)
        fields["lastTransitionTime"] = since
        return fields
