"""Any order of events, outcomes and answers: the same model with an extender that judges nodes."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from arranger.api.effects import (
    Bind,
    ExtenderDecision,
    ExtenderPreemptionDecision,
    ExtenderQuery,
    QueryExtenderPreemption,
    QueryExtenders,
    Refused,
)
from arranger.api.extenders import Extender
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.unit.engine.stateful.test_pods import PICK, Life

JUDGE = Extender("http://judge", "filter", "prioritize", "preempt")


class ConsultedLife(Life):
    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(
            EngineSettings([default_profile()], extenders=[JUDGE], parallel_extender_calls=2)
        )
        self.engine.handlers.start(0.0)
        self.questions: list[ExtenderQuery] = []

    @precondition(lambda self: self.questions)
    @rule(pick=PICK, drop=st.booleans())
    def an_extender_answers(self, pick: int, drop: bool) -> None:
        self.answer(self.questions[pick % len(self.questions)], drop=drop)

    @precondition(lambda self: self.questions)
    @rule(pick=PICK)
    def an_extender_fails(self, pick: int) -> None:
        question = self.questions.pop(pick % len(self.questions))
        self.engine.on_outcome(question, Refused(0, "Extender", "boom"), self.now)

    def answer(self, question: ExtenderQuery, *, drop: bool = False) -> None:
        self.questions.remove(question)
        if isinstance(question, QueryExtenderPreemption):
            kept = dict(list(question.victims.items())[drop:])
            self.engine.on_outcome(question, ExtenderPreemptionDecision(kept), self.now)
        else:
            failed = dict.fromkeys(question.nodes[:drop], "no")
            self.engine.on_outcome(
                question, ExtenderDecision(question.nodes[drop:], {}, failed), self.now
            )

    def run_engine(self) -> None:
        for effect in self.engine.run(self.now):
            if isinstance(effect, (QueryExtenders, QueryExtenderPreemption)):
                self.questions.append(effect)
            elif isinstance(effect, Bind):
                self.decided(effect)

    def catch_up(self) -> None:
        """Everything under way ends, every question is answered, and everything is seen."""
        super().catch_up()
        while self.questions or self.engine.ready:
            for question in list(self.questions):
                self.answer(question)
            self.run_engine()
            super().catch_up()


TestLifeWithExtenders = ConsultedLife.TestCase
TestLifeWithExtenders.settings = settings(
    max_examples=200, stateful_step_count=40, derandomize=True, deadline=None
)
