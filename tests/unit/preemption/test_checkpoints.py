"""Who has just saved its state is the cheaper victim, of candidates that are equal otherwise."""

from __future__ import annotations

import itertools

from arranger.cluster.pod_info import PodInfo
from arranger.preemption.importance import Candidate, by_importance
from tests.builders import a_pod

SAVED = "arranger.io/checkpointed-at"


def victim(name: str, saved: str = "", *, started: int = 0, priority: int = 0) -> PodInfo:
    pod = a_pod(name).on("n").with_status(startTime=f"2026-01-01T00:00:{started:02}Z")
    pod = pod.with_spec(priority=priority)
    info = PodInfo((pod.annotated({SAVED: saved}) if saved else pod).build())
    info.priority = priority
    return info


def test_of_equal_candidates_who_saved_last_is_the_cheapest() -> None:
    never, early = victim("never"), victim("early", "2026-01-01T01:00:00Z")
    late = victim("late", "2026-01-01T02:00:00Z")
    costs = [Candidate(0, (each,), 0).cost() for each in (late, early, never)]
    assert costs == sorted(costs)
    assert len(set(costs)) == 3
    for some in itertools.permutations((late, early, never)):
        assert [pod.pod.metadata.name for pod in by_importance(some)] == ["never", "early", "late"]


def test_all_victims_of_a_candidate_must_have_saved() -> None:
    never, late = victim("a"), victim("b", "2026-01-01T02:00:00Z")
    early = victim("c", "2026-01-01T01:00:00Z"), victim("d", "2026-01-01T01:00:00Z")
    assert Candidate(0, early, 0).cost() < Candidate(0, (never, late), 0).cost()


def test_it_decides_after_all_that_decided_before() -> None:
    late = "2026-01-01T02:00:00Z"
    plain = victim("plain", started=1)
    dearer = (victim("older", late, started=0), victim("higher", late, started=1, priority=1))
    for each in dearer:
        assert Candidate(0, (plain,), 0).cost() < Candidate(0, (each,), 0).cost()
