"""Runs Reserve, Permit and Unreserve for a pod that has a node."""

from __future__ import annotations

import logging

from arranger.api.tracing import Tracer
from arranger.engine.entity import QueuedPod
from arranger.engine.pod.schedule_result import PermitWait
from arranger.framework.interface import Wait
from arranger.framework.runtime.plugin_errors import plugin_errors
from arranger.framework.status import Status

log = logging.getLogger(__name__)


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
