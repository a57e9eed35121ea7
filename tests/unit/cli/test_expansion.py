"""What is there once controllers have seen manifests: what ``whatif -f`` asks about."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.cli.simulation.expansion import expand
from arranger.daemon.config.schema import Config

SPEC = {"schedulerName": "arranger", "containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"app": "w"}}, "spec": SPEC}
JOB = {"template": {"spec": {**SPEC, "restartPolicy": "Never"}}}


@pytest.mark.parametrize(
    ("kind", "version", "spec", "pods"),
    [
        pytest.param("Deployment", "apps/v1", {"replicas": 3}, 3, id="of a Deployment all"),
        pytest.param(
            "StatefulSet",
            "apps/v1",
            {"replicas": 3, "serviceName": "s"},
            3,
            id="of a StatefulSet all, though each would wait for the one before it",
        ),
        pytest.param("Job", "batch/v1", {"completions": 5, "parallelism": 2}, 2, id="of a Job two"),
        pytest.param(
            "CronJob",
            "batch/v1",
            {"schedule": "0 0 * * *", "jobTemplate": {"spec": {**JOB, "parallelism": 2}}},
            2,
            id="of a CronJob those of its first Job",
        ),
    ],
)
def test_the_pods(kind: str, version: str, spec: dict[str, Any], pods: int) -> None:
    given = {"template": TEMPLATE, "selector": {"matchLabels": {"app": "w"}}}
    if kind == "Job":
        given = JOB
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}}
    made = expand([("here", {**manifest, "spec": {**given, **spec}})], [], Config())
    assert sum(obj["kind"] == "Pod" for obj in made) == pods
