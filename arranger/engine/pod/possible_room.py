"""Which waiting pods might fit now: asked before an attempt, which would cost more.

The answer is no only where that is certain: where nodes or queues have too little left, whoever is
evicted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from arranger.cluster.columns import PODS, IntArray
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.queue_state import QueueState
from arranger.engine.queue.collaborators import Nominations
from arranger.framework.preemption import EvictionPolicy, Limit, QuotaLimits

#: Pods that are asked about one by one.
_FIRST: Final = 64
#: Nodes that have changed at once, of which a waiting pod is asked one by one. Where they are more,
#: it is only asked whether one of them would be large enough for it if nobody were there.
_FEW_NODES: Final = 4


@dataclass(slots=True, eq=False)
class PossibleRoom:
    """What nodes and queues have left for those that wait.

    It looks at one moment: what it has found is remembered.
    """

    _context: EngineContext
    _policy: EvictionPolicy
    #: (priority, class) of pods → whether there is anybody whose place they might take.
    _evicting: dict[tuple[int, Hashable], bool] = field(default_factory=dict)
    _whole: dict[str, bool] = field(default_factory=dict)

    def for_whole(self, entity: QueuedEntity) -> bool:
        """Whether there might be room for what a gang group still needs; yes for others."""
        if entity.group is None:
            return True
        if entity.key not in self._whole:
            in_queues = is_over_quota(entity)
            self._whole[entity.key] = self._for_group(entity, on_nodes=True, in_queues=in_queues)
        return self._whole[entity.key]

    def is_hopeless(self, entity: QueuedEntity) -> bool:
        """Whether a gang group lacks as much as before of what it was rejected for."""
        on_nodes = not entity.rejected_by.isdisjoint(entity.profile.node_resource_filters)
        in_queues = is_over_quota(entity)
        return not self._for_group(entity, on_nodes=on_nodes, in_queues=in_queues)

    def _for_group(self, entity: QueuedEntity, *, on_nodes: bool, in_queues: bool) -> bool:
        """False if nodes, or queues, have too little left for what a Strict group still needs.

        True wherever more would have to be counted than what is free: nodes that its members have
        already, and evictions.
        """
        group, cluster, quota = entity.gang_group, self._context.cluster, self._policy.quota
        if not group.is_strict:
            return True
        needed = sum(gang.shortfall({}) for gang in group.gangs)
        pods = [member.pod for member in entity.one_of_each_class()]
        enough = not on_nodes or needed <= int(cluster.table.replica_capacity(*pods).sum())
        if enough and in_queues and quota is not None:
            enough = needed <= quota.most_for(pods)
        if enough or needed <= 0:
            return True
        waiting = group.gangs_by_uid().keys() & self._context.pods.keys()
        if any(uid in cluster for uid in waiting):
            return True
        return self.may_evict(entity.representative.pod)

    def may_evict(self, preemptor: PodInfo) -> bool:
        """Whether there is anybody whose place a pod might take."""
        policy = self._policy
        key = preemptor.priority, policy.preemptor_class(preemptor)
        if key not in self._evicting:
            placed = (pod for pod, _ in self._context.cluster.placed_pods())
            # Mostly one of the first will do; where none does, classes are fewer than pods.
            found = policy.can_preempt_any(preemptor, islice(placed, _FIRST))
            if not found:
                rows = policy.evictable_rows([preemptor])
                found = policy.can_preempt_any(preemptor, placed) if rows is None else bool(rows)
            self._evicting[key] = found
        return self._evicting[key]


def is_over_quota(entity: QueuedEntity) -> bool:
    """Whether an entity is woken when limits of its queues have more left.

    Others must be woken by room on nodes whatever these limits say now.
    """
    return entity.profile.quota_plugin in entity.rejected_by


class Freed(NamedTuple):
    """A node that has more room than before.

    Attributes:
        left: the pod that has left it; None if the node itself has changed.
    """

    node: str
    left: PodInfo | None = None


@dataclass(slots=True, eq=False)
class FreedRoom:
    """What nodes have left since they changed, or since pods have left them, all at one moment.

    What a question costs does not grow with the nodes: thousands may be given back at once, and
    each class of those that wait is asked.
    """

    _context: EngineContext
    _policy: EvictionPolicy
    _nominations: Nominations
    _freed: list[Freed]
    #: The nodes, each once; None until somebody asks.
    _known_nodes: Sequence[str] | None = field(default=None, init=False)
    #: (resource × n) what nodes of each size have in all, of those that somebody asks about.
    _known_sizes: IntArray | None = field(default=None, init=False)
    _room: PossibleRoom = field(init=False)
    _known_limits: Set[Limit] | None = field(default=None, init=False)
    #: Resources that those that have left request; None until somebody asks.
    _known_resources: Set[str] | None = field(default=None, init=False)
    #: (node, priority, class) of pods → what those on the node have whose place they might take.
    _removable: dict[tuple[str, int, Hashable], dict[int, int]] = field(
        default_factory=dict, init=False
    )

    def __post_init__(self) -> None:
        self._room = PossibleRoom(self._context, self._policy)

    def extend(self, more: FreedRoom) -> None:
        """There is this as well, and all of it is looked at as it is when somebody asks next."""
        self._freed += more._freed
        self._known_nodes = self._known_sizes = None
        self._known_limits = self._known_resources = None
        self._removable.clear()
        self._room = PossibleRoom(self._context, self._policy)

    @property
    def _nodes(self) -> Sequence[str]:
        if self._known_nodes is None:
            self._known_nodes = list(dict.fromkeys(each.node for each in self._freed))
        return self._known_nodes

    def could_fit(self, waiting: PodInfo) -> bool:
        """Whether a pod might fit on a node, and its gang into what there is; with evictions."""
        entity = self._entity_of(waiting)
        if entity is not None and entity.lacks:
            return self.frees_quota(waiting)
        if entity is not None and entity.never and any(each.left is None for each in self._freed):
            return True  # that it can never fit may not be true any more
        if len(self._nodes) > _FEW_NODES:
            if not self._is_one_large_enough(waiting):
                return False
        elif not any(self._could_take(node, waiting, entity) for node in self._nodes):
            return False
        return entity is None or entity.group is None or self._room.for_whole(entity)

    def _could_take(self, node: str, waiting: PodInfo, entity: QueuedEntity | None) -> bool:
        """Whether a pod might fit on one node, and a lone one within the limits of its queues."""
        if not self._fits_on_node(node, waiting, entity):
            return False
        if entity is None or entity.group is not None or not is_over_quota(entity):
            return True
        return self._within_limits(node, waiting)

    def _is_one_large_enough(self, waiting: PodInfo) -> bool:
        """Whether a pod's requests would fit on one of the nodes if nobody were there."""
        table = self._context.cluster.table
        sizes = self._known_sizes
        if sizes is None or len(sizes) < len(table.allocatable):  # a node may offer something new
            rows = [table.index[node] for node in self._nodes if node in table.index]
            sizes = self._known_sizes = np.unique(table.allocatable[:, rows], axis=1)
        fits = sizes[PODS] > 0
        columns, amounts = waiting.request_vector(table.resource_column)
        for column, amount in zip(columns, amounts, strict=True):
            fits = fits & (sizes[column] >= amount)
        return bool(fits.any())

    def _fits_on_node(self, node: str, waiting: PodInfo, entity: QueuedEntity | None) -> bool:
        """Whether a pod's requests would fit on a node, evictions included."""
        cluster, policy = self._context.cluster, self._policy
        if len(self._nominations) > 0:
            own = {} if entity is None else entity.members  # what is nominated is there for itself
            return cluster.could_fit(
                waiting, node, lambda o: o.uid in own or policy.can_preempt(waiting, o)
            )
        key = node, waiting.priority, policy.preemptor_class(waiting)
        removable = self._removable.get(key)
        if removable is None:
            pods = cluster.pods_on(node)
            removable = cluster.amounts_of(o for o in pods if policy.can_preempt(waiting, o))
            self._removable[key] = removable
        return cluster.could_fit_beside(waiting, node, removable)

    def frees_quota(self, waiting: PodInfo) -> bool:
        """Whether a node, or a pod that has left it, counts towards limits of a waiting one, and
        that might be within them now."""
        quota, entity = self._policy.quota, self._entity_of(waiting)
        if entity is not None and entity.lacks:
            return self._relieves(entity.lacks, quota)
        if quota is None or not (relieved := self._relieved_limits(quota)):
            return False
        if entity is not None and entity.state is QueueState.GATED:
            # Its gang is not admitted; what its PodGroup asks for may be more than its pods do.
            theirs = quota.queues_of(waiting)
            return any(queue in theirs for queue, _ in relieved)
        if quota.limits_of(waiting).isdisjoint(relieved):
            return False
        if entity is not None and entity.group is not None:
            return self._room.for_whole(entity)
        return (
            quota.most_for([waiting]) > 0
            or len(self._nominations) > 0
            or self._room.may_evict(waiting)
        )

    def _relieves(self, lacks: Set[Limit], quota: QuotaLimits | None) -> bool:
        """Whether there may be more for PodGroups that are not admitted for lack of this."""
        if any(not queue and self._frees_resource(name) for queue, name in lacks):
            return True
        return quota is not None and not lacks.isdisjoint(self._relieved_limits(quota))

    def _frees_resource(self, name: str) -> bool:
        """Whether nodes may have more of a resource."""
        if any(each.left is None for each in self._freed):
            return True
        if self._known_resources is None:
            left = [each.left for each in self._freed if each.left is not None]
            self._known_resources = {name for pod in left for name in pod.requests}
        return name in self._known_resources

    def _relieved_limits(self, quota: QuotaLimits) -> Set[Limit]:
        if self._known_limits is None:
            found = [
                quota.relieved_by_nodes() if left is None else quota.relieved_by(left, node)
                for node, left in self._freed
            ]
            self._known_limits = found[0] if len(found) == 1 else set[Limit]().union(*found)
        return self._known_limits

    def _within_limits(self, node: str, waiting: PodInfo) -> bool:
        """Whether evictions on a node could bring a lone pod within the limits of its queues."""
        quota, cluster, policy = self._policy.quota, self._context.cluster, self._policy
        if quota is None:
            return True
        short = {k: -left for k, left in quota.remaining(waiting, node).items() if left < 0}
        if not short or len(self._nominations) > 0:
            return True  # some that are nominated may step aside
        for other in cluster.pods_on(node):
            if policy.can_preempt(waiting, other):
                if policy.in_gang(other):
                    return True  # others may leave with it, elsewhere
                for limit, n in quota.released_by(other):
                    if limit in short:
                        short[limit] -= n
        return all(n <= 0 for n in short.values())

    def _entity_of(self, waiting: PodInfo) -> QueuedEntity | None:
        member = self._context.pods.get(waiting.uid)
        return None if member is None else member.entity
