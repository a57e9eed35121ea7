"""Runs PostFilter: the first plugin that makes room ends it; the others say why they cannot.

So does an error, which then is all that is said (``RunPostFilterPlugins``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from arranger.cluster.pod_info import PodInfo
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.interface import PostFilterResult, PreemptionCandidate
from arranger.framework.runtime.dry_run import DryRun
from arranger.framework.runtime.plugin_errors import plugin_errors
from arranger.framework.status import Code


@dataclass(slots=True)
class PostFilterOutcome:
    """What PostFilter came to.

    Attributes:
        nominated_node: the node that will have room; "" to take a nomination back, None to leave
            it.
        victims: who must leave it.
        reasons: what the plugins said that made no room.
        options: what might be done instead, where others choose.
    """

    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    reasons: list[str] = field(default_factory=list)
    options: tuple[PreemptionCandidate, ...] = ()

    def message(self) -> str:
        """The text behind that of the filters (``RunPostFilterPlugins``)."""
        return "" if self.nominated_node else ", ".join(self.reasons)


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
            if answer.message:
                outcome.reasons.append(answer.message)
        elif answer is not None and answer.code is Code.ERROR:
            outcome.reasons = list(answer.reasons)
            break
        elif answer is not None:
            outcome.reasons += answer.reasons
    return outcome
