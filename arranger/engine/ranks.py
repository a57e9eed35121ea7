"""The priority of pods whose PodGroup has one of its own (``scheduling.k8s.io``)."""

from __future__ import annotations

from arranger.api.objects import Pod
from arranger.engine.desk import Desk
from arranger.gangs.registry import GangRegistry


def priority_of(registry: GangRegistry, pod: Pod) -> int:
    """A pod's priority: its PodGroup's goes before what it says itself (KEP-5710)."""
    gang = registry.gang_of(pod.metadata.uid)
    said = None if gang is None else gang.settings.priority
    return pod.priority if said is None else said


def rank_anew(desk: Desk, registry: GangRegistry, name: str) -> None:
    """The PodGroup of a gang came, went or was edited: its members may have another priority.

    The caller sorts those that wait into the queue again.
    """
    gang, cluster = registry.gangs.get(name), desk.cluster
    for uid in gang.claims if gang is not None else ():
        member = desk.members.get(uid)
        info = cluster.pod(uid) if member is None else member.pod
        if info is None or info.priority == (priority := priority_of(registry, info.pod)):
            continue
        node, assumed = cluster.node_of(uid), uid in cluster.assumed
        if node is None or uid in desk.cycle.nominations:
            info.priority = priority
            if member is not None:
                desk.cycle.nominations.updated(member)
            continue
        # Off the node and back, so that whoever has looked at its pods looks again.
        cluster.remove(uid)
        info.priority = priority
        cluster.assume(info, node)
        if not assumed:
            cluster.observe(info)
