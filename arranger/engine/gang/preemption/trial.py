"""A group that is placed in memory as if some pods had left, in steps.

Between two steps nothing of it is in the books: the members that have got nodes are taken off, and
those that had left are back.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, TypeVar

from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.freed_room import FreedRoom
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.engine.gang.attempt.suspended_members import MemberSuspension
from arranger.engine.gang.preemption.victim_looks import VictimLooks
from arranger.engine.pod.schedule_result import PermitWait
from arranger.engine.queue.nominator import Nominator

T = TypeVar("T")

#: Work on a plan that yields wherever it may be left, with nothing of it in the books.
PlanSteps = Generator[None, None, T]
#: Units of :mod:`~arranger.cluster.attempt_work` to take a pod away and to put it back.
MOVING: Final = 10
#: The same where it is hidden, and where only what it requests is counted no more.
HIDING: Final = 4
FREEING: Final = 1


#: Units after which a plan looks for nothing better than what it has found: some 20 seconds.
THRIFTY_UNITS: Final = 20_000_000


class VoidTrialError(Exception):
    """What has happened between two steps leaves nothing of the trial: ask again."""


@dataclass(slots=True)
class Between:
    """What has happened between the steps of one plan.

    Attributes:
        changed: the rows whose pods have changed since the last step; None for too many.
        moved: whether pods have, or may have, come or gone between any two steps.
        disturbed: whether anything has changed so.
        rejected_by: the plugins that rejected members in any trial.
        repeated: how many trials were void, and have been begun again.
        rests: how many steps the present trial has taken without coming to an end.
        spent: units that all steps have taken.
        resuming: units that the present trial takes in each step to take its victims away again.
    """

    changed: set[int] | None = field(default_factory=set)
    moved: bool = False
    disturbed: bool = False
    rejected_by: frozenset[str] = frozenset()
    repeated: int = 0
    rests: int = 0
    spent: int = 0
    resuming: int = 0

    @property
    def is_thrifty(self) -> bool:
        """Whether what is enough is good enough."""
        return self.spent > THRIFTY_UNITS

    def on_step(self, changed: set[int] | None, *, disturbed: bool) -> None:
        """Another step begins; ``disturbed``: something else than the rows may have changed."""
        self.changed = changed
        self.moved |= changed is None or bool(changed)
        self.disturbed |= disturbed or self.moved

    def on_trial_begun(self) -> None:
        """Another trial begins, or the same one anew."""
        self.rests = self.resuming = 0

    def on_put_off(self, resuming: int) -> None:
        """The present trial begins in the next step, and takes so many units to do so."""
        self.resuming = resuming

    def on_trial_ended(self) -> None:
        """No victims are to be taken away again."""
        self.resuming = 0

    def on_rest(self, resuming: int) -> None:
        """The present trial goes on in another step, and takes so many units to do so."""
        self.rests += 1
        self.resuming = resuming

    def on_rejected(self, plugins: frozenset[str]) -> None:
        """These plugins rejected members in the present trial."""
        self.rejected_by |= plugins

    def on_void(self) -> None:
        """The present trial is void."""
        self.repeated += 1


@dataclass(slots=True, eq=False)
class Trial:
    """One question about a group.

    Pods that are being evicted are away, too: those for whom they leave are there already.

    Args:
        nominator: knows who is being evicted, for whomever.
        victims: those that leave.
        looks: knows of which victims more is compared than sums of requests; None for all of them.

    Attributes:
        gone: uid → the pod, of those that are away while it goes on.
    """

    _cluster: Cluster
    _nominator: Nominator
    _suspension: MemberSuspension
    _between: Between
    victims: Iterable[PodInfo]
    looks: VictimLooks | None = None
    gone: dict[str, PodInfo] = field(init=False)
    #: uid → the node that it is away from, of those that are not there at all.
    _nodes: Mapping[str, str] = field(default_factory=dict, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)
    _room: FreedRoom | None = field(default=None, init=False)
    #: Units to take them away.
    _moving: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.gone = {pod.uid: pod for pod in self.victims}

    def begin(self) -> PlanSteps[None]:
        """Take the victims away; in the next step if little is left of this one."""
        work = self._cluster.work
        self._between.on_trial_begun()
        moved = len(self.gone) + len(self._nominator.terminating_victims)
        units = (MOVING if self.looks is None else FREEING) * moved
        if self.looks is not None:
            yield from self.looks.find_out(self.gone.values(), work)
            units += (HIDING - FREEING) * sum(map(self.looks.at, self.gone.values()))
        self._moving = units
        work.count(units)
        if work.is_spent:
            self._between.on_put_off(units)
            yield
        self._take_away()

    def end(self) -> None:
        """All are back, if they are away; what the trial has placed must have left."""
        self._stack.close()
        self._between.on_trial_ended()

    def rest(self, placed: Sequence[tuple[QueuedPod, PermitWait | None]]) -> PlanSteps[None]:
        """Undo all of it until the next step.

        Raises:
            VoidTrialError: not all members may be where they were; they have left.
        """
        left = self._suspension.take_off(placed)
        self.end()
        self._between.on_rest(self._moving + left.resuming())
        yield
        self._take_away()
        if not self._suspension.put_back(left, self._between.changed):
            raise VoidTrialError

    def node_of(self, pod: PodInfo) -> str:
        """The node that one of those that are away is away from."""
        return self._nodes.get(pod.uid) or self._cluster.node_of(pod.uid) or ""

    def is_sums(self, pod: PodInfo) -> bool:
        """Whether no more counts of one that is away than what it requests."""
        return self._room is not None and pod.uid not in self._room.left

    def put_back(self, pod: PodInfo) -> None:
        """One that is away is where it was."""
        node = self.node_of(pod)
        if self._room is not None and pod.uid in self._cluster:
            self._room.put_back(pod, node)
        else:
            self._cluster.simulate_add_pod(pod, node)

    def take_again(self, pod: PodInfo) -> None:
        """Undo :meth:`put_back`."""
        if self._room is None or not self._room.take_again(pod):
            self._cluster.simulate_remove_pod(pod)

    def spare(self, pod: PodInfo) -> None:
        """One that is back for good stays."""
        del self.gone[pod.uid]

    def _take_away(self) -> None:
        cluster = self._cluster
        known = ((uid, cluster.pod(uid)) for uid in self.gone)
        self.gone = {uid: pod for uid, pod in known if pod is not None}
        leaving = (p for p in self._nominator.terminating_pods() if p.uid not in self.gone)
        away = [*leaving, *self.gone.values()]
        if self.looks is not None:
            room = cluster.simulate_freed(away, self.looks.at)
            self._room = self._stack.enter_context(room)
            self._nodes = self._room.left
        else:
            self._nodes = {uid: str(cluster.node_of(uid)) for uid in self.gone}
            self._stack.enter_context(cluster.simulate_without(away))
