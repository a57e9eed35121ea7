"""The specification objects to what is wrong, and to nothing near it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.specification.cases import CASES
from tests.specification.cases_at_rest import AT_REST
from tests.specification.legal import Specification
from tests.specification.premises import Premises
from tests.specification.traces import Trace, a_member, a_pod, a_queue, in_queue, preempted
from tests.specification.vocabulary.manifests import quantity
from tests.specification.worlds import CARD, GPU, one_node

GUARANTEED = "the_guarantees_of_others_are_kept"


def judge(trace: Trace) -> Specification:
    """The specification when it has seen a trace."""
    spec = Specification(Premises(schedulers={"one", "two"}, calendar=0.0))
    for step in trace.steps:
        spec.take(step)
    spec.settle(trace.now)
    return spec


@pytest.mark.parametrize("what", CASES)
def test_what_is_wrong_is_found_and_what_is_near_it_is_not(what: str) -> None:
    rule, wrong, right = CASES[what]
    assert {each.rule for each in judge(wrong).violations} == {rule}
    assert [str(each) for each in judge(right).violations] == []
    assert judge(wrong).unreadable == judge(right).unreadable == []


@pytest.mark.parametrize("what", AT_REST)
def test_what_has_not_come_about_is_found_at_rest(what: str) -> None:
    rule, wrong, right = AT_REST[what]
    assert {text.rpartition("[")[2] for text in judge(wrong).at_rest(wrong.now)} == {f"{rule}]"}
    assert judge(right).at_rest(right.now) == []


def test_a_trace_without_writers_is_judged_by_what_only_schedulers_write() -> None:
    """As a watch of a real API server shows it."""
    trace = one_node(a_pod("a", cpu=3), a_pod("b", cpu=2)).binds("a", "n1", by=None)
    trace.binds("b", "n1", by=None).evicts("a", by=None)
    assert {each.rule for each in judge(trace).violations} == {"it_fits", "it_may_be_evicted"}


def test_who_was_bound_before_its_gang_was_defined_is_a_part_that_may_be_taken_back() -> None:
    label = {"pod-group.scheduling.sigs.k8s.io": "g"}
    head = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    group = {**head, "metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}}

    def trace(*before: Any, after: tuple[Any, ...]) -> Trace:
        pods = (a_pod(name, labels=label) for name in "ab")
        found = one_node(*pods, *before).binds("a", "n1", by="somebody")
        found.binds("b", "n1", by="somebody") if before else None
        return found.has(*after).passes(60).evicts("a", told=False)

    assert [str(each) for each in judge(trace(after=(group,))).violations] == []
    assert {each.rule for each in judge(trace(group, after=())).violations} >= {"it_may_be_evicted"}


def test_a_premise_that_does_not_hold_switches_its_rule_off() -> None:
    steps = one_node(a_pod("a", cpu=5)).binds("a", "n1").steps
    for premises in (Premises(changing_nodes={"n1"}), Premises(unjudged={"it_fits"})):
        premises.schedulers.add("one")
        spec = Specification(premises)
        for step in steps:
            spec.take(step)
        assert not spec.violations


@pytest.mark.parametrize(("ago", "wrong"), [(60, {"its_queue_may_use_it"}), (1, set[str]())])
def test_a_pod_with_cards_may_be_let_in_while_a_binding_is_on_its_way(
    ago: int, wrong: set[str]
) -> None:
    """Where such pods are free of limits on CPU, none of it is left for others."""
    queue, note = a_queue("q", capability={"cpu": "3"}), in_queue("q")
    pods = (
        a_pod("card", cpu=3, asks={GPU: "1"}, annotations=note),
        a_pod("p", cpu=1, annotations=note),
    )
    node = {"cpu": 64, "offers": {GPU: "8"}, "labels": {f"{GPU}.product": CARD}}
    trace = one_node(queue, *pods, **node).passes(60).binds("card", "n1").passes(ago)
    trace.binds("p", "n1")
    spec = Specification(Premises(schedulers={"one"}, exempt_card_pods=True))
    for step in trace.steps:
        spec.take(step)
    assert {each.rule for each in spec.violations} == wrong


@pytest.mark.parametrize(("exempt", "wrong"), [(True, set()), (False, {GUARANTEED})])
def test_a_pod_with_cards_may_be_free_of_what_others_are_guaranteed(
    exempt: bool, wrong: set[str]
) -> None:
    queues = a_queue("q"), a_queue("other", guarantee={"resource": {"cpu": "3"}})
    pod = a_pod("card", cpu=3, asks={GPU: "1"}, annotations=in_queue("q"))
    node = {"cpu": 4, "offers": {GPU: "8"}, "labels": {f"{GPU}.product": CARD}}
    trace = one_node(*queues, pod, **node).passes(60).binds("card", "n1")
    spec = Specification(Premises(schedulers={"one"}, exempt_card_pods=exempt))
    for step in trace.steps:
        spec.take(step)
    assert {each.rule for each in spec.violations} == wrong


@pytest.mark.parametrize(("moves", "wrong"), [("after", set()), ("before", {"the_event_is_true"})])
def test_an_event_is_judged_by_the_time_of_its_eviction(moves: str, wrong: set[str]) -> None:
    """It may be written long after, when its taker is in a queue that may not reclaim."""
    taker, victim = a_pod("taker", priority=4), a_pod("victim", priority=3)
    trace = one_node(taker, victim).binds("victim", "n1").passes(60)
    if moves == "after":
        trace.evicts("victim")
    trace.has(a_queue("q"))
    trace.edits("Pod", "taker", {"metadata": {"annotations": in_queue("q")}}).passes(60)
    if moves == "before":
        trace.evicts("victim")
    trace.has(preempted("victim", "taker"))
    assert {each.rule for each in judge(trace).violations} & {"the_event_is_true"} == wrong


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("1500m", 1000, 1500),
        ("2Gi", 1, 2**31),
        ("1e3", 1, 1000),
        ("0.1", 1, 1),
        ("5E", 1, 5 * 10**18),
        ("1u", 1000, 1),
        ("-1", 1, -1),
        ("many", 1, 0),
        ("9e999", 1, 2**63 - 1),
    ],
)
def test_quantities(text: str, unit: int, expected: int) -> None:
    assert quantity(text, unit) == expected


def test_of_very_much_that_is_said_what_is_short_counts() -> None:
    key, other = "volcano.sh/preemptable", "scheduling.volcano.sh/group-name"

    def trace(said: str) -> Trace:
        victim = a_pod("victim", annotations={key: said, other: "x" * 17_000})
        queue, taker = a_queue("default"), a_pod("taker", priority=4)
        found = one_node(queue, victim, taker).binds("victim", "n1").passes(60)
        return found.evicts("victim")

    assert {each.rule for each in judge(trace("false")).violations} == {"it_may_be_evicted"}
    assert [str(each) for each in judge(trace("no" * 200)).violations] == []


def test_a_member_that_is_said_to_have_succeeded_counts_though_it_was_never_bound() -> None:
    trace = one_node(*(a_member("g", n, 2) for n in range(2))).passes(60)
    trace.edits("Pod", "g-1", {"status": {"phase": "Succeeded"}}).passes(0.1).binds("g-0", "n1")
    trace.passes(5).edits("Pod", "g-0", {"status": {"phase": "Failed"}})
    assert [str(each) for each in judge(trace).violations] == []
