"""Owners of pods, and the pods as their operators make them.

Labels, annotations and owner references are those that the operators' sources set: the training
operator 1.8, the MPI operator 0.6, JobSet 0.8, LeaderWorkerSet 0.6, KubeRay 1.3, the Spark operator
2 with Spark 3, Argo Workflows 3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from arranger.api.types.workloads import Workload
from tests.builders.base import ManifestBuilder
from tests.builders.pods import PodBuilder, a_pod

API_VERSIONS: Final = {
    "Job": "batch/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "TFJob": "kubeflow.org/v1",
    "XGBoostJob": "kubeflow.org/v1",
    "PaddleJob": "kubeflow.org/v1",
    "JAXJob": "kubeflow.org/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "RayCluster": "ray.io/v1",
    "SparkApplication": "sparkoperator.k8s.io/v1beta2",
    "Workflow": "argoproj.io/v1alpha1",
}
_SPECS: Final = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}


class WorkloadBuilder(ManifestBuilder):
    """See :func:`an_owner`."""

    def build(self) -> Workload:
        return msgspec.json.decode(json.dumps(self._manifest), type=Workload)

    @property
    def kind(self) -> str:
        return str(self._manifest["kind"])

    @property
    def name(self) -> str:
        return str(self._manifest["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self._manifest["metadata"]["uid"])


def an_owner(kind: str, name: str = "train", **spec: Any) -> WorkloadBuilder:
    """The object ``default/<name>`` of one of the shipped kinds."""
    return WorkloadBuilder(
        {
            "apiVersion": API_VERSIONS[kind],
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid_of(name),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": spec,
        }
    )


def a_job_set(*, order: str = "", **jobs: tuple[int, int]) -> WorkloadBuilder:
    """A JobSet of replicated Jobs: name → (replicas, parallelism)."""
    listed = [
        {
            "name": name,
            "replicas": count,
            "template": {"spec": {"parallelism": pods, "completions": pods}},
        }
        for name, (count, pods) in jobs.items()
    ]
    policy = {"startupPolicy": {"startupPolicyOrder": order}} if order else {}
    return an_owner("JobSet", replicatedJobs=listed, **policy)


def uid_of(name: str) -> str:
    """A uid that begins with the letters of a name, as far as they may be in one."""
    letters = "".join(letter for letter in name if letter in "0123456789abcdef")
    return f"{letters[:8]:0<8}-0000-4000-8000-000000000000"


def replicas(kind: str, name: str = "train", /, **roles: int | None) -> WorkloadBuilder:
    """A job of the training operator or the MPI operator, with these replica types."""
    specs = {
        role: {"template": {}} if count is None else {"replicas": count, "template": {}}
        for role, count in roles.items()
    }
    return an_owner(kind, name, **{_SPECS[kind]: specs})


def controlled(pod: PodBuilder, api_version: str, kind: str, name: str, uid: str) -> PodBuilder:
    """A pod with a controller, made a second after it."""
    reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
    made = pod.created("2026-01-01T00:00:01Z")
    return made._append("metadata", ownerReferences={**reference, "controller": True})


def owned(
    owner: WorkloadBuilder, suffix: str, labels: Mapping[str, str] | None = None
) -> PodBuilder:
    """A pod that the owner itself controls."""
    pod = a_pod(f"{owner.name}-{suffix}").labelled(labels or {})
    return controlled(pod, API_VERSIONS[owner.kind], owner.kind, owner.name, owner.uid)


def kubeflow_pods(owner: WorkloadBuilder, **roles: int) -> list[PodBuilder]:
    """Pods of the training operator, of each role so many."""
    prefix = "training.kubeflow.org/"
    return [
        owned(
            owner,
            f"{role.lower()}-{n}",
            {
                f"{prefix}job-name": owner.name,
                f"{prefix}operator-name": f"{owner.kind.lower()}-controller",
                f"{prefix}replica-type": role.lower(),
                f"{prefix}replica-index": str(n),
            },
        )
        for role, count in roles.items()
        for n in range(count)
    ]


def mpi_pods(owner: WorkloadBuilder, workers: int, launchers: int = 1) -> list[PodBuilder]:
    """Pods of the MPI operator: workers of its own, and the launcher of a Job."""
    prefix = "training.kubeflow.org/"
    labels = {f"{prefix}job-name": owner.name, f"{prefix}operator-name": "mpi-operator"}
    pods = [
        owned(
            owner,
            f"worker-{n}",
            {**labels, f"{prefix}job-role": "worker", f"{prefix}replica-index": str(n)},
        )
        for n in range(workers)
    ]
    launcher = a_pod(f"{owner.name}-launcher-x").labelled(
        {**labels, f"{prefix}job-role": "launcher"}
    )
    job = f"{owner.name}-launcher"
    return [controlled(launcher, "batch/v1", "Job", job, uid_of(job))] * launchers + pods


def job_pods(owner: WorkloadBuilder, count: int) -> list[PodBuilder]:
    """Pods of a plain Job."""
    prefix = "batch.kubernetes.io/"
    return [
        owned(
            owner,
            str(n),
            {f"{prefix}job-name": owner.name, f"{prefix}job-completion-index": str(n)},
        )
        for n in range(count)
    ]


def job_set_pods(
    owner: WorkloadBuilder, role: str, jobs: int, pods_each: int, *, attempt: int = 0
) -> list[PodBuilder]:
    """Pods of one replicated Job of a JobSet."""
    prefix = "jobset.sigs.k8s.io/"
    found = []
    for job in range(jobs):
        name = f"{owner.name}-{role}-{job}"
        labels = {
            f"{prefix}jobset-name": owner.name,
            f"{prefix}jobset-uid": owner.uid,
            f"{prefix}replicatedjob-name": role,
            f"{prefix}restart-attempt": str(attempt),
            f"{prefix}job-index": str(job),
        }
        for n in range(pods_each):
            pod = a_pod(f"{name}-{n}-a{attempt}").labelled(labels)
            pod = pod.annotated({"batch.kubernetes.io/job-completion-index": str(n)})
            found.append(controlled(pod, "batch/v1", "Job", name, uid_of(name)))
    return found


def lws_pods(
    owner: WorkloadBuilder, group: int, size: int, *, revision: str = "r1", leaders: int = 1
) -> list[PodBuilder]:
    """Pods of one group of a LeaderWorkerSet, the leader first."""
    prefix = "leaderworkerset.sigs.k8s.io/"
    found = []
    for n in range(1 - leaders, size):
        name = f"{owner.name}-{group}" + (f"-{n}" if n else "")
        stateful_set = owner.name if n == 0 else f"{owner.name}-{group}"
        labels = {
            f"{prefix}name": owner.name,
            f"{prefix}group-index": str(group),
            f"{prefix}worker-index": str(n),
            f"{prefix}template-revision-hash": revision,
        }
        pod = a_pod(name).labelled(labels).annotated({f"{prefix}size": str(size)})
        kind = "StatefulSet"
        found.append(controlled(pod, "apps/v1", kind, stateful_set, uid_of(stateful_set)))
    return found


def ray_pods(owner: WorkloadBuilder, **groups: int) -> list[PodBuilder]:
    """Pods of a RayCluster: the head, and those of the worker groups."""
    pods = {"headgroup": 1, **groups}
    return [
        owned(
            owner,
            f"{group}-{n}",
            {
                "ray.io/cluster": owner.name,
                "ray.io/group": group,
                "ray.io/node-type": "head" if group == "headgroup" else "worker",
            },
        )
        for group, count in pods.items()
        for n in range(count)
    ]


def spark_pods(owner: WorkloadBuilder, executors: int) -> list[PodBuilder]:
    """The driver of a SparkApplication, and the executors that the driver makes."""
    labels = {
        "sparkoperator.k8s.io/app-name": owner.name,
        "spark-app-selector": f"spark-{owner.name}",
    }
    driver = owned(owner, "driver", {**labels, "spark-role": "driver"})
    meta = driver.manifest()["metadata"]
    return [driver] + [
        controlled(
            a_pod(f"{owner.name}-exec-{n}").labelled({**labels, "spark-role": "executor"}),
            "v1",
            "Pod",
            meta["name"],
            meta["uid"],
        )
        for n in range(executors)
    ]
