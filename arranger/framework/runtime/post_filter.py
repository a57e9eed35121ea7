"""Runs PostFilter: the first plugin that makes room ends it; the others say why they cannot.

So does an error, which then is all that is said (``RunPostFilterPlugins``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from arranger.cluster.pod_info import PodInfo
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.interface import Eviction, Nomination
from arranger.framework.runtime.dry_run import WhatIf
from arranger.framework.runtime.plugin_errors import running
from arranger.framework.status import Code


@dataclass(slots=True)
class PostFiltered:
    """What PostFilter came to.

    Attributes:
        nominated: the node that will have room; "" to take a nomination back, None to leave it.
        victims: who must leave it.
        reasons: what the plugins said that made no room.
        options: what might be done instead, where others choose.
    """

    nominated: str | None = None
    victims: tuple[PodInfo, ...] = ()
    reasons: list[str] = field(default_factory=list)
    options: tuple[Eviction, ...] = ()

    def message(self) -> str:
        """The text behind that of the filters (``RunPostFilterPlugins``)."""
        return "" if self.nominated else ", ".join(self.reasons)


def run_post_filter(what_if: WhatIf, diagnosis: Diagnosis) -> PostFiltered:
    """Ask the PostFilter plugins of the profile.

    Raises:
        PluginFailureError: one of them raised.
    """
    found = PostFiltered()
    for plugin in what_if.profile.at("post_filter"):
        with running(plugin, "PostFilter"):
            answer = plugin.post_filter(what_if.evaluation.state, what_if.pod, what_if, diagnosis)
        if isinstance(answer, Nomination):
            found.nominated, found.victims = answer.node, answer.victims
            if answer.node:
                found.options = answer.options
                break
            if answer.message:
                found.reasons.append(answer.message)
        elif answer is not None and answer.code is Code.ERROR:
            found.reasons = list(answer.reasons)
            break
        elif answer is not None:
            found.reasons += answer.reasons
    return found
