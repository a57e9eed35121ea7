"""Which evaluations are kept."""

from __future__ import annotations

from collections.abc import Iterable

from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.evaluation_cache import MAX_KEPT, MAX_NEW, EvaluationCache
from arranger.plugins import default_profile
from tests.builders import a_cluster, a_pod

POD = a_pod("p").info()
ANY = Evaluation(default_profile(), a_cluster(), POD, scoring=False)


def _found(cache: EvaluationCache, names: Iterable[object]) -> int:
    """Ask for classes as the scheduling cycle does; how many were known."""
    known = 0
    for name in names:
        key = ("default-scheduler", name)
        if cache.get(key, POD) is None:
            cache.add(key, ANY)
        else:
            known += 1
    return known


def test_a_class_is_found_again_at_once() -> None:
    cache = EvaluationCache()
    assert _found(cache, "aaa") == 2


def test_classes_asked_about_once_do_not_push_out_one_that_is_asked_about_again() -> None:
    cache = EvaluationCache()
    _found(cache, "aa")
    assert _found(cache, range(10 * MAX_KEPT)) == 0
    assert _found(cache, "a") == 1


def test_of_classes_asked_about_once_few_are_kept() -> None:
    cache = EvaluationCache()
    _found(cache, range(1000))
    assert len(cache) == MAX_NEW


def test_as_many_classes_by_turns_as_are_kept_are_found_from_the_third_turn_on() -> None:
    cache = EvaluationCache()
    turn = range(MAX_KEPT)
    assert _found(cache, turn) == 0
    _found(cache, turn)
    assert _found(cache, turn) == MAX_KEPT


def test_no_more_are_kept_than_that() -> None:
    cache = EvaluationCache()
    for _ in range(4):
        _found(cache, [n // 2 for n in range(8 * MAX_KEPT)])
    assert len(cache) <= MAX_KEPT + MAX_NEW


def test_what_is_discarded_is_not_found() -> None:
    cache = EvaluationCache()
    for names in ("a", "aa"):
        _found(cache, names)
        cache.discard(("default-scheduler", "a"))
        assert cache.get(("default-scheduler", "a"), POD) is None
    assert len(cache) == 0


def test_one_that_was_made_for_a_pod_of_another_group_is_forgotten() -> None:
    groups = {POD.uid: "g"}
    cache = EvaluationCache(lambda pod: groups.get(pod.uid))
    key, other = ("default-scheduler", "a"), a_pod("q").info()
    cache.add(key, ANY)
    assert cache.get(key, POD) is ANY
    groups[other.uid] = "g"
    assert cache.get(key, other) is ANY
    del groups[POD.uid]  # it is gone
    assert cache.get(key, other) is None
    assert len(cache) == 0
