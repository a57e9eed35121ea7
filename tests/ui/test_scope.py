"""Who may see the pods of one namespace is shown no name of another's: every page, every answer."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from arranger.daemon.serving.reviews import TOKEN_REVIEWS, Refusal, Reviews
from arranger.kube.client.transport import Request, Response
from arranger.ui.scope import EVERYTHING, Scope
from arranger.ui.security import TokenGuard
from tests.builders import Manifest, PodBuilder, a_node, a_pod_group
from tests.builders import a_pod as built_pod
from tests.queueing import a_queue_manifest
from tests.ui.rig import asking

#: Part of each name in namespace b.
THEIRS = "secret"


@dataclass
class ScopedGuard:
    """Everybody gets in, and sees this."""

    given: Scope | Refusal
    asked: str = "A bearer token"
    hint: str = ""
    of: list[frozenset[str]] = field(default_factory=list)

    async def refusal(self, key: str, network: str) -> Refusal | None:
        return None

    async def scope(self, key: str, network: str, namespaces: Iterable[str]) -> Scope | Refusal:
        self.of.append(frozenset(namespaces))
        return self.given


def a_pod(name: str, namespace: str) -> PodBuilder:
    return built_pod(name).in_namespace(namespace).in_queue("q")


def a_world() -> list[Manifest]:
    """Both namespaces have of everything: pods that run, wait, evict, gangs, jobs, one of both."""
    found: list[Manifest] = [
        a_node("n1").offers(cpu=8, memory="8Gi", pods=20).manifest(),
        a_queue_manifest("q"),
    ]
    for namespace, name in (("a", "mine"), ("b", THEIRS)):
        members = [
            a_pod(f"{name}-g{n}", namespace).needs(cpu=5).in_pod_group(f"{name}-gang")
            for n in (1, 2)
        ]
        group = a_pod_group(f"{name}-gang").with_spec(minMember=2).manifest()
        group["metadata"] |= {"namespace": namespace, "uid": f"uid-{namespace}-group"}
        runs = a_pod(f"{name}-runs", namespace).needs(cpu=3).on("n1").in_phase("Running")
        waits = a_pod(f"{name}-waits", namespace).needs(cpu=6)
        high = a_pod(f"{name}-high", namespace).needs(cpu=4).with_priority(9)
        job = a_pod(f"{name}-job-0", namespace).needs(cpu=7).owned_by("Job", f"{name}-job")
        found += [group, *(each.manifest() for each in (*members, runs, waits, high, job))]
    return found


PAGES = (
    "",
    "queues",
    "queue?name=q",
    "gangs",
    "gang?name=a/mine-gang",
    "gang?name=b/secret-gang",
    "jobs",
    "job?kind=Job&name=a/mine-job",
    "job?kind=Job&name=b/secret-job",
    "pods",
    "pods?state=Waiting",
    "pods?state=Running",
    "pod?name=a/mine-waits",
    "pod?name=b/secret-waits",
    "nodes",
    "node?name=n1",
    "search?q=e",
    "what-if",
    "why?what=pod/a/mine-waits",
    "why?what=pod/a/mine-high",
    "why?what=pod/a/mine-runs",
    "why?what=pod/b/secret-waits",
    "why?what=pod/b/secret-none",
    "why?what=gang/a/mine-gang",
    "why?what=gang/b/secret-gang",
    "why?what=queue/q",
    "why?what=job/b/secret-job",
)


async def shown(
    guard: ScopedGuard, pages: Sequence[str], world: Sequence[Manifest] = ()
) -> dict[str, str]:
    """Page → what is on it, without what was asked."""
    found = {}
    async with asking(world or a_world(), key="any", guard=guard, local=False) as (ask, _):
        headers = {"Authorization": "Bearer any"}
        for page in pages:
            async with ask.get(f"/{page}", headers=headers) as answer:
                text = await answer.text()
            asked = page.rpartition("=")[2].rpartition("/")[2]
            found[page] = text.replace(f"b/{asked}", "") if THEIRS in asked else text
    return found


async def test_no_page_names_what_is_in_a_namespace_that_may_not_be_seen() -> None:
    told = await shown(ScopedGuard(Scope(frozenset({"a"}))), PAGES)
    assert not [page for page, text in told.items() if THEIRS in text]
    assert not [page for page, text in told.items() if ">b/" in text or " b/" in text]


@pytest.mark.parametrize("seed", range(6))
async def test_nor_does_any_page_of_a_random_world(seed: int) -> None:
    """Who evicts whom, waits before whom and starves behind whom is another each time."""
    rng = random.Random(seed)
    made: list[Manifest] = [
        *(a_node(f"n{n}").offers(cpu=8, memory="8Gi", pods=20).manifest() for n in (1, 2)),
        a_queue_manifest("q", capability={"cpu": str(rng.choice([6, 12, 40]))}),
        a_queue_manifest("r", guarantee={"cpu": "2"}),
    ]
    asked = ["", "queues", "queue?name=q", "queue?name=r", "gangs", "jobs", "pods", "nodes"]
    asked += ["node?name=n1", "node?name=n2", "why?what=queue/q", "why?what=queue/r", "search?q=e"]
    for n in range(rng.randint(6, 14)):
        namespace, prefix = rng.choice([("a", "mine"), ("b", THEIRS)])
        pod = built_pod(f"{prefix}-{n}").in_namespace(namespace).in_queue(rng.choice("qr"))
        pod = pod.needs(cpu=rng.randint(1, 6)).with_priority(rng.choice([0, 0, 5, 9]))
        if rng.random() < 0.4:
            pod = pod.in_gang(f"{prefix}-gang", rng.randint(1, 3))
        if rng.random() < 0.3:
            pod = pod.owned_by("Job", f"{prefix}-job")
        if rng.random() < 0.5:
            pod = pod.on(rng.choice(["n1", "n2"])).in_phase("Running")
        made.append(pod.manifest())
        asked += [f"pod?name={namespace}/{prefix}-{n}", f"why?what=pod/{namespace}/{prefix}-{n}"]
    asked += ["gang?name=a/mine-gang", "why?what=gang/a/mine-gang", "why?what=job/a/mine-job"]
    told = await shown(ScopedGuard(Scope(frozenset({"a"}))), asked, made)
    assert not [page for page, text in told.items() if THEIRS in text]
    assert not [page for page, text in told.items() if "An error of ours" in text]


async def test_who_may_see_all_is_shown_all() -> None:
    """So that the test above could fail."""
    told = await shown(ScopedGuard(EVERYTHING), PAGES)
    named = {page for page, text in told.items() if THEIRS in text}
    assert {"", "gangs", "jobs", "pods", "node?name=n1", "search?q=e", "queue?name=q"} <= named
    assert {"why?what=pod/a/mine-high", "why?what=queue/q"} & named


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (Scope(frozenset({"a"})), "in which you may list pods: a. Those of others are counted"),
        (Scope(frozenset()), "shown of no namespace"),
    ],
)
async def test_who_may_not_see_all_is_told_so_on_every_page(scope: Scope, said: str) -> None:
    told = await shown(ScopedGuard(scope), ("", "pods", "gangs", "jobs", "node?name=n1"))
    assert not [page for page, text in told.items() if said not in text]
    assert "cordoned" not in told["node?name=n1"]
    whole = await shown(ScopedGuard(EVERYTHING), ("", "pods", "node?name=n1"))
    assert not [page for page, text in whole.items() if 'id="scope"' in text]
    assert "cordoned" in whole["node?name=n1"]


async def test_what_is_in_the_namespace_is_shown_as_ever() -> None:
    told = await shown(ScopedGuard(Scope(frozenset({"a"}))), PAGES)
    for page in ("gangs", "jobs", "pods", "node?name=n1", "search?q=e", "queue?name=q"):
        assert "mine" in told[page], page
    assert "Insufficient cpu" in told["why?what=pod/a/mine-waits"]


async def test_what_is_not_there_and_what_may_not_be_seen_are_answered_alike() -> None:
    guard = ScopedGuard(Scope(frozenset({"a"})))
    pages = ("why?what=pod/b/secret-waits", "why?what=pod/b/secret-none")
    one, other = (await shown(guard, pages)).values()
    assert one == other
    async with asking(a_world(), guard=guard, local=False, key="any") as (ask, _):
        for name in ("b/secret-waits", "b/secret-none"):
            headers = {"Authorization": "Bearer any"}
            async with ask.get(f"/pod?name={name}", headers=headers) as answer:
                assert answer.status == 404


async def test_a_change_is_tried_for_those_alone_who_may_see_whom_it_concerns() -> None:
    guard = ScopedGuard(Scope(frozenset({"a"})))
    async with asking(a_world(), guard=guard, local=False, key="any") as (ask, _):
        headers = {"Authorization": "Bearer any", "Sec-Fetch-Site": "same-origin"}
        async with ask.post("/what-if", data={"cordon": "n1"}, headers=headers) as answer:
            assert answer.status == 403
            assert THEIRS not in await answer.text()


async def test_who_cannot_be_asked_about_sees_nothing() -> None:
    guard = ScopedGuard(Refusal(503, "the API server cannot be asked"))
    async with (
        asking(a_world(), guard=guard, local=False, key="any") as (ask, _),
        ask.get("/pods", headers={"Authorization": "Bearer any"}) as answer,
    ):
        assert answer.status == 503
        assert "mine" not in await answer.text()
    assert guard.of == [frozenset({"a", "b"})]


@dataclass
class ApiServer:
    """Knows one token, and in which namespaces its user may list pods ("" for all)."""

    may: set[str]
    asked: list[str] = field(default_factory=list)
    broken: bool = False

    async def send(self, request: Request) -> Response:
        body = json.loads(request.body)
        if request.path == TOKEN_REVIEWS:
            status = {"authenticated": body["spec"]["token"] == "good", "user": {"username": "u"}}
        elif self.broken:
            return Response(500, b"{}")
        else:
            wanted = body["spec"]["resourceAttributes"]
            assert (wanted["verb"], wanted["resource"]) == ("list", "pods")
            self.asked.append(wanted["namespace"])
            status = {"allowed": wanted["namespace"] in self.may}
        return Response(201, json.dumps({**body, "status": status}).encode())


@pytest.mark.parametrize(
    ("may", "seen"),
    [({""}, None), ({"a"}, {"a"}), (set(), set()), ({"a", "other"}, {"a"})],
    ids=["everywhere", "in one", "nowhere", "in one that has no pods, too"],
)
async def test_the_api_server_says_of_each_namespace_whether_it_may_be_seen(
    may: set[str], seen: set[str] | None
) -> None:
    server = ApiServer(may)
    now = 0.0
    guard = TokenGuard(Reviews(server, now=lambda: now))
    for _ in range(3):
        told = await guard.scope("good", "here", [f"n{n}" for n in range(40)] + ["a", "b"])
        assert told == Scope(None if seen is None else frozenset(seen))
    assert server.asked.count("") == 1
    assert len(server.asked) == (1 if seen is None else 43)
    now = 61.0
    server.may = {"b"}
    assert await guard.scope("good", "here", ["a", "b"]) == Scope(frozenset({"b"}))


async def test_of_who_is_not_known_or_cannot_be_asked_about_nothing_is_shown() -> None:
    guard = TokenGuard(Reviews(ApiServer({"a"}, broken=True)))
    assert isinstance(await guard.scope("good", "here", ["a"]), Refusal)
    guard = TokenGuard(Reviews(ApiServer({"a"})))
    refused = await guard.scope("bad", "here", ["a"])
    assert isinstance(refused, Refusal)
    assert refused.status == 401
