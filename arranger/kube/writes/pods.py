"""Writes that may be repeated until they are answered: status patches, other patches, deletes."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from arranger.api.effects import (
    AnnotatePod,
    Applied,
    DeletePod,
    Outcome,
    PatchObject,
    PatchPodStatus,
    PodCondition,
    PodRef,
    Refused,
)
from arranger.kube.client.status import parse_status, retry_after
from arranger.kube.client.timestamps import second_time
from arranger.kube.client.transport import TransportError
from arranger.kube.writes.call import Again, Done, Job, NotLeaderError, Wire
from arranger.kube.writes.call_queue import Urgency
from arranger.kube.writes.pod_status import StatusJob

#: For pods; custom resources know only :data:`MERGE_PATCH`.
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
#: A 409 to a patch is a race with another writer, or a uid that is gone: try again this often.
CONFLICT_TRIES: Final = 3

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a job."""

    method: str
    path: str
    body: bytes
    content_type: str = "application/json"
    #: 404 means that the aim is reached, and the whole job with it.
    gone_is_done: bool = False
    #: A 409 or 422 (another uid, say) leaves the decision to the next step.
    optional: bool = False
    #: It names the version it is meant for: after a 409 it cannot succeed any more.
    versioned: bool = False


class IdempotentJob(Job):
    """Steps one after the other, each repeated until answered or until the deadline.

    It never reports Ambiguous: a repeated patch or delete has the same effect as one. It ends with
    Refused ``DeadlineExceeded`` (status of the last answer, 0 for none) when no answer came.
    """

    def __init__(
        self,
        kind: str,
        steps: Sequence[Step],
        done: Done,
        rng: random.Random,
        *,
        urgency: Urgency = Urgency.REST,
    ) -> None:
        super().__init__(done, rng)
        self.kind, self.urgency = kind, urgency
        self._steps = steps
        self._at = 0
        self._conflicts = 0

    async def attempt(self, wire: Wire) -> Outcome | Again:
        """Go on from the step that is not done yet."""
        while self._at < len(self._steps):
            step = self._steps[self._at]
            try:
                answer = await wire.write(step.method, step.path, step.body, step.content_type)
            except NotLeaderError:
                return Refused(0, "NotLeader")
            except TransportError as error:
                return self.again(wire.now(), Refused(0, "DeadlineExceeded", str(error)))
            code = answer.status
            if not 200 <= code < 300:
                status = parse_status(answer.body, code)
                refusal = Refused(code, status.reason, status.message)
                if code in (401, 429) or code >= 500:
                    late = Refused(code, "DeadlineExceeded", status.message)
                    return self.again(wire.now(), late, at_least=retry_after(answer))
                if code == 404:
                    return Applied() if step.gone_is_done else refusal
                if code == 409 and step.gone_is_done and not step.optional:
                    return Applied()
                final = step.optional or step.versioned
                if code == 409 and self._conflicts < CONFLICT_TRIES and not final:
                    self._conflicts += 1
                    return self.again(wire.now(), refusal)
                if not (step.optional and code in (409, 422)):
                    return refusal
            self._at += 1
        return Applied()


class PodWrites:
    """Makes jobs of pod effects.

    ``lastTransitionTime`` is sent only with the first patch to a status, since a strategic merge
    keeps what is not sent; which statuses were sent is remembered for the last ``remembered``
    pods.
    """

    def __init__(
        self, *, rng: random.Random, wall: Callable[[], datetime], remembered: int = 20_000
    ) -> None:
        self._rng = rng
        self._wall = wall
        self._remembered = remembered
        #: By uid, what has not been answered yet.
        self._statuses: dict[str, StatusJob] = {}
        self._sent: OrderedDict[tuple[str, str], str] = OrderedDict()

    def patch_status(self, effect: PatchPodStatus, done: Done) -> StatusJob | None:
        """A strategic merge of the condition and the nomination; the uid is a precondition.

        None if it goes along with an earlier one for the pod that has not been answered yet.
        """
        pending = self._statuses.get(effect.pod.uid)
        if pending is not None:
            pending.add(effect, done)
            return None

        def finish(outcome: Outcome) -> None:
            self._statuses.pop(effect.pod.uid, None)
            if isinstance(outcome, Applied) and job.effect.condition is not None:
                self._note_sent(effect.pod.uid, job.effect.condition)
            done(outcome)

        job = StatusJob(effect, finish, self._patch, self._rng)
        self._statuses[effect.pod.uid] = job
        return job

    def binding(self, pod: PodRef) -> None:
        """A Binding is about to be sent, which goes before what waits here and outdates it."""
        pending = self._statuses.get(pod.uid)
        if pending is not None:
            pending.take_back()

    def _patch(self, effect: PatchPodStatus) -> IdempotentJob:
        step = self._status_step(effect.pod, effect.condition, nominated=effect.nominated_node)
        return IdempotentJob("patch_status", [step], _nobody, self._rng)

    def delete(self, effect: DeletePod, done: Done) -> IdempotentJob:
        """The condition first, then the delete; a pod already gone or replaced is Applied."""
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": effect.pod.uid},
        }
        if effect.grace_seconds is not None:
            options["gracePeriodSeconds"] = effect.grace_seconds
        steps = [Step("DELETE", _path(effect.pod), _encode(options), gone_is_done=True)]
        if effect.condition is not None:
            steps.insert(0, self._status_step(effect.pod, effect.condition, before_delete=True))
            self._note_sent(effect.pod.uid, effect.condition)
        return IdempotentJob("delete", steps, done, self._rng, urgency=Urgency.NEEDED)

    def annotate(self, effect: AnnotatePod, done: Done) -> IdempotentJob:
        """A merge of the annotations; a pod that is gone or replaced ends as Refused."""
        metadata = {"uid": effect.pod.uid, "annotations": dict(effect.annotations)}
        step = Step("PATCH", _path(effect.pod), _encode({"metadata": metadata}), MERGE_PATCH)
        return IdempotentJob("annotate", [step], done, self._rng)

    def patch_object(self, effect: PatchObject, done: Done) -> IdempotentJob:
        """A merge into one version of an object; an object that has changed ends as Refused.

        So does one that an attempt has changed whose answer was lost: who asked will look again
        and find it done.
        """
        body = _encode(effect.change)
        step = Step("PATCH", effect.path, body, MERGE_PATCH, versioned=True)
        return IdempotentJob("patch_object", [step], done, self._rng, urgency=Urgency.NEEDED)

    def _status_step(
        self,
        pod: PodRef,
        condition: PodCondition | None,
        *,
        nominated: str | None = None,
        before_delete: bool = False,
    ) -> Step:
        status: dict[str, Any] = {}
        if condition is not None:
            status["conditions"] = [self._condition(pod.uid, condition)]
        if nominated is not None:
            status["nominatedNodeName"] = nominated or None
        return Step(
            "PATCH",
            _path(pod) + "/status",
            _encode({"metadata": {"uid": pod.uid}, "status": status}),
            STRATEGIC_MERGE_PATCH,
            gone_is_done=before_delete,
            optional=before_delete,
        )

    def _condition(self, uid: str, condition: PodCondition) -> dict[str, Any]:
        wire: dict[str, Any] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
        }
        if condition.observed_generation:
            wire["observedGeneration"] = condition.observed_generation
        if self._sent.get((uid, condition.type)) != condition.status:
            wire["lastTransitionTime"] = second_time(self._wall())
        return wire

    def _note_sent(self, uid: str, condition: PodCondition) -> None:
        self._sent[uid, condition.type] = condition.status
        if len(self._sent) > self._remembered:
            self._sent.popitem(last=False)


def _nobody(outcome: Outcome) -> None:
    """Its outcome is told by the job that it is part of."""


def _path(pod: PodRef) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
