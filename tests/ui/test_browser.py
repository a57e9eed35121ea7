"""The pages in a real browser; the tier is left out where there is no Chromium."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

from tests.ui.api_proxy import api_proxy
from tests.ui.park import a_node, a_park, a_pod, a_queue, in_queue
from tests.ui.rig import KEY, browser, chromium, pages, visited
from tests.ui.test_server import Tokens

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not chromium(), reason="no Chromium (apt-get install chromium)"),
]

PARK = a_park(32, 90)
VIEWS = {
    "the overview": "./",
    "the queues": "queues",
    "the gangs": "gangs",
    "the jobs": "jobs",
    "the pods": "pods",
    "the nodes": "nodes",
    "what if": "what-if",
    "a search": "search?q=vision",
    "a pod that waits": "pod?name=default/huge-0",
    "a gang that waits": "gang?name=default/large",
    "a queue": "queue?name=vision",
    "a node": "node?name=node-0001",
    "a job": "job?kind=Job&name=default/job-0",
    "what is not there": "pod?name=default/nobody",
}


async def assert_accessible(page: Page, name: str = "") -> None:
    found = await Axe().run(page)
    assert not found.response["violations"], f"{name}: {found.generate_report()}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_each_view_opens_without_complaints_and_axe_finds_no_violation(
    tmp_path: Path, scheme: str
) -> None:
    async with visited(PARK, tmp_path, color_scheme=scheme) as visit:
        page = visit.page
        for name, path in VIEWS.items():
            await page.goto(path)
            if await page.locator("#answer").count():
                await page.locator("#answer .answer").first.wait_for()
            await assert_accessible(page, name)
            expected = ["error: Failed to load resource"] if name == "what is not there" else []
            complaints = [each[:30] for each in visit.complaints]
            assert complaints == [each[:30] for each in expected], name
            visit.complaints.clear()


async def test_the_page_to_sign_in_is_accessible_and_lets_in_who_has_the_key(
    tmp_path: Path,
) -> None:
    async with pages(PARK) as (address, _), browser(tmp_path) as context:
        page = await context.new_page()
        await page.goto(address + "nodes")
        await assert_accessible(page)
        await page.get_by_label("The key").fill("wrong")
        await page.get_by_role("button", name="Sign in").click()
        assert await page.get_by_role("alert").inner_text() == "this is not the key"
        await page.get_by_label("The key").fill(KEY)
        await page.get_by_role("button", name="Sign in").click()
        assert await page.locator("h1").inner_text() == "Overview"


async def test_why_is_answered_on_the_page_of_a_pod_and_leads_on(tmp_path: Path) -> None:
    async with visited(PARK, tmp_path, "pod?name=default/too-big") as visit:
        page = visit.page
        answer = page.locator("#answer .answer")
        await answer.wait_for()
        text = await answer.inner_text()
        assert "Insufficient cpu" in text
        assert "nearest" in text
        await answer.get_by_role("link", name="default", exact=True).first.click()
        assert await page.locator("h1").inner_text() == "Queue default"


async def test_a_page_that_is_looked_at_follows_the_cluster_and_keeps_the_focus(
    tmp_path: Path,
) -> None:
    async with visited(PARK, tmp_path, "pods?state=Waiting") as visit:
        page = visit.page
        assert await page.get_by_text("newcomer").count() == 0
        await page.get_by_role("link", name="default/too-big").focus()
        await page.evaluate("window.same = true")
        visit.source.become([*PARK, in_queue(a_pod("newcomer", cpu="4"), "default")])
        await page.get_by_role("link", name="default/newcomer").wait_for(timeout=120_000)
        assert await page.evaluate("window.same"), "the page was loaded anew"
        assert await page.evaluate("document.activeElement.textContent") == "default/too-big"
        assert visit.complaints == []


async def test_behind_the_api_server_s_proxy_all_of_it_works(tmp_path: Path) -> None:
    async with (
        pages(PARK, guard=Tokens(), local=False) as (address, source),
        api_proxy(address, "/api/v1/namespaces/a/services/https:ui:https/proxy") as outside,
        browser(tmp_path) as context,
    ):
        page, complaints = await context.new_page(), list[str]()
        await page.goto(outside)
        await page.get_by_label("A bearer token").fill("good")
        await page.get_by_role("button", name="Sign in").click()
        page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
        await page.get_by_role("link", name="Pods", exact=True).click()
        await page.get_by_role("link", name="default/huge-0").click()
        await page.locator("#answer .answer").first.wait_for()
        await page.goto(f"{outside}pods?state=Waiting")
        source.become([*PARK, in_queue(a_pod("newcomer", cpu="4"), "default")])
        await page.get_by_role("link", name="default/newcomer").wait_for(timeout=120_000)
        await page.goto(f"{outside}what-if")
        await page.get_by_label("Cordon").fill("node-0001")
        await page.get_by_role("button", name="What would happen?").click()
        assert await page.locator("#outcome").inner_text()
        assert page.url == f"{outside}what-if"
        assert complaints == []


async def test_following_can_be_stopped_and_goes_on_where_the_cluster_is_then(
    tmp_path: Path,
) -> None:
    async with visited(PARK, tmp_path, "pods?state=Waiting") as visit:
        page = visit.page
        await page.get_by_role("button", name="Live").click()
        newcomer = page.get_by_role("link", name="default/newcomer")
        visit.source.become([*PARK, in_queue(a_pod("newcomer", cpu="4"), "default")])
        await page.wait_for_timeout(3_000)
        assert await newcomer.count() == 0
        await page.get_by_role("button", name="Live").click()
        await newcomer.wait_for(timeout=120_000)


async def test_the_form_of_what_if_shows_who_would_be_evicted_for_what_is_created(
    tmp_path: Path,
) -> None:
    objects = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        },
        a_node("only", "zone-a", "A100"),
        a_pod("victim", node="only", gpus=8),
    ]
    text = textwrap.dedent("""
        apiVersion: v1
        kind: Pod
        metadata: {name: urgent}
        spec:
          schedulerName: arranger
          priorityClassName: urgent
          containers:
          - {name: c, image: i, resources: {limits: {nvidia.com/gpu: "8"}}}
        """)
    async with visited(objects, tmp_path) as visit:
        page = visit.page
        await page.get_by_role("link", name="What if").click()
        await page.get_by_label("Create or replace").fill(text)
        await page.get_by_role("button", name="What would happen?").click()
        evicted = page.get_by_role("table", name="Pods: evicted")
        await evicted.wait_for()
        assert await evicted.get_by_role("rowheader").all_inner_texts() == ["✕ default/victim"]
        placed = page.get_by_role("table", name="Pods: placed", exact=True)
        assert await placed.locator("tbody tr").all_inner_texts() == ["default/urgent\tonly"]
        await assert_accessible(page)
        assert visit.complaints == []


async def test_a_form_of_what_if_that_cannot_be_read_says_why_and_keeps_what_was_typed(
    tmp_path: Path,
) -> None:
    async with visited(PARK, tmp_path, "what-if?cordon=nowhere") as visit:
        page = visit.page
        await page.get_by_role("button", name="What would happen?").click()
        assert await page.get_by_role("alert").inner_text() == "there is no node nowhere"
        assert await page.get_by_label("Cordon").input_value() == "nowhere"


async def test_keys_alone_lead_to_the_search_and_through_the_grid_of_nodes(tmp_path: Path) -> None:
    async with visited(PARK, tmp_path, "nodes") as visit:
        page = visit.page
        await page.keyboard.press("/")
        assert await page.evaluate("document.activeElement.id") == "q"
        first = page.locator(".cells a").first
        await first.focus()
        await page.keyboard.press("ArrowRight")
        focused = await page.evaluate("document.activeElement.getAttribute('href')")
        assert focused == await page.locator(".cells a").nth(1).get_attribute("href")
        in_turn = await page.locator(".cells a[tabindex='0'], .cells a:not([tabindex])").count()
        assert in_turn == await page.locator(".cells").count(), "one stop a group for the tab key"
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/node?name=*")
        assert (await page.locator("h1").inner_text()).startswith("Node node-")


async def test_names_and_messages_of_others_are_shown_as_text(tmp_path: Path) -> None:
    evil = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
    pod = in_queue(a_pod(evil, cpu="1"), evil)
    pod["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "x",
            "message": evil + "{{7*7}}\u202egnp.exe",
        }
    ]
    node = a_node("'\"><svg onload=window.hit=1>", "</option><script>window.hit=1</script>", evil)
    twin = a_node("two", "</option><script>window.hit=1</script>", evil)
    queue = a_queue(evil, capability={evil: "<b>"})
    objects = [node, twin, queue, pod]
    async with visited(objects, tmp_path) as visit:
        page = visit.page
        seen = ""
        for path in ("./", "queues", "gangs", "pods", "nodes", "search?q=<"):
            await page.goto(path)
            seen += await page.locator("body").inner_text()
            assert await page.evaluate("window.hit") is None
            assert await page.locator("img[src='x'], main svg[onload]").count() == 0
        await page.goto("pods")
        await page.get_by_role("link", name=evil).first.click()
        await page.locator("#answer .answer").wait_for()
        seen += await page.locator("body").inner_text()
        assert await page.evaluate("window.hit") is None
        assert evil in seen
        assert "\u202e" not in seen, "what turns the direction of writing is written out"
        assert "{{7*7}}" in seen
        assert visit.complaints == []


async def test_light_and_dark_can_be_chosen_against_the_machine_s_setting(tmp_path: Path) -> None:
    async with visited(PARK, tmp_path, color_scheme="light") as visit:
        page = visit.page
        ground = "getComputedStyle(document.body).backgroundColor"
        light = await page.evaluate(ground)
        await page.get_by_role("button", name="Light or dark").click()
        dark = await page.evaluate(ground)
        assert dark != light
        await page.goto("queues")
        assert await page.evaluate(ground) == dark, "it is remembered"
