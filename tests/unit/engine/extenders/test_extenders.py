"""Pods that extenders have a say about: asked first, placed when the answer comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.effects import (
    Ambiguous,
    Applied,
    Bind,
    DeletePod,
    ExtenderDecision,
    ExtenderPreemptionDecision,
    NodeVictims,
    PatchPodStatus,
    QueryExtenderPreemption,
    QueryExtenders,
    Refused,
)
from arranger.api.extenders import Extender
from arranger.engine.context.queue_state import QueueState
from arranger.engine.extenders.coordinator import TIMEOUT_MARGIN
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, conditions, of_kind, placements

JUDGE = Extender("http://judge", filter_verb="filter", prioritize_verb="prioritize", timeout=5)
GPU = Extender("http://gpu", filter_verb="filter", managed_resources=frozenset({"example.com/gpu"}))
VETO = Extender("http://veto", preempt_verb="preempt")
BINDER = Extender("http://binder", bind_verb="bind")
FAILED = Refused(0, "Extender", 'running extender "http://judge": boom')


def nodes(count: int, cpu: int = 4) -> list[NodeBuilder]:
    return [a_node(f"n{n}").offers(cpu=cpu) for n in range(count)]


def asking(*extenders: Extender, count: int = 2, parallel: int = 1) -> EngineHarness:
    harness = EngineHarness(default_profile(), extenders=extenders, parallel=parallel)
    harness.observe(*nodes(count))
    return harness


def question(harness: EngineHarness) -> QueryExtenders:
    """The only question that the engine asks now."""
    (found,) = of_kind(QueryExtenders, harness.run())
    return found


def small(name: str = "p") -> PodBuilder:
    return a_pod(name).needs(cpu=1)


# --- nodes -------------------------------------------------------------------------------------


def test_a_pod_waits_aside_until_the_extenders_have_answered() -> None:
    harness = asking(JUDGE)
    harness.observe(small())
    asked = question(harness)
    assert (asked.pod.name, asked.extenders, asked.nodes) == ("p", (JUDGE,), ("n0", "n1"))
    assert harness.queue_state("p") is QueueState.WAITING_FOR_EXTENDERS
    assert harness.node_of(small()) is None
    harness.observe(a_node("n2").offers(cpu=4))
    assert harness.advance_to(20) == []  # no event wakes it
    assert placements(harness.settle(asked, ExtenderDecision(("n1",)))) == [("p", "n1")]


PLACED: dict[str, tuple[ExtenderDecision, str]] = {
    "where extenders allow it": (ExtenderDecision(("n1",), failed={"n0": "no", "n2": "no"}), "n1"),
    "the score of extenders outweighs ours": (
        ExtenderDecision(("n0", "n1", "n2"), {"n2": 900}),
        "n2",
    ),
    "a bad score outweighs ours, too": (ExtenderDecision(("n0", "n1"), {"n0": -900}), "n1"),
    "a score of a node that is not allowed is nothing": (
        ExtenderDecision(("n0",), {"n2": 900}),
        "n0",
    ),
    "nodes that nobody knows are left out": (ExtenderDecision(("n1", "gone")), "n1"),
}


@pytest.mark.parametrize(("advice", "node"), PLACED.values(), ids=PLACED.keys())
def test_a_pod_goes_to_the_best_allowed_node(advice: ExtenderDecision, node: str) -> None:
    harness = asking(JUDGE, count=3)
    harness.observe(small())
    assert placements(harness.settle(question(harness), advice)) == [("p", node)]


MEANWHILE: dict[str, tuple[Callable[[EngineHarness], None], list[tuple[str, str]]]] = {
    "the best node is gone: the next": (lambda c: c.observe_deleted(a_node("n1")), [("p", "n0")]),
    "the best node is full: the next": (
        lambda c: c.observe(a_pod("other").needs(cpu=4).on("n1")),
        [("p", "n0")],
    ),
    "the pod is gone: nothing": (lambda c: c.observe_deleted(small()), []),
    "the pod is being deleted: nothing": (lambda c: c.observe(small().deleting()), []),
    "somebody else has bound the pod: nothing": (lambda c: c.observe(small().on("n0")), []),
}


@pytest.mark.parametrize(("happens", "expected"), MEANWHILE.values(), ids=MEANWHILE.keys())
def test_what_happens_before_the_answer_counts(
    happens: Callable[[EngineHarness], None], expected: list[tuple[str, str]]
) -> None:
    harness = asking(JUDGE)
    harness.observe(small())
    asked = question(harness)
    happens(harness)
    harness.run()
    assert (
        placements(harness.settle(asked, ExtenderDecision(("n0", "n1"), {"n1": 500}))) == expected
    )


def test_a_pod_that_is_edited_is_asked_about_again() -> None:
    harness = asking(JUDGE)
    harness.observe(small())
    first = question(harness)
    harness.observe(small().labelled(app="x").at_version("2"))
    assert (
        of_kind(QueryExtenders, harness.advance_to(2)) == []
    )  # the extender is still busy with the first question
    (second,) = of_kind(QueryExtenders, harness.settle(first, ExtenderDecision(("n0",))))
    assert placements(harness.settle(second, ExtenderDecision(("n1",)))) == [("p", "n1")]


def test_the_reasons_of_extenders_are_told_and_any_event_wakes_the_pod() -> None:
    harness = asking(JUDGE, count=4)
    harness.observe(small())
    answer = ExtenderDecision(
        (), failed={"n0": "no gpu left"}, unresolvable={"n1": "too old", "n2": "too old"}
    )
    effects = harness.settle(question(harness), answer)
    ((reason, text),) = conditions(effects)
    assert reason == "Unschedulable"
    # The fourth was dropped without a word; where an extender says that evictions might help,
    # there is nobody to evict.
    assert text.startswith("0/4 nodes are available: 1 no gpu left, 2 too old. ")
    assert text.endswith(
        "1 No preemption victims found for incoming pod, "
        "3 Preemption is not helpful for scheduling."
    )
    assert harness.queue_state("p") is QueueState.UNSCHEDULABLE
    harness.observe(a_pod("other").needs(cpu=1).on("n0"))
    assert len(of_kind(QueryExtenders, harness.advance_to(20))) == 1


def test_an_event_that_is_missed_while_extenders_think_is_made_up_for() -> None:
    harness = asking(JUDGE)
    harness.observe(small())
    asked = question(harness)
    harness.observe(a_node("n2").offers(cpu=4))
    harness.settle(asked, ExtenderDecision((), failed={"n0": "no", "n1": "no"}))
    assert harness.queue_state("p") is QueueState.BACKOFF
    (again,) = of_kind(QueryExtenders, harness.advance_to(2))
    assert again.nodes == ("n0", "n1", "n2")


def test_nobody_is_asked_about_a_pod_that_fits_nowhere() -> None:
    harness = asking(JUDGE)
    harness.observe(a_pod("huge").needs(cpu=64))
    effects = harness.run()
    assert not of_kind(QueryExtenders, effects)
    assert [reason for reason, _ in conditions(effects)] == ["Unschedulable"]
    assert harness.queue_state("huge") is QueueState.UNSCHEDULABLE


def test_an_error_is_told_and_tried_again_after_a_back_off() -> None:
    harness = asking(JUDGE)
    harness.observe(small())
    effects = harness.settle(question(harness), FAILED)
    assert conditions(effects) == [("SchedulerError", FAILED.message)]
    assert harness.queue_state("p") is QueueState.BACKOFF
    assert len(of_kind(QueryExtenders, harness.advance_to(2))) == 1


def test_an_answer_that_does_not_come_is_an_error_and_nothing_when_it_comes_late() -> None:
    harness = asking(JUDGE)
    harness.observe(small())
    asked = question(harness)
    effects = harness.advance_to(TIMEOUT_MARGIN + 2 * JUDGE.timeout)
    assert [reason for reason, _ in conditions(effects)] == ["SchedulerError"]
    assert harness.settle(asked, ExtenderDecision(("n0",))) == []
    assert harness.queue_state("p") is QueueState.BACKOFF


MINDED: dict[str, tuple[PodBuilder, bool]] = {
    "a pod that asks for a managed resource": (a_pod().needs({"example.com/gpu": 1}), True),
    "an init container does": (a_pod().init(**{"example.com/gpu": 1}), True),
    "a pod that asks for nothing managed": (small(), False),
}


@pytest.mark.parametrize(("pod", "asked"), MINDED.values(), ids=MINDED.keys())
def test_extenders_are_asked_about_the_pods_that_they_mind(pod: PodBuilder, asked: bool) -> None:
    harness = EngineHarness(default_profile(), extenders=[GPU])
    harness.observe(a_node("n").offers({"example.com/gpu": 4}, cpu=4), pod)
    effects = harness.run()
    assert (len(of_kind(QueryExtenders, effects)), len(of_kind(Bind, effects))) == (
        (1, 0) if asked else (0, 1)
    )


def test_one_pod_is_asked_about_when_the_last_has_its_node_and_the_important_ones_first() -> None:
    harness = asking(JUDGE)
    harness.observe(small("a"), small("b"), small("c").with_priority(9))
    first = question(harness)
    assert first.pod.name == "c"
    effects = harness.settle(first, ExtenderDecision(("n0",)))
    assert placements(effects) == [("c", "n0")]
    (second,) = of_kind(QueryExtenders, effects)
    harness.observe(small("d").with_priority(5))
    effects = harness.settle(second, ExtenderDecision(("n0",)))
    assert [asked.pod.name for asked in of_kind(QueryExtenders, effects)] == ["d"]


def test_several_are_asked_about_at_once_if_so_configured() -> None:
    harness = asking(JUDGE, parallel=2)
    harness.observe(small("a"), small("b"), small("c"))
    assert len(of_kind(QueryExtenders, harness.run())) == 2


def test_pods_that_no_extender_minds_do_not_wait_for_those_that_one_does() -> None:
    harness = EngineHarness(default_profile(), extenders=[GPU])
    harness.observe(a_node("n").offers({"example.com/gpu": 4}, cpu=4))
    harness.observe(a_pod("slow").needs({"example.com/gpu": 1}), small("quick"))
    assert placements(harness.run()) == [("quick", "n")]


# --- gangs -------------------------------------------------------------------------------------


def gang(*pods: PodBuilder) -> list[PodBuilder]:
    return [pod.in_gang("g", len(pods)) for pod in pods]


def test_a_gang_is_asked_about_once_for_each_class_and_placed_at_once() -> None:
    harness = asking(JUDGE)
    harness.observe(*gang(small("w0"), small("w1"), a_pod("leader").needs(cpu=2)))
    asked = of_kind(QueryExtenders, harness.run())
    assert {question.pod.name for question in asked} in ({"w0", "leader"}, {"w1", "leader"})
    workers, leader = sorted(asked, key=lambda question: question.pod.name, reverse=True)
    assert placements(harness.settle(leader, ExtenderDecision(("n0",)))) == []
    effects = harness.settle(workers, ExtenderDecision(("n1",)))
    assert sorted(placements(effects)) == [("leader", "n0"), ("w0", "n1"), ("w1", "n1")]


def test_a_gang_of_which_extenders_allow_too_little_holds_nothing() -> None:
    harness = asking(JUDGE)
    harness.observe(*gang(*(a_pod(f"w{n}").needs(cpu=3) for n in range(2))))
    effects = harness.settle(question(harness), ExtenderDecision(("n0",), failed={"n1": "no"}))
    assert placements(effects) == []
    assert harness.queue_state("w0") is QueueState.UNSCHEDULABLE
    assert harness.node_of(a_pod("w0")) is None
    told = harness.advance_to(20)
    assert "1 no" in harness.entity("w0").reason, told


def test_a_node_comes_for_a_member_of_whom_nobody_was_asked_while_others_are() -> None:
    harness = asking(JUDGE)
    harness.observe(*gang(small("worker"), a_pod("leader").needs(cpu=9)))
    asked = question(harness)
    assert asked.pod.name == "worker"  # no node would take the leader
    harness.observe(a_node("n2").offers(cpu=16))
    effects = harness.settle(asked, ExtenderDecision(("n0",)))
    assert placements(effects) == []
    assert "1 node(s) became feasible after the extenders" in harness.entity("worker").reason
    again = of_kind(QueryExtenders, harness.advance_to(20))
    assert {each.pod.name for each in again} == {"worker", "leader"}
    for each in again:
        effects = harness.settle(each, ExtenderDecision(("n2",)))
    assert sorted(placements(effects)) == [("leader", "n2"), ("worker", "n2")]


def test_a_member_that_goes_voids_the_question_about_its_gang() -> None:
    harness = asking(JUDGE)
    pods = gang(small("w0"), small("w1"))
    harness.observe(*pods)
    asked = question(harness)
    harness.observe_deleted(pods[1])
    assert placements(harness.settle(asked, ExtenderDecision(("n0",)))) == []
    assert harness.queue_state("w0") is QueueState.GATED


# --- victims -----------------------------------------------------------------------------------


def full(*extenders: Extender) -> EngineHarness:
    """Two nodes with a low pod each, one of them cheaper, and a high one that fits nowhere."""
    harness = asking(*extenders)
    harness.observe(
        a_pod("v0").needs(cpu=4).on("n0").with_priority(1), a_pod("v1").needs(cpu=4).on("n1")
    )
    harness.observe(a_pod("high").needs(cpu=4).with_priority(10))
    return harness


def victims(harness: EngineHarness) -> QueryExtenderPreemption:
    (found,) = of_kind(QueryExtenderPreemption, harness.run())
    return found


def evicted(harness: EngineHarness) -> list[str]:
    return [delete.pod.name for delete in of_kind(DeletePod, harness.effects)]


def test_extenders_are_shown_every_option_and_nobody_is_evicted_before_they_agree() -> None:
    harness = full(VETO)
    asked = victims(harness)
    assert asked.extenders == (VETO,)
    assert {node: len(v.uids) for node, v in asked.victims.items()} == {"n0": 1, "n1": 1}
    assert {ref.name for ref in asked.pods.values()} == {"v0", "v1"}
    assert evicted(harness) == []
    effects = harness.settle(asked, ExtenderPreemptionDecision({"n0": asked.victims["n0"]}))
    assert evicted(harness) == ["v0"]
    (patch,) = [p for p in of_kind(PatchPodStatus, effects) if p.nominated_node]
    assert patch.nominated_node == "n0"
    harness.observe_deleted(a_pod("v0"))
    assert placements(harness.advance_to(20)) == [("high", "n0")]


VETOED: dict[
    str, Callable[[EngineHarness, QueryExtenderPreemption], ExtenderPreemptionDecision | Refused]
] = {
    "no option": lambda harness, asked: ExtenderPreemptionDecision({}),
    "victims that are gone meanwhile": lambda harness, asked: (
        harness.observe_deleted(a_pod("v1")),
        ExtenderPreemptionDecision({"n1": asked.victims["n1"]}),
    )[-1],
    "victims that nobody knows": lambda harness, asked: ExtenderPreemptionDecision(
        {"n1": NodeVictims(("nobody",))}
    ),
    "too few victims to make room": lambda harness, asked: ExtenderPreemptionDecision(
        {"n1": asked.victims["n0"]}  # elsewhere
    ),
    "victims of which one is elsewhere": lambda harness, asked: ExtenderPreemptionDecision(
        {"n1": NodeVictims((*asked.victims["n1"].uids, *asked.victims["n0"].uids))}
    ),
    "an error": lambda harness, asked: Refused(0, "Extender", "boom"),
}


@pytest.mark.parametrize("answer", VETOED.values(), ids=VETOED.keys())
def test_nobody_is_evicted_when_extenders_agree_to(
    answer: Callable[
        [EngineHarness, QueryExtenderPreemption], ExtenderPreemptionDecision | Refused
    ],
) -> None:
    harness = full(VETO)
    asked = victims(harness)
    outcome = answer(harness, asked)
    effects = harness.settle(asked, outcome)
    assert evicted(harness) == []
    if isinstance(outcome, Refused):
        assert conditions(effects)[0][1].endswith("preemption: boom")
        assert harness.queue_state("high") is QueueState.BACKOFF


def test_a_pod_that_is_gone_evicts_nobody() -> None:
    harness = full(VETO)
    asked = victims(harness)
    harness.observe_deleted(a_pod("high"))
    harness.settle(asked, ExtenderPreemptionDecision(asked.victims))
    assert evicted(harness) == []


# --- bindings ----------------------------------------------------------------------------------


def test_an_extender_binds_in_our_place() -> None:
    harness = asking(BINDER)
    harness.observe(small())
    (bind,) = of_kind(Bind, harness.run())
    assert bind.extender is BINDER
    harness.settle(bind, Applied())
    assert harness.engine.pods() == []


def test_a_pod_that_the_extender_cannot_bind_is_tried_again() -> None:
    harness = asking(BINDER)
    harness.observe(small())
    (bind,) = of_kind(Bind, harness.run())
    effects = harness.settle(bind, Refused(0, "Extender", "boom"))
    assert conditions(effects) == [("SchedulerError", "binding rejected: boom")]
    assert harness.queue_state("p") is QueueState.BACKOFF


UNBOUND = {"an error": Refused(0, "Extender", "boom"), "no answer": Ambiguous("lost")}


@pytest.mark.parametrize("outcome", UNBOUND.values(), ids=UNBOUND.keys())
def test_we_bind_ourselves_what_an_ignorable_extender_does_not(
    outcome: Refused | Ambiguous,
) -> None:
    harness = asking(Extender("http://x", bind_verb="bind", ignorable=True))
    harness.observe(small())
    (first,) = of_kind(Bind, harness.run())
    (second,) = of_kind(Bind, harness.settle(first, outcome))
    assert (second.node, second.extender) == (first.node, None)
    assert harness.settle(first, Refused(0, "Extender", "late")) == []
    harness.settle(second, Applied())
    assert harness.engine.pods() == []
