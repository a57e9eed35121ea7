"""The priority of pods whose PodGroup has one of its own (``scheduling.k8s.io``)."""

from __future__ import annotations

from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import AnyPodGroup, NativePodGroup
from arranger.cluster.cluster import Cluster
from arranger.engine.context import Desk
from arranger.gangs.registry import GangRegistry


def priority_of(registry: GangRegistry, pod: Pod) -> int:
    """A pod's priority: its PodGroup's goes before what it says itself (KEP-5710)."""
    gang = registry.gang_of(pod.metadata.uid)
    said = None if gang is None else gang.settings.priority
    return pod.priority if said is None else said


def rank_anew(desk: Desk, registry: GangRegistry, group: AnyPodGroup) -> None:
    """A PodGroup came, went or was edited: its gang's members may have another priority.

    The caller sorts those that wait into the queue again.
    """
    gang = registry.gangs.get(group.name)
    if gang is None or not isinstance(group, NativePodGroup):
        return  # the others' classes are for their pods
    nominations = desk.cycle.nominations
    for uid in gang.claims:
        if uid not in nominations:
            _rank_placed(desk.cluster, registry, uid)
        member = desk.members.get(uid)
        for known in () if member is None else (member.pod, member.newest):
            if known is not None:
                known.priority = priority_of(registry, known.pod)
        if member is not None and uid in nominations:
            nominations.updated(member)


def _rank_placed(cluster: Cluster, registry: GangRegistry, uid: str) -> None:
    placed, node = cluster.pod(uid), cluster.node_of(uid)
    if placed is None or node is None:
        return
    priority = priority_of(registry, placed.pod)
    if placed.priority != priority:
        # Off the node and back, so that whoever has looked at the pods there looks again.
        assumed = uid in cluster.assumed
        cluster.remove(uid)
        placed.priority = priority
        cluster.assume(placed, node)
        if not assumed:
            cluster.observe(placed)
