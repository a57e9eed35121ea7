"""Why a pod does not fit: the facts, and the one sentence everyone is shown.

The text is kube-scheduler's ``FitError``, character for character, because autoscalers and
dashboards parse it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from arranger.cluster.columns import IntArray
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code, Status

#: The "plugin" that nodes outside a PreFilter's node list are rejected by.
PRE_FILTER_RESULT = "PreFilterResult"


@dataclass(frozen=True, slots=True)
class Rejected:
    """One kind of rejection by one plugin."""

    plugin: str
    rejection: Rejection


@dataclass(slots=True)
class Diagnosis:
    """The outcome of filtering, when it is asked for.

    Attributes:
        nodes: how many nodes there are.
        refusal: PreFilter's answer when it rejected the pod as a whole.
        kinds: the kinds of rejection that occurred.
        kind_of: row → index into ``kinds``; -1 for rows that passed, are dead, or were not judged.
        post_filter: what PostFilter had to say.
    """

    nodes: int
    refusal: Status | None = None
    kinds: list[Rejected] = field(default_factory=list)
    kind_of: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    post_filter: str = ""

    def plugins(self) -> frozenset[str]:
        """The plugins that rejected the pod or a node: whose events may help it."""
        if self.refusal is not None:
            return frozenset({self.refusal.plugin})
        return frozenset(kind.plugin for kind in self.kinds)

    def events(self) -> list[tuple[str, str]]:
        """(reason, text) of the events that plugins want the pod to have."""
        if self.refusal is not None:
            found = [(self.refusal.event, self.refusal.message())]
        else:
            found = [
                (kind.rejection.event, ", ".join(kind.rejection.reasons)) for kind in self.kinds
            ]
        return [(event, text) for event, text in dict.fromkeys(found) if event]

    def of_row(self, row: int) -> Rejected | None:
        """The first rejection of a row."""
        kind = int(self.kind_of[row])
        return None if kind < 0 else self.kinds[kind]

    def resolvable_rows(self) -> IntArray:
        """The rows where evicting pods might help."""
        useful = [
            n for n, kind in enumerate(self.kinds) if kind.rejection.code is Code.UNSCHEDULABLE
        ]
        return np.flatnonzero(np.isin(self.kind_of, useful))

    def histogram(self) -> Counter[str]:
        """Reason → number of nodes that gave it (a node may give several)."""
        count = np.bincount(self.kind_of[self.kind_of >= 0], minlength=len(self.kinds))
        reasons: Counter[str] = Counter()
        for kind, times in zip(self.kinds, count.tolist(), strict=True):
            if times:
                for reason in kind.rejection.reasons:
                    reasons[reason] += times
        return reasons

    def message(self) -> str:
        """The text of the PodScheduled condition and of the FailedScheduling event."""
        if self.nodes == 0 and self.refusal is None:
            return "no nodes available to schedule pods"
        text = f"0/{self.nodes} nodes are available:"
        if self.refusal is not None:
            text += f" {self.refusal.message()}."
        else:
            reasons = sorted(f"{count} {reason}" for reason, count in self.histogram().items())
            if reasons:
                text += f" {', '.join(reasons)}."
        if self.post_filter:
            text += f" {self.post_filter}"
        return text
