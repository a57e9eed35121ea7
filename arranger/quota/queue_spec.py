"""The limits that a Queue states, as numbers, and what is wrong with it. Knows no cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from arranger.api.annotations import CARD_QUOTA, QUEUE_MAX_RUN_TIME, QUEUE_STATE
from arranger.api.parsing.duration import parse_lasting_duration
from arranger.api.parsing.errors import shown
from arranger.api.quantity import LARGEST, QuantityError
from arranger.api.resource_requests import Amounts, parse_resource_list
from arranger.api.settings.queue_annotations import (
    DEFAULT_QUEUE,
    ROOT_QUEUE,
    is_closed,
    parse_cards,
)
from arranger.api.types.queue import Queue
from arranger.quota.cards import Cards
from arranger.quota.queue_rights import SILENT, QueueRights, read_rights

#: How many resources the definition lets a limit name.
MAX_AMOUNTS: Final = 64
#: Levels of queues, the root among them: what is deeper takes no pods. Each pod is charged to, and
#: held against, all that it is below.
MAX_LEVELS: Final = 64
#: A pod's slot on its node is not charged.
_PODS: Final = "pods"
TOO_DEEP: Final = f"at more than {MAX_LEVELS} levels of queues"
NOTHING: Final[Mapping[str, float]] = {}


@dataclass(slots=True)
class QueueQuota:
    """One queue with its limits and its use.

    Attributes:
        capability: the most it may use; a resource that is not named has no limit.
        card_quota: cards it may use, none of those not named; None for a queue without card quota.
        deserved: what is its fair share.
        guarantee: what is kept free for it, and what evictions must leave it.
        due: what it may take back from others, and keeps: what it deserves, or is guaranteed.
        rights: who may use it, and what is believed there.
        max_run_time: how long its pods may run, in seconds; None for ever.
        node_groups, excluded_node_groups: its pods run on nodes of the first, if it names any, and
            not on those of the second.
        problems: what could not be read of it.
        used: what its pods and those of its children use, by resource and by card.
        stated: the object; None for a queue that has none.
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
    due: Amounts = field(default_factory=dict)
    rights: QueueRights = SILENT
    max_run_time: float | None = None
    node_groups: frozenset[str] = frozenset()
    excluded_node_groups: frozenset[str] = frozenset()
    problems: list[str] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter, compare=False)
    stated: Queue | None = field(default=None, compare=False, repr=False)

    def charges_as(self, other: QueueQuota) -> bool:
        """Whether pods are charged alike if this queue becomes the other."""
        return (self.parent, self.rights) == (other.parent, other.rights)

    def dominant_share(self, total: Amounts, before: Mapping[str, float] = NOTHING) -> float:
        """The largest share of its due that it uses of any resource (dominant resource fairness).

        Its due is ``deserved``, else its limits, else ``total``, which is all that the cluster has.
        ``before`` is what it has used, and counts like what it uses.
        """
        due = self.deserved or {**self.capability, **(self.card_quota or {})} or total
        used, had = self.used, before.get
        return max(((used[name] + had(name, 0)) / n for name, n in due.items() if n), default=0.0)


def read_queue(queue: Queue) -> QueueQuota:
    """The limits of a queue; what cannot be read is left out and listed in ``problems``."""
    spec = queue.spec
    state = QueueQuota(
        queue.name,
        weight=max(1, spec.weight),
        priority=spec.priority,
        reclaimable=spec.reclaimable,
        parent=spec.parent,
        rights=read_rights(spec),
        node_groups=frozenset(spec.affinity.node_group_affinity.required),
        excluded_node_groups=frozenset(spec.affinity.node_group_anti_affinity.required),
    )
    for name, amounts in (
        ("capability", spec.capability),
        ("deserved", spec.deserved),
        ("guarantee", spec.guarantee.resource),
    ):
        try:
            read = parse_resource_list(amounts)
        except QuantityError as error:
            state.problems.append(f"spec.{name}: {error}")
        else:
            setattr(state, name, {key: max(0, amount) for key, amount in read.items()})
            state.problems += (f"spec.{name}: {why}" for why in _odd_amounts(read))
    if spec.weight < 1:
        state.problems.append(f"spec.weight: {spec.weight} is less than 1, and counts as that")
    state.problems += state.rights.problems()
    state.due = {
        r: max(state.deserved.get(r, 0), state.guarantee.get(r, 0))
        for r in state.deserved | state.guarantee
    }
    # Fields of Volcano's that have no effect here are named, lest they be relied on.
    if spec.dequeue_strategy == "fifo":
        state.problems.append("spec.dequeueStrategy: fifo: who cannot be placed holds up nobody")
    elif spec.dequeue_strategy not in ("", "traverse"):
        state.problems.append(f"spec.dequeueStrategy: {shown(spec.dequeue_strategy)} is unknown")
    if any(spec.dra.values()):
        state.problems.append("spec.dra: devices by DeviceClass are not limited")
    if text := queue.metadata.annotations.get(CARD_QUOTA):
        try:
            state.card_quota = parse_cards(text)
        except ValueError as error:
            # A quota that cannot be read admits nothing, rather than everything.
            state.card_quota = {}
            state.problems.append(f"{CARD_QUOTA}: {error}")
    if text := queue.metadata.annotations.get(QUEUE_MAX_RUN_TIME):
        try:
            state.max_run_time = parse_lasting_duration(text)
        except ValueError as error:
            state.problems.append(f"{QUEUE_MAX_RUN_TIME}: {error}")
    try:
        # The requested state counts at once, whether or not a controller keeps the status.
        state.is_open = not is_closed(queue)
    except ValueError as error:
        state.is_open = queue.status.state not in ("Closed", "Closing")
        state.problems.append(f"{QUEUE_STATE}: {error}")
    return state


def _odd_amounts(amounts: Amounts) -> Iterator[str]:
    """What is odd about amounts that can be read all the same, as older definitions let pass."""
    if len(amounts) > MAX_AMOUNTS:
        yield f"{len(amounts)} amounts, and at most {MAX_AMOUNTS} are allowed"
    for name, amount in islice(amounts.items(), MAX_AMOUNTS):
        if amount < 0:
            yield f"{shown(name)}: less than nothing, counts as nothing"
        elif amount >= LARGEST:
            yield f"{shown(name)}: more than {LARGEST}, counts as that"


def path_self_to_root(queues: Mapping[str, QueueQuota], name: str) -> Iterator[QueueQuota]:
    """A queue and its ancestors, itself first; nothing if there is no such queue.

    The last one is ``root``, if it was made: every queue is part of it. Of a queue that is too deep
    there is one more than :data:`MAX_LEVELS`.
    """
    seen: set[str] = set()
    while (state := queues.get(name)) is not None and name not in seen:
        seen.add(name)
        yield state
        if len(seen) > MAX_LEVELS:
            return
        name = state.parent or ROOT_QUEUE


def as_served(queues: Iterable[QueueQuota]) -> list[QueueQuota]:
    """Queues in the order in which they are served."""
    return sorted(queues, key=lambda queue: (-queue.priority, queue.name))


def parts_of_queues(queues: Sequence[QueueQuota]) -> dict[str, list[QueueQuota]]:
    """Queue → those that are part of it, in their order; "" → those that are part of none here.

    Queues in a circle are part of each other.
    """
    names, parts = {queue.name for queue in queues}, dict[str, list[QueueQuota]]()
    for queue in queues:
        parts.setdefault(queue.parent if queue.parent in names else "", []).append(queue)
    return parts


def why_no_pods(name: str, path: Sequence[QueueQuota], children: int) -> str:
    """Why a queue takes no pods at all, however few; "" if it does.

    Only those at the ends of the tree take pods, as in Volcano.

    Args:
        path: itself and its ancestors; nothing if there is no such queue.
        children: how many others are part of it.
    """
    if name == ROOT_QUEUE:
        return f"Queue <{name}> takes no pods: it is the root of all queues"
    if not path:
        return f"Queue <{name}> does not exist"
    if len(path) > MAX_LEVELS:
        return f"Queue <{name}> takes no pods: it is {TOO_DEEP}"
    if children:
        are = "queue is" if children == 1 else "queues are"
        return f"Queue <{name}> takes no pods: {children} other {are} part of it"
    return next((f"Queue <{each.name}> is not open" for each in path if not each.is_open), "")


def path_or_default(queues: Mapping[str, QueueQuota], name: str) -> list[QueueQuota]:
    """A queue and its ancestors; the default queue, without limits, need not have been made."""
    path = list(path_self_to_root(queues, name))
    return path or [QueueQuota(DEFAULT_QUEUE)] * (name == DEFAULT_QUEUE)


def why_no_pods_in(queues: Mapping[str, QueueQuota], name: str) -> str:
    """:func:`why_no_pods` of one of these queues; "" where there are none at all."""
    if not queues:
        return ""
    children = sum(queue.parent == name for queue in queues.values() if queue.name != name)
    return why_no_pods(name, path_or_default(queues, name), children)


def charges_for(requests: Amounts, cards: Cards) -> Amounts:
    """What a pod with these requests is charged on a node with these cards."""
    asked = {name: n for name, n in requests.items() if n and name != _PODS}
    for resource, card in cards.items():
        if resource in asked:
            asked[card] = asked.get(card, 0) + asked[resource]
    return asked


def validate(queues: Mapping[str, QueueQuota], name: str) -> list[str]:
    """What is wrong with a queue though it can be read, as sentences for its owner.

    Guarantee, deserved and capability must not decrease in this order; the parent must exist and
    not be a descendant, nor too deep.
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
    if state.parent not in ("", ROOT_QUEUE, DEFAULT_QUEUE, *queues):
        found.append(f"spec.parent: there is no queue {state.parent}")
    above = [each.parent for each in path_self_to_root(queues, name)]
    if len(above) > MAX_LEVELS:
        found.append(f"spec.parent: the queue takes no pods, as it is {TOO_DEEP}")
    elif name in above:
        found.append(f"spec.parent: {' is part of '.join([name, *above])}")
    return found
