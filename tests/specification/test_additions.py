"""The additions object to what is wrong, and to nothing near it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.specification import additions
from tests.specification.legal import Specification
from tests.specification.premises import Premises
from tests.specification.traces import Trace, a_member, a_node, a_pod, a_queue, anything, preempted
from tests.specification.vocabulary.manifests import Object

LOW, HIGH = 1, 9


def at_rest(trace: Trace, **premises: Any) -> set[str]:
    """The rules that are broken when all has happened."""
    spec = Specification(Premises(schedulers={"one"}, calendar=0.0, calm=True, **premises))
    for step in trace.steps:
        spec.take(step)
    assert not spec.unreadable
    return {rule for rule, _ in additions.at_rest(spec)}


def nodes(number: int) -> Trace:
    """So many nodes of one CPU, which everybody knows."""
    return Trace().has(*(a_node(f"n{n}", cpu=1) for n in range(number))).passes(60)


def filled(*victims: Object) -> Trace:
    """Each of these pods on a node that it fills."""
    trace = nodes(len(victims)).has(*victims)
    for number, pod in enumerate(victims):
        trace.binds(pod["metadata"]["name"], f"n{number}")
    return trace.passes(60)


def left(trace: Trace, taker: str, *victims: str) -> Trace:
    """They leave for a taker, which is then placed where they were."""
    trace.evicts(*victims)
    return trace.has(*(preempted(victim, taker) for victim in victims))


def with_roles(*victims: str, minimums: bool = True) -> Trace:
    """Of one ps and two workers, of which one could be spared, some leave for a lone pod."""
    key = "gang.koordinater.io/"
    roles = {"ps": ("ps", 1), "w0": ("worker", 1), "w1": ("worker", 1)}
    pods = [
        a_pod(
            name,
            priority=LOW,
            annotations={
                key + "name": "g",
                key + "bundleName": role,
                key + "minRequiredNumber": str(least if minimums else 2),
            },
        )
        for name, (role, least) in roles.items()
    ]
    return left(filled(*pods).has(a_pod("t", priority=HIGH)), "t", *victims)


def two_gangs(*victims: str, least: int = 1) -> Trace:
    """Of two gangs of two, two pods leave for a gang of two."""
    pods = [a_member(gang, n, least, priority=LOW) for gang in "ab" for n in range(2)]
    takers = [a_member("t", n, 2, priority=HIGH) for n in range(2)]
    return left(filled(*pods).has(*takers), "t-0", *victims)


def a_job(flags: list[str], *variables: str) -> Trace:
    """A Volcano Job with the plugin svc, and a pod of it with these variables."""
    job = anything("Job", "j", {"plugins": {"svc": flags}})
    env = [{"name": name, "value": "x"} for name in variables]
    return Trace().has(job, a_pod("j-w-0", owner=job, containers=[{"name": "c", "env": env}]))


def basic(name: str) -> list[Object]:
    """A PodGroup that needs nobody, and a pod of it."""
    group = anything("NativePodGroup", name, {"schedulingPolicy": {"basic": {}}})
    return [group, a_pod(f"{name}-0", priority=HIGH, schedulingGroup={"podGroupName": name})]


ROOM, STAY, BROKEN = (
    "who_may_have_room_is_placed",
    "nobody_left_who_could_stay",
    "no_gang_is_broken_in_vain",
)
NAMES = "pods_of_jobs_know_each_other"
#: What is wrong → (the rule that says so, a trace in which it happens, one in which it does not).
CASES: dict[str, tuple[str, Trace, Trace]] = {
    "a gang waits that has room": (
        ROOM,
        nodes(2).has(*(a_member("g", n, 2) for n in range(2))),
        nodes(1).has(*(a_member("g", n, 2) for n in range(2))),
    ),
    "a gang waits though another of lower priority has its room; half of one need not": (
        ROOM,
        filled(a_pod("v", priority=LOW)).has(a_member("t", 0, 1, priority=HIGH)),
        filled(a_pod("v", priority=LOW)).has(a_member("t", 0, 2, priority=HIGH)),
    ),
    "a lone pod waits beside a gang of lower priority; of a higher one is one of another": (
        ROOM,
        filled(*(a_member("v", n, 2, priority=LOW) for n in range(2))).has(
            a_pod("t", priority=HIGH)
        ),
        filled(
            a_member("v", 0, 2, priority=LOW),
            a_member("v", 1, 2, priority=HIGH),
        ).has(a_pod("t", priority=HIGH)),
    ),
    "who needs nobody else evicts nobody; where there are queues they may forbid it": (
        ROOM,
        filled(a_pod("v", priority=LOW)).has(*basic("b")),
        filled(a_pod("v", priority=LOW)).has(*basic("b"), a_queue("q")),
    ),
    "a pod waits for which another would leave; two that wait for one node are not told apart": (
        ROOM,
        filled(a_pod("v", priority=LOW)).has(a_pod("t", priority=HIGH)),
        filled(a_pod("v", priority=LOW)).has(a_pod("t", priority=HIGH), a_pod("u", priority=HIGH)),
    ),
    "a gang leaves whole that could lose a worker": (
        STAY,
        with_roles("ps", "w0", "w1"),
        with_roles("w0"),
    ),
    "a gang can lose nobody": (
        STAY,
        with_roles("ps", "w0", "w1"),
        with_roles("ps", "w0", "w1", minimums=False),
    ),
    "two pods leave for one": (
        STAY,
        left(
            filled(a_pod("a", priority=LOW), a_pod("b", priority=LOW)).has(
                a_pod("t", priority=HIGH)
            ),
            "t",
            "a",
            "b",
        ),
        left(
            filled(a_pod("a", priority=LOW), a_pod("b", priority=LOW)).has(
                a_pod("t", cpu=2, priority=HIGH)
            ),
            "t",
            "a",
        ),
    ),
    "a gang is broken though one of each is enough": (
        BROKEN,
        two_gangs("a-0", "a-1"),
        two_gangs("a-0", "b-0"),
    ),
    "none of two gangs can lose one": (
        BROKEN,
        two_gangs("a-0", "a-1"),
        two_gangs("a-0", "a-1", least=2),
    ),
    "a pod is told names though its Job does not want that": (
        NAMES,
        a_job(["--inject-hosts-env=false"], "VC_W_HOSTS"),
        a_job(["--inject-hosts-env=true"], "VC_W_HOSTS"),
    ),
    "a pod is told no names": (NAMES, a_job([]), a_job(["--inject-hosts-env=False"])),
}


@pytest.mark.parametrize("what", CASES)
def test_what_is_wrong_is_found_and_what_is_near_it_is_not(what: str) -> None:
    rule, wrong, right = CASES[what]
    assert rule in at_rest(wrong)
    assert rule not in at_rest(right)


def test_nothing_is_said_of_who_left_where_things_go_wrong() -> None:
    trace = two_gangs("a-0", "a-1")
    spec = Specification(Premises(schedulers={"one"}, calendar=0.0))
    for step in trace.steps:
        spec.take(step)
    assert BROKEN not in {rule for rule, _ in additions.at_rest(spec)}


def test_a_rule_that_does_not_hold_in_a_world_is_not_asked() -> None:
    trace = nodes(1).has(a_member("g", 0, 1))
    assert at_rest(trace) == {ROOM}
    assert at_rest(trace, unjudged={ROOM}) == set()
