"""Every field and annotation that a user may edit, from the definitions and from what we read.

A field whose own definition says that it is accepted and not used is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from arranger.api import annotations
from arranger.api.types import core, disruption_budgets, pod_groups
from arranger.controllers.tyjob import manifests
from docs.generator.constants import constants
from tests.paths import REPO

#: A kind of object, and the path or key of a field of it.
Field = tuple[str, str]

#: The definitions in ``crds`` → what the tables call the kind.
DEFINED: Final = {
    "gangs.arranger.io": "Gang",
    "jobs.batch.volcano.sh": "Volcano Job",
    "podgroups.scheduling.sigs.k8s.io": "PodGroup of scheduling.sigs.k8s.io",
    "podgroups.scheduling.volcano.sh": "PodGroup of scheduling.volcano.sh",
    "podgroups.scheduling.x-k8s.io": "PodGroup of scheduling.x-k8s.io",
    "queues.scheduling.volcano.sh": "Queue",
    "reservations.arranger.io": "Reservation",
    "tyjobs.arranger.io": "TYJob",
}
#: What we read of the kinds that Kubernetes defines; the status of a pod is its kubelet's.
READ: Final[dict[str, tuple[str, type[msgspec.Struct]]]] = {
    "pod": ("spec", core.PodSpec),
    "node": ("spec", core.NodeSpec),
    "node ": ("status", core.NodeStatus),
    "PodGroup of scheduling.k8s.io": ("spec", pod_groups.NativePodGroupSpec),
    "PodDisruptionBudget": ("spec", disruption_budgets.PodDisruptionBudgetSpec),
    "PodDisruptionBudget ": ("status", disruption_budgets.PodDisruptionBudgetStatus),
}
#: What no schema of ours has and is read all the same.
OTHERS: Final[tuple[Field, ...]] = (
    ("pod", "metadata.labels"),
    ("pod", "metadata.annotations"),
    ("pod", "metadata.ownerReferences"),
    ("pod", "metadata.finalizers"),
    ("node", "metadata.labels"),
    ("Namespace", "metadata.labels"),
    ("PriorityClass", "value"),
    ("PriorityClass", "preemptionPolicy"),
    ("PriorityClass", "globalDefault"),
    ("Deployment", annotations.SERVICE_TYPE),
    ("Deployment", annotations.PREEMPTABLE),
    *(("Volcano Job", key) for key in annotations.INHERITED_ANNOTATIONS),
    *(("TYJob", key) for key in manifests._GANG_ANNOTATIONS),
)
_UNUSED: Final = re.compile(r"^Not supported|Accepted and not used")
#: The words of the comments in ``annotations.py`` → what the tables call the kind.
_KINDS: Final = re.compile(
    r"^(?:Annotations of|On) an? ([\w' ]*?)(?: \([^)]*\))?(?: or (PodGroup))?"
    r"(?:, written by (the scheduler))?[:,]?(?: that hold .*)?$"
)


def every_field() -> set[Field]:
    """All of them."""
    read = {
        (kind.strip(), f"{part}.{field.encode_name}")
        for kind, (part, struct) in READ.items()
        for field in msgspec.structs.fields(struct)
    }
    return {*_defined(), *_annotated(), *read, *OTHERS}


def _defined() -> Iterator[Field]:
    for file in (REPO / "crds").glob("*.yaml"):
        definition = yaml.safe_load(file.read_text())
        (version,) = definition["spec"]["versions"]
        spec = version["schema"]["openAPIV3Schema"]["properties"].get("spec")
        if spec is None:
            continue  # a Command: it is carried out once, and gone
        kind = DEFINED[definition["metadata"]["name"]]
        yield from ((kind, path) for path in _paths(spec, "spec"))


def _paths(schema: dict[str, Any], path: str) -> Iterator[str]:
    if _UNUSED.search(schema.get("description", "")):
        return
    fields = schema.get("properties")
    if schema.get("type") == "array" and schema["items"].get("properties"):
        yield from _paths(schema["items"], f"{path}[]")
    elif fields and not schema.get("x-kubernetes-preserve-unknown-fields"):
        for name, field in fields.items():
            yield from _paths(field, f"{path}.{name}")
    else:
        yield path


def _annotated() -> Iterator[Field]:
    for constant in constants(annotations):
        if constant.section == "Kubernetes":
            continue
        kinds = _KINDS.match(constant.meaning.partition(":")[0])
        assert kinds is not None, f"{constant.name}: which kind is it on? {constant.meaning}"
        yield kinds[1], constant.value
        if kinds[2]:
            yield kinds[2], constant.value
