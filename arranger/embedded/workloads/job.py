"""Jobs of ``batch/v1``: pods until enough of them have succeeded, or too many have failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from arranger.api.timestamps import second_time
from arranger.embedded import Object
from arranger.embedded.workloads.job_tally import (
    INDEX,
    Failures,
    JobTally,
    index_of,
    replaces_only_ended,
)
from arranger.embedded.workloads.plan import (
    Plan,
    Surroundings,
    back_off,
    condition,
    is_active,
    is_ready,
    is_terminating,
    pod_of,
    seconds_left,
    soonest,
)
from arranger.embedded.workloads.replicas import least_worth

#: The most seconds until a pod is replaced that has failed.
_MAX_BACK_OFF: Final = 600.0
_DEFAULT_BACK_OFF_LIMIT: Final = 6
_OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
#: What a Job is about to be, and what it is when its pods are gone.
_FINAL: Final = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}
_ENDS: Final = frozenset(_FINAL.values())


def reconcile_job(
    job: Object, owned: Sequence[Object], around: Surroundings, tally: JobTally
) -> Plan:
    """As many pods at once as the Job wants, after a back-off if the last one has failed."""
    if job["spec"].get("managedBy", _OWN_CONTROLLER) != _OWN_CONTROLLER:
        return Plan()
    if _ENDS & _true_conditions(job).keys():
        return _cleaned_up(job, around.now)
    pods = [obj for obj in owned if obj["kind"] == "Pod"]
    return _Look(job, pods, around.now, tally).plan()


def _cleaned_up(job: Object, now: datetime) -> Plan:
    """A Job that is over is deleted when its time to live is over too."""
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    ended = [c["lastTransitionTime"] for c in job["status"]["conditions"] if c["type"] in _ENDS]
    if seconds is None or not ended:
        return Plan()
    left = seconds_left(seconds, ended[0], now)
    return Plan(again_in=left) if left > 0 else Plan(delete=[job])


@dataclass
class _Look:
    """One look at a Job that is not over."""

    job: Object
    pods: Sequence[Object]
    now: datetime
    tally: JobTally

    def __post_init__(self) -> None:
        self.spec: Object = self.job["spec"]
        self.before: Object = self.job.get("status") or {}
        self.active = [pod for pod in self.pods if is_active(pod)]
        self.leaving = [pod for pod in self.pods if is_terminating(pod)]
        self.completions = self.spec.get("completions")
        if self.completions is None and "parallelism" not in self.spec:
            self.completions = 1
        self.indexed = self.spec.get("completionMode") == "Indexed"
        whole = self.completions or 0
        self.done_indexes = {i for i in self.tally.indexes if i < whole}
        self.lost_indexes = {i for i in self.tally.failed_indexes if i < whole}
        self.done = len(self.done_indexes) if self.indexed else self.tally.succeeded

    def plan(self) -> Plan:
        """What to write."""
        if target := self._target():
            return self._finish(*target)
        if self.spec.get("suspend"):
            self.tally.excuse(self.active)
            return Plan(delete=self.active, status=self._status(startTime=None))
        return self._go_on()

    # --- the end ---------------------------------------------------------------------------

    def _target(self) -> tuple[str, str] | None:
        """(condition, why) of a Job that is about to be over."""
        for kind, each in _true_conditions(self.job).items():
            if kind in _FINAL:
                return kind, str(each["reason"])
        if reason := self._failure():
            return "FailureTarget", reason
        if self._meets_policy():
            return "SuccessCriteriaMet", "SuccessPolicy"
        if self.completions is None:
            enough = bool(self.done) and not self.active
        else:
            enough = self.done >= self.completions
        suspended = self.spec.get("suspend")
        return ("SuccessCriteriaMet", "CompletionsReached") if enough and not suspended else None

    def _failure(self) -> str:
        per_index = "backoffLimitPerIndex" in self.spec
        if self.tally.verdict:
            return self.tally.verdict
        limit = self.spec.get("backoffLimit", None if per_index else _DEFAULT_BACK_OFF_LIMIT)
        if limit is not None and self.tally.failed > limit:
            return "BackoffLimitExceeded"
        left = self._deadline_in()
        if left is not None and left <= 0:
            return "DeadlineExceeded"
        most = self.spec.get("maxFailedIndexes")
        if most is not None and len(self.lost_indexes) > most:
            return "MaxFailedIndexesExceeded"
        ended = len(self.lost_indexes) + len(self.done_indexes)
        return "FailedIndexes" if self.lost_indexes and ended >= (self.completions or 0) else ""

    def _meets_policy(self) -> bool:
        for rule in (self.spec.get("successPolicy") or {}).get("rules") or ():
            text = rule.get("succeededIndexes")
            meant = None if text is None else _parse_indexes(text)
            found = self.done_indexes if meant is None else self.done_indexes & meant
            count = rule.get("succeededCount", len(meant) if meant is not None else None)
            if count is not None and len(found) >= count:
                return True
        return False

    def _finish(self, kind: str, reason: str) -> Plan:
        """Its pods go; when they are gone it is over."""
        if kind == "FailureTarget":
            self.tally.give_up([*self.active, *self.leaving])
        else:
            self.tally.excuse(self.active)
        new = [(kind, reason)]
        more: Object = {"active": 0, "ready": 0, "failed": self.tally.failed}
        if not self.active and not self.leaving:
            new.append((_FINAL[kind], reason))
            if _FINAL[kind] == "Complete":
                more["completionTime"] = second_time(self.now)
        return Plan(delete=self.active, status=self._status(*new, **more))

    # --- the next pods ---------------------------------------------------------------------

    def _go_on(self) -> Plan:
        wanted = self._wanted()
        surplus = self._surplus(wanted)
        self.tally.excuse(surplus)
        held = [pod for pod in self.active if pod not in surplus]
        waiting = self.leaving if replaces_only_ended(self.job) else []
        missing = max(0, wanted - len(held) - len(waiting))
        waits = [self._deadline_in()]
        create: list[Object] = []
        if missing and "backoffLimitPerIndex" in self.spec:
            for index in self._free_indexes([*held, *waiting]):
                failures = self.tally.by_index.get(index, Failures())
                if (wait := _back_off(failures, self.now)) is not None:
                    waits.append(wait)
                elif len(create) < missing:
                    create.append(_pod(self.job, index, failures.in_a_row))
                    failures.told = failures.in_a_row
        elif missing and (wait := _back_off(self.tally.failures, self.now)) is not None:
            waits.append(wait)
        elif missing and self.indexed:
            free = self._free_indexes([*held, *waiting])[:missing]
            create = [_pod(self.job, index, None) for index in free]
        else:
            create = [_pod(self.job, None, None) for _ in range(missing)]
        return Plan(create=create, delete=surplus, status=self._status(), again_in=soonest(*waits))

    def _wanted(self) -> int:
        parallelism = int(self.spec.get("parallelism", 1))
        if self.completions is None:
            return min(parallelism, len(self.active)) if self.done else parallelism
        left = int(self.completions) - self.done - len(self.lost_indexes)
        return max(0, min(parallelism, left))

    def _surplus(self, wanted: int) -> Sequence[Object]:
        """Active pods that nobody needs: of no index, of one that is done, or too many."""
        if not self.indexed:
            return least_worth(self.active, len(self.active) - wanted)
        useless, taken = [], self.done_indexes | self.lost_indexes
        for pod in self.active:
            index = index_of(pod)
            if index is None or index in taken or index >= (self.completions or 0):
                useless.append(pod)
            else:
                taken = taken | {index}
        useful = [pod for pod in self.active if pod not in useless]
        return [*useless, *least_worth(useful, len(useful) - wanted)]

    def _free_indexes(self, held: Iterable[Object]) -> Sequence[int]:
        taken = self.done_indexes | self.lost_indexes | {index_of(pod) for pod in held}
        return [index for index in range(self.completions or 0) if index not in taken]

    # --- status ----------------------------------------------------------------------------

    def _deadline_in(self) -> float | None:
        """Seconds until ``activeDeadlineSeconds`` are over, since it has started last."""
        seconds = self.spec.get("activeDeadlineSeconds")
        if seconds is None or self.spec.get("suspend"):
            return None
        started = self.before.get("startTime")
        return seconds_left(seconds, started, self.now) if started else float(seconds)

    def _status(self, *new: tuple[str, str], **more: Any) -> Object:
        status = {
            "active": len(self.active),
            "ready": sum(map(is_ready, self.active)),
            "terminating": len(self.leaving),
            "succeeded": self.done,
            "failed": self.tally.failed - self._not_yet_told(),
            "startTime": self.before.get("startTime") or second_time(self.now),
        }
        if self.indexed:
            status["completedIndexes"] = _indexes_text(self.done_indexes)
        if "backoffLimitPerIndex" in self.spec:
            status["failedIndexes"] = _indexes_text(self.lost_indexes)
        return {**status, **more, "conditions": self._conditions(new) or None}

    def _not_yet_told(self) -> int:
        """Failures of indexes that wait for their next try; they are told when it comes."""
        over = self.done_indexes | self.lost_indexes
        open_ones = (each for index, each in self.tally.by_index.items() if index not in over)
        return sum(each.in_a_row - each.told for each in open_ones)

    def _conditions(self, new: Iterable[tuple[str, str]]) -> list[Object]:
        found = {c["type"]: c for c in self.before.get("conditions") or ()}
        wanted = {kind: (kind, "True", reason) for kind, reason in new}
        if self.spec.get("suspend"):
            wanted["Suspended"] = ("Suspended", "True", "JobSuspended")
        elif "Suspended" in found:
            wanted["Suspended"] = ("Suspended", "False", "JobResumed")
        for kind, said in wanted.items():
            if kind not in found or found[kind]["status"] != said[1]:
                found[kind] = condition(*said, self.now)
        return list(found.values())


def _true_conditions(job: Object) -> Mapping[str, Object]:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return {c["type"]: c for c in conditions if c["status"] == "True"}


def _back_off(failures: Failures, now: datetime) -> float | None:
    """Seconds until the next pod may be made; None if that is now."""
    if not failures.in_a_row or failures.last is None:
        return None
    return back_off(failures.in_a_row, failures.last, now, most=_MAX_BACK_OFF)


def _parse_indexes(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found |= {*range(int(first), min(int(last or first), int(first) + 100_000) + 1)}
    return found


def _indexes_text(indexes: set[int]) -> str:
    """Indexes as a Job's status has them: ``0,1,3-5``."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    texts = (f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in runs)
    return ",".join(texts)


def _pod(job: Object, index: int | None, failures: int | None) -> Object:
    meta = job["metadata"]
    name, uid = meta["name"], meta["uid"]
    labels = {
        "batch.kubernetes.io/job-name": name,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "controller-uid": uid,
    }
    if index is None:
        return pod_of(job, labels=labels)
    number = {INDEX: str(index)}
    counts = {} if failures is None else {_FAILURE_COUNT: str(failures)}
    pod = pod_of(job, labels={**labels, **number}, annotations={**number, **counts})
    pod["metadata"]["generateName"] = f"{name}-{index}-"
    pod["spec"].setdefault("hostname", f"{name}-{index}")
    field_path = {"fieldPath": f"metadata.annotations['{INDEX}']"}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": field_path}}
    for container in pod["spec"]["containers"]:
        container["env"] = [*(container.get("env") or ()), variable]
    return pod
