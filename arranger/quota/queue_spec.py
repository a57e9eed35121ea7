"""What a Queue says, as limits in numbers; and what is wrong with it. Knows no cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from arranger.api.annotations import CARD_QUOTA, QUEUE_STATE
from arranger.api.quantity import QuantityError
from arranger.api.queue_annotations import desired_state, parse_cards
from arranger.api.resource_requests import Amounts, parse_resource_list
from arranger.api.types.queue import Queue
from arranger.quota.cards import Cards

#: Never charged: every pod takes one slot of its node.
_PODS: Final = "pods"


@dataclass(slots=True)
class QueueState:
    """One queue with its limits and its use.

    Attributes:
        capability: the most it may use; without limit where silent.
        card_quota: cards it may use, none where silent; None for a queue that does not count cards.
        guarantee: what nobody may take from it.
        node_groups, no_node_groups: its nodes are of the first, if there are any, and not of the
            others.
        problems: what could not be read of it.
        used: what its pods and those of its children use, by resource and by card.
    """

    name: str
    weight: int = 1
    priority: int = 0
    reclaimable: bool = True
    is_open: bool = True
    parent: str = ""
    capability: Amounts = field(default_factory=dict)
    card_quota: Amounts | None = None
    deserved: Amounts = field(default_factory=dict)
    guarantee: Amounts = field(default_factory=dict)
    node_groups: frozenset[str] = frozenset()
    excluded_node_groups: frozenset[str] = frozenset()
    problems: list[str] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter, compare=False)

    def dominant_share(self, total: Amounts) -> float:
        """The largest part of its due that it uses (dominant share).

        Where nobody says what that is, it is its limits, or else all there is: ``total``.
        """
        due = self.deserved or {**self.capability, **(self.card_quota or {})} or total
        return max((self.used[name] / n for name, n in due.items() if n), default=0.0)


def read_queue(queue: Queue) -> QueueState:
    """The limits of a queue; what cannot be read is left out and told in ``problems``."""
    spec = queue.spec
    state = QueueState(
        queue.name,
        weight=spec.weight,
        priority=spec.priority,
        reclaimable=spec.reclaimable,
        parent=spec.parent,
        node_groups=frozenset(spec.affinity.node_group_affinity.required),
        excluded_node_groups=frozenset(spec.affinity.node_group_anti_affinity.required),
    )
    for name, amounts in (
        ("capability", spec.capability),
        ("deserved", spec.deserved),
        ("guarantee", spec.guarantee.resource),
    ):
        try:
            setattr(state, name, parse_resource_list(amounts))
        except QuantityError as error:
            state.problems.append(f"spec.{name}: {error}")
    # What would be limited or ordered otherwise elsewhere must not be thought to be so here.
    if spec.dequeue_strategy == "fifo":
        state.problems.append("spec.dequeueStrategy: fifo: who cannot be placed holds up nobody")
    if any(spec.dra.values()):
        state.problems.append("spec.dra: devices by DeviceClass are not limited")
    if text := queue.metadata.annotations.get(CARD_QUOTA):
        try:
            state.card_quota = parse_cards(text)
        except ValueError as error:
            # What cannot be read must not be unlimited.
            state.card_quota = {}
            state.problems.append(f"{CARD_QUOTA}: {error}")
    try:
        # Its user's word counts at once, whether or not anybody keeps the status.
        state.is_open = (desired_state(queue) or queue.status.state) not in ("Closed", "Closing")
    except ValueError as error:
        state.is_open = queue.status.state not in ("Closed", "Closing")
        state.problems.append(f"{QUEUE_STATE}: {error}")
    return state


def path_self_to_root(queues: Mapping[str, QueueState], name: str) -> Iterator[QueueState]:
    """A queue and those it is part of, itself first; nothing for one that is not there."""
    seen: set[str] = set()
    while (state := queues.get(name)) is not None and name not in seen:
        seen.add(name)
        yield state
        name = state.parent


def charges_for(requests: Amounts, cards: Cards) -> Amounts:
    """What a pod with these requests is charged on a node with these cards."""
    asked = {name: n for name, n in requests.items() if n and name != _PODS}
    for resource, card in cards.items():
        if resource in asked:
            asked[card] = asked.get(card, 0) + asked[resource]
    return asked


def validate(queues: Mapping[str, QueueState], name: str) -> list[str]:
    """What is wrong with a queue though it can be read, as sentences for its owner.

    Guarantee, deserved and capability must not decrease in this order, and a parent must be there
    and no part of its own child.
    """
    state = queues[name]
    found: list[str] = []
    limits = (
        ("guarantee", state.guarantee, "deserved", state.deserved),
        ("deserved", state.deserved, "capability", state.capability),
        ("guarantee", state.guarantee, "capability", state.capability),
    )
    for less, amounts, more, bounds in limits:
        over = sorted(what for what, n in amounts.items() if n > bounds.get(what, n))
        if over:
            found.append(f"spec.{less} is more than spec.{more} in {', '.join(over)}")
    if state.parent and state.parent not in queues:
        found.append(f"spec.parent: there is no queue {state.parent}")
    above = [each.parent for each in path_self_to_root(queues, name)]
    if name in above:
        found.append(f"spec.parent: {' is part of '.join([name, *above])}")
    return found
