"""Pods of Volcano Jobs, and what their containers are told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.specification.trace import PODS, World
from tests.specification.vocabulary.manifests import Object

JOBS = "batch.volcano.sh/jobs"
#: The flag of the plugin svc that keeps names out of the environment.
_FLAG = "inject-hosts-env"


@dataclass(frozen=True, slots=True)
class JobPods:
    """All of them."""

    world: World

    def pods_with_names(self) -> Iterator[tuple[Object, Object]]:
        """Pods of Jobs that have the plugin svc, each with its Job."""
        jobs = {job["metadata"]["uid"]: job for job in self.world.of(JOBS).values()}
        for pod in self.world.of(PODS).values():
            for owner in pod["metadata"].get("ownerReferences") or ():
                job = jobs.get(owner["uid"])
                if job is not None and "svc" in (job["spec"].get("plugins") or {}):
                    yield pod, job

    def is_told_names(self, pod: Object) -> bool:
        """Whether the environment of its containers has the names of others."""
        names = [
            variable["name"]
            for container in pod["spec"]["containers"]
            for variable in container.get("env") or ()
        ]
        return any(name.startswith("VC_") and name.endswith("_HOSTS") for name in names)

    def is_to_be_told_names(self, job: Object) -> bool:
        """Whether a Job says nothing against it; the last word counts."""
        said = (text.lstrip("-").partition("=") for text in job["spec"]["plugins"]["svc"])
        values = [value.lower() for flag, _, value in said if flag == _FLAG]
        return not values or values[-1] in ("", "1", "t", "true")
