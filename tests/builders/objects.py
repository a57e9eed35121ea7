"""Nodes, PodGroups, queues and stored objects of a test, and a cluster of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec

from arranger.api.types.core import Node
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.pod_groups import AnyPodGroup, SigsPodGroup
from arranger.api.types.queue import Queue
from arranger.cluster.attempt_work import AttemptWork
from arranger.cluster.cluster import Cluster
from arranger.cluster.disruption_budgets import DisruptionBudgets
from arranger.cluster.object_store import STORED_KINDS, StoredObject
from arranger.controllers.runtime.objects import UnstructuredObject
from tests.builders.base import ManifestBuilder, Quantity, quantity_texts
from tests.builders.pods import PodBuilder


class NodeBuilder(ManifestBuilder):
    """See :func:`a_node`."""

    def build(self) -> Node:
        return msgspec.convert(self._manifest, Node)

    def offers(self, more: Mapping[str, Quantity] | None = None, /, **amounts: Quantity) -> Self:
        """Allocatable resources, added to or replacing what it has."""
        offered = quantity_texts({**(more or {}), **amounts})
        return self._merge("status", allocatable=offered, capacity=offered)

    def in_zone(self, zone: str, region: str = "r1") -> Self:
        return self.labelled(
            {"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": region}
        )

    def tainted(self, key: str, value: str = "", *, effect: str = "NoSchedule") -> Self:
        return self._append("spec", taints={"key": key, "value": value, "effect": effect})

    def cordoned(self) -> Self:
        """As ``kubectl cordon`` and the node controller leave it."""
        cordon = self.tainted("node.kubernetes.io/unschedulable")
        return cordon._set("spec", unschedulable=True)

    def holding(self, image: str, size: int) -> Self:
        """An image is present on the node, of ``size`` bytes."""
        return self._append("status", images={"names": [image], "sizeBytes": size})

    def saying(self, **conditions: str) -> Self:
        """These conditions, by type, in place of those it has."""
        said = [{"type": kind, "status": status} for kind, status in conditions.items()]
        return self._set("status", conditions=said)

    def declaring(self, *features: str) -> Self:
        """The kubelet has these features."""
        return self._set("status", declaredFeatures=list(features))


class PodGroupBuilder(ManifestBuilder):
    """See :func:`a_pod_group`."""

    def build(self, kind: type[AnyPodGroup] = SigsPodGroup) -> AnyPodGroup:
        return msgspec.convert(self._manifest, kind)


def an_unstructured(body: Mapping[str, Any]) -> UnstructuredObject:
    """An object as the informers of the controllers show it."""
    return msgspec.convert(body, UnstructuredObject)


class StoredBuilder(ManifestBuilder):
    """An object that plugins look up; see :mod:`tests.storage` for those of storage."""

    def build(self) -> StoredObject:
        return msgspec.convert(self._manifest, STORED_KINDS[self._manifest["kind"]])


#: What a cluster of a test is made of.
Member = NodeBuilder | PodBuilder | StoredBuilder


def a_node(name: str = "n") -> NodeBuilder:
    """A node of 4 CPU, 32Gi and 110 pods that carries its hostname label."""
    empty = NodeBuilder(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": {"kubernetes.io/hostname": name},
            },
            "spec": {},
            "status": {},
        }
    )
    return empty.offers(cpu=4, memory="32Gi", pods=110)


def a_pod_group(name: str = "g", *, least: int | None = None, **spec: Any) -> PodGroupBuilder:
    """The PodGroup ``default/<name>`` of ``scheduling.sigs.k8s.io``."""
    members = {} if least is None else {"minMember": least}
    return PodGroupBuilder(
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-group-{name}"},
            "spec": {**members, **spec},
        }
    )


def a_queue(
    name: str = "q", *, cards: Mapping[str, int] | None = None, state: str = "Open", **spec: Any
) -> Queue:
    """A Queue with a quota of cards, if given; ``spec`` by its API names."""
    notes = {} if cards is None else {"volcano.sh/card.quota": json.dumps(cards)}
    manifest = {
        "metadata": {"name": name, "uid": f"uid-queue-{name}", "annotations": notes},
        "spec": spec,
        "status": {"state": state},
    }
    return msgspec.convert(manifest, Queue)


def a_disruption_budget(
    selector: Mapping[str, Any] | None,
    allowed: int = 0,
    *,
    name: str = "b",
    namespace: str = "default",
    disrupted: Iterable[str] = (),
) -> PodDisruptionBudget:
    """A PodDisruptionBudget that lets so many pods go; it has counted those ``disrupted``."""
    manifest = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector},
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
        },
    }
    return msgspec.convert(manifest, PodDisruptionBudget)


def disruption_budgets(*budgets: PodDisruptionBudget) -> DisruptionBudgets:
    """Those of a cluster."""
    known = DisruptionBudgets(AttemptWork())
    for each in budgets:
        known.set(each)
    known.check_consistent()
    return known


def a_cluster(*members: Member) -> Cluster:
    """A cluster of nodes, of pods that are :meth:`~PodBuilder.on` them, and of other objects."""
    cluster = Cluster()
    for member in members:
        if isinstance(member, NodeBuilder):
            cluster.set_node(member.build())
        elif isinstance(member, PodBuilder):
            cluster.observe_pod(member.info())
        else:
            cluster.objects.set(member.build())
    return cluster
