"""Whether an event may help an entity that no node would take."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol, Self

from arranger.api.types.core import Namespace
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.rejecters import GANG, KEPT, KEPT_NODES, KEPT_ROOM
from arranger.framework.cluster_event import ActionType, ClusterEvent, QueueingHint

#: Classes of a gang that are asked, beside those of whom none could be placed.
_MAX_ASKED: Final = 64
#: Kinds of entities and events that are remembered.
_MAX_KNOWN: Final = 4096


class Room(Protocol):
    """What has become free; of an event of it the answers are its own."""

    def extend(self, more: Self) -> None:
        """This has become free as well."""


class Interest(NamedTuple):
    """What entities that were rejected alike want to know of an event.

    Attributes:
        anyway: it may help whatever else is so.
        may_move: members of a gang may move to the node that has changed, for others of it.
        hints: those that ask for events of its type.
    """

    anyway: bool
    may_move: bool
    hints: tuple[QueueingHint, ...]


@dataclass(slots=True, eq=False)
class HelpQuestions:
    """Makes questions that share what they have worked out: pods come and go all the time."""

    _known: dict[Hashable, Interest] = field(default_factory=dict, init=False)

    def __call__(self, event: ClusterEvent, room: Room | None = None) -> HelpQuestion:
        """The question of one event, which may be joined by others that have a ``room``."""
        return HelpQuestion(event, self._known, room)


class HelpQuestion:
    """Asks of one event, at one moment, whom it may help.

    What is the same for many entities is worked out once: thousands may wait.

    Args:
        known: what entities that were rejected alike want to know of events of a type.
        room: what answers for the event, where that may be asked about others at once.
    """

    def __init__(
        self, event: ClusterEvent, known: dict[Hashable, Interest], room: Room | None = None
    ) -> None:
        self._event, self._room = event, room
        self._bits = event.action_type.value
        self._changes_rules = bool(self._bits & ActionType.EVICTION_RULES.value)
        self._changes_node = bool(self._bits & ActionType.NODE_CHANGED.value)
        self._kind = self._bits, event.resource, event.could_fit is None
        self._known = known
        #: (could fit, frees quota) → the event, as the plugins of a gang are told of it.
        self._for_gangs: dict[tuple[bool, bool], ClusterEvent] = {}

    @property
    def kind(self) -> Hashable:
        """Equal for events of one type."""
        return self._kind

    def join(self, later: HelpQuestion) -> bool:
        """Ask about a later event as well, at once; False if each has to be asked about alone.

        Of several pods nothing is known: whoever asks about one may be helped by any of them.
        """
        if self._room is None or later._room is None or self._kind != later._kind:
            return False
        self._room.extend(later._room)
        self._event = replace(self._event, pod=None)
        self._for_gangs.clear()
        return True

    def without_objects(self) -> HelpQuestion:
        """The question of an event of this type of which nothing else is known."""
        event = self._event
        could_fit = None if event.could_fit is None else _might_fit
        bare = ClusterEvent(event.action_type, resource=event.resource, could_fit=could_fit)
        return HelpQuestion(bare, self._known)

    def is_asked_by(self, entity: QueuedEntity, alike: Hashable) -> bool:
        """Whether the event is of a type that may help an entity; nothing of its pods is asked.

        Entities with equal :func:`rejected_alike` (``alike``) are told the same.
        """
        if not entity.rejected_by or self._changes_rules:
            return True
        interest = self._interest_of(entity, alike)
        return interest.anyway or interest.may_move or bool(interest.hints)

    def may_help(self, entity: QueuedEntity, pods: Sequence[PodInfo] | None = None) -> bool:
        """Whether a plugin that rejected the entity asked for such an event.

        ``pods`` are those of whom one would have to be helped: of a gang those that could not be
        placed, and one of each of its first classes.
        """
        if not entity.rejected_by:
            return True
        if self._changes_rules and entity.rejected_by != {GANG}:
            concerns, some = self._event.concerns, entity.one_of_each_class()[:_MAX_ASKED]
            return concerns is None or any(concerns(member.pod) for member in some)
        anyway, may_move, hints = self._interest_of(entity, rejected_alike(entity))
        if anyway or not (may_move or hints):
            return anyway
        event = self._event
        if entity.group is not None and event.could_fit is not None:
            event, fits = self._for_any_member(entity)
            if may_move and fits and len(entity.one_of_each_class()) > 1:
                return True
        if pods is None:  # of a gang one that had a node may leave it to the one that lacks one
            some = entity.one_of_each_class()[:_MAX_ASKED]
            pods = [*entity.blockers, *(member.pod for member in some)]
        return any(hint.matches(pod, event) for hint in hints for pod in pods)

    def _interest_of(self, entity: QueuedEntity, alike: Hashable) -> Interest:
        asked = alike, self._kind
        interest = self._known.get(asked)
        if interest is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            interest = self._known[asked] = self._find_interest(entity)
        return interest

    def _find_interest(self, entity: QueuedEntity) -> Interest:
        by_name, anyway = entity.profile.by_name, False
        hints: list[QueueingHint] = []
        for name in entity.rejected_by:
            plugin = by_name.get(name)
            if plugin is None:
                anyway = anyway or self._concerns_the_queue(entity, name)
                if name in KEPT and _ITS_NAMESPACE.asks_for(self._event):
                    hints.append(_ANY_NAMESPACE if name == KEPT_ROOM else _ITS_NAMESPACE)
            else:
                hints += [hint for hint in plugin.queueing_hints if hint.asks_for(self._event)]
        may_move = entity.group is not None and self._event.could_fit is not None
        may_move = may_move and self._changes_node and entity.rejected_by != {GANG}
        return Interest(anyway, may_move, tuple(hints))

    def _concerns_the_queue(self, entity: QueuedEntity, name: str) -> bool:
        """Whether the event may help against what is rejected in the name of no plugin."""
        if name == GANG:
            # A gang is woken by its own members and PodGroups; one of them that it keeps in a
            # domain, by nodes that may belong to the domain now.
            return entity.group is None and self._changes_node
        # Of nodes kept for others: by other nodes, by what says for whom they are kept, and by an
        # edit of its own, as a pod says which Reservation it asks for and how long it may run.
        edited = bool(self._bits & ActionType.OWN_UPDATE.value)
        kept_otherwise = self._changes_node or self._event.resource == KEPT_NODES
        freed = name == KEPT_ROOM and bool(self._bits & ActionType.CAPACITY_FREED.value)
        return name not in KEPT or edited or kept_otherwise or freed

    def _for_any_member(self, entity: QueuedEntity) -> tuple[ClusterEvent, bool]:
        """Room for any member may help: it may leave another node to the one that lacks room.

        Where none of them fits even now, no attempt can use what has become free.
        """
        could_fit, frees_quota = self._event.could_fit, self._event.frees_quota
        assert could_fit is not None, "nothing has become free"
        pods = [member.pod for member in entity.one_of_each_class()]
        fits = any(map(could_fit, pods))
        frees = frees_quota is not None and any(map(frees_quota, pods))
        event = self._for_gangs.get((fits, frees))
        if event is None:
            event = replace(self._event, could_fit=lambda _: fits, frees_quota=lambda _: frees)
            self._for_gangs[fits, frees] = event
        return event, fits


def _is_its_namespace(pod: PodInfo, event: ClusterEvent) -> bool:
    """By its labels nodes may be kept for the pod that were kept for others."""
    return event.stored is None or event.stored.metadata.name == pod.pod.metadata.namespace


_ITS_NAMESPACE: Final = QueueingHint(
    ActionType.OTHER, _is_its_namespace, frozenset({Namespace.__name__})
)
#: By labels of any namespace its pods may be users, so that less of a part is kept free for them.
_ANY_NAMESPACE: Final = replace(_ITS_NAMESPACE, hint=None)


def _might_fit(_: PodInfo) -> bool:
    """Whether a pod might fit where it is not known what has happened."""
    return True


def rejected_alike(entity: QueuedEntity) -> Hashable:
    """Equal for entities to which events of the same types matter."""
    return entity.rejected_by, entity.group is None, id(entity.profile)
