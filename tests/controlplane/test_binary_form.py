"""Pods and nodes in the real API server's binary form, beside the same in JSON.

The judge of our field numbers and of every rule about what is left out: whatever a field is, both
forms have to say the same.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from arranger.api.parsing.protobuf import MEDIA_TYPE
from arranger.api.types.core import Node, Pod
from arranger.kube.client.status import parse_status
from arranger.kube.client.transport import Request, Transport
from arranger.kube.watch.decoder import Decoder, T
from arranger.kube.watch.listing import list_collection
from arranger.kube.watch.protobuf_decoder import decoder_of
from arranger.kube.watch.reflector import Reflector
from tests.binary_form import a_field, an_entry, wrapped
from tests.controlplane.harness import ControlPlane, a_node, a_pod, until
from tests.controlplane.test_kube_edge import Store, connected, namespace_of, running

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("controlplane"),
]

SELECTOR = {
    "matchLabels": {"app": "a"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}],
}
NODE_TERM = {
    "matchExpressions": [{"key": "cards", "operator": "Gt", "values": ["4"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
}
POD_TERM = {
    "topologyKey": "zone",
    "labelSelector": SELECTOR,
    "namespaces": ["one", "two"],
    "namespaceSelector": {},
    "matchLabelKeys": ["pod-template-hash"],
}
RESOURCES = {
    "requests": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2"},
    "limits": {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "2"},
}
DISK_URI = "/subscriptions/s/resourcegroups/g/providers/microsoft.compute/disks/d"
#: A disk of each kind that a pod may name itself, with what there may be beside its name.
DISKS: list[dict[str, Any]] = [
    {"gcePersistentDisk": {"pdName": "d", "fsType": "ext4", "partition": 3, "readOnly": True}},
    {"gcePersistentDisk": {"pdName": "d2"}},
    {"awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}},
    {"azureDisk": {"diskName": "a", "diskURI": DISK_URI, "kind": "Managed"}},
    {"cinder": {"volumeID": "c", "readOnly": True}},
    {"portworxVolume": {"volumeID": "p"}},
    {"rbd": {"monitors": ["m1", "m2"], "image": "i", "pool": "p", "readOnly": True}},
    {"rbd": {"monitors": ["m1"], "image": "i2"}},
    {"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2015-01.com.example:d", "lun": 0}},
    {"persistentVolumeClaim": {"claimName": "claim"}},
    {"emptyDir": {}},
    {"image": {"reference": "registry/model:1", "pullPolicy": "Always"}},
    {
        "ephemeral": {
            "volumeClaimTemplate": {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                }
            }
        }
    },
]
#: What the binary form is read of in a source that is a dict.
READ_OF_DISKS = {"pdName", "volumeID", "diskURI", "monitors", "image", "pool", "iqn", "readOnly"}


def a_rich_pod(namespace: str) -> dict[str, Any]:
    """A pod with all that the scheduler reads of one."""
    pod = a_pod("rich", namespace=namespace)
    pod["metadata"] |= {
        "labels": {"app": "a", "empty": "", "pod-template-hash": "5"},
        "annotations": {"text": "ünïcode \u2028 \U0001f600", "long": "x" * 300},
        "finalizers": ["example.com/keep", "example.com/keep-too"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True},
            {"apiVersion": "v1", "kind": "Node", "name": "m", "uid": "v"},
        ],
    }
    pod["spec"] |= {
        "activeDeadlineSeconds": 600,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [NODE_TERM, NODE_TERM]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 7, "preference": NODE_TERM}
                ],
            },
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM]},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "podAffinityTerm": POD_TERM}
                ]
            },
        },
        "containers": [
            {
                "name": "main",
                "image": "registry/train:1",
                "resources": RESOURCES,
                "ports": [
                    {"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"},
                    {"containerPort": 53, "protocol": "UDP"},
                ],
                "env": [{"name": f"E{n}", "value": "x" * n} for n in range(200)],
            },
            {"name": "side", "image": "i", "resources": {"claims": [{"name": "one"}]}},
        ],
        "initContainers": [
            {"name": "first", "image": "i", "restartPolicy": "Always", "resources": RESOURCES},
            {
                "name": "second",
                "image": "i",
                "restartPolicy": "Never",
                "restartPolicyRules": [
                    {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
                ],
            },
        ],
        "resources": {"requests": {"cpu": "4", "memory": "8Gi"}},
        "hostNetwork": False,
        "hostUsers": False,
        "nodeSelector": {"pool": "a", "zone": "z"},
        "preemptionPolicy": "PreemptLowerPriority",
        "priorityClassName": "system-node-critical",
        "schedulingGates": [{"name": "example.com/gate"}],
        "schedulerName": "someone",
        "tolerations": [
            {"operator": "Exists"},
            {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"},
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 2,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
                "minDomains": 3,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
                "matchLabelKeys": ["pod-template-hash"],
            },
            {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        "resourceClaims": [
            {"name": "one", "resourceClaimName": "claim"},
            {"name": "two", "resourceClaimTemplateName": "template"},
        ],
        "volumes": [{"name": f"v{n}", **source} for n, source in enumerate(DISKS)],
    }
    return pod


STATUS = {
    "status": {
        "phase": "Running",
        "nominatedNodeName": "n2",
        "startTime": "2026-01-02T03:04:05Z",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/1 nodes are available",
                "lastTransitionTime": "1969-12-31T23:59:59Z",
            },
            {"type": "Ready", "status": "True", "lastTransitionTime": None},
        ],
        "containerStatuses": [
            {
                "name": "main",
                "ready": False,
                "restartCount": 0,
                "image": "",
                "imageID": "",
                "resources": RESOURCES,
                "allocatedResources": RESOURCES["requests"],
                "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-02-03T04:05:06Z"}},
            }
        ],
        "initContainerStatuses": [
            {"name": "first", "ready": True, "restartCount": 0, "image": "", "imageID": ""}
        ],
        "allocatedResources": RESOURCES["requests"],
        "resources": RESOURCES,
        "resourceClaimStatuses": [{"name": "one", "resourceClaimName": "made"}, {"name": "two"}],
    }
}
SANDBOX = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "binary-sandbox"},
    "handler": "sandbox",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
}
TAINT = {"key": "k", "value": "v", "effect": "NoExecute"}
NODE_STATUS = {
    "status": {
        "images": [{"names": ["a:1", "a@sha256:0"], "sizeBytes": 123456789012}, {"names": []}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "declaredFeatures": ["GuaranteedQoSPodCPUResize"],
    }
}


#: Bytes that are no UTF-8, which the API server takes and keeps.
NO_TEXTS = (
    b"\xff",
    b"a\xe2\x82b",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
    b"\xc0\x80",
)
ODD_TEXTS = (b"", b"\0", b"\x1b[2J", b"\xef\xbb\xbf", "\u2028\u202e\U0001f600".encode())

#: Structs that a pod has too, whose fields are all compared there.
OF_PODS_TOO = ("ObjectMeta.", "OwnerReference.", "StatusCondition.")
#: The fields that have been compared.
SAID: set[str] = set()
#: What this server drops; ``workloads/test_native_pod_groups.py`` has one that keeps it.
BEHIND_A_GATE = {"PodSpec.scheduling_group", "SchedulingGroup.pod_group_name"}


def plain(obj: Any) -> Any:
    """An object as JSON has it, with what is read of disks alone."""
    found = msgspec.to_builtins(obj)
    for volume in found.get("spec", {}).get("volumes", []):
        for kind, source in volume.items():
            if isinstance(source, dict) and kind not in ("image", "persistentVolumeClaim"):
                volume[kind] = {
                    k: v for k, v in source.items() if k in READ_OF_DISKS and v is not False
                }
    return found


def said(obj: msgspec.Struct) -> set[str]:
    """The fields, by Struct and name, to which an object gives a value that is not the default."""
    found = set()
    for info in msgspec.structs.fields(type(obj)):
        value = getattr(obj, info.name)
        empty = value is None or value in ("", {}, []) or value == info.default
        if not empty:
            found.add(f"{type(obj).__name__}.{info.name}")
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, msgspec.Struct):
                found |= said(each)
    return found


def all_fields(kind: type) -> set[str]:
    """The fields of a Struct and of all that are in it, by Struct and name."""
    found: set[str] = set()
    waiting: list[Any] = [inspect.type_info(kind)]
    while waiting:
        match waiting.pop():
            case inspect.StructType(cls, fields=fields):
                names = {f"{cls.__name__}.{field.name}" for field in fields}
                if not names <= found:
                    found |= names
                    waiting += [field.type for field in fields]
            case inspect.UnionType(types):
                waiting += types
            case inspect.ListType(item_type):
                waiting.append(item_type)
    return found


async def both_forms(transport: Transport, path: str, kind: type[T]) -> tuple[Any, Any]:
    """What a collection is in JSON and in binary form, by name."""
    found = []
    for decoder in (Decoder(kind), decoder_of(kind)):
        listed = await list_collection(transport, path, decoder)
        assert listed is not None
        assert not listed.undecodable
        found.append({each.metadata.name: plain(each) for each in listed.objects})
        SAID.update(*map(said, listed.objects))
    return found[0], found[1]


async def test_a_list_says_of_pods_the_same_in_binary_form_as_in_json(
    control_plane: ControlPlane,
) -> None:
    namespace = await namespace_of(control_plane, "binary-pods")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await control_plane.post(pods, a_rich_pod(namespace))
    await control_plane.merge(f"{pods}/rich/status", STATUS)
    await control_plane.post("/apis/node.k8s.io/v1/runtimeclasses", SANDBOX)
    bound = a_pod("bound", namespace=namespace)
    bound["spec"] |= {"hostNetwork": True, "nodeName": "n1", "runtimeClassName": "binary-sandbox"}
    await control_plane.post(pods, bound)
    await control_plane.request("DELETE", f"{pods}/rich")
    async with connected(control_plane) as transport:
        text, binary = await both_forms(transport, pods, Pod)
    assert set(text) == {"rich", "bound"}
    assert text["rich"]["metadata"]["deletionTimestamp"], "its finalizers keep it"
    assert binary == text
    assert all_fields(Pod) - SAID == BEHIND_A_GATE


async def test_bytes_that_are_no_text_are_the_same_marks_in_both_forms(
    control_plane: ControlPlane,
) -> None:
    namespace = await namespace_of(control_plane, "binary-bytes")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    notes = b"".join(
        a_field(12, an_entry(f"k{n}", each)) for n, each in enumerate((*NO_TEXTS, *ODD_TEXTS))
    )
    container = a_field(1, "c") + a_field(2, b"i" + NO_TEXTS[1]) + a_field(8, b"")
    body = a_field(1, a_field(1, "odd") + a_field(3, namespace) + notes)
    body += a_field(2, a_field(2, container) + a_field(19, NO_TEXTS[2]))
    # What comes twice counts as both together, and what is not known is passed over.
    body += a_field(1, a_field(11, an_entry("late", "")) + a_field(900, 5))
    session, binary = control_plane._session, {"Content-Type": MEDIA_TYPE}
    assert session is not None
    url = control_plane.url + pods
    async with session.post(url, data=wrapped(body), headers=binary) as answer:
        assert answer.status == 201, await answer.read()
    async with connected(control_plane) as transport:
        text, binary_form = await both_forms(transport, pods, Pod)
    assert text["odd"]["metadata"]["labels"] == {"late": ""}
    assert text["odd"]["metadata"]["annotations"]["k1"] == "a\ufffd\ufffdb"
    assert binary_form == text


async def test_a_list_says_of_nodes_the_same_in_binary_form_as_in_json(
    control_plane: ControlPlane,
) -> None:
    node = a_node("binary-node")
    node["metadata"]["labels"] = {"zone": "z", "empty": ""}
    node["spec"] = {"unschedulable": True, "taints": [TAINT]}
    await control_plane.post("/api/v1/nodes", node)
    await control_plane.merge("/api/v1/nodes/binary-node/status", NODE_STATUS)
    async with connected(control_plane) as transport:
        text, binary = await both_forms(transport, "/api/v1/nodes", Node)
    await control_plane.request("DELETE", "/api/v1/nodes/binary-node")
    assert text["binary-node"]["status"]["images"]
    assert binary == text
    assert not {name for name in all_fields(Node) - SAID if not name.startswith(OF_PODS_TOO)}


async def test_a_watch_in_binary_form_follows_what_happens(control_plane: ControlPlane) -> None:
    namespace = await namespace_of(control_plane, "binary-watch")
    pods, store = f"/api/v1/namespaces/{namespace}/pods", Store()
    await control_plane.post(pods, a_pod("before", namespace=namespace))

    def seen(*names: str) -> Any:
        async def check() -> bool:
            return set(store.pods) == set(names)

        return check

    async with connected(control_plane) as transport:
        reflector = Reflector(transport, pods, decoder_of(Pod), store, rng=random.Random(1))
        async with running(reflector.run()):
            await until(seen("before"), within=10, what="the full state")
            assert store.full_states == 1
            await control_plane.post(pods, a_rich_pod(namespace))
            await until(seen("before", "rich"), within=10, what="the addition")
            await control_plane.request("DELETE", f"{pods}/before?gracePeriodSeconds=0")
            await until(seen("rich"), within=10, what="the deletion")
            text, _ = await both_forms(transport, pods, Pod)
            assert plain(store.pods["rich"]) == text["rich"]
            assert store.full_states == 1


async def test_a_refusal_in_binary_form_is_understood(control_plane: ControlPlane) -> None:
    async with connected(control_plane) as transport:
        accept = decoder_of(Pod).accept
        query = {"resourceVersion": "1", "continue": "nonsense"}
        answer = await transport.send(Request("GET", "/api/v1/pods", query, accept=accept))
        assert answer.body.startswith(b"k8s\x00")
        assert parse_status(answer.body).code == answer.status == 400
        assert "continue" in parse_status(answer.body).message
