"""Nodes on which others were evicted for a pod in vain, as extenders refused it there afterwards.

An extender that has no say about victims may refuse a node that was cleared at its pod's cost. Who
comes then takes the room, and would be evicted for the same pod again, without end; kube-scheduler
does that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from arranger.cluster.node_table import NodeTable
from arranger.engine.pod.extender_result import EXTENDER, ExtenderResult
from arranger.engine.pod.schedule_result import RowMask
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code

#: Seconds for which nobody is evicted there for the pod after the first time; twice as many after
#: each further one, up to the second figure.
FIRST_WAIT: Final = 60.0
MAX_WAIT: Final = 3600.0
_IN_VAIN: Final = PluginRejection(
    EXTENDER, Rejection(("extender(s) refused the node after evictions",), Code.UNRESOLVABLE)
)


@dataclass(slots=True, eq=False)
class RefusedNominations:
    """Of one pod."""

    #: Node → how often, and until when nobody is evicted there.
    _nodes: dict[str, tuple[int, float]] = field(default_factory=dict)

    def note(self, table: NodeTable, node: str, result: ExtenderResult | None, now: float) -> None:
        """Extenders have said which rows the pod may have that is nominated for ``node``."""
        row = table.index.get(node)
        if result is not None and row is not None and result.refused[row]:
            times = self._nodes.get(node, (0, now))[0]
            wait = min(FIRST_WAIT * 2.0 ** min(times, 16), MAX_WAIT)
            self._nodes[node] = times + 1, now + wait

    def mask(self, table: NodeTable, now: float) -> RowMask | None:
        """The rows on which pods may be evicted for the pod now; None if these are all."""
        closed = [node for node, (_, until) in self._nodes.items() if now < until]
        if not closed:
            return None
        rows = np.ones(table.size, dtype=np.bool_)
        rows[table.rows(closed)] = False
        return RowMask(rows, _IN_VAIN)
