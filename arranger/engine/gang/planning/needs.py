"""What a gang's minimum needs, of which kinds: where and when that is looked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from arranger.backfill.planner import Demand, Parts
from arranger.cluster.columns import BoolArray
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.engine.pod.scheduling_cycle import SchedulingCycle

#: Units to evaluate a class of members, beside what that counts itself.
_EVALUATING: Final = 100
#: Units to look for a kind how near nodes are to being empty, and rows in one unit beyond that.
_ARRANGING: Final = 100
_ROWS_PER_UNIT: Final = 10


@dataclass(frozen=True, slots=True)
class Need:
    """Members of which any may take the place of any other.

    Attributes:
        member: one of them.
        demand: what they request, how many they are, and the nodes that may have them.
    """

    member: QueuedPod
    demand: Demand


@dataclass(frozen=True, slots=True)
class Needs:
    """What a gang's minimum needs.

    Attributes:
        kinds: of each kind of members how many.
        lasts: seconds for which it needs that at most; infinite if nothing tells of it.
    """

    kinds: Sequence[Need]
    lasts: float


def needs_of(
    classes: Sequence[Sequence[QueuedPod]],
    cycle: SchedulingCycle,
    table: NodeTable,
    kind_of: Callable[[QueuedPod], Hashable],
    limit_of: Callable[[PodInfo], float | None],
) -> Parts[Needs]:
    """What members of some classes need: those of which all is equal that counts here are one kind.

    Args:
        kind_of: of one kind are those from which the same is kept by Reservations.
        limit_of: how long a pod may run, in seconds.
    """
    masks, lasts = dict[bytes, BoolArray](), 0.0
    found = dict[Hashable, Need]()
    for members in classes:
        first = members[0]
        evaluation = cycle.evaluate(first.profile, first.pod, first.signature)
        rows = evaluation.fits_when_empty
        mask = masks.setdefault(rows.tobytes(), rows.copy())
        columns, amounts = map(tuple, first.pod.request_vector(table.resource_column))
        key = columns, amounts, id(mask), kind_of(first)
        known = found.get(key)
        count = len(members) + (0 if known is None else known.demand.count)
        member = first if known is None else known.member
        found[key] = Need(member, Demand(columns, amounts, count, mask))
        for member in members:  # their specs are equal, what is said of their run times may not be
            if lasts == math.inf:
                break
            limit = limit_of(member.pod)
            lasts = math.inf if limit is None else max(lasts, limit)
        yield _EVALUATING + len(members)
    return Needs(list(found.values()), lasts if found else math.inf)


def nearest_to_empty(
    needs: Needs, table: NodeTable, within: BoolArray | None = None
) -> Parts[frozenset[str]]:
    """The nodes to keep for some members: those that are nearest to being empty.

    Empty if all nodes, or all rows of ``within``, are too few even without the pods that run there
    now. Each kind gets nodes of its own, so that a few more may be kept than are needed.
    """
    # Nodes that came after it was asked what is needed are not looked at.
    size = min((len(need.demand.rows) for need in needs.kinds), default=0)
    taken = np.zeros(size, dtype=np.bool_)
    for need in needs.kinds:
        pod, count, suitable = need.member.pod, need.demand.count, need.demand.rows[:size]
        if within is not None:
            suitable = suitable & within[:size]
        empty = np.where(suitable, table.replica_capacity(pod, empty=True)[:size], 0)
        if empty.sum() < count:
            return frozenset()
        usable = suitable & ~taken
        total = np.where(usable, empty, 0)
        now = np.where(usable, table.replica_capacity(pod)[:size], 0)
        # Those first on which the fewest replicas have to go, the larger first among equals.
        order = np.lexsort((-total, total - now))
        last = np.searchsorted(np.cumsum(total[order]), count).item() + 1
        chosen = order[:last]
        taken[chosen[total[chosen] > 0]] = True
        yield _ARRANGING + size // _ROWS_PER_UNIT
    rows = np.flatnonzero(taken).tolist()
    return frozenset(table.name(row) for row in rows if table.alive[row])
