"""The objects of the suite, each saying only what matters, and what must be there before them."""

from __future__ import annotations

from typing import Any, Final

from tests.api_conformance.client import Api, Object
from tests.controlplane.harness import until
from tests.project.crds.samples import definitions

LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
BUDGETS: Final = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/{}/events"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP: Final = "conformance.arranger.io"


def pods(namespace: str) -> str:
    """Where the pods of a namespace are."""
    return f"/api/v1/namespaces/{namespace}/pods"


def a_pod(name: str, *, metadata: Object | None = None, **spec: Any) -> Object:
    """A pod of one container without needs."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "main", "image": "pause"}], **spec},
    }


def a_node(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """A node of four cores."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


def a_binding(pod: str, node: str, **metadata: Any) -> Object:
    """A Binding of a pod to a node."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, **metadata},
        "target": {"kind": "Node", "name": node},
    }


def a_lease(name: str, *, metadata: Object | None = None, **spec: Any) -> Object:
    """A Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **(metadata or {})},
        "spec": spec,
    }


def an_event(name: str, namespace: str, **fields: Any) -> Object:
    """An Event as a scheduler publishes it."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.123456Z",
        "reportingController": "arranger.io/scheduler",
        "reportingInstance": "arranger-1",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "Successfully assigned it",
        "regarding": {"kind": "Pod", "namespace": namespace, "name": "web"},
        **fields,
    }


def a_definition(kind: str) -> Object:
    """A CRD with a schema, a default, a status subresource and printer columns."""
    plural = f"{kind.lower()}s"
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                    "parts": {"type": "array", "items": {"type": "string"}},
                    "options": {"type": "object", "additionalProperties": {"type": "string"}},
                    "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "limit": {"x-kubernetes-int-or-string": True},
                },
            },
            "status": {
                "type": "object",
                "properties": {"phase": {"type": "string"}, "ready": {"type": "integer"}},
            },
        },
    }
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": plural,
                "singular": kind.lower(),
                "kind": kind,
                "shortNames": [kind[:2].lower()],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


def an_object_of(kind: str, name: str, /, **spec: Any) -> Object:
    """An object of one of the suite's own kinds."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def a_widget(name: str, /, **spec: Any) -> Object:
    """An object of the kind that most of the suite's tests use."""
    return an_object_of("Widget", name, **{"size": 1, **spec})


async def new_namespace(api: Api) -> str:
    """Create a namespace with a name the server chooses."""
    made = await api.create("/api/v1/namespaces", {"metadata": {"generateName": "suite-"}})
    return str(made["metadata"]["name"])


async def register(
    api: Api, kind: str, definition: Object | None = None, *, namespace: str = ""
) -> str:
    """Register one of the suite's own kinds and wait until it is served; where its objects are."""
    definition = definition or a_definition(kind)
    answer = await api.call("POST", CRDS, definition)
    assert answer.status in (201, 409), answer.body
    plural = definition["spec"]["names"]["plural"]
    path = f"/apis/{GROUP}/v1/{plural}"

    async def served() -> bool:
        return (await api.call("GET", path)).status == 200

    await until(served, what=path)
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/{plural}"


def crd_path(crd: str, namespace: str) -> str:
    """Where the objects of one of our definitions are."""
    spec = definitions()[crd]["spec"]
    where = f"namespaces/{namespace}/" if spec["scope"] == "Namespaced" else ""
    return f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{where}{spec['names']['plural']}"
