"""The pods that DaemonSets have on a node, and would have on another one like it.

As the DaemonSet controller makes them (kube-controller-manager's ``daemon``): one a node, which the
scheduler is told by a required node affinity. What it makes them of is not read: those that there
are show it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from arranger.api.types.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PodStatus,
    Requirement,
)
from arranger.embedded.workloads.daemon_set import may_run
from arranger.shadow.inputs.objects import ClusterObjects

_FIELD: Final = "metadata.name"


def node_of_daemon_pod(pod: Pod) -> str:
    """The node that a DaemonSet made a pod for; "" of any other pod."""
    owner = pod.metadata.controller
    if owner is None or owner.kind != "DaemonSet":
        return ""
    for term in _required(pod):
        for each in term.match_fields:
            if each.key == _FIELD and each.values:
                return each.values[0]
    return pod.spec.node_name


def daemon_pods_on(objects: ClusterObjects, node: str) -> list[Pod]:
    """A pod of each DaemonSet that has one on a node; the youngest of those that stay."""
    found: dict[str, Pod] = {}
    near = (pod for pod in objects.of(Pod) if pod.spec.node_name in ("", node))
    for pod in near:
        if node_of_daemon_pod(pod) == node:
            known = found.get(_owner(pod))
            if known is None or _age(known) < _age(pod):
                found[_owner(pod)] = pod
    return list(found.values())


def daemon_pod_for(like: Pod, node: Node) -> Pod | None:
    """The pod of the same DaemonSet for another node; None where it may not run there."""
    meta, name = like.metadata, node.metadata.name
    here = [Requirement(_FIELD, "In", [name])]
    terms = [
        msgspec.structs.replace(term, match_fields=here)
        for term in _required(like) or [NodeSelectorTerm()]
    ]
    affinity = like.spec.affinity or Affinity()
    required = msgspec.structs.replace(
        affinity.node_affinity or NodeAffinity(),
        required_during_scheduling_ignored_during_execution=NodeSelector(terms),
    )
    affinity = msgspec.structs.replace(affinity, node_affinity=required)
    spec = msgspec.structs.replace(like.spec, node_name="", affinity=affinity)
    metadata = ObjectMeta(
        name=f"{meta.name}-{name}",
        namespace=meta.namespace,
        uid=f"{meta.uid}-{name}",
        labels=meta.labels,
        annotations=meta.annotations,
        owner_references=meta.owner_references,
    )
    made = Pod(metadata, spec, PodStatus(phase="Pending"))
    return made if may_run(made, node) else None


def placed_by_others(
    objects: ClusterObjects, made: Iterable[Pod], ours: Collection[str]
) -> list[Pod]:
    """Of pods that were made now those that another scheduler places, on the nodes they are for.

    That is where their DaemonSets have pods on nodes already: so there is one, and they fit.

    Args:
        ours: the names of the schedulers whose pods are placed here.
    """
    of_others = [each for each in made if each.spec.scheduler_name not in ours]
    wanted = [each for each in of_others if not each.spec.node_name and node_of_daemon_pod(each)]
    run = {_owner(each) for each in objects.of(Pod) if each.spec.node_name} if wanted else ()
    return [_on_its_node(each) for each in wanted if _owner(each) in run]


def _on_its_node(pod: Pod) -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_name=node_of_daemon_pod(pod))
    return msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase="Running"))


def _owner(pod: Pod) -> str:
    controller = pod.metadata.controller
    return controller.uid if controller is not None else ""


def _required(pod: Pod) -> Sequence[NodeSelectorTerm]:
    affinity = pod.spec.affinity
    node = affinity.node_affinity if affinity is not None else None
    found = node.required_during_scheduling_ignored_during_execution if node is not None else None
    return found.node_selector_terms if found is not None else []


def _age(pod: Pod) -> tuple[bool, float]:
    """Greater for those that stay, and for younger ones."""
    created = pod.metadata.creation_timestamp
    stays = pod.metadata.deletion_timestamp is None and not pod.terminal
    return stays, created.timestamp() if created is not None else 0.0
