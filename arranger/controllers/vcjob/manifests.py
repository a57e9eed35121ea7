"""What is created for a Job: its pods, its PodGroup, and what its plugins and volumes need.

Names, labels and annotations are Volcano's (``pkg/controllers/job``), so that what finds the pods
of a Job there finds them here.
"""

from __future__ import annotations

from typing import Final

from arranger.api import annotations as keys
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.volcano_job import JobVolume, VolcanoJob
from arranger.controllers.runtime.objects import Object, copy_of, limit_run_time
from arranger.controllers.vcjob import svc_plugin
from arranger.controllers.vcjob.controlled_resources import TaskIndex
from arranger.controllers.vcjob.min_resources import min_resources
from arranger.controllers.vcjob.owned_objects import (
    CLAIMS,
    OwnedManifest,
    inject_env,
    mount,
    owned_object,
)
from arranger.controllers.vcjob.policies import pod_name
from arranger.controllers.vcjob.snapshot import JobSnapshot

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def pod_of(snapshot: JobSnapshot, index: TaskIndex, *, scheduler: str) -> Object:
    """The pod of an index, in the current version; ``scheduler`` places it if nobody is named."""
    job, spec = snapshot.job, snapshot.spec
    task = next(task for task in spec.tasks if task.name == index[0])
    template = copy_of(task.template)
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
        names = ("VC_TASK_INDEX", "VK_TASK_INDEX")
        inject_env(containers, ({"name": name, "value": str(index[1])} for name in names))
    if "svc" in spec.plugins:
        svc_plugin.adapt_pod(job, name, pod_spec, containers)
    said = {**inherited, **meta.get("annotations", {})}
    limit_run_time(pod_spec, said)
    pod = owned_object(job, "Pod", name) | {"spec": pod_spec}
    pod["metadata"] |= {
        **{k: v for k, v in meta.items() if k == "finalizers"},
        "labels": {**meta.get("labels", {}), **labels},
        "annotations": {**said, **annotations},
    }
    return pod


def _without_nulls(part: Object) -> Object:
    """A part of a template without its nulls, which mean the same as absent fields."""
    return {name: value for name, value in part.items() if value is not None}


def _mount_volumes(job: VolcanoJob, pod_spec: Object, containers: list[Object]) -> None:
    for index, volume in enumerate(job.spec.volumes):
        name, claim = f"vcjob-volume-{index}", _claim_name(job, index, volume)
        source = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
        mount(pod_spec, containers, name, source, volume.mount_path)


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
        "minResources": min_resources(firsts, least, minima),
    }
    group = owned_object(job, "PodGroup", snapshot.pod_group_name, VolcanoPodGroup.api_version)
    annotations = job.metadata.annotations.items()
    group["metadata"]["annotations"] = {
        k: v for k, v in annotations if k not in (LAST_APPLIED, keys.JOB_ACTION)
    }
    return group | {"spec": _without_nulls(wanted)}


def objects_of(job: VolcanoJob) -> list[OwnedManifest]:
    """Objects that must exist before the first pod is created."""
    manifests = []
    for index, volume in enumerate(job.spec.volumes):
        if volume.volume_claim is not None:
            claim = owned_object(job, "PersistentVolumeClaim", _claim_name(job, index, volume))
            body = claim | {"spec": volume.volume_claim}
            named = bool(volume.volume_claim_name)
            manifests.append(OwnedManifest(CLAIMS, body, immutable=True, may_be_shared=named))
    if "svc" in job.spec.plugins:
        manifests += svc_plugin.objects_of(job)
    return manifests


def _claim_name(job: VolcanoJob, index: int, volume: JobVolume) -> str:
    if volume.volume_claim_name or volume.volume_claim is None:
        return volume.volume_claim_name
    return f"{job.metadata.name}-volume-{index}"
