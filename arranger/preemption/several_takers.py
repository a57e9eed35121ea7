"""Chooses the node for a pod with regard to its like that wait behind it.

Where each of several pods takes the node that is cheapest for itself, together they may evict more
than they need: the first a small pod, the second a large one whose room would have done for both.
So a few ways to place all of them are compared, and the first goes to a node of the cheapest way.
Nothing is evicted but what the first needs, and nobody more important than it would evict alone.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Final

from arranger.cluster import PodInfo
from arranger.framework.preemption import PreemptionContext
from arranger.preemption.importance import Candidate
from arranger.preemption.victims import VictimSelector

#: Pods that are planned for at most.
MAX_TAKERS: Final = 4
#: How many pods → how many nodes are looked at, so that some hundred ways are compared.
_MOST_NODES: Final = {2: 20, 3: 10, 4: 8}

#: Who must leave a node for so many pods; None where they do not fit.
SelectFor = Callable[[int, int], Candidate | None]
#: node → how many of the pods go there, and who must leave for them.
Way = dict[int, Candidate]


def cheapest_way(
    best: Candidate,
    others: Sequence[Candidate],
    takers: int,
    select: SelectFor,
    size: Callable[[PodInfo], int],
) -> Way:
    """Who must leave which node, so that all ``takers`` fit, or else as many as possible.

    Args:
        best: the node that is cheapest for one pod alone.
        others: more nodes for one pod, the most promising first.
        size: how much of a pod that leaves is freed, to choose among equals.
    """
    top = best.importance(best.evicted[0])
    for count in range(min(takers, MAX_TAKERS), 1, -1):
        nodes = [best, *(each for each in others if each.row != best.row)][: _MOST_NODES[count]]
        options: list[list[Candidate | None]] = [
            [select(node.row, n) if n > 1 else node for n in range(1, count + 1)] for node in nodes
        ]
        allowed = [[_if_allowed(each, best, top) for each in option] for option in options]
        ways = list(_ways(allowed, count))
        if ways:
            return min(ways, key=lambda way: (*_cost(way, size), best.row not in way))
    return {best.row: best}


def _if_allowed(found: Candidate | None, best: Candidate, top: int) -> Candidate | None:
    """The candidate, unless it costs somebody whom the best one alone would spare."""
    if found is None or found.pdb_violations > best.pdb_violations:
        return None
    evicted = found.evicted
    return found if not evicted or found.importance(evicted[0]) <= top else None


def _ways(options: Sequence[Sequence[Candidate | None]], count: int) -> Iterator[Way]:
    """All ways to give ``count`` pods to nodes."""
    if count == 0:
        yield {}
        return
    for n, node in enumerate(options):
        for here, found in enumerate(node[:count], start=1):
            if found is not None:
                for way in _ways(options[n + 1 :], count - here):
                    yield {found.row: found, **way}


def _cost(way: Way, size: Callable[[PodInfo], int]) -> tuple[int, int, int]:
    """What all victims of a way cost: in number, by importance, and by size."""
    victims = {pod.uid: pod for found in way.values() for pod in found.evicted}
    importance = next(iter(way.values())).importance
    return (
        len(victims),
        sum(importance(pod) for pod in victims.values()),
        sum(size(pod) for pod in victims.values()),
    )


def size_like(pod: PodInfo, taker: PodInfo) -> int:
    """How much a pod has of what a taker requests, in thousandths of that."""
    wanted = taker.requests
    return sum(pod.requests.get(name, 0) * 1000 // n for name, n in wanted.items() if n)


def number_of_takers(context: PreemptionContext, best: Candidate) -> int:
    """For how many pods alike room is to be made at once, as far as their quota has room."""
    takers = context.count_waiting_alike(MAX_TAKERS)
    if takers > 1 and context.policy.quota is not None:
        node = context.cluster.table.name(best.row)
        takers = min(takers, context.policy.quota.room_for(context.pod, node))
    return takers


def choose_for_several(
    best: Candidate,
    others: Sequence[Candidate],
    takers: int,
    selector: VictimSelector,
    taker: PodInfo,
) -> Candidate:
    """The candidate for the first of several, where all of them together evict the least.

    The best one for the first alone, where the others' victims may not all leave.
    """
    way = cheapest_way(
        best,
        others,
        takers,
        lambda row, n: selector.select_for_several(row, selector.preemptible(row), n),
        lambda pod: size_like(pod, taker),
    )
    leaving = {pod.uid: pod for found in way.values() for pod in found.victims}
    first = [_within(selector, row, leaving) for row in way]
    chosen = min((each for each in first if each), key=Candidate.cost, default=best)
    return chosen if selector.losses.may_add(tuple(leaving.values())) else best


def _within(selector: VictimSelector, row: int, leaving: Container[str]) -> Candidate | None:
    """Who of those that leave anyhow must leave a node for one pod."""
    pods = [pod for pod in selector.preemptible(row) if pod.uid in leaving]
    found = selector.select_victims(row, pods)
    allowed = isinstance(found, Candidate) and selector.losses.may_add(found.victims)
    return found if isinstance(found, Candidate) and allowed else None
