"""What the other tenant of a hostile cluster has.

One node takes nobody else: who fills the others, as anybody may where no quota is set, does no harm
by that.
"""

from __future__ import annotations

from typing import Final

from tests.controlplane.harness import a_node, a_pod
from tests.hostile.attack import NEIGHBOUR, Object
from tests.tyjobs import a_template, a_tyjob

_TAINT: Final = {"key": "tenant", "value": NEIGHBOUR, "effect": "NoSchedule"}
_TOLERATION: Final = {**_TAINT, "operator": "Equal"}


def own_node() -> Object:
    """The node that is kept for it."""
    node = a_node("node-of-the-neighbour", cpu="64", memory="256Gi")
    return {**node, "spec": {"taints": [_TAINT]}}


def own_pod(name: str) -> Object:
    """A small pod of it."""
    return _tolerant(a_pod(name, namespace=NEIGHBOUR, cpu="10m", memory="10Mi"))


def own_jobs(name: str) -> tuple[Object, Object]:
    """A Volcano Job and a TYJob of it, under one name."""
    template = _tolerant(a_template())
    volcano_job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NEIGHBOUR},
        "spec": {
            "minAvailable": 1,
            "schedulerName": "arranger",
            "tasks": [{"name": "w", "replicas": 1, "template": template}],
        },
    }
    tyjob = a_tyjob(name, workers=1, leader=template, worker=template)
    tyjob["metadata"]["namespace"] = NEIGHBOUR
    return volcano_job, tyjob


def _tolerant(pod: Object) -> Object:
    """A pod, or the template of one, that may use that node."""
    return {**pod, "spec": {**pod["spec"], "tolerations": [_TOLERATION]}}
