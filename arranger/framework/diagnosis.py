"""Why a pod does not fit: the facts, and the text that is shown everywhere.

The text is kube-scheduler's ``FitError``, character for character, because autoscalers and
dashboards parse it; of what PostFilter plugins say, only those count that the pod concerns.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from arranger.cluster.columns import BoolArray, IdArray, IntArray
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code, Status

#: In place of a plugin, for nodes outside of a PreFilter's node list.
PRE_FILTER_RESULT = "PreFilterResult"


@dataclass(frozen=True, slots=True)
class PluginRejection:
    """A rejection, and the plugin that gave it."""

    plugin: str
    rejection: Rejection


@dataclass(slots=True)
class Diagnosis:
    """The result of filtering, worked out when it is asked for.

    Attributes:
        nodes: how many nodes there are.
        pre_filter_status: PreFilter's status when it rejected the pod as a whole.
        rejections: the different rejections that occurred; also those of a plugin that rejects
            every node, where each is rejected by another already.
        rejection_index: row → index into ``rejections``; -1 for rows that passed, are dead, or were
            not filtered.
        rows_by_rejection: index into ``rejections`` → number of rows; None if not counted yet.
        within: row → whether the pod may be there, whoever leaves; None if it may be anywhere.
        post_filter_message: PostFilter's part of the text.
    """

    nodes: int
    pre_filter_status: Status | None = None
    rejections: list[PluginRejection] = field(default_factory=list)
    rejection_index: IntArray | IdArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rows_by_rejection: list[int] | None = None
    within: BoolArray | None = None
    post_filter_message: str = ""

    def unschedulable_plugins(self) -> frozenset[str]:
        """The plugins that rejected the pod or a node: their queueing hints count."""
        if self.pre_filter_status is not None:
            return frozenset({self.pre_filter_status.plugin})
        return frozenset(kind.plugin for kind in self.rejections)

    def plugin_events(self) -> list[tuple[str, str]]:
        """(reason, text) of the events that plugins have published beside the usual one.

        One of each reason, with all its texts: two would be two notes of one Event in turn.
        """
        if self.pre_filter_status is not None:
            found = [(self.pre_filter_status.event_reason, self.pre_filter_status.message())]
        else:
            rejections = [kind.rejection for kind in self.rejections]
            found = [(each.event_reason, ", ".join(each.reasons)) for each in rejections]
        texts: dict[str, set[str]] = {}
        for event, text in found:
            texts.setdefault(event, set()).add(text)
        return [(event, "; ".join(sorted(texts[event]))) for event in texts if event]

    def first_rejection(self, row: int) -> PluginRejection | None:
        """The first rejection of a row."""
        kind = int(self.rejection_index[row])
        return None if kind < 0 else self.rejections[kind]

    def restrict_to(self, rows: BoolArray) -> None:
        """Only these rows may be chosen, of those that might have been before."""
        self.within = rows if self.within is None else rows & self.within

    def replace_index(self, index: IntArray | IdArray, rejections: list[PluginRejection]) -> None:
        """Other rejections, for more rows than before."""
        self.rejection_index, self.rejections = index, rejections
        self.rows_by_rejection = None

    def resolvable(self) -> BoolArray:
        """Row → whether evicting pods might help; empty where no row was filtered."""
        index = self.rejection_index
        found = np.zeros(len(index), dtype=np.bool_)
        for number in self._resolvable_kinds():
            found |= index == number
        return found if self.within is None or not len(found) else found & self.within

    def _resolvable_kinds(self) -> list[int]:
        kinds = enumerate(self.rejections)
        return [n for n, kind in kinds if kind.rejection.code is Code.UNSCHEDULABLE]

    def histogram(self) -> Counter[str]:
        """Reason → number of nodes that gave it (a node may give several)."""
        counts = self.rows_by_rejection
        if counts is None:
            rejected = self.rejection_index[self.rejection_index >= 0]
            counts = np.bincount(rejected, minlength=len(self.rejections)).tolist()
        reasons: Counter[str] = Counter()
        for kind, times in zip(self.rejections, counts, strict=True):
            if times:
                for reason in kind.rejection.reasons:
                    reasons[reason] += times
        return reasons

    def message(self) -> str:
        """The text of the PodScheduled condition and of the FailedScheduling event."""
        if self.nodes == 0 and self.pre_filter_status is None:
            return "no nodes available to schedule pods"
        text = f"0/{self.nodes} nodes are available:"
        if self.pre_filter_status is not None:
            text += f" {self.pre_filter_status.message()}."
        else:
            reasons = sorted(f"{count} {reason}" for reason, count in self.histogram().items())
            if reasons:
                text += f" {', '.join(reasons)}."
        if self.post_filter_message:
            text += f" {self.post_filter_message}"
        return text


#: Where PostFilter's part of a message begins.
_POST_FILTER_PART: Final = re.compile(
    r"(?<=\.) (?=preemption: |still not schedulable|no new claims|deallocation of ResourceClaim)"
)


def filters_part(message: str) -> str:
    """What a message says of nodes, without why evictions would not help: for narrow columns."""
    return _POST_FILTER_PART.split(message, maxsplit=1)[0]
