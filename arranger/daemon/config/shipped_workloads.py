"""The kinds of ``gangs.workloads`` that are there without being configured.

Each is written as in the file. Where a field is read as its operator reads it, the operator's
source is named in ``docs/guide/workloads.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_KUBEFLOW_ROLE: Final = (
    'first(pod.labels["training.kubeflow.org/replica-type"],'
    ' pod.labels["training.kubeflow.org/job-role"])'
)
_POLICY: Final = "spec.runPolicy.schedulingPolicy"


def _kubeflow(
    kind: str, resource: str, specs: str, members: str = "first(role.replicas, 1)", **more: Any
) -> Mapping[str, Any]:
    """A job of the training operator: a map of replica types."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "resource": resource,
        "roles": [{"each": f"spec.{specs}", "name": "key", "minimum": members}],
        "role": _KUBEFLOW_ROLE,
        "minimum": f"{_POLICY}.minAvailable",
        "queue": f"{_POLICY}.queue",
        "waitTime": f"{_POLICY}.scheduleTimeoutSeconds",
        **more,
    }


_ELASTIC: Final = (
    "first(min(spec.elasticPolicy.minReplicas, first(role.replicas, 1)), role.replicas, 1)"
    ' if key == "Worker" else first(role.replicas, 1)'
)
_WAITS_FOR_WORKERS: Final = 'spec.launcherCreationPolicy == "WaitForWorkersReady"'

_EXCLUSIVE: Final = '["alpha.jobset.sigs.k8s.io/exclusive-topology"]'
_NODE_SELECTOR: Final = '["alpha.jobset.sigs.k8s.io/node-selector"]'

_LWS_SIZE: Final = (
    'first(pod.annotations["leaderworkerset.sigs.k8s.io/size"], spec.leaderWorkerTemplate.size, 1)'
)

SHIPPED_WORKLOADS: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "resource": "jobs",
        "enabled": False,
        # The pods that run at once, and no more than are still to succeed.
        "minimum": (
            "min(first(spec.parallelism, 1), spec.completions - first(status.succeeded, 0))"
        ),
    },
    _kubeflow("PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs", _ELASTIC),
    _kubeflow("TFJob", "tfjobs", "tfReplicaSpecs"),
    _kubeflow("XGBoostJob", "xgboostjobs", "xgbReplicaSpecs"),
    _kubeflow("PaddleJob", "paddlejobs", "paddleReplicaSpecs", _ELASTIC),
    _kubeflow("JAXJob", "jaxjobs", "jaxReplicaSpecs"),
    _kubeflow(
        "MPIJob",
        "mpijobs",
        "mpiReplicaSpecs",
        f'0 if key == "Launcher" and {_WAITS_FOR_WORKERS} else first(role.replicas, 1)',
        apiVersion="kubeflow.org/v2beta1",
        otherVersions=["v1"],
        label="training.kubeflow.org/job-name",
        through=["Job"],
        minimum=f"{_POLICY}.minAvailable - (1 if {_WAITS_FOR_WORKERS} else 0)",
    ),
    {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "resource": "jobsets",
        "label": "jobset.sigs.k8s.io/jobset-name",
        "through": ["Job"],
        "uidLabel": "jobset.sigs.k8s.io/jobset-uid",
        "roles": [
            {
                "each": "spec.replicatedJobs",
                "name": "role.name",
                "minimum": (
                    f"0 if role.template.metadata.annotations{_EXCLUSIVE}"
                    f" and not role.template.metadata.annotations{_NODE_SELECTOR}"
                    " else first(role.replicas, 1) * first(min(role.template.spec.parallelism,"
                    " role.template.spec.completions), role.template.spec.parallelism, 1)"
                ),
            }
        ],
        "role": 'pod.labels["jobset.sigs.k8s.io/replicatedjob-name"]',
        "gang": ['pod.labels["jobset.sigs.k8s.io/restart-attempt"]'],
        "gangPerRole": (
            'spec.startupPolicy.startupPolicyOrder == "InOrder" or spec.replicatedJobs.dependsOn'
        ),
        # The other pods of a Job are made only when its first one has a node.
        "alone": f"pod.annotations{_EXCLUSIVE} and not pod.annotations{_NODE_SELECTOR}",
    },
    {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "resource": "leaderworkersets",
        "label": "leaderworkerset.sigs.k8s.io/name",
        "through": ["StatefulSet"],
        "roles": [
            {"name": '"leader"', "minimum": "1"},
            {"name": '"worker"', "minimum": f"{_LWS_SIZE} - 1"},
        ],
        "role": (
            '"leader" if pod.labels["leaderworkerset.sigs.k8s.io/worker-index"] == "0"'
            ' else "worker"'
        ),
        "gang": [
            'pod.labels["leaderworkerset.sigs.k8s.io/group-index"]',
            'pod.labels["leaderworkerset.sigs.k8s.io/template-revision-hash"]',
        ],
        "gangPerRole": (
            'spec.startupPolicy == "LeaderReady"'
            ' or metadata.annotations["leaderworkerset.sigs.k8s.io/exclusive-topology"]'
        ),
    },
    {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "resource": "rayclusters",
        "otherVersions": ["v1alpha1"],
        "roles": [
            {"name": '"headgroup"', "minimum": "1"},
            {
                "each": "spec.workerGroupSpecs",
                "name": "role.groupName",
                "minimum": (
                    "(0 if role.suspend else first(role.minReplicas, 0)"
                    " if spec.enableInTreeAutoscaling else"
                    " min(max(first(role.replicas, 0), first(role.minReplicas, 0)),"
                    " first(role.maxReplicas, 1000000))) * first(role.numOfHosts, 1)"
                ),
            },
        ],
        "role": 'pod.labels["ray.io/group"]',
        "queue": 'metadata.labels["volcano.sh/queue-name"]',
    },
    {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "resource": "sparkapplications",
        "label": "sparkoperator.k8s.io/app-name",
        "through": ["Pod"],
        # As many as the driver makes at once: older versions of Spark make the next ones only when
        # these run.
        "roles": [
            {
                "name": '"executor"',
                "minimum": (
                    "min(first(spec.dynamicAllocation.minExecutors, 0)"
                    " if spec.dynamicAllocation.enabled else first(spec.executor.instances, 1),"
                    ' first(spec.sparkConf["spark.kubernetes.allocation.batch.size"], 5))'
                ),
            }
        ],
        "role": 'pod.labels["spark-role"]',
        "gang": ['pod.labels["spark-app-selector"]'],
        # The driver makes its executors.
        "alone": 'pod.labels["spark-role"] != "executor"',
        "queue": "spec.batchSchedulerOptions.queue",
    },
    {
        # Its steps come one after another: a gang only where the workflow says how many by
        # annotation.
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "resource": "workflows",
    },
)
