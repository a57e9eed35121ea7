"""What is suggested to gangs whose members have not all arrived."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from arranger.shadow import WhatIf
from arranger.shadow.forecasts.changes import create
from tests.builders import PodBuilder, a_pod, a_pod_group
from tests.simulation.shadow.asking import Given, a_shadow, manifests, node, why

GROUPS = '["default/a", "default/b"]'


def worker(name: str) -> PodBuilder:
    return a_pod(name).needs(cpu=1).in_bundle("g", "worker", 1)


def server(name: str, cpu: int = 1) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).in_bundle("g", "ps", 2)


def of_group(name: str, gang: str) -> PodBuilder:
    return a_pod(name).needs(cpu=1).in_gang(gang, 2, groups=GROUPS)


def member(name: str) -> PodBuilder:
    return a_pod(name).needs(cpu=1).in_gang("g", 3)


#: The cluster, a text of the chain and of a suggestion; and objects of which the same is true.
INCOMPLETE: dict[str, tuple[Sequence[Given], str, str, Sequence[Given]]] = {
    "members of any kind": (
        [node(), member("new"), member("other")],
        "waits for members: 2 of 3 arrived",
        "1 more pod of gang default/g",
        [member("third")],
    ),
    "members of one bundle, which ask for what others of it ask for": (
        [node(), worker("new"), worker("other"), server("ps", cpu=2)],
        "ps 1 of 2 arrived",
        "1 more pod of bundle ps of gang default/g, and then 1 more node like n1",
        [server("ps-2", cpu=2), node("n2")],
    ),
    "members of several gangs": (
        [node(), of_group("new", "a"), of_group("other", "b")],
        "default/b 1 of 2 arrived",
        "1 more pod of gang default/a and 1 more pod of gang default/b",
        [of_group("a-2", "a"), of_group("b-2", "b")],
    ),
    "members that would not fit either if all had come": (
        [node(cpu=2), member("new"), member("other")],
        "waits for members: 2 of 3 arrived",
        "1 more pod of gang default/g, and then 1 more node like n1",
        [member("third"), node("n2")],
    ),
}


@pytest.mark.parametrize("case", INCOMPLETE)
def test_an_incomplete_gang_is_told_what_places_it_once_the_rest_has_come(case: str) -> None:
    given, reason, helps, remedy = INCOMPLETE[case]
    (answer,) = why("new", *given)
    assert reason in answer.reason
    suggested = {each.change: each for each in answer.suggestions}
    assert helps in suggested, list(suggested)
    assert set(suggested[helps].nodes) == set(answer.pods)
    told = a_shadow(given).ask_now(WhatIf([create(manifests(remedy), "the remedy")]))
    assert told.placed.keys() >= set(answer.pods)


def test_of_a_bundle_that_no_pod_shows_nothing_can_be_tried() -> None:
    group = a_pod_group("g", least=2, minTaskMember={"ps": 1, "worker": 1}).manifest()
    group["apiVersion"] = "scheduling.volcano.sh/v1beta1"
    notes = {"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": "worker"}
    (answer,) = why("new", node(), group, a_pod("new").needs(cpu=1).annotated(notes))
    assert "ps 0 of 1 arrived" in answer.reason
    assert not answer.suggestions


def patient(name: str) -> PodBuilder:
    """A member that keeps what it was given until the others have a node, for longer than asked."""
    return a_pod(name).needs(cpu=1).in_gang("g", 3, mode="NonStrict", waiting_time="2h")


def test_members_that_hold_nodes_have_arrived() -> None:
    """The first of three holds the only node: nobody is missing, the others lack room."""
    given = [node(cpu=1), patient("first"), patient("new"), patient("other")]
    (held,) = why("first", *given)
    (answer,) = why("new", *given)
    assert held.nodes == {"default/first": "n1"}
    assert answer.gang is not None
    assert (answer.gang.arrived, answer.gang.missing) == ("3 of 3 arrived", 0)
    suggested = [each.change for each in answer.suggestions]
    assert "2 more nodes like n1" in suggested, suggested
    assert not [each for each in suggested if "more pod" in each]
