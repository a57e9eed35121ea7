"""What is created for a Job: its pods, its PodGroup, and what its plugins and volumes need.

Names, labels and annotations are Volcano's (``pkg/controllers/job``), so that what finds the pods
of a Job there finds them here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

import msgspec

from arranger.api import annotations as keys
from arranger.api.quantity import QuantityError
from arranger.api.resource_requests import Amounts, pod_requests
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.volcano_job import JOB_API, JobVolume, Task, VolcanoJob
from arranger.controllers.runtime.objects import Object, owner_reference
from arranger.controllers.vcjob.controlled_resources import TaskIndex
from arranger.controllers.vcjob.policies import pod_name
from arranger.controllers.vcjob.snapshot import JobSnapshot

_HOSTS_FOLDER: Final = "/etc/volcano"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class OwnedManifest:
    """An object that is created once, and changed when its manifest changes.

    Attributes:
        plural: its resource, in the core API group.
        immutable: whether it cannot be changed once it is there.
    """

    plural: str
    body: Object
    immutable: bool = False

    @property
    def name(self) -> str:
        """What the job's status remembers it as, ``<plural>/<name>``."""
        return f"{self.plural}/{self.body['metadata']['name']}"

    @property
    def collection(self) -> str:
        """The path where it is created."""
        return f"/api/v1/namespaces/{self.body['metadata']['namespace']}/{self.plural}"

    @property
    def digest(self) -> str:
        """Equal for equal manifests."""
        encoded = msgspec.json.encode(self.body, order="sorted")
        return hashlib.sha256(encoded).hexdigest()[:12]


def pod_of(snapshot: JobSnapshot, index: TaskIndex, *, scheduler: str) -> Object:
    """The pod of an index, in the current version; ``scheduler`` places it if nobody is named."""
    job, spec = snapshot.job, snapshot.spec
    task = next(task for task in spec.tasks if task.name == index[0])
    template = deepcopy(task.template)
    meta = _without_nulls(template.get("metadata") or {})
    pod_spec = _without_nulls(template["spec"])
    name = pod_name(job.metadata.name, index)
    labels = {
        keys.JOB_NAME: job.metadata.name,
        keys.JOB_NAMESPACE: job.metadata.namespace,
        keys.JOB_QUEUE_NAME: spec.queue,
        keys.TASK_SPEC: task.name,
        keys.TASK_INDEX: str(index[1]),
    }
    annotations = {
        **labels,
        keys.JOB_VERSION_KEY: str(max(snapshot.controlled_resources.version_of(index), 0)),
        keys.JOB_RETRIES: str(job.status.retry_count),
        keys.TEMPLATE_UID: f"{job.metadata.name}-{task.name}",
        keys.VOLCANO_GROUP: snapshot.pod_group_name,
    }
    del annotations[keys.JOB_NAMESPACE]
    inherited = {
        k: v for k, v in job.metadata.annotations.items() if k in keys.INHERITED_ANNOTATIONS
    }
    inherited[keys.QUEUE_NAME] = spec.queue
    pod_spec.setdefault("schedulerName", spec.scheduler_name or scheduler)
    if spec.priority_class_name:
        pod_spec.setdefault("priorityClassName", spec.priority_class_name)
    for kind in {"containers", "initContainers"} & pod_spec.keys():
        pod_spec[kind] = [_without_nulls(container) for container in pod_spec[kind]]
    containers = [*pod_spec["containers"], *pod_spec.get("initContainers", ())]
    _mount_volumes(job, pod_spec, containers)
    if "env" in spec.plugins:
        for key in ("VC_TASK_INDEX", "VK_TASK_INDEX"):
            _inject_env(containers, {"name": key, "value": str(index[1])})
    if "svc" in spec.plugins:
        pod_spec.setdefault("hostname", name)
        pod_spec.setdefault("subdomain", job.metadata.name)
        _inject_hosts(job, pod_spec, containers)
    pod = _object(job, "Pod", name) | {"spec": pod_spec}
    pod["metadata"] |= {
        **{k: v for k, v in meta.items() if k == "finalizers"},
        "labels": {**meta.get("labels", {}), **labels},
        "annotations": {**inherited, **meta.get("annotations", {}), **annotations},
    }
    return pod


def _without_nulls(part: Object) -> Object:
    """A part of a template without its nulls, which mean the same as absent fields."""
    return {name: value for name, value in part.items() if value is not None}


def _inject_env(containers: list[Object], variable: Object) -> None:
    for container in containers:
        known = container.setdefault("env", [])
        if not any(other.get("name") == variable["name"] for other in known):
            known.append(deepcopy(variable))


def _inject_hosts(job: VolcanoJob, pod_spec: Object, containers: list[Object]) -> None:
    config = _hosts_name(job)
    for task in job.spec.tasks:
        for key in (f"VC_{_upper(task)}_HOSTS", f"VC_{_upper(task)}_NUM"):
            source = {"configMapKeyRef": {"name": config, "key": key}}
            _inject_env(containers, {"name": key, "valueFrom": source})
    source = {"configMap": {"name": config}}
    _mount(pod_spec, containers, config, source, _HOSTS_FOLDER)


def _mount_volumes(job: VolcanoJob, pod_spec: Object, containers: list[Object]) -> None:
    for index, volume in enumerate(job.spec.volumes):
        name, claim = f"vcjob-volume-{index}", _claim_name(job, index, volume)
        source = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
        _mount(pod_spec, containers, name, source, volume.mount_path)


def _mount(
    pod_spec: Object, containers: list[Object], name: str, source: Object, path: str
) -> None:
    pod_spec.setdefault("volumes", []).append({"name": name, **source})
    for container in containers:
        container.setdefault("volumeMounts", []).append({"name": name, "mountPath": path})


def pod_group_of(snapshot: JobSnapshot) -> Object:
    """The PodGroup, which makes a gang of the pods.

    Tasks that start later cannot be waited for, so only those that start at once count. What a
    single task asks for is passed on only where the job as a whole asks for at least that much
    (upstream ignores it otherwise), because a gang's minimum is the larger of the two.
    """
    job, spec = snapshot.job, snapshot.spec
    firsts = [task for task in spec.tasks if not (task.depends_on and task.depends_on.name)]
    least = min(spec.minimum, sum(task.replicas for task in firsts))
    minima = {t.name: t.min_available for t in firsts if t.min_available is not None}
    if sum(minima.values()) > least:
        minima = {}
    wanted = {
        "minMember": least,
        "minTaskMember": minima or None,
        "queue": spec.queue,
        "priorityClassName": spec.priority_class_name or None,
        "minResources": _min_resources(firsts, least, minima),
    }
    group = _object(job, "PodGroup", snapshot.pod_group_name, VolcanoPodGroup.api_version)
    annotations = job.metadata.annotations.items()
    group["metadata"]["annotations"] = {
        k: v for k, v in annotations if k not in (_LAST_APPLIED, keys.JOB_ACTION)
    }
    return group | {"spec": _without_nulls(wanted)}


def _min_resources(tasks: list[Task], least: int, minima: Mapping[str, int]) -> Object | None:
    """Resources of ``least`` pods: the minimum of each task, then more in the order of tasks."""
    total: Amounts = {}
    left = least - sum(minima.values())
    for task in tasks:
        own = minima.get(task.name, 0)
        more = min(left, task.replicas - own)
        left -= more
        try:
            requests = pod_requests(_as_pod(task))
        except (QuantityError, msgspec.ValidationError):
            return None  # the API server refuses the pod and says why
        for resource, amount in requests.items():
            total[resource] = total.get(resource, 0) + amount * (own + more)
    texts = {r: f"{n}m" if r == "cpu" else str(n) for r, n in sorted(total.items()) if n}
    return texts or None


def _as_pod(task: Task) -> Pod:
    """A pod of the task; limits are its requests where it has no others."""
    spec = _without_nulls(deepcopy(task.template["spec"]))
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        container["resources"] = {**resources, "requests": requests}
    return msgspec.convert({"metadata": {}, "spec": spec}, Pod, strict=False)


def objects_of(job: VolcanoJob) -> list[OwnedManifest]:
    """Objects that must exist before the first pod is created."""
    manifests = []
    for index, volume in enumerate(job.spec.volumes):
        if volume.volume_claim is not None:
            claim = _object(job, "PersistentVolumeClaim", _claim_name(job, index, volume))
            body = claim | {"spec": volume.volume_claim}
            manifests.append(OwnedManifest("persistentvolumeclaims", body, immutable=True))
    if "svc" in job.spec.plugins:
        config = _object(job, "ConfigMap", _hosts_name(job)) | {"data": _hosts(job)}
        manifests.append(OwnedManifest("configmaps", config))
        manifests.append(OwnedManifest("services", _service(job)))
    return manifests


def _service(job: VolcanoJob) -> Object:
    """Headless: it only gives the pods names."""
    flags = dict(_flag(flag) for flag in job.spec.plugins["svc"])
    selector = {keys.JOB_NAME: job.metadata.name, keys.JOB_NAMESPACE: job.metadata.namespace}
    return _object(job, "Service", job.metadata.name) | {
        "spec": {
            "clusterIP": "None",
            "selector": selector,
            "publishNotReadyAddresses": flags.get("publish-not-ready-addresses", False),
            # Some versions of some DNS servers resolve no name of a Service without a port.
            "ports": [{"name": "placeholder", "port": 1, "protocol": "TCP"}],
        }
    }


def _hosts(job: VolcanoJob) -> dict[str, str]:
    """What the pods find under ``/etc/volcano`` and in their environment."""
    data: dict[str, str] = {}
    for task in job.spec.tasks:
        spec = task.template["spec"]
        names = [pod_name(job.metadata.name, (task.name, i)) for i in range(task.replicas)]
        names = [spec["hostname"]] if spec.get("hostname") else names
        hosts = [f"{name}.{spec.get('subdomain') or job.metadata.name}" for name in names]
        data[f"{task.name.replace('-', '_')}.host"] = "\n".join(hosts)
        data[f"VC_{_upper(task)}_HOSTS"] = ",".join(hosts)
        data[f"VC_{_upper(task)}_NUM"] = str(len(hosts))
    return data


def _object(job: VolcanoJob, kind: str, name: str, api_version: str = "v1") -> Object:
    owner = owner_reference(JOB_API, "Job", job.metadata) | {"blockOwnerDeletion": True}
    meta = {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": {keys.JOB_NAME: job.metadata.name},
        "ownerReferences": [owner],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": meta}


def _claim_name(job: VolcanoJob, index: int, volume: JobVolume) -> str:
    if volume.volume_claim_name or volume.volume_claim is None:
        return volume.volume_claim_name
    return f"{job.metadata.name}-volume-{index}"


def _hosts_name(job: VolcanoJob) -> str:
    return f"{job.metadata.name}-svc"


def _upper(task: Task) -> str:
    return task.name.replace("-", "_").upper()


def _flag(text: str) -> tuple[str, bool]:
    name, _, value = text.lstrip("-").partition("=")
    return name, value.lower() in ("", "1", "t", "true")
