"""Pages of a park in a browser, or asked for without one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientSession, CookieJar
from playwright.async_api import BrowserContext, Page, async_playwright

from arranger.cli.cockpit import FileSource
from arranger.cli.shadow import Source
from arranger.daemon.config.schema import Config
from arranger.shadow.shadow import Shadow
from arranger.ui.security import KeyGuard
from arranger.ui.server import Cockpit, serve
from arranger.ui.views.observed import Observed
from tests.ui.park import Manifest

KEY: Final = "the-key"
_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PATHS: Final = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Where a browser is; "" where there is none."""
    return next((found for name in _PATHS if (found := shutil.which(name))), "")


class ChangingSource(FileSource):
    """A shadow that a test replaces."""

    follows = True
    version = 0

    @classmethod
    def of(cls, manifests: Sequence[Manifest]) -> ChangingSource:
        """Of these objects."""
        around = [each for each in manifests if each["kind"] == "PriorityClass"]
        shadow = Shadow.from_manifests(manifests, Config())
        source = cls(Source(shadow, around), "A park")
        source.changed = asyncio.Event()
        return source

    changed: asyncio.Event

    def become(self, manifests: Sequence[Manifest]) -> None:
        """The cluster is another one."""
        self.source = Source(Shadow.from_manifests(manifests, Config()), [])
        self.change()

    def change(self) -> None:
        """Something has changed that no page shows."""
        self.version += 1
        self.changed.set()

    async def until_changed(self, version: int) -> int:
        while self.version == version:
            self.changed.clear()
            await self.changed.wait()
        return self.version


def observed(manifests: Sequence[Manifest]) -> Observed:
    """What views are made of."""
    shadow = Shadow.from_manifests(manifests, Config())
    return Observed(shadow.objects, shadow.engine, tuple(shadow.unread))


@asynccontextmanager
async def pages(
    manifests: Sequence[Manifest], **cockpit: Any
) -> AsyncIterator[tuple[str, ChangingSource]]:
    """The address of the pages of these objects, and their source."""
    source = ChangingSource.of(manifests)
    guard = cockpit.pop("guard", KeyGuard(KEY))
    async with serve(Cockpit(source, guard, **cockpit), "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}/", source


@asynccontextmanager
async def asking(
    manifests: Sequence[Manifest], *, key: str = KEY, **cockpit: Any
) -> AsyncIterator[tuple[ClientSession, ChangingSource]]:
    """Asks for the pages of these objects without a browser, signed in with the key if any."""
    async with (
        pages(manifests, **cockpit) as (address, source),
        asking_at(address, key=key) as session,
    ):
        yield session, source


@asynccontextmanager
async def asking_at(address: str, *, key: str = KEY) -> AsyncIterator[ClientSession]:
    """Asks at an address, signed in with the key if any."""
    async with ClientSession(address, cookie_jar=CookieJar(unsafe=True)) as session:
        if key:
            async with session.get("/", params={"key": key}) as answer:
                await answer.read()
        yield session


@asynccontextmanager
async def browser(folder: Path, **options: Any) -> AsyncIterator[BrowserContext]:
    """A browser without a window."""
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            folder, executable_path=chromium(), args=list(_FLAGS), headless=True, **options
        )
        # The machine may have better to do.
        context.set_default_timeout(120_000)
        try:
            yield context
        finally:
            await context.close()


@dataclass(frozen=True, slots=True)
class Visit:
    """A page that is signed in; it goes to paths of the pages.

    Attributes:
        source: what the pages show.
        complaints: those of its console from then on.
    """

    page: Page
    source: ChangingSource
    complaints: list[str]


@asynccontextmanager
async def visited(
    manifests: Sequence[Manifest], folder: Path, path: str = "", **options: Any
) -> AsyncIterator[Visit]:
    """The page at a path of the pages of these objects, in a browser."""
    async with (
        pages(manifests) as (address, source),
        browser(folder, base_url=address, **options) as context,
    ):
        page, complaints = await opened(context, address)
        if path:
            await page.goto(path)
        yield Visit(page, source, complaints)


async def opened(context: BrowserContext, address: str) -> tuple[Page, list[str]]:
    """A page that is signed in, and what its console complains of from then on."""
    page = await context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(f"{address}?key={KEY}")
    return page, complaints
