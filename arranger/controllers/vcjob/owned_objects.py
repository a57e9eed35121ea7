"""Objects that a Job owns, and what is added to its pods for them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from arranger.api import annotations as keys
from arranger.api.types.volcano_job import JOB_API, VolcanoJob
from arranger.controllers.runtime.objects import Object, owner_reference

#: The resource of claims.
CLAIMS: Final = "persistentvolumeclaims"


@dataclass(frozen=True, slots=True)
class OwnedManifest:
    """An object that is created once, and changed when its manifest changes.

    Attributes:
        plural: its resource.
        immutable: whether it cannot be changed once it is there.
        may_be_shared: whether its name is the owner's choice, so that one of others will do.
    """

    plural: str
    body: Object
    immutable: bool = False
    may_be_shared: bool = False

    @property
    def name(self) -> str:
        """What the job's status remembers it as, ``<plural>/<name>``."""
        return f"{self.plural}/{self.body['metadata']['name']}"

    @property
    def collection(self) -> str:
        """The path where it is created."""
        version, namespace = self.body["apiVersion"], self.body["metadata"]["namespace"]
        api = f"apis/{version}" if "/" in version else f"api/{version}"
        return f"/{api}/namespaces/{namespace}/{self.plural}"

    @property
    def digest(self) -> str:
        """Equal for equal manifests."""
        encoded = msgspec.json.encode(self.body, order="sorted")
        return hashlib.sha256(encoded).hexdigest()[:12]


def owned_object(job: VolcanoJob, kind: str, name: str, api_version: str = "v1") -> Object:
    """An object of the job without its own fields."""
    owner = owner_reference(JOB_API, "Job", job.metadata) | {"blockOwnerDeletion": True}
    meta = {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": {keys.JOB_NAME: job.metadata.name},
        "ownerReferences": [owner],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": meta}


def inject_env(containers: list[Object], variables: Iterable[Object]) -> None:
    """Set environment variables in all containers that have none of their names.

    They have them in common: what is made here is written, and not changed any more.
    """
    added = list(variables)
    for container in containers:
        known = container.setdefault("env", [])
        names = {other.get("name") for other in known}
        known += [variable for variable in added if variable["name"] not in names]


def mount(pod_spec: Object, containers: list[Object], name: str, source: Object, path: str) -> None:
    """Mount a volume in all containers."""
    pod_spec.setdefault("volumes", []).append({"name": name, **source})
    for container in containers:
        container.setdefault("volumeMounts", []).append({"name": name, "mountPath": path})
