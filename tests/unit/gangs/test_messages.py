"""What is said about gangs that wait: in Events, conditions and logs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.annotations import GANG_MIN
from arranger.gangs.messages import arrival_summary, blocking_reason, member_title
from tests.builders import PodBuilder, a_pod
from tests.unit.gangs.harness import RegistryHarness, gang, in_pod_group, member, uid_of

TWO = '["default/a", "other/b"]'
NEAR = '["default/a", "default/b"]'


def in_role(role: str, count: int, least: int) -> list[PodBuilder]:
    return [a_pod(f"{role}-{n}").in_bundle("g", role, least) for n in range(count)]


# --- what prevents that they are tried ----------------------------------------------------------


def out_of_time(known: RegistryHarness) -> None:
    known.see(*gang("g", 2, 2))
    known.gang().blocked = True


def undefined(known: RegistryHarness) -> None:
    known.see(*in_pod_group(2))


def alone_though_it_names_another(known: RegistryHarness) -> None:
    known.see(*(pod.in_gang("g", 1, groups='["default/g", "default/x"]') for pod in gang("g", 1)))


def alone_though_it_names_one_elsewhere(known: RegistryHarness) -> None:
    known.see(a_pod("g-0").in_gang("g", 1, groups='["default/g", "other/b", "far/c"]'))
    b = a_pod("b-0").in_gang("b", 1, groups='["default/g", "other/b"]')
    known.see(b.in_namespace("other"))


def a_partner_out_of_time(known: RegistryHarness) -> None:
    known.see(a_pod("g-0").in_gang("g", 1, groups='["default/g", "default/h"]'))
    known.see(a_pod("h-0").in_gang("h", 1, groups='["default/g", "default/h"]'))
    known.gang("default/h").blocked = True


REASONS: dict[str, tuple[Callable[[RegistryHarness], None], str]] = {
    "nothing": (lambda known: known.see(*gang("g", 1, 2)) and None, ""),
    "it has no minimum from anywhere": (
        undefined,
        f"gang default/g waits to be defined: it has neither a PodGroup nor {GANG_MIN}",
    ),
    "it ran out of time": (
        out_of_time,
        "gang default/g ran out of time: to try it again remove "
        "gang.scheduling.koordinator.sh/timeout from its pods, edit its PodGroup or recreate the "
        "pods",
    ),
    "a partner is not there": (
        alone_though_it_names_another,
        "gang default/g waits for default/x, which must exist and name it",
    ),
    "one in another namespace is not there, whom not all partners name": (
        alone_though_it_names_one_elsewhere,
        "gang group default/g,other/b waits for 1 more, which must exist and name it",
    ),
    "a partner ran out of time": (
        a_partner_out_of_time,
        "gang default/h ran out of time: to try it again remove "
        "gang.scheduling.koordinator.sh/timeout from its pods, edit its PodGroup or recreate the "
        "pods",
    ),
}


@pytest.mark.parametrize(("make", "said"), REASONS.values(), ids=REASONS.keys())
def test_why_a_gang_is_not_tried(
    known: RegistryHarness, make: Callable[[RegistryHarness], None], said: str
) -> None:
    make(known)
    assert blocking_reason(known.registry.group_of(known.gang())) == said


# --- how many have arrived ----------------------------------------------------------------------


def summary(known: RegistryHarness, *ready: PodBuilder) -> str:
    group = known.registry.group_of(known.gang())
    return arrival_summary(group, group.count_by_bundle(map(uid_of, ready)))


def test_those_that_have_a_node_have_arrived_too(known: RegistryHarness) -> None:
    pods = gang("g", 5, 5)
    known.see(*pods[:2], pods[2].on("n"), pods[3].in_phase("Succeeded"), pods[4])
    assert summary(known) == "2 of 5 arrived"
    assert summary(known, pods[0]) == "3 of 5 arrived"
    known.registry.mark_binding([uid_of(pods[1])])
    assert summary(known, pods[0], pods[4]) == "5 of 5 arrived"


def test_each_role_is_counted_by_itself(known: RegistryHarness) -> None:
    ps, workers = in_role("ps", 2, 1), in_role("worker", 3, 3)
    known.see(*ps, *workers[:2], workers[2].on("n"))
    assert summary(known, ps[0]) == "ps 1 of 1 arrived, worker 1 of 3 arrived"
    known.registry.mark_binding([uid_of(ps[1])])
    assert summary(known, *workers[:1]) == "ps 1 of 1 arrived, worker 2 of 3 arrived"


def test_a_minimum_of_all_stands_before_those_of_roles(known: RegistryHarness) -> None:
    pods = [pod.in_gang("g", 4) for pod in in_role("ps", 1, 1) + in_role("worker", 3, 2)]
    known.see(*pods)
    said = summary(known, pods[0], pods[1])
    assert said == "2 of 4 arrived, ps 1 of 1 arrived, worker 1 of 2 arrived"


@pytest.mark.parametrize(
    ("roles", "shown", "more"), [(5, 5, False), (6, 5, True)], ids=["five", "six"]
)
def test_of_many_roles_the_first_five_are_told(
    known: RegistryHarness, roles: int, shown: int, more: bool
) -> None:
    known.see(*(pod for n in range(roles) for pod in in_role(f"r{n}", 1, 1)))
    said = summary(known)
    assert said.count("arrived") == shown
    assert said.endswith(", …") is more


@pytest.mark.parametrize(("gangs", "more"), [(5, False), (6, True)], ids=["five", "six"])
def test_of_many_gangs_the_first_five_are_told(
    known: RegistryHarness, gangs: int, more: bool
) -> None:
    names = [f"g{n}" if n else "g" for n in range(gangs)]
    groups = "[" + ", ".join(f'"default/{name}"' for name in names) + "]"
    known.see(*(a_pod(f"{name}-0").in_gang(name, 1, groups=groups) for name in names))
    said = summary(known, a_pod("g1-0"))
    assert said.startswith("default/g 0 of 1 arrived, default/g1 1 of 1 arrived, default/g2 0 of 1")
    assert said.count("arrived") == 5
    assert said.endswith(", …") is more


def test_a_gang_is_told_no_names_of_other_namespaces_that_it_does_not_name_itself(
    known: RegistryHarness,
) -> None:
    chain = {"g": ["g", "b"], "b": ["g", "b", "c"], "c": ["b", "c"]}
    spaces = {"g": "default", "b": "other", "c": "far"}
    for name, partners in chain.items():
        groups = "[" + ", ".join(f'"{spaces[each]}/{each}"' for each in partners) + "]"
        pod = a_pod(f"{name}-0").in_namespace(spaces[name])
        known.see(pod.in_bundle(name, f"role-of-{name}", 1).in_gang(name, 1, groups=groups))
    said = summary(known)
    assert "role-of" not in said
    assert "/" not in said
    assert said.startswith("0 of 1 arrived, ")


def test_a_pod_is_named_only_within_its_namespace(known: RegistryHarness) -> None:
    known.see(member("a", NEAR), member("b", NEAR))
    assert (
        member_title(known.registry.group_of(known.gang("default/a")), "default/p")
        == "pod default/p"
    )
    known.see_gone(member("a", NEAR), member("b", NEAR))
    known.see(member("a", TWO), member("b", TWO, "other"))
    assert (
        member_title(known.registry.group_of(known.gang("default/a")), "default/p")
        == "one of its pods"
    )
