"""The specification: what a legal step of a cluster is, whoever wrote the scheduler.

::

    spec = Specification(Premises(schedulers={"one", "two"}))
    for step in trace:
        spec.take(step)
    assert not spec.violations
    assert not spec.at_rest(now)

The rules are in :mod:`bindings`, :mod:`gangs`, :mod:`queues`, :mod:`reservations` and here; what
must have come about once nothing happens any more is in :mod:`liveness`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tests.specification.bindings import AT_ONCE, BESIDE_PROMISES, WITH_OTHERS, Binding, Rule
from tests.specification.gangs import GangBook
from tests.specification.liveness import wrong_at_rest
from tests.specification.manifests import (
    Object,
    is_told_its_node_is_reserved,
    is_told_its_time_is_over,
    is_told_to_make_room,
    name_of,
    node_of,
    priority_of,
    seconds_run,
)
from tests.specification.notices import NoticeBook
from tests.specification.premises import Premises
from tests.specification.queues import IN_QUEUES, job_of, may_evict, run_time_limit
from tests.specification.reservations import BY_RESERVATIONS, may_be_reserved
from tests.specification.trace import LEASES, NODES, PODS, SOMEBODY, Step, World

EVENTS = "events.k8s.io/events"
#: What a step by one of our schedulers is called where the trace does not say which.
ONE_OF_OURS = "(a scheduler)"
#: What a rule raises about an object that is not as Kubernetes would have it.
_UNREADABLE = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class Violation:
    """A step that was wrong."""

    version: int
    at: float
    rule: str
    text: str

    def __str__(self) -> str:
        return f"step {self.version} at {self.at:g} s: {self.text} [{self.rule}]"


@dataclass(slots=True)
class Eviction:
    """A pod that a scheduler has made leave, and for whom as far as an Event has told it."""

    at: float
    victim: Object
    #: uids of those who waited then and might have its place. An Event may be written long after,
    #: when queues or the pods say otherwise.
    takers: frozenset[str] = frozenset()
    taker: Object | None = None


@dataclass(slots=True)
class _Doubt:
    """A Binding that is wrong unless what belongs to it follows."""

    rule: Rule
    binding: Binding
    version: int
    until: float


@dataclass(slots=True)
class Specification:
    """Judges a trace step by step.

    Attributes:
        violations: what was wrong so far.
        unreadable: what could not be judged as an object of it is not as it should be.
        evictions: victim's uid → its eviction, until the taker has a node or is gone.
        upheavals: (when, priority) of what may have taken a taker's room: a pod that came, or more
            than any priority for all else that changes where pods may be.
    """

    premises: Premises = field(default_factory=Premises)
    world: World = field(default_factory=World)
    violations: list[Violation] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    evictions: dict[str, Eviction] = field(default_factory=dict)
    upheavals: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=5000))
    gangs: GangBook = field(init=False)
    _leader: str | None = None
    _told: dict[str, float] = field(default_factory=dict)
    _notices: NoticeBook = field(init=False)
    _doubts: list[_Doubt] = field(default_factory=list)
    _waited: deque[tuple[float, Object]] = field(default_factory=lambda: deque(maxlen=1000))

    def __post_init__(self) -> None:
        self.gangs = GangBook(self.premises)
        self._notices = NoticeBook(self.premises)

    def take(self, step: Step) -> None:
        """Judge a step by the state that it meets, and do it."""
        try:
            self._take(self._with_writer(step))
        except _UNREADABLE as error:
            self.unreadable.append(f"step {step.version}, {step.resource}: {error!r}")

    def _take(self, step: Step) -> None:
        ours = self._is_ours(step)
        self.settle(step.at)
        all_known = step.at - self.world.restored_at >= self.premises.notice
        for rule in (self.it_writes_as_the_leader, self.a_pod_is_bound_once):
            if all_known or step.resource == LEASES or rule != self.it_writes_as_the_leader:
                self._ask(step, rule)
        if step.is_bind and ours and self._is_for_us(step.after):
            self._judge_binding(step)
        if step.begins_to_leave and ours:
            self._forget_evictions(step.at)
            if is_told_its_time_is_over(step.after):
                if all_known:
                    self._ask(step, self.its_time_is_over)
            elif is_told_its_node_is_reserved(step.after):
                if all_known:
                    self._ask(step, self.its_node_is_reserved)
            else:
                if all_known:
                    self._ask(step, self.it_may_be_evicted)
                self._ask(step, self.it_had_time_to_save_its_state)
                self.evictions[step.after["metadata"]["uid"]] = self._eviction(step)
        if step.resource == EVENTS and step.kind == "ADDED" and all_known:
            self._ask(step, self.the_event_is_true)
        self._note(step, ours=ours)
        self.world.take(step)
        for text in self.gangs.take(self.world, step, ours=ours):
            self._object(step.version, step.at, "gangs_are_whole", text)
        if step.resource == PODS and self._doubts:
            self.settle(step.at)

    def restored(self, at: float) -> None:
        """The server has gone back to a backup, which is the state that is known so far.

        Schedulers decide by what is undone until they have heard of it, and two of them may take
        the Lease to be theirs meanwhile.
        """
        self.world.restored_at = at
        self.world.changed = dict.fromkeys(self.world.changed, (at, SOMEBODY))
        self.world.created.clear()
        self.upheavals.append((at, float("inf")))

    def at_rest(self, now: float) -> list[str]:
        """What should have come about by now; nothing has happened for as long as it may take."""
        self.settle(float("inf"))
        self.world.now = max(self.world.now, now)
        wrong = wrong_at_rest(self.world, self.gangs, self.premises)
        found = [(rule, text) for rule, text in wrong if rule not in self.premises.unjudged]
        if "nobody_left_for_nothing" not in self.premises.unjudged:
            found += [("nobody_left_for_nothing", text) for text in self._in_vain()]
        return [f"at rest, at {now:g} s: {text} [{rule}]" for rule, text in found]

    # --- who writes --------------------------------------------------------------------------

    def _with_writer(self, step: Step) -> Step:
        """The step with a writer; where nobody has recorded any, by what only we write."""
        if step.resource == PODS and is_told_to_make_room(step.after):
            self._told.setdefault(step.after["metadata"]["uid"], step.at)
        if step.resource == PODS:
            self._notices.take(step)
        if step.writer is not None:
            return step
        if step.resource != PODS:
            return replace(step, writer=SOMEBODY)
        told = self._told.get(step.after["metadata"].get("uid", ""), float("-inf"))
        evicts = step.begins_to_leave and step.at - told < self.premises.notice
        mine = self._is_for_us(step.after) and (step.is_bind or evicts)
        return replace(step, writer=ONE_OF_OURS if mine else SOMEBODY)

    def _is_ours(self, step: Step) -> bool:
        return step.writer == ONE_OF_OURS or step.writer in self.premises.schedulers

    def _is_for_us(self, pod: Object) -> bool:
        return pod.get("spec", {}).get("schedulerName") in self.premises.scheduler_names

    # --- rules -------------------------------------------------------------------------------

    def it_writes_as_the_leader(self, step: Step) -> Iterator[str]:
        """A scheduler writes only while the Lease is its own; nothing is said if others meddle."""
        if step.resource == LEASES:
            holder = (step.after.get("spec") or {}).get("holderIdentity") or ""
            if step.kind == "DELETED" or step.writer not in self.premises.schedulers:
                self._leader = None
            else:
                self._leader = holder if holder in ("", step.writer) else None
        elif self._is_ours(step) and self._leader not in (None, step.writer):
            yield f"{step.writer} wrote {_what(step)}, but {self._leader or 'nobody'} leads"

    def a_pod_is_bound_once(self, step: Step) -> Iterator[str]:
        """A pod that has a node keeps it."""
        was = node_of(step.before) if step.resource == PODS and step.before is not None else ""
        if was and node_of(step.after) != was:
            yield f"{_what(step)} went from {was} to {node_of(step.after)}"

    def it_may_be_evicted(self, step: Step) -> Iterator[str]:
        """Who is evicted is told so, and somebody waits, or did lately, who may have its place.

        Not of a gang of which only a part was ever bound: that is taken back. Of a gang by its
        owner, which is not read here, whoever is told nothing may be part of such a one.
        """
        victim = step.before if step.before is not None else step.after
        untold = not is_told_to_make_room(victim)
        if self.gangs.is_in_part(victim) or (untold and job_of(self.world, victim) is not None):
            return
        if untold:
            yield f"{name_of(victim)} was not told why it has to leave"
        lately = step.at - self.premises.notice
        waiting = [*self.world.waiting.values(), *(p for at, p in self._waited if at >= lately)]
        mine = (pod for pod in waiting if self._is_for_us(pod))
        if not any(may_evict(self.world, pod, victim, self.premises) for pod in mine):
            yield f"{name_of(victim)} left, but nobody waits who may have its place"

    def it_had_time_to_save_its_state(self, step: Step) -> Iterator[str]:
        """Who asks for time is told before, and deleted when that is over or it has said so."""
        if not self.gangs.is_in_part(step.before if step.before is not None else step.after):
            yield from self._notices.wrong_with(self.world, step)

    def its_time_is_over(self, step: Step) -> Iterator[str]:
        """Whom we end has run as long as its annotation allows, or one of its queues."""
        pod, limit = step.after, run_time_limit(self.world, step.after)
        ran = seconds_run(pod)
        if ran is None or limit is None:
            yield f"{name_of(pod)} was ended for its run time, and has no limit or has not started"
        elif ran < limit - 1:  # times of the API are whole seconds
            yield f"{name_of(pod)} was ended after {ran:g} s, and has {limit:g} s"

    def its_node_is_reserved(self, step: Step) -> Iterator[str]:
        """Who leaves for a Reservation is no user of it, and on its nodes while it holds."""
        victim = step.before if step.before is not None else step.after
        if not may_be_reserved(self.world, self.premises, victim, step.at):
            yield f"{name_of(victim)} left for a Reservation, and none has it leave its node"

    def the_event_is_true(self, step: Step) -> Iterator[str]:
        """Whom an Event names as the reason of an eviction may have the victim's place."""
        event = step.after
        taker_uid = (event.get("related") or {}).get("uid")
        eviction = self.evictions.get((event.get("regarding") or {}).get("uid", ""))
        if event.get("reason") != "Preempted" or eviction is None:
            return
        known = [*self.world.waiting.values(), *(pod for _, pod in self._waited)]
        found = [pod for pod in known if pod["metadata"]["uid"] == taker_uid]
        if found:
            eviction.taker = found[0]
            if taker_uid not in eviction.takers and not may_evict(
                self.world, found[0], eviction.victim, self.premises
            ):
                gone, by = name_of(eviction.victim), name_of(found[0])
                yield f"{gone} left for {by}, which may not have its place"

    def _eviction(self, step: Step) -> Eviction:
        def may(pod: Object) -> bool:
            try:
                return may_evict(self.world, pod, step.after, self.premises)
            except _UNREADABLE:
                return False  # it is said of the Event, where one names this pod

        takers = {p["metadata"]["uid"] for p in self.world.waiting.values() if may(p)}
        return Eviction(step.at, step.after, frozenset(takers))

    def _judge_binding(self, step: Step) -> None:
        was = step.before if step.before is not None else step.after
        binding = Binding(self.world, self.premises, was, node_of(step.after), step.at, step.writer)
        about = f"{name_of(was)} was bound to {binding.node_name}, but"
        for rule in (*AT_ONCE, *IN_QUEUES, *BY_RESERVATIONS):
            try:
                for text in rule(binding):
                    self._object(step.version, step.at, rule.__name__, f"{about} {text}")
            except _UNREADABLE as error:
                self.unreadable.append(f"step {step.version}, {rule.__name__}: {error!r}")
        soon = step.at + self.premises.notice
        later = max(soon, step.at + self.premises.bind_seconds)
        for rule in BESIDE_PROMISES:
            self._doubts.append(_Doubt(rule, binding, step.version, soon))
        for rule in WITH_OTHERS if not self.premises.writes_may_fail else ():
            self._doubts.append(_Doubt(rule, binding, step.version, later))

    def settle(self, now: float) -> None:
        """It is so late: forget the doubts that are cleared, object to those that stay."""
        open_doubts = []
        for doubt in self._doubts:
            try:
                found = list(doubt.rule(doubt.binding))
            except _UNREADABLE as error:
                self.unreadable.append(f"step {doubt.version}: {error!r}")
                continue
            if found and now > doubt.until:
                about = f"{name_of(doubt.binding.was)} was bound to {doubt.binding.node_name}, but"
                name = doubt.rule.__name__
                self._object(doubt.version, doubt.binding.at, name, f"{about} {found[0]}")
            elif found:
                open_doubts.append(doubt)
        self._doubts = open_doubts

    # --- evictions and what they were good for -----------------------------------------------

    def _note(self, step: Step, *, ours: bool) -> None:
        """Remember who waited lately, and what may have taken somebody's room."""
        uid = step.after["metadata"].get("uid", "")
        if step.resource == PODS:
            waited = self.world.waiting.get(uid)
            if waited is not None and (step.is_bind or step.begins_to_leave):
                self._waited.append((step.at, waited))
            if step.kind == "DELETED":
                self._told.pop(uid, None)
                self._notices.forget(uid)
            elif step.before is None or (step.is_bind and not ours):
                self.upheavals.append((step.at, priority_of(step.after)))
            elif step.before["spec"] != step.after["spec"] and not step.is_bind:
                self.upheavals.append((step.at, float("inf")))
        elif (
            not ours
            and step.resource not in (EVENTS, LEASES)
            and not step.resource.endswith("gangs")
        ):
            self.upheavals.append((step.at, float("inf")))

    def _forget_evictions(self, now: float) -> None:
        """Those whose takers have a node or are gone, and old ones of which no Event has told."""
        self.evictions = {
            uid: each
            for uid, each in self.evictions.items()
            if (each.taker is None and now - each.at < 600.0)
            or (each.taker is not None and each.taker["metadata"]["uid"] in self.world.waiting)
        }

    def _in_vain(self) -> Iterator[str]:
        """No victim has left for a pod that waits still, although nothing has come between."""
        for eviction in self.evictions.values():
            taker = eviction.taker
            if taker is None or taker["metadata"]["uid"] not in self.world.waiting:
                continue
            since = eviction.at - self.premises.notice
            mine = priority_of(taker)
            if not any(at >= since and level >= mine for at, level in self.upheavals):
                yield f"{name_of(eviction.victim)} left in vain: {name_of(taker)} still waits"

    # --- inside ------------------------------------------------------------------------------

    def _ask(self, step: Step, rule: Callable[[Step], Iterator[str]]) -> None:
        try:
            for text in rule(step):
                self._object(step.version, step.at, rule.__name__, text)
        except _UNREADABLE as error:
            self.unreadable.append(f"step {step.version}, {rule.__name__}: {error!r}")

    def _object(self, version: int, at: float, rule: str, text: str) -> None:
        if rule not in self.premises.unjudged:
            self.violations.append(Violation(version, at, rule, text))


def _what(step: Step) -> str:
    return f"{step.resource.rpartition('/')[2]} {name_of(step.after)}"


__all__ = ["NODES", "Eviction", "Premises", "Specification", "Step", "Violation", "World"]
