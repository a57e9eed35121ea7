"""What the queue holds: pods, and the entities in which they are placed.

An entity is a lone pod, or the members of a gang group that are placed at once.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from arranger.api.effects import Bind, Effect
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.phases import TRANSITIONS, InvalidTransitionError, Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.context.refused_nominations import RefusedNominations
from arranger.framework.interface import QueueSortInput
from arranger.framework.preemption import Limit
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import CycleState
from arranger.gangs.group import GangGroup

log = logging.getLogger(__name__)

#: A gang's name, and a bundle of it.
Role = tuple[str, str]
#: Priority, creation and name of a pod, the first of a gang smallest.
Seniority = tuple[int, float, str]
#: Entries of members that have left are removed when they outnumber the others by so many.
_SENIORS_SLACK: Final = 64

#: Writes of a pod's nomination that a watch may yet show; it shows a few as one.
_MAX_WRITTEN: Final = 16


@dataclass(slots=True, eq=False, repr=False)
class QueuedPod:
    """A pod with its history; the entity it belongs to is what the queue holds.

    Attributes:
        pod: the pod, as last observed.
        profile: whose plugins schedule it.
        queued_at: when it first arrived, in the engine's clock.
        entity: what it is placed with; None when it is placed or gone.
        signature: key of its equivalence class, None when it must be evaluated alone.
        in_domain: whether it is placed by itself and its gang leaves it only one topology domain.
        phase: see :class:`~arranger.engine.context.phases.Phase`.
        node: the node reserved for it, "" for none.
        cycle_state: the plugins' notes of the attempt that placed it.
        pending_writes: effects that must be applied before the Binding.
        binding: the Binding on its way, None before it is posted.
        permit_plugin: the Permit plugin it waits for, at most ``permit_timeout`` seconds.
        deadline: when waiting ends, in the engine's clock.
        attempts: how often it has been tried.
        last_condition: the condition text we last wrote.
        shown_node: the node that its status shows as nominated, or will after our last write.
        status_refused: whether the server has refused a write of its status since.
        nodes_written: nodes that we wrote there and have not yet seen there, the oldest first, ""
            for none.
        pending_update: what the pod was edited to while a decision about it was being carried out.
        told: what its queue does not believe of it, as it was told last.
        error_told: when an error was last written to its condition, and the seconds until the next.
        refused_nominations: where it makes nobody leave for some time.
    """

    pod: PodInfo
    profile: Profile
    queued_at: float
    entity: QueuedEntity | None = None
    signature: Hashable | None = field(init=False)
    in_domain: bool = False
    phase: Phase = Phase.QUEUED
    node: str = ""
    cycle_state: CycleState = field(default_factory=CycleState)
    pending_writes: list[Effect] = field(default_factory=list)
    binding: Bind | None = None
    permit_plugin: str = ""
    permit_timeout: float = 0.0
    deadline: float = 0.0
    attempts: int = 0
    last_condition: tuple[str, str] | None = None
    shown_node: str = field(init=False)
    status_refused: bool = False
    nodes_written: deque[str] = field(default_factory=partial(deque, maxlen=_MAX_WRITTEN))
    pending_update: PodInfo | None = None
    told: str = ""
    error_told: tuple[float, float] | None = None
    refused_nominations: RefusedNominations = field(default_factory=RefusedNominations)

    def __post_init__(self) -> None:
        self.signature = _signature_of(self.profile, self.pod)
        self.shown_node = self.pod.pod.status.nominated_node_name

    @property
    def created_at(self) -> float:
        """When the pod was created, in seconds since 1970; 0 where that is not known."""
        created = self.pod.pod.metadata.creation_timestamp
        return created.timestamp() if created is not None else 0.0

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.pod.metadata.uid

    @property
    def equivalence_key(self) -> Hashable:
        """Pods with equal keys find the same nodes feasible."""
        return self.uid if self.signature is None or self.in_domain else self.signature

    def show_node(self, node: str) -> None:
        """We write which node the pod is nominated for."""
        self.shown_node = node
        self.nodes_written.append(node)

    def others_nominate(self, pod: PodInfo) -> bool:
        """Whether others have changed the node that the pod is nominated for; it is shown now.

        A node that we wrote is our own echo once: when it comes back after a later write of ours
        was seen, somebody has written it, or a restored backup has brought it back.
        """
        node = pod.pod.status.nominated_node_name
        if node == (self.pending_update or self.pod).pod.status.nominated_node_name:
            return False
        if node in self.nodes_written:
            while self.nodes_written.popleft() != node:
                pass  # a later write has been seen: this one was before it
            return False
        self.shown_node = node
        return True

    def update(self, pod: PodInfo) -> None:
        """The pod was edited."""
        self.pod = pod
        self.pending_update = None
        self.signature = _signature_of(self.profile, pod)

    def sign_anew(self) -> None:
        """Something else than the pod has changed that its class depends on."""
        self.signature = _signature_of(self.profile, self.pod)

    def transition(self, to: Phase) -> None:
        """Enter a phase.

        Raises:
            InvalidTransitionError: the table forbids it.
        """
        if to not in TRANSITIONS[self.phase]:
            raise InvalidTransitionError(f"{self.pod.key}: {self.phase.value} → {to.value}")
        self.phase = to

    def __repr__(self) -> str:
        return f"QueuedPod({self.pod.key}, {self.phase.value})"


@dataclass(slots=True, eq=False, repr=False)
class QueuedEntity:
    """One unit of scheduling, with its history in the queue.

    Attributes:
        key: the pod's uid, or the gang group's name after ``gang:``.
        group: the gang group; None for a lone pod.
        members: its pods that have no node, by uid, in the order they came.
        queued_at: when its first pod arrived, in the engine's clock.
        attempts: how often it has been tried.
        broken_attempts: how many attempts in a row have broken off, or have changed the cluster and
            come to nothing; so long is its back-off.
        slices: how many steps its present attempt has taken without coming to an end.
        has_made_events: whether the steps that its present attempt has taken have changed things.
        suspended: a gang group's attempt, or its plan, that is to go on in another step.
        void_plans: how many plans in a row were void, so that it was tried anew.
        outdated_plans: how many in a row were outdated; the next is due at ``plan_again_at``.
        losses: how many attempts in a row got a node or a nomination that was lost again.
        last_loss: the attempt that was the last of them, -1 for none since all got nodes.
        rank: its place in the order of its quota queue, smallest first.
        lane: what its namespace takes turns with others within, and its namespace.
        turn: for one that shares its turns with others: with whom, and its share.
        wakeup_group: the unschedulable entities that the same events help, itself included.
        woken_from: the same while it is tried for the others of that group.
        rejected_by: the plugins that said no last time; their events wake it.
        blockers: the pods, one a class, that could not be placed last time.
        arrived: gang → bundle → how many of its members may be placed.
        urgent: whether part of its minimum is bound already, so that it goes before all others.
        plugin_error: what a plugin of the queue raised when asked about it, "" when none did.
        plugin_fault: that exception, until it is looked into.
        reason: why its members wait, as their conditions say.
        starving_since: since when it has been complete and no nodes could take it.
        starves_at: when it has waited so long that nodes are kept for it, if it is still waiting.
        reserve_retry_at: when nodes to reserve for it are looked for again; none helped so far.
        victims: uids of pods evicted for it that have not left yet.
        evictions: how often pods have been evicted for it; not again before ``evict_after``.
        notify_after: when to notify its members that others are missing, if none arrives before.
        notified_at: when they were last notified.
        revision: how often its members have changed.
        lacks: limits of which there is too little for its PodGroups to be admitted.
        never: why it can never be placed, as it was worked out in the state ``judged_at``.
    """

    key: str
    queued_at: float
    group: GangGroup | None = None
    #: A member's role, by its uid.
    _role_of: Callable[[str], Role] | None = None
    members: dict[str, QueuedPod] = field(default_factory=dict)
    state: QueueState = QueueState.NOT_QUEUED
    heap_version: int = 0
    attempts: int = 0
    last_attempt: float = field(init=False)
    broken_attempts: int = 0
    slices: int = 0
    has_made_events: bool = False
    suspended: object | None = None
    void_plans: int = 0
    outdated_plans: int = 0
    plan_again_at: float = 0.0
    losses: int = 0
    last_loss: int = -1
    rank: tuple[Any, ...] = ()
    lane: tuple[tuple[Any, ...], str] = ((), "")
    turn: tuple[Hashable, float] | None = None
    wakeup_group: Hashable = None
    woken_from: Hashable = None
    rejected_by: frozenset[str] = frozenset()
    blockers: tuple[PodInfo, ...] = ()
    arrived: dict[str, Counter[str]] = field(default_factory=dict)
    urgent: bool = False
    plugin_error: str = ""
    plugin_fault: Exception | None = None
    reason: str = ""
    starving_since: float | None = None
    starves_at: float = 0.0
    reserve_retry_at: float = -math.inf
    victims: set[str] = field(default_factory=set)
    lacks: frozenset[Limit] = frozenset()
    evictions: int = 0
    evict_after: float = 0.0
    notify_after: float = 0.0
    notified_at: float = -math.inf
    revision: int = 0
    never: str = ""
    judged_at: Hashable = None
    #: Members that PreEnqueue is still to be asked about, and those it lets pass.
    _unchecked: dict[str, QueuedPod] = field(default_factory=dict)
    _ready: dict[str, QueuedPod] = field(default_factory=dict)
    #: The roles as which those that may be placed are counted.
    _roles: dict[str, Role] = field(default_factory=dict)
    #: A heap of the members of a gang; those that have left are dropped in passing.
    _seniors: list[tuple[Seniority, str]] = field(default_factory=list)
    _one_of_each_class: list[QueuedPod] | None = None

    def __post_init__(self) -> None:
        self.last_attempt = self.queued_at

    @staticmethod
    def from_pod(member: QueuedPod) -> QueuedEntity:
        """The entity of a pod on its own."""
        entity = QueuedEntity(member.uid, member.queued_at)
        entity.add_member(member)
        return entity

    @property
    def representative(self) -> QueuedPod:
        """The pod itself, or the first member without a node by priority, creation and name."""
        if self.group is None:
            return next(iter(self.members.values()))
        heap = self._seniors
        while True:
            known, uid = heap[0]
            member = self.members.get(uid)
            if member is None:
                heapq.heappop(heap)
            elif known[0] != -member.pod.priority:  # its PodGroup has another one
                heapq.heapreplace(heap, (_seniority(member), uid))
            else:
                return member

    def one_of_each_class(self) -> Sequence[QueuedPod]:
        """A member of each equivalence class."""
        if self._one_of_each_class is None:
            classes = {member.equivalence_key: member for member in self.members.values()}
            self._one_of_each_class = list(classes.values())
        return self._one_of_each_class

    @property
    def profile(self) -> Profile:
        """Whose plugins schedule it."""
        return self.representative.profile

    @property
    def gang_group(self) -> GangGroup:
        """The gang group, of an entity that is known to have one."""
        assert self.group is not None, "a lone pod has no gang"
        return self.group

    def add_member(self, member: QueuedPod) -> None:
        """A pod is placed with this entity from now on."""
        self.members[member.uid] = member
        self.revision += 1
        self._unchecked[member.uid] = member
        self._one_of_each_class = None
        member.entity = self
        if self.group is not None:
            if len(self._seniors) > 2 * len(self.members) + _SENIORS_SLACK:
                self._seniors = [(_seniority(m), uid) for uid, m in self.members.items()]
                heapq.heapify(self._seniors)
            else:
                heapq.heappush(self._seniors, (_seniority(member), member.uid))

    def remove_member(self, member: QueuedPod) -> None:
        """A pod is not placed with this entity any more."""
        del self.members[member.uid]
        self.revision += 1
        self._unchecked.pop(member.uid, None)
        self._one_of_each_class = None
        self._unmark_ready(member)
        member.entity = None

    def count_loss(self) -> None:
        """What the last attempt got was lost again, once however many members say so."""
        if self.last_loss != self.attempts:
            self.last_loss = self.attempts
            self.losses += 1
        self.broken_attempts = max(self.broken_attempts, self.losses, 1)

    def count_success(self) -> None:
        """All who are needed got nodes: attempts count anew, and a loss of these is another."""
        self.attempts, self.broken_attempts, self.last_loss = 0, 0, -1

    def forget_losses(self) -> None:
        """What it waited for is bound: earlier failures say nothing about the next attempt."""
        self.broken_attempts = self.losses = 0

    def recheck_member(self, member: QueuedPod) -> None:
        """A member was edited: PreEnqueue is to be asked about it again."""
        self._one_of_each_class = None
        self._unmark_ready(member)
        self.revision += 1
        self._unchecked[member.uid] = member

    def _unmark_ready(self, member: QueuedPod) -> None:
        self._ready.pop(member.uid, None)
        if role := self._roles.pop(member.uid, None):
            gang, bundle = role
            self.arrived[gang][bundle] -= 1

    # --- entering the queue ----------------------------------------------------------------

    def unchecked(self) -> list[QueuedPod]:
        """Members that PreEnqueue is still to be asked about."""
        return list(self._unchecked.values())

    def mark_ready(self, member: QueuedPod) -> None:
        """No PreEnqueue plugin holds the member back."""
        del self._unchecked[member.uid]
        self._ready[member.uid] = member
        if self._role_of is not None:
            gang, bundle = self._roles[member.uid] = self._role_of(member.uid)
            self.arrived.setdefault(gang, Counter())[bundle] += 1

    def ready(self) -> Iterable[QueuedPod]:
        """Members that may be placed."""
        return self._ready.values()

    def ready_count(self) -> int:
        """How many may be placed."""
        return len(self._ready)

    def sort_input(self, share: Callable[[QueuedEntity], float]) -> QueueSortInput:
        """What the QueueSort plugin is given; a gang counts from its own creation.

        ``share`` works out what the entity asks for in all, as a part of the cluster.
        """
        pod = self.representative
        created_at, name = pod.created_at, pod.pod.key
        if self.group is not None:
            name, ages = self.group.name, [g.created_at for g in self.group.gangs if g.created_at]
            created_at = min(ages, default=created_at)
        return QueueSortInput(pod.pod, created_at, self.queued_at, name, partial(share, self))

    def __repr__(self) -> str:
        return f"QueuedEntity({self.key}, {len(self.members)} pods, {self.state.value})"


def _seniority(member: QueuedPod) -> Seniority:
    return -member.pod.priority, member.created_at, member.pod.key


def _signature_of(profile: Profile, pod: PodInfo) -> Hashable | None:
    try:
        return profile.sign_pod(pod)
    except Exception:
        # Evaluated alone a pod costs more, and nothing else.
        log.exception("pod %s: no signature", pod.key)
        return None
