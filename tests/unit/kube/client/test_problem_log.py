from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from structlog.testing import capture_logs

from arranger.kube.client.problem_log import GRACE, REPEAT, ProblemLog
from arranger.kube.client.problems import (
    Problem,
    ProblemKind,
    missing_right,
    problem_of_answer,
    resource_name,
    resource_with_subresource,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

REFUSED = Problem(ProblemKind.UNREACHABLE, "10.0.0.1:6443 refuses connections")
OVERLOADED = Problem(ProblemKind.FAILING, "the API server answers 503 busy")


def forbidden(verb: str, resource: str, where: str = "") -> str:
    """A refusal in kube-apiserver's words."""
    return (
        f'{resource} is forbidden: User "u" cannot {verb} resource "{resource}" in API group ""'
        f"{where or ' at the cluster scope'}"
    )


def may_not(verb: str, resource: str) -> Problem:
    return problem_of_answer(403, forbidden(verb, resource))


def a_log(*definitions: str) -> ProblemLog:
    return ProblemLog("the rights of r.yaml", definitions)


async def seconds(amount: float) -> None:
    await asyncio.sleep(amount + 0.01)


def short(lines: list[Any]) -> list[tuple[str, str, str]]:
    """(level, event, what is said) of each line."""
    said = ("problem", "works", "resources")
    return [
        (line["log_level"], line["event"], next(line[key] for key in said if key in line))
        for line in lines
    ]


async def test_two_dozen_failures_of_one_cause_are_one_line() -> None:
    log = a_log()
    with capture_logs() as lines:
        for n in range(24):
            log.failed(f"resource-{n}", REFUSED)
            await asyncio.sleep(0.02)
        for _ in range(20):
            await seconds(GRACE)
            log.failed("resource-1", REFUSED)
    assert short(lines) == [("error", "api.unreachable", REFUSED.what)]
    assert "kubectl cluster-info" in lines[0]["remedy"]


async def test_what_fails_later_for_the_same_cause_is_told_with_the_next_line() -> None:
    log = a_log()
    with capture_logs() as lines:
        for name in ("lease", "nodes", "pods"):
            log.failed(name, REFUSED)
            await seconds(3 * GRACE)
        assert len(lines) == 1
        await seconds(REPEAT)
        assert len(lines) == 2


async def test_what_is_over_within_the_grace_was_nothing() -> None:
    log = a_log()
    with capture_logs() as lines:
        for _ in range(10):
            log.failed("pods", OVERLOADED)
            await asyncio.sleep(GRACE * 0.9)
            log.succeeded("pods")
            await seconds(GRACE)
    assert lines == []


async def test_what_lasts_is_told_again_after_a_while_and_once_when_it_is_over() -> None:
    log = a_log()
    with capture_logs() as lines:
        log.failed("pods", REFUSED)
        await seconds(2.5 * REPEAT)
        log.succeeded("pods")
        await seconds(3 * REPEAT)
    told = ("error", "api.unreachable", REFUSED.what)
    assert short(lines) == [told, told, told, ("info", "api.restored", "pods")]


async def test_a_server_that_is_back_is_told_once_though_its_lists_come_back_one_by_one() -> None:
    log = a_log()
    with capture_logs() as lines:
        for name in ("lease", "nodes", "pods"):
            log.failed(name, REFUSED)
        await seconds(GRACE)
        for name in ("lease", "nodes", "pods"):
            log.succeeded(name)
            await seconds(3 * GRACE)
    assert short(lines) == [
        ("error", "api.unreachable", REFUSED.what),
        ("info", "api.restored", "lease, nodes, pods"),
    ]


async def test_rights_are_named_together_and_a_further_one_alone() -> None:
    log = a_log()
    with capture_logs() as lines:
        log.failed("pods", may_not("watch", "pods"))
        log.failed("nodes", may_not("watch", "nodes"))
        await seconds(GRACE)
        log.failed("lease", may_not("create", "leases"))
        await seconds(GRACE)
    what = 'forbidden (403): User "u" has no right to: '
    assert short(lines) == [
        ("error", "api.forbidden", what + "watch nodes, watch pods"),
        ("error", "api.forbidden", what + "create leases"),
    ]
    assert "r.yaml" in lines[0]["remedy"]


async def test_many_details_are_counted() -> None:
    log = a_log()
    with capture_logs() as lines:
        for n in range(28):
            log.failed(f"r{n}", may_not("watch", f"r{n}"))
        await seconds(GRACE)
    assert lines[0]["problem"].endswith(" and 8 more")


async def test_a_server_that_fails_in_ever_new_words_and_ways_does_not_fill_the_log() -> None:
    log = a_log()
    ways = itertools.cycle([REFUSED, OVERLOADED])
    with capture_logs() as lines:
        for n in range(100):
            trouble = next(ways)
            log.failed("pods", Problem(trouble.kind, trouble.what + f" {n}" * (n % 2)))
            await seconds(GRACE)
    assert len(lines) == 2
    assert [line["event"] for line in lines] == ["api.unreachable", "api.failing"]


async def test_a_kind_that_is_not_served_is_no_problem_but_told_with_its_file() -> None:
    log = a_log("gangs.arranger.io", "queues.scheduling.volcano.sh")
    with capture_logs() as lines:
        for name in ("gangs.arranger.io", "queues.scheduling.volcano.sh", "podgroups.alien"):
            log.absent(name)
        await seconds(2 * REPEAT)
        log.absent("gangs.arranger.io")
        await seconds(GRACE)
        log.succeeded("gangs.arranger.io")
        await seconds(GRACE)
    told = [line for line in lines if line["log_level"] != "debug"]
    assert short(told) == [
        ("info", "resources.absent", "gangs.arranger.io, queues.scheduling.volcano.sh"),
        ("info", "resources.served", "gangs.arranger.io"),
    ]
    files = "-f crds/{gangs.arranger.io,queues.scheduling.volcano.sh}.yaml"
    assert files in told[0]["remedy"]
    assert log.readiness_error() is None


async def test_not_ready_while_something_lasts() -> None:
    log = a_log()
    log.failed("pods", REFUSED)
    log.failed("nodes", REFUSED)
    assert log.readiness_error() is None
    await seconds(GRACE)
    assert log.readiness_error() == REFUSED.what
    log.succeeded("pods")
    log.succeeded("nodes")
    assert log.readiness_error() is None


IN_TEAM = ' in the namespace "team"'
MISSING_RIGHTS = {
    "a right that our account lacks": (
        (403, forbidden("create", "pods/binding", IN_TEAM)),
        "create pods/binding",
    ),
    "a credential that is not accepted": ((401, "Unauthorized"), ""),
    "an admission plugin that refuses one object": (
        (403, 'pods "p" is forbidden: unable to create new content in namespace team'),
        None,
    ),
    "a conflict": ((409, "conflict"), None),
}


@pytest.mark.parametrize("case", MISSING_RIGHTS.values(), ids=MISSING_RIGHTS.keys())
async def test_what_counts_as_a_missing_right(case: tuple[tuple[int, str], str | None]) -> None:
    answer, detail = case
    found = missing_right(*answer, "create pods/binding")
    assert (found.detail if found else None) == detail


PATHS = {
    "/api/v1/pods": ("pods", "pods"),
    "/api/v1/namespaces/team/pods": ("pods in team", "pods"),
    "/api/v1/namespaces/team/pods/p/binding": ("pods in team", "pods/binding"),
    "/api/v1/namespaces/team": ("namespaces", "namespaces"),
    "/apis/arranger.io/v1alpha1/gangs": ("gangs.arranger.io", "gangs.arranger.io"),
    "/apis/arranger.io/v1alpha1/namespaces/team/gangs/g/status": (
        "gangs.arranger.io in team",
        "gangs/status.arranger.io",
    ),
    "/apis": ("/apis", ""),
}


@pytest.mark.parametrize(("path", "names"), PATHS.items(), ids=PATHS.keys())
async def test_paths_are_named_as_in_rights(path: str, names: tuple[str, str]) -> None:
    assert (resource_name(path), resource_with_subresource(path)) == names
