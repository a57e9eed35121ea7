"""Runs Reserve, Permit and Unreserve for a pod that has a node."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from arranger.api.tracing import Tracer
from arranger.cluster.cluster import Cluster
from arranger.engine.context.entity import QueuedPod
from arranger.engine.pod.schedule_result import PermitWait
from arranger.framework.interface import Wait
from arranger.framework.runtime.plugin_errors import plugin_errors
from arranger.framework.status import Code, CycleState, Status

log = logging.getLogger(__name__)

#: The plugin that reserves volumes, and those that reserve nothing but claims and volumes.
_VOLUMES: Final = "VolumeBinding"
_RESERVE_NOTHING_ELSE: Final = frozenset({"DynamicResources", _VOLUMES})


def must_be_placed_again(members: Sequence[QueuedPod]) -> bool:
    """Whether what is reserved for some of these is known only when they are placed once more.

    Claims and volumes are not: their plugins reserve with the state of a pod what was reserved for
    it before.
    """
    for profile in {id(member.profile): member.profile for member in members}.values():
        others = {plugin.name for plugin in profile.plugins_at("reserve")} - _RESERVE_NOTHING_ELSE
        if others or profile.plugins_at("permit"):
            return True
    return False


def has_volumes(member: QueuedPod) -> bool:
    """Whether volumes may be reserved for it, or keep it off nodes."""
    return bool(member.pod.volumes or member.pod.pvc_keys)


def has_claims(member: QueuedPod) -> bool:
    """Whether devices may be reserved for it."""
    return bool(member.pod.pod.spec.resource_claims)


def reserve_again(member: QueuedPod) -> bool:
    """Reserve for a pod that is on its node again what its state says; whether that may be.

    If not the plugins have given back what they had reserved.
    """
    for plugin in member.profile.plugins_at("reserve"):
        try:
            answer = plugin.reserve(member.cycle_state, member.pod, member.node)
        except Exception:
            log.exception("pod %s: running Reserve plugin %r again", member.pod.key, plugin.name)
            answer = Status(Code.ERROR)
        if answer is not None and answer.rejected:
            run_unreserve_plugins(member)
            return False
    return True


def lift_volumes(member: QueuedPod) -> None:
    """Give back what is reserved for a pod of volumes, which its state goes on to know."""
    if (plugin := member.profile.by_name.get(_VOLUMES)) is not None:
        plugin.unreserve(member.cycle_state, member.pod, member.node)


def reserve_volumes_again(member: QueuedPod) -> bool:
    """Reserve what :func:`lift_volumes` has given back; whether that may be."""
    if (plugin := member.profile.by_name.get(_VOLUMES)) is None:
        return True
    answer = plugin.reserve(member.cycle_state, member.pod, member.node)
    return answer is None or not answer.rejected


def unreserve(cluster: Cluster, member: QueuedPod) -> None:
    """Give a pod's reservation up, plugins first, in reverse order."""
    run_unreserve_plugins(member)
    cluster.remove_pod(member.uid)
    _forget_node(member)


def unreserve_all(cluster: Cluster, members: Sequence[QueuedPod]) -> None:
    """Give the reservations of several pods up, the last first."""
    if must_be_placed_again(members):
        for member in reversed(members):
            unreserve(cluster, member)
        return
    for member in reversed(members):
        if has_claims(member) or has_volumes(member):
            run_unreserve_plugins(member)
    leave_nodes(cluster, members)


def leave_nodes(cluster: Cluster, members: Sequence[QueuedPod]) -> None:
    """Take pods off their nodes, of which nothing else is reserved any more."""
    cluster.lift([member.pod.uid for member in members])
    for member in members:
        _forget_node(member)


def _forget_node(member: QueuedPod) -> None:
    member.node = ""
    member.cycle_state = CycleState()
    member.pending_writes.clear()
    member.binding = None


def run_unreserve_plugins(member: QueuedPod) -> None:
    """Tell the Reserve plugins, last first, that the pod gives its node up."""
    for plugin in reversed(member.profile.plugins_at("reserve")):
        try:
            plugin.unreserve(member.cycle_state, member.pod, member.node)
        except Exception:
            # The reservation ends all the same, and the others must hear of it.
            log.exception("pod %s: running Unreserve plugin %r", member.pod.key, plugin.name)


def run_reserve_and_permit(member: QueuedPod, tracer: Tracer) -> Status | PermitWait | None:
    """Reserve and Permit: the first refusal, the shortest wait, or ``None`` to go ahead."""
    tracer.step("Reserve")
    for plugin in member.profile.plugins_at("reserve"):
        with plugin_errors(plugin.name, "Reserve"):
            answer = plugin.reserve(member.cycle_state, member.pod, member.node)
            if answer is not None and answer.rejected:
                return Status(answer.code, answer.reasons, plugin.name)
    tracer.step("Permit")
    permitted = run_permit(member)
    tracer.step("")
    return permitted


def run_permit(member: QueuedPod) -> Status | PermitWait | None:
    """Ask the Permit plugins: the first refusal, the shortest wait, or ``None`` to go ahead.

    Raises:
        PluginFailureError: one of them raised.
    """
    held: PermitWait | None = None
    for plugin in member.profile.plugins_at("permit"):
        with plugin_errors(plugin.name, "Permit"):
            answer = plugin.permit(member.cycle_state, member.pod, member.node)
            if isinstance(answer, Wait):
                if held is None or answer.timeout < held.timeout:
                    held = PermitWait(plugin.name, float(answer.timeout))
            elif answer is not None and answer.rejected:
                return Status(answer.code, answer.reasons, plugin.name)
    return held
