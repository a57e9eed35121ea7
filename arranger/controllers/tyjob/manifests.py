"""The objects that a TYJob is made of, as they are created. Pure.

The whole job is a gang, so all its pods are created at once and the scheduler gives the leader and
``minWorkersNum`` workers their nodes together, or none. Yet the workers need the leader's address,
which nobody knows before it runs, and a pod's environment cannot change. So a worker's variable
refers to a key of a ConfigMap that is written when the address is known: until then its kubelet
keeps the container from starting (``CreateContainerConfigError``) and tries again. Workers that
were gated, or created later, could not be part of the gang; placeholders would have to hand over
their nodes, and other pods might take them first. The key is the leader's uid, so a worker never
starts with the address of a leader that is gone.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Final

from arranger.api import annotations as keys
from arranger.api.types.tyjob import (
    API_VERSION,
    GANG,
    LEADER,
    PLACEMENT_POLICIES,
    WORKER,
    Replica,
    TYJob,
)
from arranger.controllers.runtime.objects import Object, owner_reference

#: PyTorch's own default, as the training operator uses it too.
MASTER_PORT: Final = 23456
#: The leader's container port of this name replaces it.
PORT_NAME: Final = "master"
#: Annotations of the job that say how its gang is placed, and so go on its pods.
_GANG_ANNOTATIONS: Final = (
    keys.GANG_MODE,
    keys.GANG_WAIT,
    keys.GANG_GROUPS,
    keys.GANG_MATCH,
    keys.TOPOLOGY,
)


def leader_config_map_name(job: TYJob) -> str:
    """The name of the ConfigMap with the leader's address."""
    return f"{job.metadata.name}-leader"


def service(job: TYJob) -> Object:
    """The headless Service that gives the pods their host names."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job, job.metadata.name),
        "spec": {
            "clusterIP": "None",
            "selector": {keys.TYJOB: job.metadata.name},
            # Ranks look each other up while they start.
            "publishNotReadyAddresses": True,
            "ports": [{"name": PORT_NAME, "port": _port(job)}],
        },
    }


def leader_config_map(job: TYJob, data: dict[str, str]) -> Object:
    """The ConfigMap with the leader's address."""
    head = {"apiVersion": "v1", "kind": "ConfigMap"}
    return {**head, "metadata": _metadata(job, leader_config_map_name(job)), "data": data}


def pod(
    job: TYJob, replica: Replica, *, scheduler: str, leader: str = "", restarts: int = 0
) -> Object:
    """The pod of one replica.

    Args:
        scheduler: who places it, unless its template names somebody else.
        leader: uid of the leader that a worker is for.
        restarts: how often the pod of this replica has failed before.
    """
    template = deepcopy(replica.template)
    spec, template_metadata = template["spec"], template.get("metadata") or {}
    annotations = {
        **(template_metadata.get("annotations") or {}),
        **_gang_annotations(job, replica),
        **_scheduling_annotations(job),
        keys.RESTARTS: str(restarts),
    }
    labels = {**(template_metadata.get("labels") or {}), keys.ROLE: replica.role}
    if replica.role == WORKER:
        annotations[keys.LEADER_UID] = leader
        labels[keys.WORKER_SET] = replica.set_name
    metadata = _metadata(job, replica.pod)
    metadata["labels"] = labels | metadata["labels"]
    metadata["annotations"] = annotations
    spec.setdefault("schedulerName", scheduler)
    # The job restarts what fails, and a leader that ends must stay ended.
    spec.setdefault("restartPolicy", "Never")
    spec["hostname"], spec["subdomain"] = replica.pod, job.metadata.name
    _add_job_volumes(job, spec)
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        env = container.get("env") or []
        own = {variable["name"] for variable in env}
        # First, so that the template's own variables may refer to them; and the template wins.
        injected = [v for v in environment(job, replica, leader=leader) if v["name"] not in own]
        container["env"] = injected + env
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def environment(job: TYJob, replica: Replica, *, leader: str = "") -> list[Object]:
    """The variables of every container: what PyTorch's ``env://`` and ``torchrun`` read."""
    if replica.role == LEADER:
        address: Object = {"fieldRef": {"fieldPath": "status.podIP"}}
    else:
        address = {"configMapKeyRef": {"name": leader_config_map_name(job), "key": leader}}
    least, most = 1 + job.valid_spec.min_workers_num, len(job.replicas)
    host, port = f"{job.replicas[0].pod}.{job.metadata.name}", str(_port(job))
    values = {
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "WORLD_SIZE": str(most),
        "RANK": str(replica.rank),
        "PET_NNODES": str(most) if least == most else f"{least}:{most}",
        "PET_NPROC_PER_NODE": "auto",
        "PET_NODE_RANK": str(replica.rank),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": port,
    }
    if least != most:
        # Only a rendezvous that may start with fewer understands a range of nodes.
        values |= {
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"{host}:{port}",
            "PET_RDZV_ID": job.metadata.uid,
        }
    known = [{"name": name, "value": text} for name, text in values.items()]
    return [{"name": "ARRANGER_LEADER_ADDRESS", "valueFrom": address}, *known]


def _metadata(job: TYJob, name: str) -> Object:
    return {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": {keys.TYJOB: job.metadata.name},
        "ownerReferences": [owner_reference(API_VERSION, "TYJob", job.metadata)],
    }


def _gang_annotations(job: TYJob, replica: Replica) -> dict[str, str]:
    """What makes the pods a gang: a bundle of the leader and one of the workers.

    One number for all would let workers start without their leader. The minimum over all bundles
    keeps the scheduler waiting while only the leader has come.
    """
    if GANG not in job.policies:
        return {}
    workers, given = job.valid_spec.min_workers_num, job.metadata.annotations
    return {
        # A worker that replaces a lost one counts with those that run.
        keys.GANG_MATCH: "waiting-and-running",
        **{key: given[key] for key in _GANG_ANNOTATIONS if key in given},
        keys.BUNDLE_GANG: job.metadata.name,
        keys.BUNDLE_NAME: replica.role,
        keys.BUNDLE_MIN: "1" if replica.role == LEADER else str(workers),
        keys.GANG_MIN: str(1 + workers),
    }


def _scheduling_annotations(job: TYJob) -> dict[str, str]:
    annotations = {
        keys.QUEUE_NAME: job.valid_spec.queue,
        keys.JOB_PRIORITY: str(job.valid_spec.priority),
    }
    if order := job.valid_spec.scheduler_policy.job_queue_policy:
        annotations[keys.JOB_QUEUE_POLICY] = order
    placement = [policy for policy in job.policies if policy in PLACEMENT_POLICIES]
    if placement:
        annotations[keys.PLACEMENT] = ",".join(dict.fromkeys(placement))
    return annotations


def _add_job_volumes(job: TYJob, spec: Object) -> None:
    own = {volume.get("name") for volume in spec.get("volumes") or []}
    shared = [deepcopy(v) for v in job.valid_spec.volumes if v.get("name") not in own]
    if shared:
        spec["volumes"] = [*(spec.get("volumes") or []), *shared]


def _port(job: TYJob) -> int:
    spec = job.replicas[0].template["spec"]
    ports = [port for container in spec["containers"] for port in container.get("ports") or []]
    named = (p["containerPort"] for p in ports if p.get("name") == PORT_NAME)
    return int(next(named, MASTER_PORT))
