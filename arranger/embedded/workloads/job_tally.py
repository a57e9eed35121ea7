"""What has become of the pods of a Job, and which of their ends count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from arranger.embedded import Object
from arranger.embedded.workloads.plan import is_deleted

INDEX: Final = "batch.kubernetes.io/job-completion-index"


@dataclass(slots=True)
class Failures:
    """Failures since the last success, which make the next try wait.

    Attributes:
        told: how many of an index the status counts: those after which it was tried again.
    """

    in_a_row: int = 0
    last: datetime | None = None
    told: int = 0

    def count(self, now: datetime) -> None:
        """One more."""
        self.in_a_row += 1
        self.last = now

    def end_row(self) -> None:
        """A pod has succeeded."""
        self.in_a_row = 0


@dataclass(slots=True)
class JobTally:
    """What has become of the pods of one Job, those included that are gone.

    Attributes:
        counted: uids of pods that count no more, so that none counts twice.
        indexes: those that have succeeded, of an Indexed Job.
        failed_indexes: those that are not tried again, of a Job with a limit for each index.
        by_index: the failures of each index of such a Job, and its count in all.
        verdict: why a rule of the failure policy has failed the Job; empty while none has.
    """

    succeeded: int = 0
    failed: int = 0
    failures: Failures = field(default_factory=Failures)
    indexes: set[int] = field(default_factory=set)
    failed_indexes: set[int] = field(default_factory=set)
    by_index: dict[int, Failures] = field(default_factory=dict)
    counted: set[str] = field(default_factory=set)
    verdict: str = ""

    def on_pod_updated(self, job: Object, pod: Object, now: datetime, *, gone: bool) -> None:
        """Count a pod that has ended, or that is gone or on its way out before it has."""
        uid, phase = pod["metadata"]["uid"], pod["status"].get("phase")
        lost = gone or (is_deleted(pod) and not replaces_only_ended(job))
        if uid in self.counted or not (lost or phase in ("Succeeded", "Failed")):
            return
        self.counted.add(uid)
        if phase == "Succeeded":
            self._succeed(pod)
        elif not _is_stopped(job):
            self._fail(job, pod, now)

    def excuse(self, pods: Iterable[Object]) -> None:
        """What becomes of these is nobody's failure: their Job deletes them."""
        self.counted |= {pod["metadata"]["uid"] for pod in pods}

    def give_up(self, pods: Iterable[Object]) -> None:
        """They are deleted because the Job has failed, and have failed with it."""
        left = [pod for pod in pods if pod["metadata"]["uid"] not in self.counted]
        self.failed += len(left)
        self.excuse(left)

    def _succeed(self, pod: Object) -> None:
        self.succeeded += 1
        self.failures.end_row()
        if (index := index_of(pod)) is not None:
            self.indexes.add(index)

    def _fail(self, job: Object, pod: Object, now: datetime) -> None:
        action = _policy_action(job, pod)
        self.failures.count(now)
        if action == "Ignore":
            return
        self.failed += 1
        if action == "FailJob":
            self.verdict = "PodFailurePolicy"
        index, limit = index_of(pod), job["spec"].get("backoffLimitPerIndex")
        if index is None or limit is None:
            return
        of_index = self.by_index.setdefault(index, Failures())
        of_index.count(now)
        if action == "FailIndex" or of_index.in_a_row > limit:
            self.failed_indexes.add(index)


def index_of(pod: Object) -> int | None:
    """The completion index of a pod; None if it has none."""
    index = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(index) if index.isdecimal() else None


def replaces_only_ended(job: Object) -> bool:
    """Whether a pod on its way out is replaced only when it has ended.

    Under a failure policy it is so, for what has become of the pod decides whether it failed.
    """
    spec = job["spec"]
    default = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    return bool(spec.get("podReplacementPolicy", default) == "Failed")


def _is_stopped(job: Object) -> bool:
    """Whether its pods are deleted by itself, which is nobody's failure."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return bool(job["spec"].get("suspend")) or any(c["status"] == "True" for c in conditions)


def _policy_action(job: Object, pod: Object) -> str:
    """What the first rule of ``podFailurePolicy`` says that speaks of this pod; else Count."""
    for rule in (job["spec"].get("podFailurePolicy") or {}).get("rules") or ():
        if _speaks_of(rule, pod):
            return str(rule["action"])
    return "Count"


def _speaks_of(rule: Mapping[str, Any], pod: Object) -> bool:
    conditions = {(c["type"], c["status"]) for c in pod["status"].get("conditions") or ()}
    patterns = rule.get("onPodConditions") or ()
    if any((each["type"], each.get("status", "True")) in conditions for each in patterns):
        return True
    if not (codes := rule.get("onExitCodes")):
        return False
    statuses = pod["status"].get("containerStatuses") or ()
    given = [(s["name"], s["state"].get("terminated", {}).get("exitCode", 0)) for s in statuses]
    only = codes.get("containerName")
    failed = {code for name, code in given if code and only in (None, name)}
    within = {code for code in failed if code in codes["values"]}
    return bool(within if codes["operator"] == "In" else failed - within)
