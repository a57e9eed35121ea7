"""CapacityCard: a pod gets a node only within its queue's limits (docs/design/queues.md)."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass

import numpy as np

from arranger.api import event_reasons
from arranger.api.annotations import (
    CARD_NAME,
    NODE_GROUP,
    SERVICE_TYPE,
    VOLCANO_GROUP,
    VOLCANO_GROUP_LONG,
)
from arranger.api.resource_requests import Amounts
from arranger.api.settings.queue_annotations import queue_of
from arranger.cluster import BoolArray, Cluster, IntArray, NodeView, PodInfo
from arranger.framework import (
    ActionType,
    ClusterEvent,
    DependsOn,
    FilterResult,
    Plugin,
    QueueingHint,
    Rejection,
)
from arranger.framework.status import SKIP, Code, CycleState, Status
from arranger.quota.card_column import kinds_in
from arranger.quota.cards import NO_CARDS, Cards, cards_of, is_card_resource
from arranger.quota.charging.charges import QuotaShortage
from arranger.quota.ledger import QuotaLedger

NO_CARD = Rejection(("node(s) didn't have the card that the pod wants",), Code.UNRESOLVABLE)
WRONG_GROUP = Rejection(
    ("node(s) weren't of a node group that the pod's queue may use",), Code.UNRESOLVABLE
)
_MI = 1024 * 1024
#: What decides about charges and limits, beside pods and nodes.
_QUOTA_KINDS = frozenset({"Queue", "PodGroup", "Pod", "Owner"})


@dataclass(slots=True)
class _PreFilterState:
    """What is worked out once for a class of pods.

    Attributes:
        wanted: the cards that the pod accepts, the preferred ones first; empty for any.
        resources: the accelerator resources that it requests.
    """

    ledger: QuotaLedger
    wanted: tuple[str, ...]
    resources: tuple[str, ...]


def _frees_quota(pod: PodInfo, event: ClusterEvent) -> bool:
    """The pod that left counted towards the same limits, or left where others may be evicted."""
    if event.could_fit is None or event.frees_quota is None:
        return True
    return event.frees_quota(pod) or event.could_fit(pod)


def _has_other_cards(pod: PodInfo, event: ClusterEvent) -> bool:
    """A node has other cards, which its pods are charged; or the pod might fit there now; or with
    more in the cluster there is more beside what queues are guaranteed."""
    before, after = event.node_before, event.node
    if (cards_of(before) if before else NO_CARDS) != (cards_of(after) if after else NO_CARDS):
        return True
    if event.frees_quota is not None and event.frees_quota(pod):
        return True
    return after is not None and (event.could_fit is None or event.could_fit(pod))


class CapacityCard(Plugin):
    """Reject nodes whose use would exceed a limit of the pod's queue; prefer the first card."""

    depends_on = DependsOn.CLUSTER
    monotone = counts_quota = explains_first = True
    queueing_hints = (
        QueueingHint(ActionType.POD_REMOVED, _frees_quota),
        QueueingHint(ActionType.NODE_CHANGED | ActionType.NODE_REMOVED, _has_other_cards),
        QueueingHint(ActionType.OTHER, resources=_QUOTA_KINDS),
        QueueingHint(ActionType.POD_SCALED_DOWN | ActionType.OWN_UPDATE),
    )

    def __init__(self, ledger: QuotaLedger | None = None) -> None:
        """Without a ``ledger`` there are no queues, and the plugin skips every pod."""
        self._ledger = ledger

    def with_quota(self, ledger: QuotaLedger) -> CapacityCard:
        """The plugin for an engine's ledger."""
        return CapacityCard(ledger)

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        """The queue and whether the pod may use it, the cards and the service type; a PodGroup's by
        the PodGroup's name."""
        meta, ledger = pod.pod.metadata, self._ledger
        annotations, owners = meta.annotations, meta.owner_references
        group = annotations.get(VOLCANO_GROUP) or annotations.get(VOLCANO_GROUP_LONG, "")
        return (
            queue_of(pod.pod),
            annotations.get(CARD_NAME, ""),
            f"{meta.namespace}/{group}" if group else "",
            annotations.get(SERVICE_TYPE, ""),
            owners[0].kind if owners else "",
            ledger.annotations.said_by_owners(pod) if ledger is not None else (),
            ledger is None or ledger.rights.may_use(ledger.stated_queue(pod), pod.namespace),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Refuse pods whose queue takes none; skip where there are no queues."""
        ledger = self._ledger
        if ledger is None or not ledger.active:
            return SKIP
        name = ledger.queue_name(pod)
        if why := ledger.why_refused(pod):
            return self.reject(why, resolvable=False)
        wanted = ledger.annotations.cards_wanted_by(pod)
        resources = tuple(name for name in pod.requests if is_card_resource(name))
        error = ""
        if wanted and not resources:
            error = f"the pod names card {'|'.join(wanted)} and requests none"
        elif wanted and cluster.table.count and not _exists(ledger, wanted, resources):
            error = f"no resource name found for card <{'|'.join(wanted)}>"
        if error:
            text = f"Get request resource failed, Queue <{name}>, error: <{error}>"
            event = event_reasons.GET_TASK_REQUEST_RESOURCE_FAILED
            return Status(Code.UNRESOLVABLE, (text,), self.name, event)
        state[self.name] = _PreFilterState(ledger, wanted, resources)
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes of the queue's groups with an accepted card that its queue has left."""
        data: _PreFilterState = state[self.name]
        if not nodes.table.count:
            return _filter_no_nodes(data, pod, nodes)
        kinds = data.ledger.card_column.card_set_ids()[nodes.rows]
        passes = nodes.full_mask()
        found = kinds_in(kinds)
        place_of = np.full(max(found, default=0) + 1, -1, dtype=np.int64)
        rejections: list[Rejection] = []
        for kind in found:
            rejection = _check_limits(data, pod, data.ledger.card_column.card_set(kind))
            if rejection is not None:
                place_of[kind] = len(rejections)
                rejections.append(rejection)
                passes &= kinds != kind
        if (outside := _outside_node_groups(data.ledger, pod, nodes)) is None:
            return FilterResult(passes, lambda: (rejections, place_of[kinds]))

        def explain() -> tuple[list[Rejection], IntArray]:
            places = np.where(outside, len(rejections), place_of[kinds])
            return [*rejections, WRONG_GROUP], places

        return FilterResult(passes & ~outside, explain)

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Skip pods that do not accept several cards."""
        data = state.get(self.name)
        return None if isinstance(data, _PreFilterState) and len(data.wanted) > 1 else SKIP

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """100 for the card named first, half as much for each one further."""
        data: _PreFilterState = state[self.name]
        kinds = data.ledger.card_column.card_set_ids()[nodes.rows]
        scores = np.zeros(nodes.length, dtype=np.int64)
        for kind in kinds_in(kinds):
            got = _granted_cards(data, data.ledger.card_column.card_set(kind))
            if got:
                place = min(data.wanted.index(card) for card in got)
                scores[kinds == kind] = int(100 * 0.5**place)
        return scores


def _exists(ledger: QuotaLedger, wanted: Collection[str], resources: Collection[str]) -> bool:
    """Whether any node has one of the cards, as one of these resources."""
    present = ledger.card_column.present()
    return any((resource, card) in present for resource in resources for card in wanted)


def _filter_no_nodes(data: _PreFilterState, pod: PodInfo, nodes: NodeView) -> FilterResult:
    """There are no nodes: what rejects the pod on any that it accepts."""
    cards: list[Cards] = [{resource: c} for resource in data.resources for c in data.wanted]
    found = [_check_limits(data, pod, each) for each in cards or [{}]]
    rejections = [rejection for rejection in found if rejection is not None]
    told = rejections if len(rejections) == len(found) else []
    passes = nodes.full_mask()
    return FilterResult(passes, lambda: (told, np.full(len(passes), -1)))


def _granted_cards(data: _PreFilterState, cards: Cards) -> list[str]:
    got = [cards[resource] for resource in data.resources if resource in cards]
    return [card for card in got if card in data.wanted]


def _outside_node_groups(ledger: QuotaLedger, pod: PodInfo, nodes: NodeView) -> BoolArray | None:
    """Which nodes the pod's queues exclude by their groups; None where no queue names any."""
    outside: BoolArray | None = None
    values = nodes.table.label_values(NODE_GROUP)
    for state in ledger.path_self_to_root(ledger.queue_name(pod)):
        for names, wrong in ((state.node_groups, False), (state.excluded_node_groups, True)):
            if names:
                column = nodes.label(NODE_GROUP)
                # -1 for an unknown name would match the nodes without the label.
                known = [number for name in names if (number := values.find(name)) >= 0]
                there = np.isin(column, known) == wrong
                outside = there if outside is None else outside | there
    return outside


def _check_limits(data: _PreFilterState, pod: PodInfo, cards: Cards) -> Rejection | None:
    if data.wanted and not _granted_cards(data, cards):
        return NO_CARD
    ledger = data.ledger
    demand = ledger.charges_for(pod, cards)
    if not demand and (text := _exceeded_limit(ledger, pod)):
        return Rejection((text,), Code.UNSCHEDULABLE, event_reasons.EMPTY_QUEUE_CAPABILITY)
    short = ledger.shortage(pod, demand, cards)
    return None if short is None else _shortage_rejection(short)


def _exceeded_limit(ledger: QuotaLedger, pod: PodInfo) -> str:
    """For a pod that requests nothing: the text if its queue is beyond its limits already."""
    for state in ledger.path_self_to_root(ledger.queue_name(pod)):
        limits = {**state.capability, **(state.card_quota or {})}
        if any(state.used[name] > limit for name, limit in limits.items()):
            shown = _resource_text(limits)
            return f"Queue <{state.name}> capability <{shown}> is empty, deny it to preempt"
    return ""


def _resource_text(amounts: Amounts) -> str:
    """Amounts as Volcano prints a Resource: cpu and scalars in thousandths, memory in bytes."""
    names = sorted(amounts, key=lambda name: (name != "cpu", name != "memory", name))
    scale = {"cpu": 1, "memory": 1}
    return ", ".join(f"{name} {amounts[name] * scale.get(name, 1000):.2f}" for name in names)


def _shortage_rejection(short: QuotaShortage) -> Rejection:
    numbers = (short.requested, short.total, short.limit)
    match short.resource:
        case "cpu":
            what, event = "CPU", event_reasons.INSUFFICIENT_CPU_QUOTA
        case "memory":
            what, event = "memory", event_reasons.INSUFFICIENT_MEMORY_QUOTA
        case scalar:
            what, event = f"<{scalar}>", event_reasons.INSUFFICIENT_SCALAR_QUOTA
    unit = " Mi" if short.resource == "memory" else ""
    shown = [n // _MI if unit else n for n in numbers]
    text = (
        f"Queue <{short.queue}> has insufficient {what} quota: requested <{shown[0]}{unit}>, "
        f"total would be <{shown[1]}{unit}>, but capability is <{shown[2]}{unit}>"
    )
    if short.beside_guarantees:
        text += " beside what other queues are guaranteed"
    return Rejection((text,), Code.UNSCHEDULABLE, event)
