"""The priority of pods whose PodGroup has one of its own (``scheduling.k8s.io``)."""

from __future__ import annotations

from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import AnyPodGroup, NativePodGroup
from arranger.cluster.cluster import Cluster
from arranger.engine.context import EngineContext
from arranger.engine.queue.nominator import Nominator
from arranger.gangs.registry import GangRegistry


def effective_priority(registry: GangRegistry, pod: Pod) -> int:
    """A pod's priority: that of its PodGroup, if it has one, instead of its own (KEP-5710)."""
    gang = registry.gang_of(pod.metadata.uid)
    group_priority = None if gang is None else gang.settings.priority
    return pod.priority if group_priority is None else group_priority


def update_priorities(
    context: EngineContext, nominator: Nominator, registry: GangRegistry, group: AnyPodGroup
) -> None:
    """A PodGroup came, went or was edited: its gang's members may have another priority.

    The caller queues those that wait again, for their order.
    """
    gang = registry.gangs.get(group.key)
    if gang is None or not isinstance(group, NativePodGroup):
        return  # other PodGroups do not set the priority of their pods
    for uid in gang.memberships:
        if uid not in nominator:
            _update_placed_pod(context.cluster, registry, uid)
        member = context.pods.get(uid)
        for known in () if member is None else (member.pod, member.pending_update):
            if known is not None:
                known.priority = effective_priority(registry, known.pod)
        if member is not None and uid in nominator:
            nominator.update(member)


def _update_placed_pod(cluster: Cluster, registry: GangRegistry, uid: str) -> None:
    placed, node = cluster.pod(uid), cluster.node_of(uid)
    if placed is None or node is None:
        return
    priority = effective_priority(registry, placed.pod)
    if placed.priority != priority:
        # Off the node and back, so that what is cached about the pods there is computed again.
        assumed = uid in cluster.assumed
        cluster.remove_pod(uid)
        placed.priority = priority
        cluster.assume_pod(placed, node)
        if not assumed:
            cluster.observe_pod(placed)
