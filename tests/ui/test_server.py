"""Who gets in, and what a browser is told it may do; asked without a browser."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterable

import pytest

from arranger.daemon.serving.reviews import Refusal
from arranger.ui import security
from arranger.ui.scope import EVERYTHING, Scope
from arranger.ui.security import HEADERS, is_foreign, is_local_host, is_loopback
from arranger.ui.views.observed import Observed
from tests.ui.park import a_park, a_pod, in_job
from tests.ui.rig import KEY, asking

PARK = a_park(8, 16)
EVERY_PAGE = (
    "",
    "queues",
    "gangs",
    "jobs",
    "pods",
    "nodes",
    "search?q=x",
    "what-if",
    "pod?name=default/too-big",
    "samples",
    "live",
    "why?what=pod/default/too-big",
)


@pytest.mark.parametrize("path", EVERY_PAGE)
async def test_nothing_is_shown_without_the_key(path: str) -> None:
    async with asking(PARK, key="") as (ask, _):
        async with ask.get(f"/{path}") as answer:
            assert answer.status == 401
            assert "too-big" not in await answer.text()
        async with ask.get(f"/{path}", cookies={"arranger-ui": "guessed"}) as answer:
            assert answer.status == 401


async def test_the_key_in_the_address_is_kept_in_a_cookie_that_no_script_and_no_site_reads() -> (
    None
):
    async with (
        asking(PARK, key="") as (ask, _),
        ask.get("/", params={"key": KEY}, allow_redirects=False) as answer,
    ):
        assert answer.status == 303
        assert answer.headers["Location"] == "./"
        cookie = answer.headers["Set-Cookie"]
    assert cookie == f"arranger-ui={KEY}; HttpOnly; SameSite=Strict"


@pytest.mark.parametrize("key", ["a\r\nSet-Cookie: x=1", "a;b", "", "ä", "a" * 20_000])
async def test_what_is_no_key_does_not_become_a_cookie(key: str) -> None:
    async with (
        asking(PARK, key="") as (ask, _),
        ask.post("/sign-in", data={"key": key}, allow_redirects=False) as answer,
    ):
        assert answer.status == 401
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("path", [*EVERY_PAGE[:-2], "nothing", "pod?name=x/y", "static/cockpit.js"])
async def test_every_answer_forbids_what_pages_do_not_need(path: str) -> None:
    async with asking(PARK) as (ask, _), ask.get(f"/{path}") as answer:
        assert {name: answer.headers.get(name) for name in HEADERS} == dict(HEADERS)


@pytest.mark.parametrize("path", ["/live", "/live?since=", "/live?since=0"])
async def test_the_stream_of_changes_has_the_headers_too_and_tells_of_a_change(path: str) -> None:
    async with asking(PARK) as (ask, source), ask.get(path) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert {name: answer.headers.get(name) for name in HEADERS} == dict(HEADERS)
        assert await answer.content.readline() == b"retry: 3000\n"
        source.become(PARK)
        lines = [await answer.content.readline() for _ in range(3)]
    assert lines == [b"\n", b"event: changed\n", b"data: 1\n"]


@pytest.mark.parametrize("path", ["/pods?state=Waiting", "/node?name=node-0001"])
async def test_what_changes_between_a_page_and_its_stream_is_told(path: str) -> None:
    async with asking(PARK) as (ask, source):
        async with ask.get(path) as answer:
            version = re.search(r'data-version="(\d+)"', await answer.text())
        assert version is not None
        source.become(PARK)
        async with ask.get("/live", params={"since": version[1]}) as answer:
            lines = [await answer.content.readline() for _ in range(4)]
    assert lines[2:] == [b"event: changed\n", b"data: 1\n"]


async def test_only_so_many_follow_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arranger.ui.server._FOLLOWERS", 2)
    async with asking(PARK) as (ask, _), ask.get("/live") as one, ask.get("/live") as two:
        assert (one.status, two.status) == (200, 200)
        async with ask.get("/live") as third:
            assert third.status == 503


async def test_another_site_s_name_does_not_lead_to_the_pages() -> None:
    async with (
        asking(PARK) as (ask, _),
        ask.get("/", headers={"Host": "evil.example:8765"}) as answer,
    ):
        assert answer.status == 403


async def test_a_form_of_another_site_is_refused() -> None:
    async with asking(PARK) as (ask, _):
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 422)):
            headers = {"Sec-Fetch-Site": site}
            async with ask.post("/what-if", data={}, headers=headers) as answer:
                assert answer.status == status


async def test_a_form_that_is_too_long_is_refused() -> None:
    body = io.BytesIO(b"manifests=" + b"x" * (2 << 20))
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    async with (
        asking(PARK) as (ask, _),
        ask.post("/what-if", data=body, headers=headers) as answer,
    ):
        assert answer.status == 413


async def test_a_file_beside_those_that_are_served_is_not() -> None:
    async with asking(PARK) as (ask, _):
        for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static/", "/templates"):
            async with ask.get(path) as answer:
                assert answer.status in (403, 404)


async def test_a_defect_of_ours_does_not_say_how_it_came_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with asking(PARK) as (ask, _):
        monkeypatch.setattr(Observed, "queue_of", lambda *_: 1 / 0)
        async with ask.get("/gangs") as answer:
            assert answer.status == 500
            assert "division" not in await answer.text()
        async with ask.get("/nodes") as answer:
            assert answer.status == 200


class Tokens:
    """An API server that knows two tokens, one of them of somebody who may look."""

    asked, hint = "A bearer token", "of an account"

    async def refusal(self, key: str, network: str) -> Refusal | None:
        known = {"good": None, "other": Refusal(403, 'User "other" cannot get path "/ui"')}
        return known.get(key, Refusal(401, "the API server does not know this token"))

    async def scope(self, key: str, network: str, namespaces: Iterable[str]) -> Scope:
        return EVERYTHING


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer good"}, 200),
        ({"Authorization": "Bearer other"}, 403),
        ({"Authorization": "Bearer bad"}, 401),
        ({"Cookie": "arranger-ui=good"}, 200),
        ({"Cookie": "arranger-ui=bad"}, 401),
        ({"Cookie": "arranger-ui=good", "Authorization": "Bearer other"}, 403),
        ({}, 401),
    ],
)
async def test_in_a_cluster_tokens_say_who_may_look(headers: dict[str, str], status: int) -> None:
    park = asking(PARK, key="", guard=Tokens(), local=False)
    async with (
        park as (ask, _),
        ask.get("/nodes", headers={**headers, "Host": "ui.example"}) as answer,
    ):
        assert answer.status == status


@pytest.mark.parametrize(
    ("header", "local"),
    [
        ("127.0.0.1:8765", True),
        ("localhost", True),
        ("[::1]:80", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost@evil.example", False),
        ("[", False),
        ("", False),
    ],
)
def test_which_names_stand_for_this_machine(header: str, local: bool) -> None:
    assert is_local_host(header) is local


def test_which_addresses_only_this_machine_reaches() -> None:
    assert [is_loopback(each) for each in ("127.0.0.1", "127.8.8.8", "::1", "localhost")] == [
        True
    ] * 4
    assert [is_loopback(each) for each in ("0.0.0.0", "::", "10.1.1.1", "a.example")] == [False] * 4


def test_a_browser_says_where_a_request_comes_from() -> None:
    assert not is_foreign({})
    assert is_foreign({"Sec-Fetch-Site": "cross-site"})


def test_keys_are_what_fits_a_cookie() -> None:
    assert security.is_key("eyJhbGciOi.J9-_~+/=")
    assert not any(map(security.is_key, ("", "a b", "a;b", "a\n", 'a"b', "a,b")))


async def test_a_key_that_browsers_would_not_keep_is_refused_with_why() -> None:
    long = asking(PARK, key="", guard=Tokens(), local=False)
    async with long as (ask, _), ask.post("/sign-in", data={"key": "a" * 4001}) as answer:
        assert answer.status == 401
        assert "more than 4000 characters" in await answer.text()
        assert "Set-Cookie" not in answer.headers


async def test_pages_that_are_asked_for_at_once_are_all_answered() -> None:
    async with asking([*PARK, a_pod("lone")]) as (ask, _):

        async def status(path: str) -> int:
            async with ask.get(path) as answer:
                return answer.status

        found = await asyncio.gather(*(status(f"/{each}") for each in EVERY_PAGE[:9] * 3))
    assert set(found) == {200}


async def test_texts_of_any_length_do_not_make_a_page_of_any_length() -> None:
    """An owner may have a name of a megabyte; what somebody has filled in comes back whole."""
    long = "n" * 300_000
    pods = [in_job(a_pod(f"p{n}"), f"{long}-{n}") for n in range(20)]
    async with asking(pods) as (ask, _):
        async with ask.get("/jobs") as answer:
            page = await answer.text()
        assert "n" * 4_000 in page
        assert len(page) < 1_000_000
        async with ask.post("/what-if", data={"manifests": f"#{long}"}) as answer:
            assert long in await answer.text()
