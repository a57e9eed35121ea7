"""What the status of a TYJob must say, as a plain function of the job and its pods.

Written from ``docs/guide/tyjob.md``, and reads nothing of the controller's code or memory. What
only the past can tell (which stage came before, how often pods have failed) is taken from the
status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

Object = dict[str, Any]

ENDED = ("Succeeded", "Failed")


def status_faults(job: Object, pods: Iterable[Object], now: datetime) -> list[str]:
    """What is untrue in the status of a job, given all its pods; empty where all is true."""
    status = job.get("status") or {}
    if "deletionTimestamp" in job["metadata"]:
        return []
    if not status:
        return ["there is none"]
    view = _View(job, list(pods))
    expected = view.ended() if status["stage"] in ENDED else view.open()
    faults = [
        f"{name} is {status.get(name)!r} and must be {value!r}"
        for name, value in expected.items()
        if status.get(name) != value
    ]
    return [*faults, *view.stage_faults(), *_time_faults(job, status, now)]


class _View:
    """One job and its pods."""

    def __init__(self, job: Object, pods: list[Object]) -> None:
        self.spec: Object = job["spec"]
        self.status: Object = job["status"]
        self.conditions = {c["type"]: c for c in self.status.get("conditions", [])}
        self.pods = pods
        self.valid = self.conditions.get("Valid", {}).get("reason") != "Invalid"
        self.leader = next((p for p in pods if _role(p) == "leader"), None)
        self.led = self.leader if self.leader and _may_run(self.leader) else None
        self.names = {
            f"{job['metadata']['name']}-{part['name']}-{number}"
            for part in self.spec["workerSets"]
            for number in range(part.get("counts", 1))
        }

    @property
    def all_workers(self) -> list[Object]:
        return [pod for pod in self.pods if _role(pod) == "worker"]

    @property
    def workers(self) -> list[Object]:
        """The workers that were made for the leader there is, and that the spec asks for."""
        if not self.valid:
            return self.all_workers
        uid = self.led["metadata"]["uid"] if self.led else ""
        return [
            pod
            for pod in self.all_workers
            if pod["metadata"]["annotations"].get("arranger.io/leader-uid") == uid
            and pod["metadata"]["name"] in self.names
        ]

    @property
    def counted(self) -> list[Object]:
        """Workers that run or may run, and have not failed too often."""
        failed = self.status.get("workerRestarts", {})
        limit = self.spec.get("restartLimit", 3)
        names = {name for name, times in failed.items() if times > limit}
        return [w for w in self.workers if _may_run(w) and w["metadata"]["name"] not in names]

    @property
    def has_minimum(self) -> bool:
        """Whether leader and minimum are bound."""
        bound = [w for w in self.counted if _node(w)]
        return bool(self.led and _node(self.led)) and len(bound) >= self.spec["minWorkersNum"]

    @property
    def is_up(self) -> bool:
        """Whether the leader runs and enough workers are ready or through."""
        up = [w for w in self.counted if _ready(w) or w["status"].get("phase") == "Succeeded"]
        leader = self.led
        runs = leader is not None and leader["status"].get("phase") == "Running"
        return runs and bool(_address(leader)) and len(up) >= self.spec["minWorkersNum"]

    def ended(self) -> Object:
        return {
            "readyWorkers": sum(map(_ready, self.all_workers)),
            "allocations": self._told(_allocations(self.pods)),
            "leaderAddress": _address(self.leader),
        }

    def open(self) -> Object:
        if not self.valid:
            return self.ended()
        pods = [*([self.led] if self.led else []), *self.workers]
        placed = _allocations(pods)
        whole = len(placed) == 1 + len(self.names)
        return {
            "totalWorkers": len(self.names),
            "readyWorkers": sum(map(_ready, self.workers)),
            "allocations": self._told(placed),
            "leaderAddress": _address(self.led),
            "scheduleState": "ScheduledSucceed"
            if whole
            else "ScheduledPartly"
            if placed
            else "Unscheduled",
        }

    def _told(self, placed: dict[str, str]) -> list[Object] | None:
        """The allocations as they must be, in the order in which they are told."""
        order = [each["pod"] for each in self.status.get("allocations", [])]
        names = sorted(
            placed,
            key=lambda name: (name not in order, order.index(name) if name in order else 0, name),
        )
        return [{"pod": name, "node": placed[name]} for name in names] or None

    def stage_faults(self) -> list[str]:
        stage, faults = self.status["stage"], []
        if stage in ENDED:
            ends = self.conditions.get(stage, {})
            if (ends.get("status"), ends.get("reason")) != ("True", self.status.get("reason")):
                faults.append(f"no condition {stage} with the reason of the status")
            return faults
        if self.spec.get("terminating"):
            faults.append(f"{stage} though terminating is set")
        if self.leader is not None and self.leader["status"].get("phase") == "Succeeded":
            faults.append(f"{stage} though the leader has ended well")
        if not self.valid:
            return faults
        if stage == "Running" and not self.has_minimum:
            faults.append("Running though fewer than the minimum have nodes")
        if stage in ("Starting", "Rescheduling") and self.is_up:
            faults.append(f"{stage} though leader and minimum are ready")
        if stage == "Pending" and self._may_start():
            faults.append("Pending though there are nodes to start on")
        if (self.conditions["Scheduled"]["status"] == "True") != self.has_minimum:
            faults.append("the condition Scheduled is wrong")
        return [*faults, *self._message_faults()]

    def _may_start(self) -> bool:
        policy = self.spec.get("schedulerPolicy", {}).get("basicPolicy", ["Gang", "BinPack"])
        if "Gang" in ([policy] if isinstance(policy, str) else policy):
            return self.has_minimum
        pods = [*([self.led] if self.led else []), *self.workers]
        return any(_node(pod) and _may_run(pod) for pod in pods)

    def _message_faults(self) -> list[str]:
        """What the condition says of a pod that waits is what one of the pods says."""
        scheduled = self.conditions["Scheduled"]
        said = [c["message"] for pod in self.pods if (c := _unschedulable(pod))]
        message = scheduled.get("message")
        if scheduled["status"] == "True" or not message or self.has_minimum or message in said:
            return []
        return [f"no pod says {message!r}"]


def _time_faults(job: Object, status: Object, now: datetime) -> list[str]:
    times = [job["metadata"]["creationTimestamp"]]
    times += [status[name] for name in ("startTime", "completionTime") if name in status]
    faults = []
    order = [datetime.fromisoformat(time) for time in times]
    if order != sorted(order) or order[-1] > now:
        faults.append(f"times out of order: {times}")
    if ("completionTime" in status) != (status["stage"] in ENDED):
        faults.append("completionTime belongs to the end")
    if status["stage"] in ("Running", "Rescheduling") and "startTime" not in status:
        faults.append("it ran and has no startTime")
    return faults


def _allocations(pods: Iterable[Object]) -> dict[str, str]:
    placed = {}
    for pod in pods:
        node = _node(pod) or pod["status"].get("nominatedNodeName", "")
        if node and "deletionTimestamp" not in pod["metadata"]:
            placed[pod["metadata"]["name"]] = node
    return placed


def _role(pod: Object) -> str:
    return str(pod["metadata"]["labels"].get("arranger.io/role", ""))


def _node(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _may_run(pod: Object) -> bool:
    return pod["status"].get("phase") != "Failed" and "deletionTimestamp" not in pod["metadata"]


def _ready(pod: Object) -> bool:
    told = (c for c in pod["status"].get("conditions", []) if c["type"] == "Ready")
    runs = pod["status"].get("phase") == "Running" and _may_run(pod)
    return runs and any(c["status"] == "True" for c in told)


def _address(leader: Object | None) -> str | None:
    if leader is None or not _may_run(leader) or leader["status"].get("phase") == "Succeeded":
        return None
    return leader["status"].get("podIP") or None


def _unschedulable(pod: Object) -> Mapping[str, str] | None:
    conditions = pod["status"].get("conditions", [])
    told = (c for c in conditions if (c["type"], c["status"]) == ("PodScheduled", "False"))
    return None if _node(pod) else next(told, None)
