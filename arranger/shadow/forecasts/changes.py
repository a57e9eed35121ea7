"""Changes to the objects of a cluster that somebody thinks about: the questions of ``whatif``.

Each is a line of text and a function that changes copies of the objects; one that does not apply
raises :class:`ChangeError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from typing import Any, Final

import msgspec

from arranger.api.quantity import QuantityError, milli_value, parse_quantity, value
from arranger.api.types.core import (
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodStatus,
    SchedulingGate,
)
from arranger.api.types.queue import Queue, QueueSpec
from arranger.api.types.reservation import Reservation
from arranger.api.types.storage import PersistentVolumeClaim
from arranger.shadow.inputs.claims import without_users
from arranger.shadow.inputs.daemon_pods import node_of_daemon_pod
from arranger.shadow.inputs.objects import CLUSTER_WIDE, ClusterObjects
from arranger.shadow.inputs.pod_claims import claims_made_for, put_with_claims, with_class
from arranger.shadow.inputs.words import names_kind

#: What of a Queue can be changed, and how much of a resource it may be given: thousandths of it are
#: counted in 64 bits.
_QUEUE_FIELDS: Final = ("capability", "deserved", "guarantee")
_MAX_AMOUNT: Final = (2**63 - 1) // 1000
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"


class ChangeError(ValueError):
    """A change does not apply: what it names is not there, or is none."""


class MalformedChangeError(ChangeError):
    """What is given is no change, whatever there is in the cluster."""


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """One change.

    Attributes:
        text: what changes, in a few words.
        apply: changes the objects.
    """

    text: str
    apply: Callable[[ClusterObjects], None]


def delete(kind: str, key: str) -> ClusterChange:
    """The object ``namespace/name`` of a kind (its word in kubectl, singular or plural) is gone.

    A pod, and those of a node, which pod garbage collection deletes with it, come back where a
    controller makes them again. With a namespace all is gone that is in it. Of any other kind: the
    pods that the object controls are gone with it, and what stands between, such as the ReplicaSets
    of a Deployment; nobody makes them again.
    """
    name = key.rpartition("/")[2]
    is_cluster_wide = any(names_kind(kind, each) for each in CLUSTER_WIDE)
    at, called = (f"/{name}", name) if is_cluster_wide else (key, key)

    def apply(objects: ClusterObjects) -> None:
        there = objects.named(kind, at)
        pods, between = objects.controlled_by(kind, at)
        inside = objects.in_namespace(name) if names_kind(kind, "Namespace") else []
        gone = [*there, *((Pod, pod.key) for pod in pods), *between, *inside]
        if not gone:
            raise ChangeError(f"there is no {kind} {called}")
        deleted = objects.get(Pod, at) if (Pod, at) in there else None
        dropped = [objects.drop(of, each) for of, each in gone]
        pods_gone = [each for each in dropped if isinstance(each, Pod)]
        if deleted is not None and not deleted.terminal:
            _delete_pods(objects, [deleted])
        stays = deleted if deleted is not None and not deleted.terminal else None
        _release_claims(objects, pods_gone)
        _drop_claims(objects, [each for each in pods_gone if each is not stays])
        if (Node, at) in there:
            _delete_pods_of_node(objects, name)

    return ClusterChange(f"without {kind} {called}", apply)


def _release_claims(objects: ClusterObjects, pods: Sequence[Pod]) -> None:
    for _, claim in without_users(objects, pods):
        objects.put(claim)


def _drop_claims(objects: ClusterObjects, pods: Sequence[Pod]) -> None:
    """What was made for pods goes with them, as the garbage collector has it."""
    for claim in claims_made_for(objects, pods):
        objects.drop(type(claim), claim.key)


def _delete_pods_of_node(objects: ClusterObjects, name: str) -> None:
    waiting = (pod for pod in objects.of(Pod) if not pod.spec.node_name)
    for pod in [each for each in waiting if node_of_daemon_pod(each) == name]:
        objects.drop(Pod, pod.key)  # their DaemonSets want them no more
    here = [pod for pod in objects.of(Pod) if pod.spec.node_name == name and not pod.terminal]
    _delete_pods(objects, [pod for pod in here if pod.metadata.deletion_timestamp is None])


def _delete_pods(objects: ClusterObjects, pods: Sequence[Pod]) -> None:
    """They are about to end: whoever carries out the change has controllers make them again."""
    for pod in pods:
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=LONG_AGO)
        objects.put(msgspec.structs.replace(pod, metadata=metadata))


def cordon(name: str, *, back: bool = False) -> ClusterChange:
    """A node takes no more pods; with ``back`` it does again."""

    def apply(objects: ClusterObjects) -> None:
        node = node_of(objects, name)
        spec = uncordoned(node) if back else msgspec.structs.replace(node.spec, unschedulable=True)
        objects.put(msgspec.structs.replace(node, spec=spec))

    return ClusterChange(f"node {name} {'uncordoned' if back else 'cordoned'}", apply)


def uncordoned(node: Node) -> NodeSpec:
    """Without the taint, too, that the node lifecycle controller gives to a cordoned node."""
    taints = [taint for taint in node.spec.taints if taint.key != _UNSCHEDULABLE]
    return msgspec.structs.replace(node.spec, unschedulable=False, taints=taints)


def untaint(name: str) -> ClusterChange:
    """A node loses its taints."""

    def apply(objects: ClusterObjects) -> None:
        node = node_of(objects, name)
        spec = msgspec.structs.replace(node.spec, taints=[])
        objects.put(msgspec.structs.replace(node, spec=spec))

    return ClusterChange(f"node {name} without its taints, or with a toleration", apply)


def label_node(name: str, labels: Mapping[str, str]) -> ClusterChange:
    """A node has these labels, too."""

    def apply(objects: ClusterObjects) -> None:
        node = node_of(objects, name)
        merged = {**node.metadata.labels, **labels}
        metadata = msgspec.structs.replace(node.metadata, labels=merged)
        objects.put(msgspec.structs.replace(node, metadata=metadata))

    told = ", ".join(f"{key}={label}" for key, label in labels.items())
    return ClusterChange(f"node {name} labelled {told}", apply)


def more_room(name: str, amounts: Mapping[str, int], text: str) -> ClusterChange:
    """A node has more to give: resource → how much more, cpu in thousandths."""

    def apply(objects: ClusterObjects) -> None:
        node = node_of(objects, name)
        have = dict(node.status.allocatable)
        for resource, more in amounts.items():
            if resource == "cpu":
                have[resource] = f"{milli_value(have.get(resource, 0)) + more}m"
            else:
                have[resource] = value(have.get(resource, 0)) + more
        status: NodeStatus = msgspec.structs.replace(node.status, allocatable=have)
        objects.put(msgspec.structs.replace(node, status=status))

    return ClusterChange(text, apply)


def set_queue(name: str, field: str, resource: str, amount: str) -> ClusterChange:
    """A Queue's ``capability``, ``deserved`` or ``guarantee`` of a resource is another one.

    Raises:
        MalformedChangeError: there is no such field, or the amount is none that a queue may have.
    """
    if field not in _QUEUE_FIELDS:
        raise MalformedChangeError(
            f"{field}: one of capability, deserved and guarantee can be changed"
        )
    try:
        given = parse_quantity(amount)
    except QuantityError as error:
        raise MalformedChangeError(f"queue {name}: {field}: {error}") from error
    if given < 0:
        raise MalformedChangeError(f"queue {name}: {field}: {amount} is less than nothing")
    if given > _MAX_AMOUNT:
        raise MalformedChangeError(f"queue {name}: {field}: {amount} is more than can be counted")

    def apply(objects: ClusterObjects) -> None:
        queue = objects.get(Queue, f"/{name}")
        if queue is None:
            raise ChangeError(f"there is no queue {name}")
        spec = queue.spec
        if field == "guarantee":
            changed = {**spec.guarantee.resource, resource: amount}
            guarantee = msgspec.structs.replace(spec.guarantee, resource=changed)
            spec = msgspec.structs.replace(spec, guarantee=guarantee)
        else:
            changed = {**getattr(spec, field), resource: amount}
            spec = msgspec.structs.replace(spec, **{field: changed})
        if refused := _why_refused(spec, field, resource):
            raise ChangeError(f"queue {name}: {refused} of {resource}")
        objects.put(msgspec.structs.replace(queue, spec=spec))

    return ClusterChange(f"queue {name} with {field} {resource} {amount}", apply)


def _why_refused(spec: QueueSpec, field: str, resource: str) -> str:
    """Why the definition does not allow what a field says of a resource; "" if it does."""
    stated = {
        "guarantee": spec.guarantee.resource,
        "deserved": spec.deserved,
        "capability": spec.capability,
    }
    amounts = {of: str(given[resource]) for of, given in stated.items() if resource in given}
    for less, more in combinations(amounts, 2):
        with suppress(QuantityError):
            is_more = parse_quantity(amounts[less]) > parse_quantity(amounts[more])
            if is_more and field in (less, more):
                return f"{less} cannot be more than {more}"
    return ""


def without_gate(key: str, gate: str) -> ClusterChange:
    """A scheduling gate of a pod is removed."""

    def apply(objects: ClusterObjects) -> None:
        pod = objects.get(Pod, key)
        if pod is None or SchedulingGate(gate) not in pod.spec.scheduling_gates:
            raise ChangeError(f"pod {key} has no scheduling gate {gate}")
        gates = [each for each in pod.spec.scheduling_gates if each.name != gate]
        spec = msgspec.structs.replace(pod.spec, scheduling_gates=gates)
        objects.put(msgspec.structs.replace(pod, spec=spec))

    return ClusterChange(f"pod {key} without its scheduling gate {gate}", apply)


def annotate(keys: Sequence[str], annotation: str, given: str, text: str) -> ClusterChange:
    """These pods have an annotation of that value; "" for none."""

    def apply(objects: ClusterObjects) -> None:
        for key in keys:
            if (pod := objects.get(Pod, key)) is None:
                raise ChangeError(f"there is no pod {key}")
            notes = {k: v for k, v in pod.metadata.annotations.items() if k != annotation}
            notes |= {annotation: given} if given else {}
            metadata = msgspec.structs.replace(pod.metadata, annotations=notes)
            objects.put(msgspec.structs.replace(pod, metadata=metadata))

    return ClusterChange(text, apply)


def without_reservation(name: str, text: str) -> ClusterChange:
    """A Reservation keeps no node from those that are asked about: it has ended, or is theirs."""

    def apply(objects: ClusterObjects) -> None:
        objects.drop(Reservation, f"/{name}")

    return ClusterChange(text, apply)


def more_members(copies: Mapping[str, int], text: str) -> ClusterChange:
    """More pods like some arrive: pod (``namespace/name``) → how many."""

    def apply(objects: ClusterObjects) -> None:
        for key, count in copies.items():
            pod = objects.get(Pod, key)
            if pod is None:
                raise ChangeError(f"there is no pod {key}")
            meta = pod.metadata
            for n in range(1, count + 1):
                metadata = msgspec.structs.replace(
                    meta,
                    name=f"{meta.name}-more-{n}",
                    uid=f"{meta.uid}-more-{n}",
                    creation_timestamp=None,
                    deletion_timestamp=None,
                )
                spec = msgspec.structs.replace(pod.spec, node_name="")
                put_with_claims(objects, Pod(metadata, spec, PodStatus(phase="Pending")), pod)

    return ClusterChange(text, apply)


def leave(keys: Sequence[str], who: str, end: str = "") -> ClusterChange:
    """These pods end; ``end``: at the latest when, where that is known."""

    def apply(objects: ClusterObjects) -> None:
        dropped = [objects.drop(Pod, key) for key in keys]
        gone = [pod for pod in dropped if pod is not None]
        _release_claims(objects, gone)
        _drop_claims(objects, gone)

    by = f", at the latest at {end}" if end else ""
    return ClusterChange(f"when {who} ends{by}", apply)


def create(manifests: Sequence[Mapping[str, Any]], text: str) -> ClusterChange:
    """These objects are created, or replace those of their names.

    Only claims to volumes stay as they are: they and their volumes outlive what made them.
    """

    def apply(objects: ClusterObjects) -> None:
        with_claims = any(each["kind"] == "PersistentVolumeClaim" for each in manifests)
        there = objects.of(PersistentVolumeClaim) if with_claims else ()
        claims = {each.key: each for each in there}
        made = [objects.add_manifest(manifest) for manifest in manifests]
        for each in made:
            if isinstance(each, Pod) and not each.terminal:
                put_with_claims(objects, each)
            elif isinstance(each, PersistentVolumeClaim):
                objects.put(claims.get(each.key) or with_class(objects, each))

    return ClusterChange(text, apply)


def node_of(objects: ClusterObjects, name: str) -> Node:
    """The node of that name.

    Raises:
        ChangeError: there is none.
    """
    node = objects.get(Node, f"/{name}")
    if node is None:
        raise ChangeError(f"there is no node {name}")
    return node
