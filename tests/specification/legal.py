"""Asks the rules of :mod:`rules` about each step of a trace.

::

    spec = Specification(Premises(schedulers={"one", "two"}))
    for step in trace:
        spec.take(step)
    assert not spec.violations
    assert not spec.at_rest(now)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.specification import rules
from tests.specification.premises import Premises
from tests.specification.trace import NAMESPACES, NODES, PODS, SOMEBODY, Step, World
from tests.specification.vocabulary.bindings import Binding
from tests.specification.vocabulary.departures import Eviction
from tests.specification.vocabulary.gangs import Gang
from tests.specification.vocabulary.history import EVENTS, History
from tests.specification.vocabulary.manifests import Object, name_of, node_of
from tests.specification.vocabulary.might_have import RaidBook
from tests.specification.vocabulary.occasions import UNREADABLE, Rule, rules_of
from tests.specification.vocabulary.placements import Placement
from tests.specification.vocabulary.queues import Standing

#: What decides whether pods are beside others, and whether room is promised.
_OF_OTHERS = (PODS, NODES, NAMESPACES)


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
    """

    premises: Premises = field(default_factory=Premises)
    world: World = field(default_factory=World)
    violations: list[Violation] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    history: History = field(init=False)
    raids: RaidBook = field(init=False)
    _doubts: list[_Doubt] = field(default_factory=list)
    #: Whether something has happened by which doubts may be cleared.
    _news: bool = False

    def __post_init__(self) -> None:
        self.history = History(self.premises)
        self.raids = RaidBook(self.premises)

    @property
    def upheavals(self) -> deque[tuple[float, float]]:
        """When something changed where pods may be."""
        return self.history.upheavals

    def take(self, step: Step) -> None:
        """Judge a step by the state that it meets, and do it."""
        try:
            self.history.hears(step)
            self._take(self.history.with_writer(step))
        except UNREADABLE as error:
            self.unreadable.append(f"step {step.version}, {step.resource}: {error!r}")

    def _take(self, step: Step) -> None:
        self.settle(step.at)
        ours = self.history.is_ours(step)
        restored = step.at - self.world.restored_at < self.premises.notice
        if ours or step.resource == PODS:
            leader = None if restored else self.history.leader
            self._ask(step, rules.AtAWrite(step, ours, leader))
        if step.is_bind and ours and self.history.is_for_us(step.after):
            self._judge_binding(step)
        if step.begins_to_leave and ours:
            self._judge_departure(step, restored=restored)
        if step.resource == EVENTS and step.kind == "ADDED" and not restored:
            self._judge_event(step)
        self.history.happened(self.world, step)
        self.world.take(step)
        for gangs in self.history.gangs.take(self.world, step, ours=ours):
            self._ask(step, self._parts(gangs, step.at))
        self._news |= step.resource in _OF_OTHERS
        if step.resource == PODS and self._doubts:
            self.settle(step.at)

    def restored(self, at: float) -> None:
        """The server has gone back to a backup, which is the state that is known so far.

        Schedulers decide by what is undone until they have heard of it, and two of them may take
        the Lease to be theirs meanwhile.
        """
        self.world.restored_at, self._news = at, True
        self.world.changed = dict.fromkeys(self.world.changed, (at, SOMEBODY))
        self.world.created.clear()
        self.upheavals.append((at, float("inf")))

    def at_rest(self, now: float) -> list[str]:
        """What should have come about by now; nothing has happened for as long as it may take."""
        self.settle(float("inf"))
        self.world.now = max(self.world.now, now)
        gangs = list(self.history.gangs.gangs.values())
        evictions = self.history.evictions.values()
        rest = rules.AtRest(self.world, self.premises, evictions, self.upheavals)
        found = [*_broken(self._parts(gangs, float("inf"))), *_broken(rest)]
        return [
            f"at rest, at {now:g} s: {text} [{rule}]"
            for rule, text in found
            if rule not in self.premises.unjudged
        ]

    def settle(self, now: float) -> None:
        """It is so late: forget the doubts that are cleared, object to those that stay."""
        if not self._doubts or not (self._news or any(now > each.until for each in self._doubts)):
            return
        open_doubts = []
        for doubt in self._doubts:
            name = doubt.rule.__name__
            try:
                found = next(doubt.rule(doubt.binding.anew()), None)
            except UNREADABLE as error:
                self.unreadable.append(f"step {doubt.version}, {name}: {error!r}")
                continue
            if found is not None and now > doubt.until:
                about = _about(doubt.binding)
                self._object(doubt.version, doubt.binding.at, name, f"{about} {found}")
            elif found is not None:
                open_doubts.append(doubt)
        self._doubts, self._news = open_doubts, False

    # --- occasions ---------------------------------------------------------------------------

    def _judge_binding(self, step: Step) -> None:
        assert step.before is not None
        facts = self.world, self.premises, step.before, node_of(step.after), step.at, step.writer
        binding = rules.AtABinding(*facts)
        self._ask(step, binding, about=_about(binding) + " ")
        soon = step.at + self.premises.notice
        later = max(soon, step.at + self.premises.bind_seconds)
        occasions: list[tuple[type[Binding], float]] = [(rules.BesidePromises, soon)]
        if not self.premises.writes_may_fail:
            occasions.append((rules.Together, later))
        for occasion, until in occasions:
            for rule in rules_of(occasion):
                self._doubts.append(_Doubt(rule, occasion(*facts), step.version, until))
        self._news = True

    def _judge_departure(self, step: Step, *, restored: bool) -> None:
        victim = step.before if step.before is not None else step.after
        departure = rules.AtADeparture(
            self.world,
            self.premises,
            victim,
            step.after,
            step.at,
            notice=self.history.notices.of(victim),
            waited=self.history.waited_since(step.at - self.premises.notice),
            is_of_a_part=self.history.gangs.is_in_part(victim),
            is_after_a_restore=restored,
        )
        self.history.forget_evictions(self.world, step.at)
        self._ask(step, departure)
        if departure.why == "room":
            known = departure.is_of_a_queue
            # Else whoever waits may have had its place.
            takers = self._takers(departure.standing) if known else self.world.waiting
            eviction = Eviction(step.at, step.after, frozenset(takers))
            self.history.evictions[step.after["metadata"]["uid"]] = eviction
            if self.premises.calm and not departure.is_of_a_part and not departure.asked:
                self.raids.leaves(self.world, victim, step.at)

    def _takers(self, victim: Standing) -> Iterator[str]:
        for uid, pod in self.world.waiting.items():
            try:
                taker = Standing(self.world, self.premises, pod)
                if rules.may_have_its_place(taker, victim):
                    yield uid
            except UNREADABLE:
                pass  # it is said of the Event, where one names this pod

    def _judge_event(self, step: Step) -> None:
        event = step.after
        eviction = self.history.evictions.get((event.get("regarding") or {}).get("uid", ""))
        uid = (event.get("related") or {}).get("uid")
        if event.get("reason") != "Preempted" or uid is None:
            return
        taker = self.history.find_waiting(self.world, uid)
        if taker is not None and self.premises.calm:  # it may be written before the pod leaves
            self.raids.told(event["regarding"]["uid"], taker)
        if taker is not None and eviction is not None:
            eviction.taker = taker
            self._ask(step, rules.AtAnEvent(self.world, self.premises, eviction, taker))

    def _parts(self, gangs: list[Gang], until: float) -> rules.Gangs:
        return rules.Gangs(self.world, self.premises, gangs, until)

    # --- inside ------------------------------------------------------------------------------

    def _ask(self, step: Step, facts: object, about: str = "") -> None:
        for rule in rules_of(type(facts)):
            name = rule.__name__
            try:
                for text in rule(facts):
                    self._object(step.version, step.at, name, about + text)
            except UNREADABLE as error:
                self.unreadable.append(f"step {step.version}, {name}: {error!r}")

    def _object(self, version: int, at: float, rule: str, text: str) -> None:
        if rule not in self.premises.unjudged:
            self.violations.append(Violation(version, at, rule, text))


def _about(binding: Placement) -> str:
    return f"{name_of(binding.pod)} was bound to {binding.node_name}, but"


def _broken(facts: Any) -> Iterator[tuple[str, str]]:
    """(rule, what is wrong)."""
    for rule in rules_of(type(facts)):
        for text in rule(facts):
            yield rule.__name__, text


__all__ = ["NODES", "Eviction", "Object", "Premises", "Specification", "Step", "Violation", "World"]
