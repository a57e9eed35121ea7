"""The job plugin ``svc``: pods that know each other's names, and are let alone by others.

As Volcano's (``pkg/controllers/job/plugins/svc``): a ConfigMap with the names of all pods, which
come into the containers as files and as variables; a headless Service that gives the pods these
names; and a NetworkPolicy that lets in pods of the same job only.
"""

from __future__ import annotations

from typing import Final

from arranger.api import annotations as keys
from arranger.api.types.pod_templates import encoded_bytes
from arranger.api.types.volcano_job import Task, VolcanoJob
from arranger.controllers.runtime.objects import Object
from arranger.controllers.vcjob.owned_objects import OwnedManifest, inject_env, mount, owned_object
from arranger.controllers.vcjob.policies import pod_name

_HOSTS_FOLDER: Final = "/etc/volcano"
#: The flags, and what they are where a job does not give them.
FLAGS: Final = {
    "publish-not-ready-addresses": False,
    "disable-network-policy": False,
    "inject-hosts-env": True,
}


def adapt_pod(job: VolcanoJob, name: str, pod_spec: Object, containers: list[Object]) -> None:
    """Give a pod its name in the Service, and the names of all others."""
    pod_spec.setdefault("hostname", name)
    pod_spec.setdefault("subdomain", job.metadata.name)
    config = _config_name(job)
    if _flags(job)["inject-hosts-env"]:
        inject_env(containers, _variables(job))
    mount(pod_spec, containers, config, {"configMap": {"name": config}}, _HOSTS_FOLDER)


def variables_bytes(job: VolcanoJob) -> int:
    """Bytes of the variables that each container gets."""
    return encoded_bytes(_variables(job)) if _flags(job)["inject-hosts-env"] else 0


def _variables(job: VolcanoJob) -> list[Object]:
    """The names of all pods, and their numbers, by task."""
    config = _config_name(job)
    tasks = [_upper(task) for task in job.spec.tasks]
    names = [f"VC_{task}_{what}" for task in tasks for what in ("HOSTS", "NUM")]
    sources = ({"configMapKeyRef": {"name": config, "key": name}} for name in names)
    variables = zip(names, sources, strict=True)
    return [{"name": name, "valueFrom": source} for name, source in variables]


def objects_of(job: VolcanoJob) -> list[OwnedManifest]:
    """Objects that must exist before the first pod is created."""
    config = owned_object(job, "ConfigMap", _config_name(job)) | {"data": _hosts(job)}
    manifests = [OwnedManifest("configmaps", config), OwnedManifest("services", _service(job))]
    if not _flags(job)["disable-network-policy"]:
        manifests.append(OwnedManifest("networkpolicies", _network_policy(job)))
    return manifests


def _service(job: VolcanoJob) -> Object:
    """Headless: it only gives the pods names."""
    return owned_object(job, "Service", job.metadata.name) | {
        "spec": {
            "clusterIP": "None",
            "selector": _pod_labels(job),
            "publishNotReadyAddresses": _flags(job)["publish-not-ready-addresses"],
            # Some versions of some DNS servers resolve no name of a Service without a port.
            "ports": [{"name": "placeholder", "port": 1, "protocol": "TCP"}],
        }
    }


def _network_policy(job: VolcanoJob) -> Object:
    pods = {"podSelector": {"matchLabels": _pod_labels(job)}}
    policy = owned_object(job, "NetworkPolicy", job.metadata.name, "networking.k8s.io/v1")
    return policy | {"spec": {**pods, "ingress": [{"from": [pods]}], "policyTypes": ["Ingress"]}}


def _pod_labels(job: VolcanoJob) -> dict[str, str]:
    return {keys.JOB_NAME: job.metadata.name, keys.JOB_NAMESPACE: job.metadata.namespace}


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


def _config_name(job: VolcanoJob) -> str:
    return f"{job.metadata.name}-svc"


def _upper(task: Task) -> str:
    return task.name.replace("-", "_").upper()


def _flags(job: VolcanoJob) -> dict[str, bool]:
    given = (text.lstrip("-").partition("=") for text in job.spec.plugins["svc"])
    return FLAGS | {name: value.lower() in ("", "1", "t", "true") for name, _, value in given}
