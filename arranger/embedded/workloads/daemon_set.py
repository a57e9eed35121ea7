"""DaemonSets: a pod for every node that it may run on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from arranger.api.selectors import is_valid_requirement, requirement_matches, untolerated_taints
from arranger.api.types.core import Node, NodeSelectorTerm, Pod
from arranger.embedded import Object
from arranger.embedded.workloads.ownership import claimed
from arranger.embedded.workloads.plan import (
    REVISION_HASH,
    Plan,
    Surroundings,
    created_at,
    has_ended,
    is_active,
    is_available,
    is_deleted,
    is_ready,
    next_available_in,
    pod_of,
    revision_of,
    share,
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
    pods, changes = claimed(
        daemon_set,
        [o for o in owned if o["kind"] == "Pod"],
        [*filter(_is_of_a_node, around.orphans)],
    )
    by_node: dict[str, list[Object]] = {}
    for pod in pods:
        by_node.setdefault(_target(pod), []).append(pod)
    made = {name: _pod(daemon_set, name) for name in _names(around.nodes)}
    wanted = {
        node["metadata"]["name"]: by_node.get(node["metadata"]["name"], [])
        for node in around.nodes
        if may_run(
            msgspec.convert(made[node["metadata"]["name"]], Pod), msgspec.convert(node, Node)
        )
    }
    unwanted = [p for p in pods if is_active(p) and _target(p) not in wanted]
    ended = [p for p in pods if has_ended(p) and not is_deleted(p)]
    create = [name for name, there in wanted.items() if not there]
    plan = _roll(daemon_set, wanted, around.now)
    return Plan(
        create=[made[name] for name in [*create, *plan.create]],
        delete=[*ended, *unwanted, *plan.delete],
        change=changes,
        status=_status(daemon_set, wanted, pods, around.now),
        again_in=next_available_in(pods, daemon_set, around.now),
    )


def _status(
    daemon_set: Object,
    wanted: Mapping[str, Sequence[Object]],
    pods: Sequence[Object],
    now: datetime,
) -> Object:
    digest = template_hash(daemon_set)
    oldest = [min(there, key=created_at) for there in wanted.values() if there]
    available = sum(is_available(pod, daemon_set, now) for pod in oldest)
    elsewhere = {_target(p) for p in pods if is_active(p)} - wanted.keys()
    return {
        "desiredNumberScheduled": len(wanted),
        "currentNumberScheduled": len(oldest),
        "numberReady": sum(map(is_ready, oldest)),
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
        "updatedNumberScheduled": sum(revision_of(pod) == digest for pod in oldest),
        "numberMisscheduled": len(elsewhere),
    }


@dataclass(slots=True)
class _RollOut:
    """Nodes that get a new pod beside the old one, and old pods that go."""

    create: list[str] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)


def _roll(daemon_set: Object, wanted: Mapping[str, Sequence[Object]], now: datetime) -> _RollOut:
    """Replace pods of earlier templates, so many nodes at a time."""
    plan = _RollOut()
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return plan
    limits = strategy.get("rollingUpdate") or {}
    surge = share(limits.get("maxSurge", 0), len(wanted), round_up=True)
    few = share(limits.get("maxUnavailable", 1), len(wanted), round_up=True)
    digest, candidates, room = template_hash(daemon_set), [], surge or few
    for name, there in wanted.items():
        active = [pod for pod in there if is_active(pod)]
        new = next((pod for pod in active if revision_of(pod) == digest), None)
        old = next((pod for pod in active if revision_of(pod) != digest), None)
        serves = new is not None and is_available(new, daemon_set, now)
        if old is None:
            room -= not surge and not serves
        elif surge and new is not None:
            room -= not serves
            plan.delete += [old] if serves else []
        elif is_available(old, daemon_set, now):
            candidates.append((name, old))
        elif surge:
            plan.create.append(name)
        else:
            room -= 1
            plan.delete.append(old)
    for name, old in candidates[: max(0, room)]:
        if surge:
            plan.create.append(name)
        else:
            plan.delete.append(old)
    return plan


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
    """The node that a pod was made for; empty if it was made for none."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field_term in term.get("matchFields") or ():
            return str(field_term["values"][0])
    return str(pod["spec"].get("nodeName", ""))


def _is_of_a_node(pod: Object) -> bool:
    return pod["kind"] == "Pod" and bool(_target(pod))


def may_run(pod: Pod, node: Node) -> bool:
    """Whether a node's labels and taints let a pod of a DaemonSet run there."""
    labels = node.metadata.labels
    if not pod.spec.node_selector.items() <= labels.items():
        return False
    if untolerated_taints(node.spec.taints, pod.spec.tolerations, ("NoSchedule", "NoExecute")):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or any(_matches(t, labels) for t in required.node_selector_terms)


def _matches(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    return all(
        is_valid_requirement(each) and requirement_matches(each, labels.get(each.key))
        for each in term.match_expressions
    )
