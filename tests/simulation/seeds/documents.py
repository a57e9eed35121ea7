"""The examples of the documents that the design starts from, and the least that makes them valid.

They lie in ``examples`` as they are written there; only the indentation is restored. What an API
server refuses of them is told by ``tests/api_conformance``.
"""

from __future__ import annotations

import json
from typing import Any, Final

import yaml

from tests.builders import PodBuilder, a_pod
from tests.paths import REPO

Object = dict[str, Any]

FOLDER: Final = REPO / "tests" / "simulation" / "seeds" / "examples"
#: The group that a PodGroup of the bare version ``v1alpha1`` is of.
POD_GROUP: Final = "scheduling.sigs.k8s.io/v1alpha1"


def documents(name: str) -> list[Object]:
    """The documents of an example."""
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()))


def corrected(document: Object) -> Object:
    """The object with texts for annotations, lower-case namespaces and the API group."""
    made: Object = json.loads(json.dumps(document).replace("namespaceA", "ns-a"))
    made = json.loads(json.dumps(made).replace("namespaceB", "ns-b"))
    if made.get("apiVersion") == "v1alpha1":
        made["apiVersion"] = POD_GROUP
    notes = made["metadata"].get("annotations", {})
    made["metadata"]["annotations"] = {
        key: text if isinstance(text, str) else json.dumps(text) for key, text in notes.items()
    }
    return made


def pods_with(document: Object, name: str, count: int, namespace: str = "") -> list[PodBuilder]:
    """Pods of one CPU with the annotations of a document that has nothing else."""
    notes = corrected(document)["metadata"]["annotations"]
    pods = [a_pod(f"{name}-{n}").needs(cpu=1).annotated(notes) for n in range(count)]
    return [pod.in_namespace(namespace) for pod in pods] if namespace else pods
