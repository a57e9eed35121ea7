"""DaemonSets: a pod for every node that it may run on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from arranger.api.selectors import is_valid_requirement, requirement_matches, untolerated_taints
from arranger.api.types.core import Node, NodeSelectorTerm, Pod
from arranger.embedded import Object
from arranger.embedded.workloads.plan import (
    REVISION_HASH,
    Plan,
    Surroundings,
    has_ended,
    is_active,
    is_ready,
    pod_of,
    template_hash,
)

_NODE_PROBLEMS: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


def reconcile_daemon_set(daemon_set: Object, owned: Sequence[Object], around: Surroundings) -> Plan:
    """A pod for each node that its selector, affinity and tolerations let it run on.

    Where it runs is left to the scheduler, who is told by a required node affinity. A pod that has
    ended is made again.
    """
    pods = [obj for obj in owned if obj["kind"] == "Pod"]
    by_node: dict[str, list[Object]] = {}
    for pod in pods:
        by_node.setdefault(_target(pod), []).append(pod)
    made = {name: _pod(daemon_set, name) for name in _names(around.nodes)}
    wanted = {
        node["metadata"]["name"]
        for node in around.nodes
        if _may_run(made[node["metadata"]["name"]], node)
    }
    unwanted = [p for p in pods if is_active(p) and _target(p) not in wanted]
    ended = [p for p in pods if has_ended(p) and not p["metadata"].get("deletionTimestamp")]
    placed = [p for p in pods if is_active(p) and p["spec"].get("nodeName")]
    ready = sum(map(is_ready, pods))
    status = {
        "desiredNumberScheduled": len(wanted),
        "currentNumberScheduled": len(placed),
        "numberReady": ready,
        "numberAvailable": ready,
        "numberMisscheduled": 0,
    }
    create = [made[name] for name in _names(around.nodes) if name in wanted - by_node.keys()]
    return Plan(create=create, delete=[*ended, *unwanted], status=status)


def _names(nodes: Sequence[Object]) -> Iterator[str]:
    return (node["metadata"]["name"] for node in nodes)


def _pod(daemon_set: Object, node: str) -> Object:
    generation = str(daemon_set["metadata"].get("generation", 1))
    labels = {REVISION_HASH: template_hash(daemon_set), "pod-template-generation": generation}
    pod = pod_of(daemon_set, labels=labels)
    spec = pod["spec"]
    node_affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = node_affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [{**term, **here} for term in terms]
    problems = [*_NODE_PROBLEMS]
    if spec.get("hostNetwork"):
        problems.append(("network-unavailable", "NoSchedule"))
    tolerations = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": effect}
        for what, effect in problems
    ]
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *tolerations]
    return pod


def _target(pod: Object) -> str:
    """The node that a pod was made for."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])


def _may_run(manifest: Object, shown: Object) -> bool:
    pod, node = msgspec.convert(manifest, Pod), msgspec.convert(shown, Node)
    labels = node.metadata.labels
    if not pod.spec.node_selector.items() <= labels.items():
        return False
    if untolerated_taints(node.spec.taints, pod.spec.tolerations, ("NoSchedule", "NoExecute")):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or any(_matches(t, labels) for t in required.node_selector_terms)


def _matches(term: NodeSelectorTerm, labels: dict[str, str]) -> bool:
    return all(
        is_valid_requirement(each) and requirement_matches(each, labels.get(each.key))
        for each in term.match_expressions
    )
