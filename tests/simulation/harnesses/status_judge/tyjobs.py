"""What TYJobs must say, by ``docs/guide/tyjob.md``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from tests.simulation.harnesses.status_judge.fields import (
    Object,
    Server,
    condition_faults,
    differ,
    in_order,
)

ENDED = ("Succeeded", "Failed")
#: Reasons of a failed pod that are not its own fault.
NODE_FAILURES = ("Evicted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated")
#: How the reasons begin for which kubelets refuse pods in simulations.
REFUSALS = ("OutOf", "TopologyAffinityError", "NodePorts", "PodOSNotSupported")
#: Reasons of a container for which its image is tried again.
IMAGE_TRIES = ("ErrImagePull", "ImagePullBackOff")
#: Why a job that ran is being put together again.
LOSSES = ("LeaderFailed", "LeaderLost", "WorkersLost")


def tyjob_faults(cluster: Server, now: datetime) -> Iterator[str]:
    """What is untrue in the status of TYJobs."""
    pods = cluster.objects("pods")
    for job in cluster.objects("tyjobs", "arranger.io"):
        uid = job["metadata"]["uid"]
        owned = [
            p for p in pods if uid in (o["uid"] for o in p["metadata"].get("ownerReferences", []))
        ]
        for fault in _faults_of(job, owned, now):
            yield f"TYJob {job['metadata']['name']}: {fault}"


def _faults_of(job: Object, pods: list[Object], now: datetime) -> list[str]:
    status = job.get("status") or {}
    if "deletionTimestamp" in job["metadata"]:
        return []
    if "stage" not in status:
        return ["there is no stage"]
    view = _View(job, pods)
    expected = view.ended() if status["stage"] in ENDED else view.open()
    faults = [
        f"{name} is {status.get(name)!r} and must be {value!r}"
        for name, value in expected.items()
        if status.get(name) != value
    ]
    faults += [*view.stage_faults(), *_time_faults(job, status, now)]
    return [*faults, *view.reason_faults(), *view.restart_faults(), *_of_conditions(view, job, now)]


class _View:
    """One job and its pods."""

    def __init__(self, job: Object, pods: list[Object]) -> None:
        self.name: str = job["metadata"]["name"]
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
    def gone(self) -> set[str]:
        """Workers that the status notes as through, and that have no pod that may run."""
        failed, limit = self.status.get("workerRestarts", {}), self.spec.get("restartLimit", 3)
        noted = {
            f"{self.name}-{part}-{number}"
            for part, text in self.status.get("succeededWorkers", {}).items()
            for numbers in text.split(",")
            for number in _range(numbers)
        }
        there = {pod["metadata"]["name"] for pod in self.workers if _may_run(pod)}
        given_up = {name for name, times in failed.items() if times > limit}
        return (noted & self.names) - there - given_up if self.led else set()

    @property
    def has_minimum(self) -> bool:
        """Whether leader and minimum are bound, or through."""
        bound = len([w for w in self.counted if _node(w)]) + len(self.gone)
        return bool(self.led and _node(self.led)) and bound >= self.spec["minWorkersNum"]

    @property
    def is_up(self) -> bool:
        """Whether the leader runs and enough workers are ready or through."""
        up = [w for w in self.counted if _ready(w) or w["status"].get("phase") == "Succeeded"]
        leader = self.led
        runs = leader is not None and leader["status"].get("phase") == "Running"
        enough = len(up) + len(self.gone)
        return runs and bool(_address(leader)) and enough >= self.spec["minWorkersNum"]

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
        whole = len(placed) + len(self.gone) == 1 + len(self.names)
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
        return faults

    def _may_start(self) -> bool:
        policy = self.spec.get("schedulerPolicy", {}).get("basicPolicy", ["Gang", "BinPack"])
        if "Gang" in ([policy] if isinstance(policy, str) else policy):
            return self.has_minimum
        pods = [*([self.led] if self.led else []), *self.workers]
        return any(_node(pod) and _may_run(pod) for pod in pods)

    @property
    def image_trouble(self) -> str | None:
        """What it says while the leader's image is tried for; None where it is not."""
        statuses = self.led["status"].get("containerStatuses") or [] if self.led else []
        reasons = [(each.get("state") or {}).get("waiting", {}).get("reason") for each in statuses]
        said = str(self.status.get("message"))
        tried = any(reason in IMAGE_TRIES and str(reason) in said for reason in reasons)
        return said if tried and "cannot get its image, which is tried for until" in said else None

    @property
    def told(self) -> set[tuple[str | None, str | None]]:
        """(reason, message) of the pods of this attempt that wait."""
        pods = [*([self.led] if self.led else []), *self.workers]
        found = [c for pod in pods if (c := _unschedulable(pod))]
        told = {(c.get("reason") or None, c.get("message") or None) for c in found}
        # One that can never have a node goes before, with a reason of its own.
        return told | {("Unsatisfiable", message) for _, message in told if message}

    @property
    def waits_for(self) -> set[tuple[str | None, str | None]]:
        """What it may say while it waits for nodes."""
        return self.told or {(None, None)}

    def reason_faults(self) -> Iterator[str]:
        """Why it is in its stage."""
        stage, have = self.status["stage"], (self.status.get("reason"), self.status.get("message"))
        valid = self.conditions.get("Valid", {})
        if stage in ENDED:
            yield from differ("message", have[1], self.conditions.get(stage, {}).get("message"))
        elif valid.get("status") == "False" and have[0] == valid.get("reason"):
            yield from differ("message", have[1], valid.get("message"))
        elif not self.valid:
            yield from differ("reason", have[0], "Invalid")
        else:
            up = [w for w in self.counted if _ready(w) or w["status"].get("phase") == "Succeeded"]
            least, total = self.spec["minWorkersNum"], len(self.names)
            not_ready = f"{len(up) + len(self.gone)} of {total} workers are ready, {least} must be"
            trouble = self.image_trouble
            not_ready = trouble or not_ready
            may: set[tuple[str | None, str | None]] = self.waits_for
            if stage == "Rescheduling":
                text = have[1] if not self.has_minimum and not self.told else not_ready
                texts = {m for _, m in self.told} if not self.has_minimum and self.told else {text}
                may = {(reason, text) for reason in LOSSES for text in texts}
            elif stage == "Starting" and self.has_minimum:
                may = {("LeaderImage" if trouble else "NotReady", not_ready)}
            elif stage == "Running" and self.status.get("scheduleState") == "ScheduledSucceed":
                may = {(None, None)}
            if have not in may:
                yield f"{stage} because of {have}, and it may be {sorted(may, key=str)}"

    def restart_faults(self) -> Iterator[str]:
        """Failures, by what each pod says of those before it."""
        for name in self.status.get("workerRestarts") or {}:
            if not name.startswith(f"{self.name}-"):
                yield f"workerRestarts of {name}, which is no pod of it"
        if self.status["stage"] in ENDED or not self.valid:
            return
        if self.leader is not None and "deletionTimestamp" not in self.leader["metadata"]:
            yield from differ("restarts", self.status.get("restarts"), _failures(self.leader))
        counted = self.status.get("workerRestarts") or {}
        for worker in (w for w in self.workers if "deletionTimestamp" not in w["metadata"]):
            name = worker["metadata"]["name"]
            yield from differ(f"workerRestarts of {name}", counted.get(name, 0), _failures(worker))


def _of_conditions(view: _View, job: Object, now: datetime) -> Iterator[str]:
    stage, known, meta = view.status["stage"], view.conditions, job["metadata"]
    must: dict[str, tuple[str, str, Iterable[str]]] = {}
    generation: dict[str, int] = {}
    if stage in ENDED:
        must[stage] = ("True", view.status.get("reason", ""), [view.status.get("message", "")])
        # What it said before stays.
        must |= {
            t: _as_it_is(c) for t, c in known.items() if t in ("Scheduled", "Valid", "UpToDate")
        }
    elif not view.valid:
        must |= {t: _as_it_is(c) for t, c in known.items() if t in ("Scheduled", "UpToDate")}
    elif view.has_minimum:
        must["Scheduled"] = ("True", "Scheduled", [""])
    else:
        said = known.get("Scheduled", {})
        mine = {(r or "Waiting", m or "") for r, m in view.waits_for}
        reason = said.get("reason", "")
        must["Scheduled"] = ("False", reason, [m for r, m in mine if r == reason])
    if "Valid" in known:
        if stage not in ENDED:
            generation["Valid"] = meta["generation"]
            accepted = known["Valid"]["status"] == "True"
            must["Valid"] = ("True", "Accepted", [""]) if accepted else _as_it_is(known["Valid"])
        else:
            generation["Valid"] = known["Valid"].get("observedGeneration", 0)
    if "UpToDate" in known and stage not in ENDED and view.valid:
        if known["UpToDate"]["status"] == "True":
            must["UpToDate"] = ("True", "UpToDate", [""])
        else:
            text = known["UpToDate"].get("message", "")
            names = [pod["metadata"]["name"] for pod in view.pods if _node(pod)]
            fits = any(name in text for name in names)
            must["UpToDate"] = ("False", "PodsOutdated", [text] if fits else [])
    yield from condition_faults(
        known.values(), must, since=meta["creationTimestamp"], now=now, generation=generation
    )


def _as_it_is(condition: Object) -> tuple[str, str, Iterable[str]]:
    said = condition.get("reason") or "", condition.get("message") or ""
    return condition["status"], said[0], [said[1]]


def _failures(pod: Object) -> int:
    """Of the pods of a replica so far, and of the containers of this one."""
    status = pod["status"]
    containers = [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ]
    again = max((each.get("restartCount", 0) for each in containers), default=0)
    disrupted = any(c["type"] == "DisruptionTarget" for c in status.get("conditions", []))
    blameless = disrupted or status.get("reason", "").startswith((*NODE_FAILURES, *REFUSALS))
    failed = status.get("phase") == "Failed" and not blameless
    return int(pod["metadata"]["annotations"].get("arranger.io/restarts", 0)) + again + failed


def _time_faults(job: Object, status: Object, now: datetime) -> Iterator[str]:
    ended = status["stage"] in ENDED
    times = [job["metadata"]["creationTimestamp"], status.get("startTime")]
    yield from in_order("times", [*times, status.get("completionTime")], now)
    conditions = {c["type"]: c for c in status.get("conditions", [])}
    since = conditions.get(status["stage"], {}).get("lastTransitionTime") if ended else None
    yield from differ("completionTime", status.get("completionTime"), since)
    if status["stage"] in ("Running", "Rescheduling") and "startTime" not in status:
        yield "it ran and has no startTime"


def _allocations(pods: Iterable[Object]) -> dict[str, str]:
    placed = {}
    for pod in pods:
        node = _node(pod) or pod["status"].get("nominatedNodeName", "")
        if node and "deletionTimestamp" not in pod["metadata"]:
            placed[pod["metadata"]["name"]] = node
    return placed


def _range(text: str) -> range:
    """The numbers of ``3`` and of ``3-7``."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


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


def _unschedulable(pod: Object) -> Object | None:
    conditions = pod["status"].get("conditions", [])
    told = (c for c in conditions if (c["type"], c["status"]) == ("PodScheduled", "False"))
    return None if _node(pod) else next(told, None)
