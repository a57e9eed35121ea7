"""Outcomes come back to the part that sent the effect, with what it was sent for."""

from __future__ import annotations

from arranger.api.effects import Ambiguous, Applied, DeletePod, Effect, ObjectKey, Outcome, Refused
from arranger.cluster.cluster import Cluster
from arranger.engine.context.engine_context import EngineClock, EngineContext
from arranger.engine.context.pending_effects import PendingEffects

GONE = Refused(404, "NotFound", "gone")


class Recorder:
    """Notes the outcomes it is given."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Outcome, float]] = []

    def on_outcome(self, effect: Effect, outcome: Outcome, subject: str, now: float) -> None:
        self.seen.append((subject, outcome, now))


def a_delete() -> DeletePod:
    return DeletePod(ObjectKey("default", "p", "uid"))


def fresh() -> tuple[PendingEffects, EngineContext]:
    context = EngineContext(Cluster(), EngineClock())
    return PendingEffects(context), context


def test_equal_effects_are_told_apart() -> None:
    effects, context = fresh()
    one, other, first, second = Recorder(), Recorder(), a_delete(), a_delete()
    assert first == second
    effects.send(first, one, "first")
    effects.send(second, other, "second")
    assert [id(effect) for effect in context.outbox] == [id(first), id(second)]
    effects.on_outcome(second, Applied(), 1.0)
    effects.on_outcome(first, GONE, 2.0)
    assert one.seen == [("first", GONE, 2.0)]
    assert other.seen == [("second", Applied(), 1.0)]
    assert not len(effects)


def test_after_a_doubt_the_definite_outcome_is_awaited() -> None:
    effects, _ = fresh()
    recorder, delete = Recorder(), a_delete()
    effects.send(delete, recorder, "it")
    effects.on_outcome(delete, Ambiguous("timeout"), 1.0)
    assert effects.awaits(delete)
    effects.on_outcome(delete, Applied(), 2.0)
    assert not effects.awaits(delete)
    assert [outcome for _, outcome, _ in recorder.seen] == [Ambiguous("timeout"), Applied()]


def test_outcomes_of_cancelled_and_of_unknown_effects_go_nowhere() -> None:
    effects, context = fresh()
    recorder, cancelled = Recorder(), a_delete()
    effects.send(cancelled, recorder, "it")
    effects.cancel(cancelled)
    effects.on_outcome(cancelled, Applied(), 1.0)
    effects.on_outcome(a_delete(), Applied(), 1.0)
    assert recorder.seen == []
    assert context.outbox == [cancelled], "what was sent is not taken back"
