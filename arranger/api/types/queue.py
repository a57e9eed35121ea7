"""Queues, and what pods and PodGroups say about them (seed 004)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import msgspec

from arranger.api.quantity import milli_value, value
from arranger.api.types.core import ObjectMeta, Pod, ResourceList, Struct

DEFAULT_QUEUE: Final = "default"

#: On a pod (annotation or label): its queue.
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
#: On a Queue: a JSON object from card to number, what the queue may use. A card without an entry
#: may not be used.
CARD_QUOTA: Final = "volcano.sh/card.quota"
#: On a PodGroup: a JSON object from card to number, what all its pods will want.
CARD_REQUEST: Final = "volcano.sh/card.request"
#: On a pod: the card that it needs, or several in order of preference: ``A|B``.
CARD_NAME: Final = "volcano.sh/card.name"
#: On a pod or PodGroup: ``inference`` or ``training``.
SERVICE_TYPE: Final = "volcano.sh/service.type"
#: On a Queue: ``Open`` or ``Closed``, what its owner wants it to be.
QUEUE_STATE: Final = "arranger.io/queue-state"
#: On a node (label): the group that queues name in ``spec.affinity``.
NODE_GROUP: Final = "volcano.sh/nodegroup-name"
#: On a pod (annotation or label): ``false`` keeps it from being evicted, as long as there are
#: queues.
PREEMPTABLE: Final = "volcano.sh/preemptable"

#: Resource or card → amount: cpu in millicores, cards and the rest in units.
Amounts = dict[str, int]


class Guarantee(Struct):
    """``spec.guarantee``."""

    resource: ResourceList = msgspec.field(default_factory=dict)


class NodeGroups(Struct):
    """Groups of nodes by name; those that are preferred are not looked at."""

    required: list[str] = msgspec.field(
        default_factory=list, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class QueueAffinity(Struct):
    """``spec.affinity``: the nodes a queue may use, or may not."""

    node_group_affinity: NodeGroups = msgspec.field(default_factory=NodeGroups)
    node_group_anti_affinity: NodeGroups = msgspec.field(default_factory=NodeGroups)


class QueueSpec(Struct):
    """``spec`` of a Queue."""

    weight: int = 1
    priority: int = 0
    reclaimable: bool = True
    capability: ResourceList = msgspec.field(default_factory=dict)
    deserved: ResourceList = msgspec.field(default_factory=dict)
    guarantee: Guarantee = msgspec.field(default_factory=Guarantee)
    parent: str = ""
    affinity: QueueAffinity = msgspec.field(default_factory=QueueAffinity)
    dequeue_strategy: str = ""
    dra: dict[str, object] = msgspec.field(default_factory=dict)


class QueueStatus(Struct):
    """``status``: whether it takes work."""

    state: str = ""


class Queue(Struct):
    """A Queue of ``scheduling.volcano.sh``."""

    metadata: ObjectMeta
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)

    @property
    def name(self) -> str:
        """Its name; queues have no namespace."""
        return self.metadata.name


def read_amounts(amounts: ResourceList) -> Amounts:
    """A resource list in numbers.

    Raises:
        QuantityError: one is not a quantity.
    """
    return {name: milli_value(q) if name == "cpu" else value(q) for name, q in amounts.items()}


def format_resource_list(amounts: Mapping[str, int]) -> dict[str, str]:
    """The numbers as quantities, which :func:`read_amounts` reads."""
    return {name: format_quantity(name, n) for name, n in sorted(amounts.items())}


def format_quantity(name: str, amount: int) -> str:
    """One number as a quantity; that of memory has the largest suffix that keeps it exact."""
    if name == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if name not in ("memory", "ephemeral-storage") or not amount:
        return str(amount)
    for suffix in ("", "Ki", "Mi", "Gi", "Ti"):
        if amount % 1024 or suffix == "Ti":
            return f"{amount}{suffix}"
        amount //= 1024
    raise AssertionError("the last suffix takes everything")


def desired_state(queue: Queue) -> str:
    """``Open`` or ``Closed``: what the queue's user wants it to be; "" where nobody has said.

    Raises:
        ValueError: the annotation says something else.
    """
    text = queue.metadata.annotations.get(QUEUE_STATE, "")
    if text not in ("", "Open", "Closed"):
        raise ValueError(f"{text!r} is neither Open nor Closed")
    return text


def parse_cards(text: str) -> Amounts:
    """The cards of an annotation.

    Raises:
        ValueError: it is not a JSON object from card to a whole number.
    """
    try:
        cards = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{text!r} is not JSON") from error
    if not isinstance(cards, dict):
        raise ValueError(f"{text!r} is not an object from card to number")
    for card, count in cards.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError(f"{card}: {count!r} is not a number of cards")
    return dict(cards)


def queue_of(pod: Pod, group_queue: str = "") -> str:
    """The queue of a pod: its own word, else its PodGroup's, else the default one."""
    meta = pod.metadata
    return (
        meta.annotations.get(QUEUE_NAME)
        or meta.labels.get(QUEUE_NAME)
        or group_queue
        or DEFAULT_QUEUE
    )


def requested_cards(pod: Pod) -> tuple[str, ...]:
    """The cards a pod would take, in its order of preference; empty when it names none."""
    text = pod.metadata.annotations.get(CARD_NAME, "")
    return tuple(card for card in (part.strip() for part in text.split("|")) if card)


def is_preemptable(pod: Pod) -> bool:
    """Whether a pod may be evicted: yes unless its annotation or label says otherwise.

    What cannot be read counts as no (Volcano).
    """
    meta = pod.metadata
    text = meta.annotations.get(PREEMPTABLE) or meta.labels.get(PREEMPTABLE) or "true"
    return text.lower() in ("true", "1", "t")


def service_type(pod: Pod, group: Mapping[str, str], by_owner: Mapping[str, str]) -> str:
    """``inference``, ``training`` or ``""``: the PodGroup's word, the pod's, else by its owner."""
    said = group.get(SERVICE_TYPE) or pod.metadata.annotations.get(SERVICE_TYPE, "")
    if said:
        return said if said in ("inference", "training") else ""
    owners = pod.metadata.owner_references
    return by_owner.get(owners[0].kind, "") if owners else ""
