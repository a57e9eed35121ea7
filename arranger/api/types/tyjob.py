"""TYJob and the pods it is made of, with the fields that its controller reads.

See ``docs/design/tyjob.md``.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import msgspec

from arranger.api.annotations import BUNDLE_TIMEOUT, GANG_TIMEOUT, RESTARTS, ROLE, SPEC_HASH
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import convert_object
from arranger.api.parsing.scalars import parse_int_or
from arranger.api.types.core import ObjectMeta, StatusCondition, Struct
from arranger.api.types.job_limits import (
    MAX_LABEL,
    MAX_PARTS,
    MAX_POLICIES,
    MAX_VOLUMES,
    check_number,
    check_pods,
)
from arranger.api.types.job_pods import ControlledPod
from arranger.api.types.pod_templates import encoded_bytes, template_problem, volumes_problem

GROUP: Final = "arranger.io"
API_VERSION: Final = f"{GROUP}/v1alpha1"

LEADER: Final = "leader"
WORKER: Final = "worker"

#: The priority of a job that states none, and what the queue counts others as that are no jobs.
DEFAULT_PRIORITY: Final = 5
#: The leader's container port of this name is the one that the ranks meet at.
MASTER_PORT_NAME: Final = "master"

GANG: Final = "Gang"
#: The basic policies that are scores of the scheduler.
PLACEMENT_POLICIES: Final = (
    "BinPack",
    "LeaderFirst",
    "MinFragment",
    "JobAffinity",
    "JobAntiAffinity",
)

#: The name of a TYJob is that of its Service, and begins the host names of its pods.
_SERVICE_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class Leader(Struct):
    """``spec.leader``."""

    name: str = ""
    template: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check its name, which is part of its pods' names.

        Raises:
            ValueError: it is too long.
        """
        check_number("characters of a name", len(self.name), MAX_LABEL)


class WorkerSet(Leader):
    """``spec.workerSets[]``."""

    counts: int = 1


class SchedulerPolicy(Struct):
    """``spec.schedulerPolicy``; ``basicPolicy`` is one or a list."""

    job_queue_policy: str = ""
    basic_policy: str | list[str] = msgspec.field(default_factory=lambda: [GANG, "BinPack"])


class TYJobSpec(Struct):
    """``spec``."""

    leader: Leader
    worker_sets: list[WorkerSet]
    restart_limit: int = 3
    volumes: list[dict[str, Any]] = msgspec.field(default_factory=list)
    min_workers_num: int = 1
    priority: int = DEFAULT_PRIORITY
    queue: str = "default"
    scheduling_timeout_seconds: float | None = None
    scheduler_policy: SchedulerPolicy = msgspec.field(default_factory=SchedulerPolicy)

    def __post_init__(self) -> None:
        """Check its size.

        Raises:
            ValueError: it is larger than a job may be.
        """
        check_number("workerSets", len(self.worker_sets), MAX_PARTS)
        check_pods([1, *(part.counts for part in self.worker_sets)])
        check_number("volumes", len(self.volumes), MAX_VOLUMES)
        if not isinstance(self.scheduler_policy.basic_policy, str):
            policies = len(self.scheduler_policy.basic_policy)
            check_number("basic policies", policies, MAX_POLICIES)


@dataclass(frozen=True, slots=True)
class Replica:
    """One leader or worker of a job.

    Attributes:
        set_name: the name of the leader or of its set of workers.
        rank: 0 for the leader, then the workers in the order of their sets.
    """

    pod: str
    role: str
    set_name: str
    rank: int
    template: dict[str, Any]


class TYJob(msgspec.Struct, rename="camel", dict=True):
    """A TYJob; ``spec`` is None where it cannot be decoded, and ``problem`` says why.

    Attributes:
        terminating: ``spec.terminating``, which counts whatever else the spec says.
        clean_pod_policy: ``spec.cleanPodPolicy``, likewise.
        packed: its spec as JSON, in place of ``spec``, where it is kept so.
    """

    metadata: ObjectMeta
    spec: TYJobSpec | None = None
    status: dict[str, Any] = msgspec.field(default_factory=dict)
    problem: str = ""
    terminating: bool = False
    clean_pod_policy: str = "All"
    packed: bytes = b""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def valid_spec(self) -> TYJobSpec:
        """The spec of a job for which :func:`validate_tyjob` has found no problem."""
        assert self.spec is not None, "validate_tyjob refuses jobs without a spec"
        return self.spec

    @property
    def size(self) -> int:
        """How many pods it is to have."""
        return 1 + sum(part.counts for part in self.spec.worker_sets) if self.spec else 0

    @cached_property
    def weight(self) -> int:
        """Bytes that are gone through to tell whether its pods are as its spec says.

        Its volumes count once for each part of it.
        """
        parts = [self.spec.leader, *self.spec.worker_sets] if self.spec else []
        volumes = encoded_bytes(self.spec.volumes) if self.spec else 0
        return sum(encoded_bytes(part.template) + volumes for part in parts)

    @cached_property
    def replicas(self) -> tuple[Replica, ...]:
        """The leader and the workers, by rank."""
        if self.spec is None:
            return ()
        job, leader = self.metadata.name, self.spec.leader
        workers = [
            (f"{job}-{part.name}-{number}", part)
            for part in self.spec.worker_sets
            for number in range(part.counts)
        ]
        return (
            Replica(f"{job}-{leader.name}-0", LEADER, leader.name, 0, leader.template),
            *(
                Replica(name, WORKER, part.name, rank, part.template)
                for rank, (name, part) in enumerate(workers, start=1)
            ),
        )

    @property
    def policies(self) -> tuple[str, ...]:
        """The basic policies."""
        policy = self.spec.scheduler_policy.basic_policy if self.spec else ()
        return (policy,) if isinstance(policy, str) else tuple(policy)


def parse_tyjob(body: dict[str, Any]) -> TYJob:
    """A TYJob from an object of the API, whatever its spec looks like."""
    given = body.get("spec")
    spec = given if isinstance(given, dict) else {}
    known = {
        "metadata": body["metadata"],
        "status": body.get("status") or {},
        "terminating": spec.get("terminating") is True,
        "cleanPodPolicy": str(spec.get("cleanPodPolicy", "All")),
    }
    try:
        return convert_object({**known, "spec": given}, TYJob, strict=False)
    except ParseError as error:
        return convert_object({**known, "problem": str(error)}, TYJob, strict=False)


def validate_tyjob(job: TYJob) -> list[str]:
    """What keeps a job from being run, as sentences for its owner.

    What the schema of the CRD checks is not checked again.
    """
    if job.spec is None:
        return [job.problem or "it has no spec"]
    spec, name = job.spec, job.metadata.name
    problems = []
    if not _SERVICE_NAME.fullmatch(name):
        problems.append(f"the name {name!r} cannot be that of a Service: {_SERVICE_NAME.pattern}")
    longest = max((place.pod for place in job.replicas), key=len)
    if len(longest) > MAX_LABEL:
        problems.append(f"pod name {longest!r} is longer than {MAX_LABEL} characters")
    parts = Counter([spec.leader.name, *(part.name for part in spec.worker_sets)])
    problems += [f"two parts have the name {part!r}" for part, n in parts.items() if n > 1]
    workers = len(job.replicas) - 1
    if spec.min_workers_num > workers:
        problems.append(f"minWorkersNum is {spec.min_workers_num} of {workers} workers")
    parts_of_pods = {
        "volumes": volumes_problem(spec.volumes),
        "leader.template": template_problem(spec.leader.template),
    }
    for part in spec.worker_sets:
        parts_of_pods[f"workerSets[{part.name}].template"] = template_problem(part.template)
    problems += [f"spec.{part}: {why}" for part, why in parts_of_pods.items() if why]
    unknown = [policy for policy in job.policies if policy not in (GANG, *PLACEMENT_POLICIES)]
    problems += [f"there is no basic policy {policy!r}" for policy in unknown]
    if {"JobAffinity", "JobAntiAffinity"} <= set(job.policies):
        problems.append("basicPolicy asks for JobAffinity and for JobAntiAffinity")
    return problems


class ContainerPort(Struct):
    """A port of a container."""

    name: str = ""
    container_port: int = 0


class PortsOfContainer(Struct):
    """The ports of a container."""

    ports: list[ContainerPort] = msgspec.field(default_factory=list)


class TYJobPodSpec(Struct):
    """``spec`` of a pod."""

    node_name: str = ""
    containers: list[PortsOfContainer] = msgspec.field(default_factory=list)


#: Reasons with which a kubelet fails a pod for a cause outside the pod, whether it ran or not.
_NODE_FAILURE_REASONS: Final = frozenset(
    {"Evicted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "NodeAffinity"}
    | {"UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods"}
)


class TYJobPod(ControlledPod):
    """A pod of a TYJob."""

    spec: TYJobPodSpec = msgspec.field(default_factory=TYJobPodSpec)

    @property
    def deletion_deadline(self) -> datetime | None:
        """When it should be gone, its grace included; None while nobody has deleted it."""
        return self.metadata.deletion_timestamp

    @property
    def node(self) -> str:
        """The node that it is bound to, "" while it is not."""
        return self.spec.node_name

    @property
    def decided_node(self) -> str:
        """The node that it is bound to, or else the one that the scheduler keeps for it."""
        return self.spec.node_name or self.status.nominated_node_name

    @property
    def role(self) -> str:
        """``leader`` or ``worker``."""
        return self.metadata.labels.get(ROLE, "")

    @property
    def spec_hash(self) -> str:
        """Digest of what it was made from; "" for a pod of an earlier release."""
        return self.metadata.annotations.get(SPEC_HASH, "")

    @property
    def master_port(self) -> int | None:
        """Its port that is called as :data:`MASTER_PORT_NAME`, if it has one."""
        ports = [port for container in self.spec.containers for port in container.ports]
        return next((p.container_port for p in ports if p.name == MASTER_PORT_NAME), None)

    @property
    def succeeded(self) -> bool:
        """Whether it has ended well, and not because it had to go.

        Who has to go may save its state and exit with 0 though its work is not done.
        """
        return self.status.phase == "Succeeded" and self._ended_by_itself

    @property
    def _ended_by_itself(self) -> bool:
        """Whether it had ended before it was evicted or deleted; not where nobody can tell."""
        began = self.deletion_began
        conditions = (c for c in self.status.conditions if c.status == "True")
        disrupted = next((c for c in conditions if c.type == "DisruptionTarget"), None)
        if began is None and disrupted is None:
            return True
        ends = [status.state.terminated for status in self.status.container_statuses]
        times = [end.finished_at for end in ends if end is not None and end.finished_at is not None]
        if not times or len(times) < len(ends):
            return False
        ended = max(times)
        if began is not None and ended >= began:
            return False
        since = disrupted.last_transition_time if disrupted is not None else began
        return since is not None and ended < since

    @property
    def failed(self) -> bool:
        """Whether it has failed by itself: not evicted, not deleted, not refused by its node."""
        status = self.status
        if status.phase != "Failed" or self.deletion_deadline is not None:
            return False
        disrupted = status.has_true_condition("DisruptionTarget")
        lost = disrupted or status.reason in _NODE_FAILURE_REASONS
        return not lost and not self.refused

    @property
    def active(self) -> bool:
        """Whether it runs, will run or has succeeded, and is not being deleted."""
        lost = self.terminal and not self.succeeded
        return not lost and self.deletion_deadline is None

    @property
    def ready(self) -> bool:
        """Whether it runs and says that it is ready."""
        return self.status.phase == "Running" and self.status.has_true_condition("Ready")

    @property
    def failures(self) -> int:
        """How often this replica has failed: earlier pods, this pod, its containers' restarts.

        Never decreases over the life of a pod, so that it can be read at any time.
        """
        before = parse_int_or(self.metadata.annotations.get(RESTARTS, ""), 0)
        statuses = self.status.all_container_statuses
        again = max((status.restart_count for status in statuses), default=0)
        return before + again + int(self.failed)

    @property
    def unschedulable_condition(self) -> StatusCondition | None:
        """``PodScheduled=False`` of a pod that has no node, None where there is none."""
        if self.node:
            return None
        conditions = (c for c in self.status.conditions if c.type == "PodScheduled")
        return next((c for c in conditions if c.status == "False"), None)

    @property
    def timed_out(self) -> bool:
        """Whether its gang has timed out and is not tried until its owner acts."""
        annotations = self.metadata.annotations
        marked = "true" in (annotations.get(GANG_TIMEOUT), annotations.get(BUNDLE_TIMEOUT))
        return marked and not self.node
