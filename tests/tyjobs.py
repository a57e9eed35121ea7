"""TYJobs for tests."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def a_template(*, cpu: int = 1, **notes: str) -> Object:
    """A PodTemplateSpec of one container; ``notes`` are annotations ``arranger.io/…``."""
    requests = {"cpu": str(cpu), "memory": "1Gi"}
    container = {"name": "main", "image": "img", "resources": {"requests": requests}}
    annotations = {f"arranger.io/{name.replace('_', '-')}": text for name, text in notes.items()}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}


def a_tyjob(
    name: str = "job",
    *,
    workers: int = 2,
    least: int = 1,
    leader: Object | None = None,
    worker: Object | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """The TYJob ``default/<name>`` with the leader ``learner`` and one set ``actor``."""
    return {
        "apiVersion": "arranger.io/v1alpha1",
        "kind": "TYJob",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {
            "leader": {"name": "learner", "template": leader or a_template()},
            "workerSets": [
                {"name": "actor", "template": worker or a_template(), "counts": workers}
            ],
            "minWorkersNum": least,
            **spec,
        },
    }
