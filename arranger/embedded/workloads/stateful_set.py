"""StatefulSets: numbered pods with a name and claims of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arranger.embedded import Object
from arranger.embedded.workloads.plan import (
    REVISION_HASH,
    Plan,
    Surroundings,
    has_ended,
    is_active,
    is_ready,
    pod_of,
    replica_status,
    template_hash,
)


def reconcile_stateful_set(stateful_set: Object, owned: Sequence[Object], _: Surroundings) -> Plan:
    """Pods ``name-0`` and on; each after the one before it is ready, unless the policy is Parallel.

    A pod that has ended is made again; of too many the last goes first.
    """
    spec, name = stateful_set["spec"], stateful_set["metadata"]["name"]
    first = (spec.get("ordinals") or {}).get("start", 0)
    ordinals = range(first, first + spec.get("replicas", 1))
    wanted = {f"{name}-{ordinal}": ordinal for ordinal in ordinals}
    pods = {obj["metadata"]["name"]: obj for obj in owned if obj["kind"] == "Pod"}
    active = [pod for pod in pods.values() if is_active(pod)]
    surplus = [pod for pod in active if pod["metadata"]["name"] not in wanted]
    surplus.sort(key=lambda pod: int(pod["metadata"]["name"].rpartition("-")[2]), reverse=True)
    ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    create: list[Object] = []
    for pod_name, ordinal in wanted.items():
        if pod_name not in pods:
            create += _claims(stateful_set, pod_name)
            create.append(_pod(stateful_set, pod_name, ordinal))
        if ordered and not (pod_name in pods and is_ready(pods[pod_name])):
            break
    ended = [
        p for p in pods.values() if has_ended(p) and not p["metadata"].get("deletionTimestamp")
    ]
    return Plan(
        create=create,
        delete=[*ended, *(surplus[:1] if ordered else surplus)],
        status=replica_status(active),
    )


def _pod(stateful_set: Object, name: str, ordinal: int) -> Object:
    labels = {
        REVISION_HASH: f"{stateful_set['metadata']['name']}-{template_hash(stateful_set)}",
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
    }
    pod = pod_of(stateful_set, name=name, labels=labels)
    spec = pod["spec"]
    spec["hostname"] = name
    if service := stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = service
    templates = [each["metadata"]["name"] for each in _templates(stateful_set)]
    own = [
        {"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}}
        for each in templates
    ]
    others = [volume for volume in spec.get("volumes") or () if volume["name"] not in templates]
    if own or others:
        spec["volumes"] = [*own, *others]
    return pod


def _claims(stateful_set: Object, pod_name: str) -> Iterator[Object]:
    """The claims of a pod; they outlive it, so that they may be there already."""
    for template in _templates(stateful_set):
        meta = template["metadata"]
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": f"{meta['name']}-{pod_name}",
                "namespace": stateful_set["metadata"]["namespace"],
                "labels": dict(meta.get("labels") or {}),
                "annotations": dict(meta.get("annotations") or {}),
            },
            "spec": template.get("spec") or {},
        }


def _templates(stateful_set: Object) -> Sequence[Object]:
    return list(stateful_set["spec"].get("volumeClaimTemplates") or ())
