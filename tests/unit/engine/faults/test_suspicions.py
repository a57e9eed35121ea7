"""Who is found to blame for faults: a pod, or what many pods were held against."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from arranger.api.quarantine import QuarantineKey
from arranger.engine.faults.suspicions import FAULTS_OF_ONE, Suspicions, Verdict

NODES = [("Node", "", f"n{n}") for n in range(20)]
NODE = NODES[0]
THEIRS = ("PersistentVolumeClaim", "a", "data")


def pod(name: str, namespace: str = "a") -> QuarantineKey:
    return "Pod", namespace, name


def suspicions(most: int = 3) -> Suspicions:
    return Suspicions(lambda _: most)


def convicted(verdicts: Iterable[Verdict]) -> list[QuarantineKey]:
    return [each.convicted for each in verdicts if each.convicted is not None]


def test_what_pods_of_two_tenants_raise_with_is_convicted_and_both_are_tried_again() -> None:
    them = suspicions()
    one, two = pod("one"), pod("two", "b")
    assert them.on_fault([one], [NODE, NODES[1]]) == Verdict()
    them.on_passed(pod("three", "c"), placed=True)
    verdict = them.on_fault([two], [NODES[2], NODE])
    assert verdict == Verdict(convicted=NODE, released=(one, two))


@pytest.mark.parametrize(
    ("key", "others_pass", "guilty"),
    [
        (NODE, True, False),
        (NODE, False, True),
        (THEIRS, True, True),
    ],
    ids=["a node, and others are placed on it", "a node, and nobody is placed", "their own claim"],
)
def test_two_pods_of_one_tenant_convict(
    key: QuarantineKey, others_pass: bool, guilty: bool
) -> None:
    them = suspicions()
    them.on_fault([pod("one")], [key])
    if others_pass:
        them.on_passed(pod("other", "b"), placed=True)
    assert (them.on_fault([pod("two")], [key]).convicted == key) is guilty


def test_one_pod_alone_convicts_after_a_while() -> None:
    them = suspicions()
    verdicts = [them.on_fault([pod("one")], [NODE]) for _ in range(FAULTS_OF_ONE)]
    assert convicted(verdicts[:-1]) == []
    assert verdicts[-1].convicted == NODE


def test_several_that_are_to_blame_are_convicted_one_after_the_other() -> None:
    them = suspicions()
    one, two = pod("one"), pod("two", "b")
    them.on_fault([one], [NODE])
    found = [them.on_fault([two], [NODE])]
    found += [them.on_fault([one], [node]) for node in NODES[1:3]]
    assert convicted(found) == NODES[:3]
    them.on_passed(one, placed=True)
    them.on_passed(two, placed=True)
    assert them.convicted() == NODES[:3]


def test_who_raises_with_whatever_is_left_is_to_blame_itself_and_believed_no_more() -> None:
    them = suspicions(most=3)
    one, two = pod("one"), pod("two", "b")
    them.on_fault([one], [NODE])
    found = [them.on_fault([two], [NODE])]
    found += [them.on_fault([one], [node]) for node in NODES[1:10]]
    assert convicted(found) == NODES[:3]
    found += [them.on_fault([two], [node]) for node in NODES[10:]]
    assert {key for each in found for key in each.acquitted} == set(convicted(found))
    assert them.convicted() == []
    assert not convicted(them.on_fault([who], [NODE]) for _ in range(9) for who in (one, two))
    them.on_passed(one, placed=True)
    assert convicted(them.on_fault([one], [NODE]) for _ in range(FAULTS_OF_ONE)) == [NODE]


def test_who_is_to_blame_itself_does_not_acquit_what_has_helped_another() -> None:
    them = suspicions()
    one, bad = pod("one"), pod("bad", "b")
    them.on_fault([one], [NODE])
    assert them.on_fault([bad], [NODE]).convicted == NODE
    assert them.on_fault([bad], []).acquitted == ()
    assert them.convicted() == [NODE]


def test_who_has_no_place_without_an_object_proves_nothing_against_it() -> None:
    them = suspicions()
    one, two = pod("one"), pod("two", "b")
    them.on_fault([one], [NODE])
    assert them.on_fault([two], [NODE]).convicted == NODE
    assert them.on_passed(one, placed=False) == ()
    assert them.on_passed(two, placed=False) == (NODE,)
    assert not convicted(them.on_fault([who], [NODE]) for _ in range(9) for who in (one, two))


def test_what_one_has_found_a_place_without_stays_convicted_for_all() -> None:
    them = suspicions()
    one, two = pod("one"), pod("two", "b")
    them.on_fault([one], [NODE])
    them.on_fault([two], [NODE])
    assert them.on_passed(one, placed=True) == them.on_passed(two, placed=False) == ()
    assert them.convicted() == [NODE]


def test_an_object_that_counts_again_is_convicted_by_the_first_that_raises_with_it() -> None:
    them = suspicions()
    for who in (pod("one"), pod("two", "b")):
        them.on_fault([who], [NODE])
        them.on_passed(who, placed=True)
    assert them.on_fault([pod("new", "c")], [NODES[1], NODE]).convicted == NODE
    them.forget(NODE)
    assert them.on_fault([pod("newer", "c")], [NODE]).convicted is None
