"""Asks extenders about pods, and keeps the pods aside until they have answered.

The pods of an entity that extenders have a say about are judged first, as things are; one
question for each class then goes out with the nodes that would do. The entity stays in a part of
the queue of its own, where an edit, a deletion or a time-out finds it as everywhere else; an
answer that comes when it has left that part is about a pod that is no more, and is dropped.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from arranger.api.effects import (
    Advice,
    Consult,
    ConsultVictims,
    NodeVictims,
    Outcome,
    Question,
    Refused,
    VictimAdvice,
)
from arranger.api.extenders import Extender
from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import Desk
from arranger.engine.entity import Entity, Part
from arranger.engine.pod.extender_result import Counsel, no_counsel
from arranger.engine.pod.schedule_result import Unplaced
from arranger.engine.queued_pod import Member

#: Seconds beyond the extenders' own time-outs after which an answer is not waited for any more.
PATIENCE: Final = 30.0
#: Seconds after which an entity that waits for its turn is taken up anew; a turn comes before.
LONGEST_TURN: Final = 300.0
#: Turns given before others get theirs: each costs a judgement of all nodes.
TURNS: Final = 64


@dataclass(slots=True, eq=False)
class Round:
    """The questions about one entity that are out together, and their answers.

    Attributes:
        ticket: the entity's, as long as it waits for this round.
        deadline: when it has waited long enough, in the engine's clock.
        happenings: how many events there had been when the questions were asked.
        counsels: kind of pod → the answer about it.
        unplaced: for questions about victims, what will become of the pod without an answer.
        victims: the answer to these.
        refused: why a question was not answered.
    """

    entity: Entity
    deadline: float
    happenings: int
    ticket: int = 0
    waiting: dict[int, tuple[Hashable, Question]] = field(default_factory=dict)
    counsels: dict[Hashable, Counsel] = field(default_factory=dict)
    answers: dict[Hashable, tuple[Consult, Advice]] = field(default_factory=dict)
    unplaced: Unplaced | None = None
    victims: VictimAdvice | None = None
    refused: Refused | None = None

    @property
    def counts(self) -> bool:
        """Whether the entity still waits for it."""
        return self.entity.part is Part.CONSULTING and self.entity.ticket == self.ticket


class Consulting:
    """The questions that are out, and who waits for them or for a turn to ask.

    Args:
        desk: the engine's state.
        parallel: entities asked about at once. With one, each is asked about when the last has
            its node, as kube-scheduler does; a stateful extender may need that.
    """

    def __init__(self, desk: Desk, parallel: int = 1) -> None:
        self._desk = desk
        self._parallel = parallel
        self._rounds: dict[int, Round] = {}
        #: Identity of a question → its round.
        self._asked: dict[int, Round] = {}
        self._answered: deque[Round] = deque()
        #: (place in the queue's order, ticket, entity) of those that wait for a turn.
        self._line: list[tuple[tuple[Any, ...], int, Entity]] = []

    # --- asking ----------------------------------------------------------------------------

    def takes(self, entity: Entity, now: float) -> bool:
        """Whether extenders are to be asked about an entity first; if so, it is taken care of."""
        if not self._desk.extenders or not self._subjects(entity):
            return False
        if self._line or len(self._rounds) >= self._parallel:
            self._desk.queue.set_aside(entity, now + LONGEST_TURN)
            heapq.heappush(self._line, (self._desk.queue.rank(entity), entity.ticket, entity))
        else:
            self._ask(entity, now)
        return True

    def ask_about_victims(self, entity: Entity, unplaced: Unplaced, now: float) -> None:
        """Let extenders choose among the options of preemption; the pod is kept aside."""
        member = entity.lead
        extenders = self.minding_victims(member.pod)
        pods = {pod.uid: pod for option in unplaced.options for pod in option.victims}
        question = ConsultVictims(
            pod_events.pod_ref(member.pod.pod),
            extenders,
            {
                option.node: NodeVictims(
                    tuple(pod.uid for pod in option.victims), option.violations
                )
                for option in unplaced.options
            },
            {uid: pod_events.pod_ref(pod.pod) for uid, pod in pods.items()},
        )
        round_ = self._round(entity, extenders, now)
        round_.unplaced = unplaced
        self._send(round_, member.kind, question)
        self._set_aside(round_)

    def minding_victims(self, pod: PodInfo) -> tuple[Extender, ...]:
        """The extenders that have a say about whom a pod may have evicted."""
        return tuple(e for e in self._desk.extenders if e.preempt_verb and e.minds(pod.pod))

    def _subjects(self, entity: Entity) -> dict[Hashable, tuple[Member, tuple[Extender, ...]]]:
        """One member of each kind that extenders mind, and those that do."""
        found: dict[Hashable, tuple[Member, tuple[Extender, ...]]] = {}
        seen: set[Hashable] = set()
        for member in entity.ready():
            if member.kind in seen:
                continue
            seen.add(member.kind)
            pod = member.pod.pod
            minding = tuple(e for e in self._desk.extenders if e.judges_nodes and e.minds(pod))
            if minding:
                found[member.kind] = member, minding
        return found

    def _ask(self, entity: Entity, now: float) -> None:
        subjects = self._subjects(entity)
        asked = tuple(e for _, minding in subjects.values() for e in minding)
        round_ = self._round(entity, asked, now)
        for kind, (member, minding) in subjects.items():
            nodes = self._desk.cycle.shortlist(member)
            if nodes:
                self._send(
                    round_, kind, Consult(pod_events.pod_ref(member.pod.pod), minding, nodes)
                )
            else:
                round_.counsels[kind] = no_counsel(self._desk.cluster.table)
        self._set_aside(round_)
        if not round_.waiting:
            self._answered.append(round_)

    def _round(self, entity: Entity, extenders: tuple[Extender, ...], now: float) -> Round:
        # Filters are asked one after the other, and then all that prioritise at once.
        limit = PATIENCE + 2 * sum(e.timeout for e in extenders)
        return Round(entity, now + limit, self._desk.happenings)

    def _send(self, round_: Round, kind: Hashable, question: Question) -> None:
        round_.waiting[id(question)] = kind, question
        self._asked[id(question)] = round_
        self._rounds[id(round_)] = round_
        self._desk.outbox.append(question)

    def _set_aside(self, round_: Round) -> None:
        self._desk.queue.set_aside(round_.entity, round_.deadline)
        round_.ticket = round_.entity.ticket

    # --- answers ---------------------------------------------------------------------------

    def awaits(self, effect: object) -> bool:
        """Whether an effect is a question that is out."""
        return id(effect) in self._asked

    def settle(self, effect: object, outcome: Outcome) -> None:
        """A question has been answered, or will not be."""
        round_ = self._asked.pop(id(effect))
        kind, question = round_.waiting.pop(id(effect))
        match outcome:
            case Advice() if isinstance(question, Consult):
                round_.answers[kind] = question, outcome
            case VictimAdvice():
                round_.victims = outcome
            case Refused():
                round_.refused = outcome
            case _:
                raise AssertionError(f"{outcome} is no answer to {question}")
        if not round_.waiting:
            self._close(round_)
            self._answered.append(round_)

    def advance(self, now: float) -> Iterator[Round]:
        """End the rounds that have lasted too long.

        Yields the rounds that have ended and still count; their entities are out of the queue.
        """
        for round_ in [r for r in self._rounds.values() if r.deadline <= now]:
            round_.refused = Refused(0, "Timeout", "extenders did not answer in time")
            self._close(round_)
            self._answered.append(round_)
        while self._answered:
            round_ = self._answered.popleft()
            if round_.counts:
                self._desk.queue.remove(round_.entity)
                table = self._desk.cluster.table
                for kind, (question, advice) in round_.answers.items():
                    round_.counsels[kind] = Counsel(table, question.nodes, advice)
                yield round_

    def give_turns(self, now: float) -> None:
        """Ask about those that are first in line, as many as there are turns."""
        for _ in range(TURNS):
            if not self._has_turn:
                break
            _, ticket, entity = heapq.heappop(self._line)
            if entity.part is Part.CONSULTING and entity.ticket == ticket:
                self._desk.queue.remove(entity)
                self._ask(entity, now)

    @property
    def ready(self) -> bool:
        """Whether :meth:`advance` or :meth:`give_turns` has something to do."""
        return bool(self._answered) or self._has_turn

    @property
    def _has_turn(self) -> bool:
        return bool(self._line) and len(self._rounds) < self._parallel

    def next_timer(self) -> float | None:
        """When :meth:`advance` will have something to break off."""
        return min((round_.deadline for round_ in self._rounds.values()), default=None)

    def check_consistent(self) -> None:
        """Check the questions against the queue.

        Raises:
            AssertionError: an entity is set aside, and nothing will bring it back.
        """
        queue = self._desk.queue
        rounds = [*self._rounds.values(), *self._answered]
        awaited = {(r.entity.key, r.ticket) for r in rounds}
        awaited |= {(entity.key, ticket) for _, ticket, entity in self._line}
        for entity in queue.entities():
            if entity.part is Part.CONSULTING:
                assert (entity.key, entity.ticket) in awaited, f"{entity} waits for nobody"
        assert set(map(id, self._asked.values())) == set(self._rounds), "questions without a round"

    # --- inside ----------------------------------------------------------------------------

    def _close(self, round_: Round) -> None:
        for number in round_.waiting:
            del self._asked[number]
        round_.waiting.clear()
        del self._rounds[id(round_)]
