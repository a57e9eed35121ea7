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

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec

from arranger.api import annotations as keys
from arranger.api.parsing.scalars import parse_int_or
from arranger.api.types.tyjob import (
    API_VERSION,
    GANG,
    LEADER,
    MASTER_PORT_NAME,
    PLACEMENT_POLICIES,
    WORKER,
    Replica,
    TYJob,
    TYJobPod,
)
from arranger.controllers.runtime.objects import Object, copy_of, limit_run_time, owner_reference

#: PyTorch's own default, as the training operator uses it too.
MASTER_PORT: Final = 23456
#: Annotations of the job that say how its gang is placed, and so go on its pods.
_GANG_ANNOTATIONS: Final = (
    keys.GANG_MODE,
    keys.GANG_WAIT,
    keys.GANG_GROUPS,
    keys.GANG_MATCH,
    keys.TOPOLOGY,
)
#: Annotations of the pods that follow the job for as long as they live; nothing else of a pod does.
_FOLLOWING_ANNOTATIONS: Final = (
    *_GANG_ANNOTATIONS,
    keys.BUNDLE_GANG,
    keys.BUNDLE_NAME,
    keys.BUNDLE_MIN,
    keys.GANG_MIN,
    keys.QUEUE_NAME,
    keys.JOB_PRIORITY,
    keys.JOB_QUEUE_POLICY,
    keys.PLACEMENT,
)


def leader_config_map_name(job: TYJob) -> str:
    """The name of the ConfigMap with the leader's address."""
    return f"{job.metadata.name}-leader"


def service(job: TYJob, port: int) -> Object:
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
            "ports": service_ports(port),
        },
    }


def service_ports(port: int) -> list[Object]:
    """The ports of the Service."""
    return [{"name": MASTER_PORT_NAME, "port": port}]


def leader_config_map(job: TYJob, data: dict[str, str]) -> Object:
    """The ConfigMap with the leader's address."""
    head = {"apiVersion": "v1", "kind": "ConfigMap"}
    return {**head, "metadata": _metadata(job, leader_config_map_name(job)), "data": data}


def master_port(job: TYJob, leader: TYJobPod | None) -> int:
    """The port that the ranks meet at: that of the leader there is, else of the next one."""
    if leader is not None and leader.spec.containers:
        return leader.master_port or MASTER_PORT
    containers = job.replicas[0].template["spec"]["containers"]
    ports = [port for container in containers for port in container.get("ports") or []]
    named = (p["containerPort"] for p in ports if p.get("name") == MASTER_PORT_NAME)
    return parse_int_or(str(next(named, MASTER_PORT)), MASTER_PORT)


class SpecHash:
    """Digests of all that the pods of one set are made from and that they cannot take on later.

    They differ by the rank alone, so what all have in common is encoded once.

    Args:
        replica: any of the set.
    """

    def __init__(self, job: TYJob, replica: Replica, *, scheduler: str, port: int) -> None:
        spec = job.valid_spec
        made_from = [
            replica.template,
            spec.volumes,
            spec.min_workers_num,
            len(job.replicas),
            job.replicas[0].pod,
            scheduler,
            port,
        ]
        common = msgspec.json.encode(made_from, order="deterministic")
        self._common = sha256(common[:-1])

    def of(self, rank: int) -> str:
        """The digest of the pod of a rank."""
        digest = self._common.copy()
        digest.update(b",%d]" % rank)
        return digest.hexdigest()[:16]


def following_annotations(job: TYJob, replica: Replica, *, gone: int = 0) -> dict[str, str | None]:
    """The annotations of a pod that follow the job; None for one that the pod must not have.

    Args:
        gone: see :func:`annotations_of`.
    """
    given = annotations_of(job, replica, gone=gone)
    return {key: given.get(key) for key in _FOLLOWING_ANNOTATIONS}


def annotations_of(job: TYJob, replica: Replica, *, gone: int = 0) -> dict[str, str]:
    """The annotations that a pod has by its template and by the job.

    Args:
        gone: workers that have succeeded and whose pods are gone: its gang does not wait for them.
    """
    template: Mapping[str, str] = (replica.template.get("metadata") or {}).get("annotations") or {}
    limit = job.metadata.annotations.get(keys.MAX_RUN_TIME)
    if limit is not None:
        template = {keys.MAX_RUN_TIME: limit, **template}
    return {**template, **_gang_annotations(job, replica, gone), **_scheduling_annotations(job)}


def pod(
    job: TYJob,
    replica: Replica,
    *,
    scheduler: str,
    port: int,
    leader: str = "",
    restarts: int = 0,
    spec_hash: str = "",
    gone: int = 0,
) -> Object:
    """The pod of one replica.

    Args:
        spec_hash: of :class:`SpecHash`; worked out where it is not given.
        scheduler: who places it, unless its template names somebody else.
        port: where the ranks meet.
        leader: uid of the leader that a worker is for.
        restarts: how often the pod of this replica has failed before.
        gone: see :func:`annotations_of`.
    """
    template = copy_of(replica.template)
    spec, template_metadata = template["spec"], template.get("metadata") or {}
    annotations = {
        **annotations_of(job, replica, gone=gone),
        keys.RESTARTS: str(restarts),
        keys.SPEC_HASH: spec_hash
        or SpecHash(job, replica, scheduler=scheduler, port=port).of(replica.rank),
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
    limit_run_time(spec, annotations)
    spec["hostname"], spec["subdomain"] = replica.pod, job.metadata.name
    _add_job_volumes(job, spec)
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        env = container.get("env") or []
        own = {variable["name"] for variable in env}
        # First, so that the template's own variables may refer to them; and the template wins.
        variables = environment(job, replica, port=port, leader=leader)
        container["env"] = [v for v in variables if v["name"] not in own] + env
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def environment(job: TYJob, replica: Replica, *, port: int, leader: str = "") -> list[Object]:
    """The variables of every container: what PyTorch's ``env://`` and ``torchrun`` read."""
    if replica.role == LEADER:
        address: Object = {"fieldRef": {"fieldPath": "status.podIP"}}
    else:
        address = {"configMapKeyRef": {"name": leader_config_map_name(job), "key": leader}}
    least, most = 1 + job.valid_spec.min_workers_num, len(job.replicas)
    host = f"{job.replicas[0].pod}.{job.metadata.name}"
    values = {
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(most),
        "RANK": str(replica.rank),
        "PET_NNODES": str(most) if least == most else f"{least}:{most}",
        "PET_NPROC_PER_NODE": "auto",
        "PET_NODE_RANK": str(replica.rank),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": str(port),
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


def _gang_annotations(job: TYJob, replica: Replica, gone: int) -> dict[str, str]:
    """What makes the pods a gang: a bundle of the leader and one of the workers.

    One number for all would let workers start without their leader. The minimum over all bundles
    keeps the scheduler waiting while only the leader has come.
    """
    if GANG not in job.policies:
        return {}
    workers, given = max(0, job.valid_spec.min_workers_num - gone), job.metadata.annotations
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
    shared = [copy_of(v) for v in job.valid_spec.volumes if v.get("name") not in own]
    if shared:
        spec["volumes"] = [*(spec.get("volumes") or []), *shared]
