"""Objects of every kind that the scheduler watches, each called ``victim``, and who needs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests import devices, storage
from tests.builders import NodeBuilder, PodBuilder, StoredBuilder, a_node, a_pod, a_pod_group
from tests.builders.workloads import kubeflow_pods, replicas
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.gangs import members, of_pod_group
from tests.simulation.harnesses.simulation import Object


@dataclass(frozen=True)
class Victim:
    """An object called ``victim``, and pods that need it and may suffer with it.

    Attributes:
        path: where it is edited in the end.
        others: objects without which nobody would look at it.
    """

    manifest: Callable[[], Object]
    path: str
    pods: Callable[[], list[PodBuilder]] = list
    others: Callable[[], list[StoredBuilder | NodeBuilder]] = list


def small_node(name: str) -> NodeBuilder:
    return a_node(name).offers(cpu=6, pods=20).labelled(disk="small").in_zone("z")


def _budget() -> Object:
    selector = {"matchLabels": {"app": "low"}}
    meta = {"name": "victim", "namespace": "default"}
    head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta}
    return {**head, "spec": {"selector": selector, "maxUnavailable": 1}}


def _plain(builder: Any) -> Object:
    manifest: Object = builder.manifest()
    manifest["metadata"].pop("resourceVersion", None)
    manifest["metadata"].pop("uid", None)
    return manifest


def _namespace() -> Object:
    meta = {"name": "victim", "labels": {"team": "a"}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def _user(name: str = "user") -> PodBuilder:
    return a_pod(name).needs(cpu=1)


def _named_victim(builder: StoredBuilder) -> StoredBuilder:
    return builder._set("metadata", name="victim")


def _space() -> StoredBuilder:
    return _named_victim(storage.space_in("z", "10Gi", of="spacious"))._set(
        "metadata", namespace="default"
    )


def _attached_volume() -> list[StoredBuilder | NodeBuilder]:
    claim = storage.a_claim("attached", of="csi").bound_to("volume")
    volume = storage.a_volume("volume", of="csi").served_by(storage.DRIVER, "h").held_by("attached")
    return [storage.a_class("csi"), volume, claim]


def _namespaced(group_version: str, kind: str, plural: str, **fields: Any) -> Victim:
    """An object of ``default``, and a pod with the labels that its selector matches."""
    meta = {"name": "victim", "namespace": "default"}
    root = "api" if group_version == "v1" else "apis"
    return Victim(
        lambda: {"apiVersion": group_version, "kind": kind, "metadata": meta, **fields},
        f"/{root}/{group_version}/namespaces/default/{plural}/victim",
        lambda: [_user().labelled(app="x")],
    )


def _replicas_of(group_version: str, kind: str, plural: str) -> Victim:
    container = {"name": "c", "image": "i"}
    template = {"metadata": {"labels": _X}, "spec": {"containers": [container]}}
    selector = _X if kind == "ReplicationController" else {"matchLabels": _X}
    spec = {"replicas": 0, "selector": selector, "template": template}
    return _namespaced(group_version, kind, plural, spec=spec)


def _reservation() -> Object:
    spec = {
        "nodes": {"names": ["big"]},
        "window": {"start": "2026-01-02T00:00:00Z", "duration": "1h"},
        "users": {"queues": ["victim"]},
    }
    head = {"apiVersion": "arranger.io/v1alpha1", "kind": "Reservation"}
    return {**head, "metadata": {"name": "victim"}, "spec": spec}


_X = {"app": "x"}
_OWNER = replicas("PyTorchJob", "victim", Worker=2)
_LABEL_X = "scheduling.x-k8s.io/pod-group"
_VOLCANO_GROUP = {"scheduling.k8s.io/group-name": "victim"}

VICTIMS = {
    "a node": Victim(
        lambda: _plain(small_node("victim")),
        "/api/v1/nodes/victim",
    ),
    "a volume": Victim(
        lambda: _plain(storage.a_volume("victim", of="hand")), "/api/v1/persistentvolumes/victim"
    ),
    "a claim of a volume": Victim(
        lambda: _plain(storage.a_claim("victim", of="hand")),
        "/api/v1/namespaces/default/persistentvolumeclaims/victim",
        lambda: [_user().with_claim("victim")],
    ),
    "a storage class": Victim(
        lambda: _plain(storage.a_class("victim")),
        "/apis/storage.k8s.io/v1/storageclasses/victim",
        lambda: [_user().with_claim("of-victim")],
        lambda: [storage.a_claim("of-victim", of="victim")],
    ),
    "the drivers of a node": Victim(
        lambda: _plain(storage.a_csi_node("victim", csi_example_com=3)),
        "/apis/storage.k8s.io/v1/csinodes/victim",
        lambda: [_user().with_claim("attached")],
        lambda: [small_node("victim"), *_attached_volume()],
    ),
    "a driver of volumes": Victim(
        lambda: _plain(storage.a_driver("victim")),
        "/apis/storage.k8s.io/v1/csidrivers/victim",
        lambda: [_user().with_claim("of-victim")],
        lambda: [
            storage.a_class("by-victim", by="victim"),
            storage.a_claim("of-victim", of="by-victim"),
        ],
    ),
    "the space of a driver": Victim(
        lambda: _plain(_space()),
        "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities/victim",
        lambda: [_user().with_claim("of-spacious")],
        lambda: [
            storage.a_driver(counts_space=True),
            storage.a_class("spacious"),
            storage.a_claim("of-spacious", of="spacious"),
        ],
    ),
    "an attachment of a volume": Victim(
        lambda: _plain(_named_victim(storage.attached("volume", "n0"))),
        "/apis/storage.k8s.io/v1/volumeattachments/victim",
        lambda: [_user().with_claim("attached")],
        lambda: [storage.a_csi_node("n0", csi_example_com=3), *_attached_volume()],
    ),
    "a slice of devices": Victim(
        lambda: _plain(devices.a_slice("n0", "a", "b", name="victim")),
        "/apis/resource.k8s.io/v1/resourceslices/victim",
    ),
    "a claim of devices": Victim(
        lambda: _plain(devices.a_claim("victim").asks()),
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/victim",
        lambda: [devices.claiming(_user(), "victim")],
    ),
    "a class of devices": Victim(
        lambda: _plain(devices.a_device_class("victim")),
        "/apis/resource.k8s.io/v1/deviceclasses/victim",
        lambda: [devices.claiming(_user(), "of-victim")],
        lambda: [devices.a_claim("of-victim").asks(of="victim")],
    ),
    "a disruption budget": Victim(
        _budget, "/apis/policy/v1/namespaces/default/poddisruptionbudgets/victim"
    ),
    "a namespace": Victim(_namespace, "/api/v1/namespaces/victim"),
    "a queue": Victim(
        lambda: a_queue_manifest("victim", weight=1),
        "/apis/scheduling.volcano.sh/v1beta1/queues/victim",
        lambda: [_user().in_queue("victim")],
    ),
    "a pod group": Victim(
        lambda: _plain(a_pod_group("victim", least=2)),
        "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups/victim",
        lambda: of_pod_group("victim", 2),
    ),
    "a pod group of before": replace(
        _namespaced("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups", spec={"minMember": 2}),
        pods=lambda: [_user(f"v{n}").in_pod_group("victim", label=_LABEL_X) for n in range(2)],
    ),
    "a pod group of Volcano": replace(
        _namespaced(
            "scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", spec={"minMember": 2}
        ),
        pods=lambda: [_user(f"v{n}").annotated(_VOLCANO_GROUP) for n in range(2)],
    ),
    "a pod group of Kubernetes": replace(
        _namespaced(
            "scheduling.k8s.io/v1beta1",
            "PodGroup",
            "podgroups",
            spec={"schedulingPolicy": {"gang": {"minCount": 2}}},
        ),
        pods=lambda: [
            _user(f"v{n}").with_spec(schedulingGroup={"podGroupName": "victim"}) for n in range(2)
        ],
    ),
    "a gang": replace(
        _namespaced("arranger.io/v1alpha1", "Gang", "gangs", spec={}),
        pods=lambda: members("victim", 2),
    ),
    "a reservation": Victim(_reservation, "/apis/arranger.io/v1alpha1/reservations/victim"),
    "a service": _namespaced(
        "v1", "Service", "services", spec={"selector": _X, "ports": [{"port": 80}]}
    ),
    "a replication controller": _replicas_of(
        "v1", "ReplicationController", "replicationcontrollers"
    ),
    "a replica set": _replicas_of("apps/v1", "ReplicaSet", "replicasets"),
    "a stateful set": _replicas_of("apps/v1", "StatefulSet", "statefulsets"),
    "an owner of pods": Victim(
        lambda: _plain(_OWNER),
        "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/victim",
        lambda: kubeflow_pods(_OWNER, Worker=2),
    ),
}
