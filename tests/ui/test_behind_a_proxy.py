"""The pages behind a proxy that takes a prefix of the path away, as the API server's does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import ClientSession, CookieJar
from yarl import URL

from tests.ui.api_proxy import api_proxy
from tests.ui.park import a_park
from tests.ui.rig import ChangingSource, pages
from tests.ui.test_server import Tokens
from tests.ui.visitor import Visitor

PARK = a_park(8, 20)
PREFIX = "/api/v1/namespaces/arranger-system/services/https:arranger-ui:https/proxy"


@asynccontextmanager
async def behind_the_proxy(prefix: str = PREFIX) -> AsyncIterator[tuple[Visitor, ChangingSource]]:
    """A visitor who has not signed in, and what the pages show."""
    async with (
        pages(PARK, guard=Tokens(), local=False) as (address, source),
        api_proxy(address, prefix) as outside,
    ):
        # As browsers do it, who take a cookie marked as secure from this machine.
        jar = CookieJar(unsafe=True, treat_as_secure_origin=URL(outside).origin())
        async with ClientSession(cookie_jar=jar) as session:
            yield Visitor(session, outside, {"Authorization": "Bearer of-the-api-server"}), source


async def test_the_form_to_sign_in_works_and_the_cookie_is_for_these_pages_alone() -> None:
    async with behind_the_proxy() as (visitor, _):
        await visitor.sign_in("good")
        [cookie] = visitor.session.cookie_jar
        assert cookie["path"] == PREFIX
        elsewhere = URL(visitor.address).with_path("/api/v1/namespaces/x/services/other/proxy/")
        assert not visitor.session.cookie_jar.filter_cookies(elsewhere)


async def test_every_link_form_script_and_part_is_found_below_the_prefix() -> None:
    async with behind_the_proxy() as (visitor, _):
        await visitor.sign_in("good")
        seen = await visitor.visit_all()
    kinds = {path.partition("?")[0] for path in seen}
    assert kinds >= {"queues", "queue", "gangs", "gang", "jobs", "pods", "pod", "nodes", "node"}
    assert kinds >= {"why", "what-if", "search", "static/cockpit.js", "static/cockpit.css"}


async def test_the_form_of_what_if_is_answered() -> None:
    async with behind_the_proxy() as (visitor, _):
        await visitor.sign_in("good")
        node = next(each for each in PARK if each["kind"] == "Node")["metadata"]["name"]
        told = await visitor.send("what-if", cordon=node)
        assert 'id="outcome"' in told
        assert 'role="alert"' not in told


async def test_changes_are_told_as_they_come() -> None:
    async with behind_the_proxy() as (visitor, source):
        await visitor.sign_in("good")
        events = await visitor.events()
        for _ in range(2):
            source.change()
            assert await events.following() == "changed"
        events.close()
