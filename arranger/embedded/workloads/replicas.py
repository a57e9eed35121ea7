"""Deployments, ReplicaSets and ReplicationControllers: so many pods that are all alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from arranger.embedded import Object
from arranger.embedded.workloads.plan import (
    Plan,
    Surroundings,
    controller_reference,
    has_ended,
    is_active,
    is_ready,
    pod_of,
    replica_status,
    template_hash,
)

#: Pods of a ReplicaSet that have ended and are kept to be looked at.
_ENDED_KEPT: Final = 10
TEMPLATE_HASH: Final = "pod-template-hash"


def reconcile_deployment(deployment: Object, owned: Sequence[Object], _: Surroundings) -> Plan:
    """One ReplicaSet for the template as it is now; those of earlier ones have no pods.

    All pods change at once, whatever the strategy says.
    """
    meta, spec = deployment["metadata"], deployment["spec"]
    replicas = spec.get("replicas", 1)
    digest = template_hash(deployment)
    name = f"{meta['name']}-{digest}"
    sets = [each for each in owned if each["kind"] == "ReplicaSet"]
    wanted = {each["metadata"]["name"]: 0 for each in sets} | {name: replicas}
    scale = [
        (each, wanted[each["metadata"]["name"]])
        for each in sets
        if each["spec"].get("replicas", 1) != wanted[each["metadata"]["name"]]
    ]
    current = [each for each in sets if each["metadata"]["name"] == name]
    counts = current[0].get("status") or {} if current else {}
    status = {key: counts.get(key, 0) for key in replica_status(())}
    create = [] if current else [_replica_set(deployment, name, digest, replicas)]
    return Plan(
        create=create, scale=scale, status={**status, "updatedReplicas": status["replicas"]}
    )


def _replica_set(deployment: Object, name: str, digest: str, replicas: int) -> Object:
    meta, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    of_pods = template.get("metadata") or {}
    labels = {**(of_pods.get("labels") or {}), TEMPLATE_HASH: digest}
    selector = spec["selector"]
    matched = {**(selector.get("matchLabels") or {}), TEMPLATE_HASH: digest}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "selector": {**selector, "matchLabels": matched},
            "template": {**template, "metadata": {**of_pods, "labels": labels}},
        },
    }


def reconcile_replicas(workload: Object, owned: Sequence[Object], _: Surroundings) -> Plan:
    """As many active pods as ``replicas``; of too many those go first that serve least."""
    active = [pod for pod in owned if pod["kind"] == "Pod" and is_active(pod)]
    surplus = len(active) - workload["spec"].get("replicas", 1)
    # A stable sort: of equal ones the newest goes.
    newest = sorted(active, key=_created, reverse=True)
    ended = sorted((p for p in owned if p["kind"] == "Pod" and has_ended(p)), key=_created)
    return Plan(
        create=[pod_of(workload) for _ in range(-surplus)],
        delete=[*sorted(newest, key=_worth)[: max(surplus, 0)], *ended[:-_ENDED_KEPT]],
        status=replica_status(active),
    )


def _created(pod: Object) -> str:
    return str(pod["metadata"]["creationTimestamp"])


def _worth(pod: Object) -> tuple[bool, bool, bool]:
    running = pod["status"].get("phase") == "Running"
    return bool(pod["spec"].get("nodeName")), running, is_ready(pod)
