"""What the queue holds: a lone pod, or the members of a gang group that are placed at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from functools import partial

from arranger.cluster.pod_info import PodInfo
from arranger.engine.queued_pod import Member
from arranger.framework.interface import Queued
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import Code, Status
from arranger.gangs.group import GangGroup

#: A gang's name, and a bundle of it.
Role = tuple[str, str]

#: Named in statuses as the one who holds a gang back.
GANG = "Gang"


class Part(Enum):
    """The parts of the queue."""

    ACTIVE = "active"  # to be tried
    BACKOFF = "backoff"  # to be tried when its back-off ends
    UNSCHEDULABLE = "unschedulable"  # to be tried when something happens that may help
    GATED = "gated"  # a PreEnqueue plugin holds it back, or its gang is not complete
    CONSULTING = "consulting"  # to be tried when its extenders have answered
    OUT = "out"  # being tried, or placed


class Entity:
    """One unit of scheduling, with its history in the queue.

    Attributes:
        key: the pod's uid, or the gang group's name after ``gang:``.
        group: the gang group; None for a lone pod.
        members: its pods that have no node, by uid, in the order they came.
        queued_at: when its first pod arrived, in the engine's clock.
        attempts: how often it has been tried.
        cut_short: whether its last back-off has been cut short.
        rejected_by: the plugins that said no last time; their events wake it.
        blockers: the pods, one a class, that could not be placed last time.
        arrived: gang → bundle → how many of its members may be placed.
        urgent: whether part of its minimum is bound already, so that it goes before all others.
        broken: what a plugin of the queue raised when asked about it, "" when none did.
        reason: why its members wait, as they are told.
        starving_since: since when it has been complete and found no room.
        keep_after: when nodes to keep for it are looked for again, for there were none of use.
        victims: uids of pods evicted for it that have not left yet.
        evictions: how often pods have been evicted for it; not again before ``evict_after``.
        quiet_from: when they may be told that others are missing, if none arrives before.
        told_at: when they were last told.
    """

    __slots__ = (
        "_ready",
        "_role_of",
        "_roles",
        "_unadmitted",
        "arrived",
        "attempts",
        "blockers",
        "broken",
        "cut_short",
        "evict_after",
        "evictions",
        "group",
        "keep_after",
        "key",
        "last_attempt",
        "members",
        "part",
        "queued_at",
        "quiet_from",
        "reason",
        "rejected_by",
        "starving_since",
        "ticket",
        "told_at",
        "urgent",
        "victims",
    )

    def __init__(
        self,
        key: str,
        now: float,
        group: GangGroup | None = None,
        role_of: Callable[[str], Role] | None = None,
    ) -> None:
        """``role_of`` tells a member's role by its uid."""
        self.key = key
        self.group = group
        self.members: dict[str, Member] = {}
        self.queued_at = now
        self.attempts = 0
        self.cut_short = False
        self.last_attempt = now
        self.rejected_by: frozenset[str] = frozenset()
        self.blockers: tuple[PodInfo, ...] = ()
        self.urgent = False
        self.part = Part.OUT
        self.ticket = 0
        self.broken = ""
        self.reason = ""
        self.starving_since: float | None = None
        self.keep_after = float("-inf")
        self.victims: set[str] = set()
        self.evictions = 0
        self.evict_after = 0.0
        self.quiet_from = 0.0
        self.told_at = float("-inf")
        #: Members that PreEnqueue is still to be asked about, and those it lets pass.
        self._unadmitted: dict[str, Member] = {}
        self._ready: dict[str, Member] = {}
        self.arrived: dict[str, Counter[str]] = {}
        self._role_of = role_of
        #: The roles as which those that may be placed are counted.
        self._roles: dict[str, Role] = {}

    @staticmethod
    def lone(member: Member) -> Entity:
        """The entity of a pod on its own."""
        entity = Entity(member.uid, member.queued_at)
        entity.join(member)
        return entity

    @property
    def lead(self) -> Member:
        """The pod itself, or the gang's oldest member without a node."""
        return next(iter(self.members.values()))

    @property
    def profile(self) -> Profile:
        """Whose plugins schedule it."""
        return self.lead.profile

    @property
    def kin(self) -> Hashable:
        """Entities of one kin are woken by the same events."""
        if self.group is None and (sign := self.lead.sign) is not None:
            return sign
        return self.key

    @property
    def gang_group(self) -> GangGroup:
        """The gang group, of an entity that is known to have one."""
        assert self.group is not None, "a lone pod has no gang"
        return self.group

    def join(self, member: Member) -> None:
        """A pod is placed with this entity from now on."""
        self.members[member.uid] = member
        self._unadmitted[member.uid] = member
        member.entity = self

    def leave(self, member: Member) -> None:
        """A pod is not placed with this entity any more."""
        del self.members[member.uid]
        self._unadmitted.pop(member.uid, None)
        self._hold_back(member)
        member.entity = None

    def edited(self, member: Member) -> None:
        """A member was edited: PreEnqueue is to be asked about it again."""
        self._hold_back(member)
        self._unadmitted[member.uid] = member

    def _hold_back(self, member: Member) -> None:
        self._ready.pop(member.uid, None)
        role = self._roles.pop(member.uid, None)
        if role is not None:
            gang, bundle = role
            self.arrived[gang][bundle] -= 1

    # --- entering the queue ----------------------------------------------------------------

    def unadmitted(self) -> list[Member]:
        """Members that PreEnqueue is still to be asked about."""
        return list(self._unadmitted.values())

    def admit(self, member: Member) -> None:
        """No PreEnqueue plugin holds the member back."""
        del self._unadmitted[member.uid]
        self._ready[member.uid] = member
        if self._role_of is not None:
            gang, bundle = self._roles[member.uid] = self._role_of(member.uid)
            self.arrived.setdefault(gang, Counter())[bundle] += 1

    def ready(self) -> Iterable[Member]:
        """Members that may be placed."""
        return self._ready.values()

    def count_ready(self) -> int:
        """How many may be placed."""
        return len(self._ready)

    def sorted_as(self, share: Callable[[Entity], float]) -> Queued:
        """What the QueueSort plugin is told (seed 000: a gang counts from its own creation).

        ``share`` works out what the entity asks for in all, as a part of the cluster.
        """
        lead = self.lead
        created = lead.pod.pod.metadata.creation_timestamp
        when = created.timestamp() if created is not None else 0.0
        if self.group is None:
            return Queued(lead.pod, when, self.queued_at, lead.pod.key, partial(share, self))
        when = min((gang.created for gang in self.group.gangs if gang.created), default=when)
        return Queued(lead.pod, when, self.queued_at, self.group.name, partial(share, self))

    def __repr__(self) -> str:
        return f"Entity({self.key}, {len(self.members)} pods, {self.part.value})"


def refusal(reason: str) -> Status:
    """A gang may not be tried, for ``reason``."""
    return Status(Code.UNRESOLVABLE, (reason,), GANG)
