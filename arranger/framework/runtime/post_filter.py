"""Runs PostFilter: the first plugin that finds room ends it; the others say why they cannot.

An error ends it as well, and is then the whole message (``RunPostFilterPlugins``). Unlike upstream
a pod that fits on no node whoever leaves is then nominated no more: DynamicResources fails wherever
the filters were not asked, and the room would be kept for a pod whose claim has gone.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import dataclass, field

from arranger.cluster.pod_info import PodInfo
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.interface import PostFilterResult, PreemptionCandidate
from arranger.framework.runtime.dry_run import DryRun
from arranger.framework.runtime.plugin_errors import plugin_errors
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import Code, CycleState

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PostFilterOutcome:
    """The result of all PostFilter plugins.

    Attributes:
        nominated_node: the node that will have room; "" clears a nomination, None leaves it.
        victims: pods to be evicted from it.
        reasons: (plugin, message) of those that found no room.
        options: the alternatives, where extenders choose among them.
        rejected_by: the plugins for which evictions do not help.
    """

    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    reasons: list[tuple[str, str]] = field(default_factory=list)
    options: tuple[PreemptionCandidate, ...] = ()
    rejected_by: frozenset[str] = frozenset()

    def message(self, *, leave_out: Container[str] = ()) -> str:
        """The part of the text that follows that of the filters; some plugins may be left out."""
        if self.nominated_node:
            return ""
        return ", ".join(text for plugin, text in self.reasons if plugin not in leave_out)


def run_post_filter(context: DryRun, diagnosis: Diagnosis) -> PostFilterOutcome:
    """Ask the PostFilter plugins of the profile.

    Raises:
        PluginFailureError: one of them raised.
    """
    outcome = PostFilterOutcome()
    for plugin in context.profile.plugins_at("post_filter"):
        with plugin_errors(plugin.name, "PostFilter"):
            answer = plugin.post_filter(context.evaluation.state, context.pod, context, diagnosis)
        if isinstance(answer, PostFilterResult):
            outcome.nominated_node, outcome.victims = answer.node, answer.victims
            if answer.node:
                outcome.options = answer.candidates
                break
            outcome.rejected_by |= answer.rejected_by
            if answer.message:
                outcome.reasons.append((plugin.name, answer.message))
        elif answer is not None and answer.code is Code.ERROR:
            outcome.reasons = [(plugin.name, reason) for reason in answer.reasons]
            whole = diagnosis.pre_filter_status
            if whole is not None and whole.code is Code.UNRESOLVABLE:
                outcome.nominated_node = ""
            break
        elif answer is not None:
            outcome.reasons += [(plugin.name, reason) for reason in answer.reasons]
    return outcome


def run_pod_group_post_filter(
    profile: Profile, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
) -> None:
    """Let plugins undo what an earlier placement of a pod has left, now that none fits it."""
    for plugin in profile.plugins_at("pod_group_post_filter"):
        try:
            plugin.pod_group_post_filter(state, pod, diagnosis)
        except Exception:
            # The others must not suffer; it will be asked again.
            log.exception("pod %s: running PodGroupPostFilter plugin %r", pod.key, plugin.name)
