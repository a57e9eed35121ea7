"""Who uses how much: queues, their limits, and what every placed pod is charged.

The cluster reports every pod that takes or leaves a node, in simulations too, so quotas are
always those of the same state as everything else. Cards are charged by the node a pod is on: of
several that a pod accepts, the one it got.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from arranger.api.annotations import SERVICE_TYPE
from arranger.api.resource_requests import Amounts
from arranger.api.settings.queue_annotations import (
    DEFAULT_QUEUE,
    ROOT_QUEUE,
    service_type,
)
from arranger.api.types.pod_groups import AnyPodGroup
from arranger.api.types.queue import Queue
from arranger.cluster import Cluster, NodeTable, PodInfo
from arranger.framework.preemption import Limit
from arranger.quota.card_column import CardColumn
from arranger.quota.cards import NO_CARDS, Cards, is_card_resource
from arranger.quota.charging.charges import Charge, ChargedLimit, QuotaShortage, room_for_any
from arranger.quota.charging.kept_queues import KeptQueues
from arranger.quota.charging.placed_charges import LiftedCharges, PlacedCharges, count_use
from arranger.quota.charging.queue_limits import QueueLimits
from arranger.quota.charging.uncharged import UnchargedPods
from arranger.quota.guarantees import Guarantees
from arranger.quota.pod_annotations import LonePods, PodAnnotations, PodGroups
from arranger.quota.pod_owners import PodOwners
from arranger.quota.pod_queues import PodQueues
from arranger.quota.queue_rights import TenantRights, not_for_namespace
from arranger.quota.queue_spec import (
    QueueQuota,
    charges_for,
    path_self_to_root,
    read_queue,
    why_no_pods,
)

_Limits = Iterator[ChargedLimit]


class QuotaLedger:
    """All queues, and what is charged to them.

    Args:
        table: the nodes; the cluster is made of it and of the ledger, and reports its pods here.
        pod_groups: knows the PodGroups of pods; without it pods have none.
        owners: knows what the owners of pods say.
        lone_pods: knows the same of the owners of gangs, for pods in none.
        service_by_owner: kind of a pod's owner → service type, where nobody says it.
        exempt_card_pods: whether pods with cards are free of limits on cpu and memory.

    Attributes:
        queues: by name.
        annotations: which count for pods.
        card_column: row → the node's card set.
        rights: which queues namespaces may use, and what is believed of their pods there.
        uncharged: the queues of which it is not known what they use.
        version, charges_version: changes of queues, and times all was charged anew.
        facts_version: the same, and times that single pods were.
        kept: which pods on nodes stay in a queue that they do not name any more.
        placed: what each pod on a node is charged; who notes that something else is said of some,
            or of their PodGroup or owner, doubts it there.
        has_dues: whether any queue deserves anything, or is guaranteed it.
    """

    def __init__(
        self,
        table: NodeTable,
        *,
        pod_groups: PodGroups | None = None,
        owners: PodOwners | None = None,
        lone_pods: LonePods | None = None,
        service_by_owner: Mapping[str, str] | None = None,
        exempt_card_pods: bool = False,
        placed: PlacedCharges | None = None,
    ) -> None:
        self.table = table
        self.annotations = PodAnnotations(pod_groups, owners or PodOwners(), lone_pods)
        self._service_by_owner = service_by_owner or {}
        self.exempt_card_pods = exempt_card_pods
        self.queues: dict[str, QueueQuota] = {}
        #: Queue → how many others are part of it.
        self._child_counts: Counter[str] = Counter()
        self._guarantees = Guarantees()
        #: Used where no queue of that name was created.
        self._default_queue = QueueQuota(DEFAULT_QUEUE)
        self.placed = PlacedCharges() if placed is None else placed
        self._lifted, self.kept = LiftedCharges(), KeptQueues()
        self.card_column = CardColumn(table)
        self.rights = TenantRights(
            lambda: (queue.rights for queue in self.queues.values()),
            lambda name: (queue.rights for queue in self.path_self_to_root(name)),
        )
        self._limits = QueueLimits(
            self.path_self_to_root, self.queue_quota, self._guarantees, self.card_column
        ).of
        #: Whether charges may have changed; what queues use is to be summed up anew; they changed.
        self._stale = self._uncounted = self._edited = self.has_dues = False
        self.version = self.charges_version = self.facts_version = 0
        self._pod_queues = PodQueues(self.queues, self.rights, self.annotations, self.kept)
        self.uncharged = UnchargedPods(self._pod_queues)

    @property
    def active(self) -> bool:
        """Whether there are queues; without any, nothing is charged."""
        return bool(self.queues)

    def set_queue(self, queue: Queue) -> bool:
        """A queue was added or edited; returns whether anything but its status has changed."""
        state, known = read_queue(queue), self.queues.get(queue.name)
        state.stated = queue
        if known == state:
            return False
        stale = self._stale or known is None or not known.charges_as(state)
        if known is not None:
            state.used = known.used
            self._uncounted |= known.guarantee != state.guarantee
        self.remove_queue(queue.name)
        self.queues[queue.name] = state
        self._child_counts[state.parent] += state.parent != queue.name
        self.rights.on_queues_changed()
        self._stale, self._edited = stale, True
        return True

    def remove_queue(self, name: str) -> None:
        """A queue was deleted."""
        if (known := self.queues.pop(name, None)) is not None:
            self._child_counts[known.parent] -= known.parent != name
            self.rights.on_queues_changed()
        self._stale = True

    def mark_stale(self) -> None:
        """Queues, rights or nodes have changed, and with them perhaps what all are charged."""
        self._stale |= self.active

    def refresh(self, cluster: Cluster, *, most: int = sys.maxsize) -> bool:
        """Charge all pods anew, or ``most`` of those doubted; whether there was one of these."""
        self._lifted.clear()
        self.kept.forget_gone(cluster.__contains__)
        stale, counts = self._stale, self._stale or self._uncounted
        edited = self.uncharged.take_edited() or counts or self._edited
        doubted = self.placed.take_doubted(sys.maxsize if stale else most)
        regrouped, any_placed = self.placed.take_regrouped(), False
        self.facts_version += edited or doubted is not None
        if doubted is not None and self.active:
            any_placed = self._charge_anew(cluster, doubted)
            cluster.objects.invalidate_in(*regrouped)
        if edited:
            self._stale = self._uncounted = self._edited = False
            self.version, self.charges_version = self.version + 1, self.charges_version + stale
            self.has_dues = any(state.due for state in self.queues.values())
            cluster.objects.invalidate()
            if counts:
                self._recount(cluster, charge=stale)
            if stale and self.kept:
                self.placed.doubt(self.kept)
        return any_placed

    def path_self_to_root(self, name: str) -> Iterator[QueueQuota]:
        """A queue and its ancestors, itself first; nothing if there is no such queue."""
        if name == DEFAULT_QUEUE and name not in self.queues:
            return chain((self._default_queue,), path_self_to_root(self.queues, ROOT_QUEUE))
        return path_self_to_root(self.queues, name)

    def stated_queue(self, pod: PodInfo) -> str:
        """The queue that a pod names, or somebody for it, whether or not it may use it."""
        return self._pod_queues.stated_by(pod)

    def queue_name(self, pod: PodInfo) -> str:
        """The queue of a pod (:meth:`PodQueues.of`)."""
        return self._pod_queues.of(pod)

    def queue_of_group(self, group: AnyPodGroup) -> tuple[str, bool]:
        """(the queue of a PodGroup as of its pods, whether it is the one that it names)."""
        return self._pod_queues.of_group(group)

    def why_refused(self, pod: PodInfo) -> str:
        """Why the queue that a pod names takes it not at all; "" if it does."""
        name, namespace = self.stated_queue(pod), pod.namespace
        may_use = self.rights.may_use(name, namespace)
        return self.why_no_pods(name) if may_use else not_for_namespace(name, namespace)

    def why_no_pods(self, name: str) -> str:
        """Why a queue takes no pods at all, however few; "" if it does."""
        if self.uncharged.closes(name):
            return f"Queue <{name}> takes no pods: one of its pods on nodes cannot be counted"
        return why_no_pods(name, list(self.path_self_to_root(name)), self._child_counts[name])

    def queue_quota(self, name: str) -> QueueQuota | None:
        """The state of a queue; None if there is none of that name."""
        found = self.queues.get(name)
        return self._default_queue if found is None and name == DEFAULT_QUEUE else found

    def service_of(self, pod: PodInfo) -> tuple[str, bool]:
        """(``inference``, ``training`` or "", whether somebody says so whom its queue believes)."""
        stated = self.annotations.get(pod, SERVICE_TYPE)
        limited = self.rights.limits_services
        believed = self.rights.service_types(self.queue_name(pod)) if limited else None
        stated = stated if believed is None or stated in believed else ""
        service = service_type(pod.pod, stated, self._service_by_owner)
        service = service if believed is None or service in believed else ""
        return service, bool(stated and service)

    def cards_on(self, node: str) -> Cards:
        """The cards of a node by resource."""
        return self.card_column.cards_on(node)

    def charges_for(self, pod: PodInfo, cards: Cards) -> Amounts:
        """What a pod is charged on a node with these cards."""
        return charges_for(pod.requests, cards)

    def shortage(
        self, pod: PodInfo, demand: Amounts, cards: Cards, queue: str = ""
    ) -> QuotaShortage | None:
        """The first limit of the pod's queues, or of another queue, that it would exceed."""
        limits = self._charged_limits(pod, demand, cards, queue)
        return next((each.shortage for each in limits if each.left < 0 and each.binds), None)

    def room_for(self, pod: PodInfo, node: str) -> int:
        """How many pods like this one all limits of its queues have room for, on such a node."""
        cards = self.cards_on(node)
        limits = self._charged_limits(pod, self.charges_for(pod, cards), cards)
        return min((each.room // each.n for each in limits if each.n), default=sys.maxsize)

    def most_for(self, pods: Sequence[PodInfo]) -> int:
        """How many such pods, of whatever kinds, all limits have room for, wherever; no less."""
        return room_for_any(
            self._charged_limits(pod, self.charges_for(pod, cards), cards)
            for pod in pods
            for cards in self._accepted_by(pod)
        )

    def limits_of(self, pod: PodInfo) -> Set[Limit]:
        """The limits that might keep the pod from any node.

        All of its queues for a pod that requests nothing, as it is refused where one is exceeded.
        """
        limits: set[Limit] = set()
        for cards in self._accepted_by(pod):
            demand = self.charges_for(pod, cards)
            limits.update(each.key for each in self._charged_limits(pod, demand, cards))
            limits.update(self._guarantees.limits_of(self.queue_name(pod), demand))
        if not self.charges_for(pod, NO_CARDS):
            for state in self.path_self_to_root(self.queue_name(pod)):
                named = (*state.capability, *(state.card_quota or ()))
                limits.update((state.name, n) for n in named)
        return limits

    def queues_of(self, pod: PodInfo) -> Set[str]:
        """The pod's queue and those above it."""
        return {state.name for state in self.path_self_to_root(self.queue_name(pod))}

    def _accepted_by(self, pod: PodInfo) -> Iterator[Cards]:
        """The card sets of all nodes, as far as a pod can use them."""
        wanted = self.annotations.cards_wanted_by(pod)
        for kind in self.card_column.kinds():
            cards = self.card_column.card_set(kind)
            if not wanted or any(cards.get(resource) in wanted for resource in pod.requests):
                yield cards

    def remaining_with(self, pod: PodInfo, cards: Cards) -> dict[Limit, int]:
        """What each limit of the pod's queues would leave with the pod on a node of these cards."""
        limits = self._charged_limits(pod, self.charges_for(pod, cards), cards)
        return {each.key: each.left for each in limits if each.binds}

    def remaining(self, pod: PodInfo, node: str) -> dict[Limit, int]:
        """What each limit of the pod's queues would leave with the pod on that node."""
        return self.remaining_with(pod, self.cards_on(node))

    def relieved_by(self, pod: PodInfo, node: str) -> Set[Limit]:
        """The limits of which more is left since a pod has left a node."""
        charged = self.charges_for(pod, self.cards_on(node))
        relieved = set(self._guarantees.relieved(self.queue_name(pod), charged))
        return self.remaining(pod, node).keys() | relieved

    def relieved_by_nodes(self) -> Set[Limit]:
        """The limits of which there may be more when nodes have more."""
        return set(self._guarantees.limits_of(ROOT_QUEUE, self._guarantees.resources))

    def limits_for(self, queue: str, demand: Amounts) -> _Limits:
        """The limits that count for pods of a queue that want so much in all, of whatever cards."""
        free = self.exempt_card_pods and any(map(is_card_resource, demand))
        limits = self._limits(queue, demand, (), ("cpu", "memory") if free else ())
        return (each for each in limits if each.binds)

    def _charged_limits(
        self, pod: PodInfo, demand: Amounts, cards: Cards, queue: str = ""
    ) -> _Limits:
        """The limits that count for a pod, from its queue upwards; then those beside guarantees."""
        of_cards = set(cards.values())
        exempt = ("cpu", "memory") if self.exempt_card_pods and of_cards & demand.keys() else ()
        return self._limits(queue or self.queue_name(pod), demand, of_cards, exempt)

    def released_by(self, pod: PodInfo) -> Iterator[tuple[Limit, int]]:
        """(queue, resource or card), amount: what a placed pod is charged in all its queues."""
        return self.released(charge) if (charge := self.charge_of(pod.uid)) else iter(())

    def released(self, charge: Charge) -> Iterator[tuple[Limit, int]]:
        """The same of what some pod is charged."""
        for state in self.path_self_to_root(charge.queue):
            for name, n in charge.amounts.items():
                yield (state.name, name), n
        yield from self._guarantees.released(charge.queue, charge.amounts)

    def charge_of(self, uid: str) -> Charge | None:
        """What a placed pod is charged."""
        return self.placed.get(uid)

    def lacks_queue_of(self, uid: str) -> bool:
        """Whether a placed pod is charged to a queue that has gone since."""
        return bool((charge := self.placed.get(uid)) and not self.queue_quota(charge.queue))

    def on_pod_moved(self, pod: PodInfo, node: str, sign: int) -> None:
        """Charge a pod that takes a node (1), or give its charge back (-1)."""
        if self.active:
            self.on_pods_moved(((pod, node),), sign)

    def on_pods_moved(self, pods: Iterable[tuple[PodInfo, str]], sign: int) -> None:
        """The same of pods and their nodes, where there are queues."""
        moved = list[Charge]()
        try:
            for pod, node in pods:
                if sign > 0:
                    if before := self._lifted.queue_before(pod, node):
                        self._keep_or_move(pod, before, self.cards_on(node))
                    charge = self._lifted.take(pod, node) or self.charge(pod, self.cards_on(node))
                    moved.append(self.placed.set(pod, charge))
                elif known := self.placed.pop(pod):
                    self._lifted.put(pod, node, known)
                    self.kept.on_left(pod.uid)
                    moved.append(known)
        finally:
            self._count(moved, sign)

    def _count(self, charges: Iterable[Charge], sign: int) -> None:
        count_use(charges, sign, self.path_self_to_root, self._guarantees)

    def charge(self, pod: PodInfo, cards: Cards = NO_CARDS) -> Charge:
        """What a pod would be charged on a node with these cards."""
        service, said = self.service_of(pod)
        charged, may_go = self.charges_for(pod, cards), self.annotations.is_preemptable(pod)
        return Charge(self.queue_name(pod), charged, service, may_go, said)

    def _charge_anew(self, cluster: Cluster, uids: Iterable[str]) -> bool:
        """Charge these anew: a tenant may edit what is his as often as he likes."""
        any_placed = False
        for uid in uids:
            pod, node, known = cluster.pod(uid), cluster.node_of(uid), self.placed.get(uid)
            if pod and node and known:
                any_placed, cards = True, self.cards_on(node)
                if uid in self.kept or known != self.charge(pod, cards):
                    self.placed.pop(pod)
                    self._count((known,), -1)
                    self._keep_or_move(pod, known.queue, cards)
                    cluster.place_anew(uid)
        return any_placed

    def _keep_or_move(self, pod: PodInfo, before: str, cards: Cards) -> None:
        """Have a pod on a node stay in its queue, unless the one that it names now takes it."""
        known = pod.uid not in self.uncharged and self._pod_queues.may_use(before, pod.namespace)
        if known and (named := self._pod_queues.named_by(pod)) != before:
            short = self.shortage(pod, self.charges_for(pod, cards), cards, named)
            if why := self.why_refused(pod) or (f"Queue <{short.queue}> is full" if short else ""):
                self.kept.keep(pod, before, why)
                return
        self.kept.forget(pod.uid)

    def _recount(self, cluster: Cluster, *, charge: bool = True) -> None:
        """Sum up what queues use; ``charge``: of pods that are all charged anew."""
        for state in (*self.queues.values(), self._default_queue):
            state.used.clear()
        self._guarantees.reset(self.queues)
        if not charge:
            self._count(self.placed.values(), 1)
            return
        self.placed.clear()
        self.card_column.forget_nodes()
        self.on_pods_moved(cluster.placed_pods() if self.active else (), 1)

    def check_consistent(self, cluster: Cluster) -> None:
        """Check the use of every queue against the pods.

        Raises:
            AssertionError: they disagree.
        """
        self.refresh(cluster)
        used, charges = {name: +q.used for name, q in self.queues.items()}, self.placed.copy()
        stakes = self._guarantees.inside()
        self._recount(cluster)
        assert used == {name: +state.used for name, state in self.queues.items()}, "use of queues"
        assert stakes == self._guarantees.inside(), "stakes of queues"
        assert not self.active or charges == self.placed.copy(), "what pods are charged"
