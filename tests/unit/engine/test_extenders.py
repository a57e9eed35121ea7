"""Pods that extenders have a say about: asked first, placed when the answer comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.effects import (
    Advice,
    Ambiguous,
    Applied,
    Bind,
    Consult,
    ConsultVictims,
    DeletePod,
    NodeVictims,
    PatchPodStatus,
    Refused,
    VictimAdvice,
)
from arranger.api.extenders import Extender
from arranger.engine.entity import Part
from arranger.engine.extenders.coordinator import PATIENCE
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.unit.engine.harness import Core, conditions, of, placements

JUDGE = Extender("http://judge", filter_verb="filter", prioritize_verb="prioritize", timeout=5)
GPU = Extender("http://gpu", filter_verb="filter", managed=frozenset({"example.com/gpu"}))
VETO = Extender("http://veto", preempt_verb="preempt")
BINDER = Extender("http://binder", bind_verb="bind")
FAILED = Refused(0, "Extender", 'running extender "http://judge": boom')


def nodes(count: int, cpu: int = 4) -> list[NodeBuilder]:
    return [a_node(f"n{n}").offers(cpu=cpu) for n in range(count)]


def asking(*extenders: Extender, count: int = 2, parallel: int = 1) -> Core:
    core = Core(default_profile(), extenders=extenders, parallel=parallel)
    core.see(*nodes(count))
    return core


def question(core: Core) -> Consult:
    """The only question that the engine asks now."""
    (found,) = of(Consult, core.run())
    return found


def small(name: str = "p") -> PodBuilder:
    return a_pod(name).needs(cpu=1)


# --- nodes -------------------------------------------------------------------------------------


def test_a_pod_waits_aside_until_the_extenders_have_answered() -> None:
    core = asking(JUDGE)
    core.see(small())
    asked = question(core)
    assert (asked.pod.name, asked.extenders, asked.nodes) == ("p", (JUDGE,), ("n0", "n1"))
    assert core.part("p") is Part.CONSULTING
    assert core.node_of(small()) is None
    core.see(a_node("n2").offers(cpu=4))
    assert core.at(20) == []  # no event wakes it
    assert placements(core.settle(asked, Advice(("n1",)))) == [("p", "n1")]


PLACED: dict[str, tuple[Advice, str]] = {
    "where extenders allow it": (Advice(("n1",), failed={"n0": "no", "n2": "no"}), "n1"),
    "the score of extenders outweighs ours": (Advice(("n0", "n1", "n2"), {"n2": 900}), "n2"),
    "a bad score outweighs ours, too": (Advice(("n0", "n1"), {"n0": -900}), "n1"),
    "a score of a node that is not allowed is nothing": (Advice(("n0",), {"n2": 900}), "n0"),
    "nodes that nobody knows are left out": (Advice(("n1", "gone")), "n1"),
}


@pytest.mark.parametrize(("advice", "node"), PLACED.values(), ids=PLACED.keys())
def test_a_pod_goes_to_the_best_allowed_node(advice: Advice, node: str) -> None:
    core = asking(JUDGE, count=3)
    core.see(small())
    assert placements(core.settle(question(core), advice)) == [("p", node)]


MEANWHILE: dict[str, tuple[Callable[[Core], None], list[tuple[str, str]]]] = {
    "the best node is gone: the next": (lambda c: c.see_gone(a_node("n1")), [("p", "n0")]),
    "the best node is full: the next": (
        lambda c: c.see(a_pod("other").needs(cpu=4).on("n1")),
        [("p", "n0")],
    ),
    "the pod is gone: nothing": (lambda c: c.see_gone(small()), []),
    "the pod is being deleted: nothing": (lambda c: c.see(small().deleting()), []),
    "somebody else has bound the pod: nothing": (lambda c: c.see(small().on("n0")), []),
}


@pytest.mark.parametrize(("happens", "expected"), MEANWHILE.values(), ids=MEANWHILE.keys())
def test_what_happens_before_the_answer_counts(
    happens: Callable[[Core], None], expected: list[tuple[str, str]]
) -> None:
    core = asking(JUDGE)
    core.see(small())
    asked = question(core)
    happens(core)
    core.run()
    assert placements(core.settle(asked, Advice(("n0", "n1"), {"n1": 500}))) == expected


def test_a_pod_that_is_edited_is_asked_about_again() -> None:
    core = asking(JUDGE)
    core.see(small())
    first = question(core)
    core.see(small().labelled(app="x").at_version("2"))
    assert of(Consult, core.at(2)) == []  # the extender is still busy with the first question
    (second,) = of(Consult, core.settle(first, Advice(("n0",))))
    assert placements(core.settle(second, Advice(("n1",)))) == [("p", "n1")]


def test_the_reasons_of_extenders_are_told_and_any_event_wakes_the_pod() -> None:
    core = asking(JUDGE, count=4)
    core.see(small())
    answer = Advice(
        (), failed={"n0": "no gpu left"}, unresolvable={"n1": "too old", "n2": "too old"}
    )
    effects = core.settle(question(core), answer)
    ((reason, text),) = conditions(effects)
    assert reason == "Unschedulable"
    # The fourth was dropped without a word; where an extender says that evictions might help,
    # there is nobody to evict.
    assert text.startswith("0/4 nodes are available: 1 no gpu left, 2 too old. ")
    assert text.endswith(
        "1 No preemption victims found for incoming pod, "
        "3 Preemption is not helpful for scheduling."
    )
    assert core.part("p") is Part.UNSCHEDULABLE
    core.see(a_pod("other").needs(cpu=1).on("n0"))
    assert len(of(Consult, core.at(20))) == 1


def test_an_event_that_is_missed_while_extenders_think_is_made_up_for() -> None:
    core = asking(JUDGE)
    core.see(small())
    asked = question(core)
    core.see(a_node("n2").offers(cpu=4))
    core.settle(asked, Advice((), failed={"n0": "no", "n1": "no"}))
    assert core.part("p") is Part.BACKOFF
    (again,) = of(Consult, core.at(2))
    assert again.nodes == ("n0", "n1", "n2")


def test_nobody_is_asked_about_a_pod_that_fits_nowhere() -> None:
    core = asking(JUDGE)
    core.see(a_pod("huge").needs(cpu=64))
    effects = core.run()
    assert not of(Consult, effects)
    assert [reason for reason, _ in conditions(effects)] == ["Unschedulable"]
    assert core.part("huge") is Part.UNSCHEDULABLE


def test_an_error_is_told_and_tried_again_after_a_back_off() -> None:
    core = asking(JUDGE)
    core.see(small())
    effects = core.settle(question(core), FAILED)
    assert conditions(effects) == [("SchedulerError", FAILED.message)]
    assert core.part("p") is Part.BACKOFF
    assert len(of(Consult, core.at(2))) == 1


def test_an_answer_that_does_not_come_is_an_error_and_nothing_when_it_comes_late() -> None:
    core = asking(JUDGE)
    core.see(small())
    asked = question(core)
    effects = core.at(PATIENCE + 2 * JUDGE.timeout)
    assert [reason for reason, _ in conditions(effects)] == ["SchedulerError"]
    assert core.settle(asked, Advice(("n0",))) == []
    assert core.part("p") is Part.BACKOFF


MINDED: dict[str, tuple[PodBuilder, bool]] = {
    "a pod that asks for a managed resource": (a_pod().needs({"example.com/gpu": 1}), True),
    "an init container does": (a_pod().init(**{"example.com/gpu": 1}), True),
    "a pod that asks for nothing managed": (small(), False),
}


@pytest.mark.parametrize(("pod", "asked"), MINDED.values(), ids=MINDED.keys())
def test_extenders_are_asked_about_the_pods_that_they_mind(pod: PodBuilder, asked: bool) -> None:
    core = Core(default_profile(), extenders=[GPU])
    core.see(a_node("n").offers({"example.com/gpu": 4}, cpu=4), pod)
    effects = core.run()
    assert (len(of(Consult, effects)), len(of(Bind, effects))) == ((1, 0) if asked else (0, 1))


def test_one_pod_is_asked_about_when_the_last_has_its_node_and_the_important_ones_first() -> None:
    core = asking(JUDGE)
    core.see(small("a"), small("b"), small("c").with_priority(9))
    first = question(core)
    assert first.pod.name == "c"
    effects = core.settle(first, Advice(("n0",)))
    assert placements(effects) == [("c", "n0")]
    (second,) = of(Consult, effects)
    core.see(small("d").with_priority(5))
    effects = core.settle(second, Advice(("n0",)))
    assert [asked.pod.name for asked in of(Consult, effects)] == ["d"]


def test_several_are_asked_about_at_once_if_so_configured() -> None:
    core = asking(JUDGE, parallel=2)
    core.see(small("a"), small("b"), small("c"))
    assert len(of(Consult, core.run())) == 2


def test_pods_that_no_extender_minds_do_not_wait_for_those_that_one_does() -> None:
    core = Core(default_profile(), extenders=[GPU])
    core.see(a_node("n").offers({"example.com/gpu": 4}, cpu=4))
    core.see(a_pod("slow").needs({"example.com/gpu": 1}), small("quick"))
    assert placements(core.run()) == [("quick", "n")]


# --- gangs -------------------------------------------------------------------------------------


def gang(*pods: PodBuilder) -> list[PodBuilder]:
    return [pod.in_gang("g", len(pods)) for pod in pods]


def test_a_gang_is_asked_about_once_for_each_class_and_placed_at_once() -> None:
    core = asking(JUDGE)
    core.see(*gang(small("w0"), small("w1"), a_pod("leader").needs(cpu=2)))
    asked = of(Consult, core.run())
    assert {question.pod.name for question in asked} in ({"w0", "leader"}, {"w1", "leader"})
    workers, leader = sorted(asked, key=lambda question: question.pod.name, reverse=True)
    assert placements(core.settle(leader, Advice(("n0",)))) == []
    effects = core.settle(workers, Advice(("n1",)))
    assert sorted(placements(effects)) == [("leader", "n0"), ("w0", "n1"), ("w1", "n1")]


def test_a_gang_of_which_extenders_allow_too_little_holds_nothing() -> None:
    core = asking(JUDGE)
    core.see(*gang(*(a_pod(f"w{n}").needs(cpu=3) for n in range(2))))
    effects = core.settle(question(core), Advice(("n0",), failed={"n1": "no"}))
    assert placements(effects) == []
    assert core.part("w0") is Part.UNSCHEDULABLE
    assert core.node_of(a_pod("w0")) is None
    told = core.at(20)
    assert "1 no" in core.entity("w0").reason, told


def test_a_member_that_goes_voids_the_question_about_its_gang() -> None:
    core = asking(JUDGE)
    pods = gang(small("w0"), small("w1"))
    core.see(*pods)
    asked = question(core)
    core.see_gone(pods[1])
    assert placements(core.settle(asked, Advice(("n0",)))) == []
    assert core.part("w0") is Part.GATED


# --- victims -----------------------------------------------------------------------------------


def full(*extenders: Extender) -> Core:
    """Two nodes with a low pod each, one of them cheaper, and a high one that fits nowhere."""
    core = asking(*extenders)
    core.see(a_pod("v0").needs(cpu=4).on("n0").with_priority(1), a_pod("v1").needs(cpu=4).on("n1"))
    core.see(a_pod("high").needs(cpu=4).with_priority(10))
    return core


def victims(core: Core) -> ConsultVictims:
    (found,) = of(ConsultVictims, core.run())
    return found


def evicted(core: Core) -> list[str]:
    return [delete.pod.name for delete in of(DeletePod, core.effects)]


def test_extenders_are_shown_every_option_and_nobody_is_evicted_before_they_agree() -> None:
    core = full(VETO)
    asked = victims(core)
    assert asked.extenders == (VETO,)
    assert {node: len(v.uids) for node, v in asked.victims.items()} == {"n0": 1, "n1": 1}
    assert {ref.name for ref in asked.pods.values()} == {"v0", "v1"}
    assert evicted(core) == []
    effects = core.settle(asked, VictimAdvice({"n0": asked.victims["n0"]}))
    assert evicted(core) == ["v0"]
    (patch,) = [p for p in of(PatchPodStatus, effects) if p.nominated_node]
    assert patch.nominated_node == "n0"
    core.see_gone(a_pod("v0"))
    assert placements(core.at(20)) == [("high", "n0")]


VETOED: dict[str, Callable[[Core, ConsultVictims], VictimAdvice | Refused]] = {
    "no option": lambda core, asked: VictimAdvice({}),
    "victims that are gone meanwhile": lambda core, asked: (
        core.see_gone(a_pod("v1")),
        VictimAdvice({"n1": asked.victims["n1"]}),
    )[-1],
    "victims that nobody knows": lambda core, asked: VictimAdvice({"n1": NodeVictims(("nobody",))}),
    "too few victims to make room": lambda core, asked: VictimAdvice(
        {"n1": asked.victims["n0"]}  # elsewhere
    ),
    "victims of which one is elsewhere": lambda core, asked: VictimAdvice(
        {"n1": NodeVictims((*asked.victims["n1"].uids, *asked.victims["n0"].uids))}
    ),
    "an error": lambda core, asked: Refused(0, "Extender", "boom"),
}


@pytest.mark.parametrize("answer", VETOED.values(), ids=VETOED.keys())
def test_nobody_is_evicted_when_extenders_agree_to(
    answer: Callable[[Core, ConsultVictims], VictimAdvice | Refused],
) -> None:
    core = full(VETO)
    asked = victims(core)
    outcome = answer(core, asked)
    effects = core.settle(asked, outcome)
    assert evicted(core) == []
    if isinstance(outcome, Refused):
        assert conditions(effects)[0][1].endswith("preemption: boom")
        assert core.part("high") is Part.BACKOFF


def test_a_pod_that_is_gone_evicts_nobody() -> None:
    core = full(VETO)
    asked = victims(core)
    core.see_gone(a_pod("high"))
    core.settle(asked, VictimAdvice(asked.victims))
    assert evicted(core) == []


# --- bindings ----------------------------------------------------------------------------------


def test_an_extender_binds_in_our_place() -> None:
    core = asking(BINDER)
    core.see(small())
    (bind,) = of(Bind, core.run())
    assert bind.by is BINDER
    core.settle(bind, Applied())
    assert core.engine.members() == []


def test_a_pod_that_the_extender_cannot_bind_is_tried_again() -> None:
    core = asking(BINDER)
    core.see(small())
    (bind,) = of(Bind, core.run())
    effects = core.settle(bind, Refused(0, "Extender", "boom"))
    assert conditions(effects) == [("SchedulerError", "binding rejected: boom")]
    assert core.part("p") is Part.BACKOFF


UNBOUND = {"an error": Refused(0, "Extender", "boom"), "no answer": Ambiguous("lost")}


@pytest.mark.parametrize("outcome", UNBOUND.values(), ids=UNBOUND.keys())
def test_we_bind_ourselves_what_an_ignorable_extender_does_not(
    outcome: Refused | Ambiguous,
) -> None:
    core = asking(Extender("http://x", bind_verb="bind", ignorable=True))
    core.see(small())
    (first,) = of(Bind, core.run())
    (second,) = of(Bind, core.settle(first, outcome))
    assert (second.node, second.by) == (first.node, None)
    assert core.settle(first, Refused(0, "Extender", "late")) == []
    core.settle(second, Applied())
    assert core.engine.members() == []
