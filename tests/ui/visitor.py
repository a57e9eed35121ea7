"""Goes through the pages as a browser does without scripts: what is linked, loaded, sent and told.

Where the pages are is known from the first address alone, so it does the same behind a proxy.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import urldefrag, urljoin

from aiohttp import ClientSession

#: What a browser asks for by itself or by a click, by attribute.
_LEADS: Final = ("href", "src", "action", "hx-get")
#: Pages that are looked at.
_MOST: Final = 80


@dataclass
class _Links(HTMLParser):
    """Where a page leads, and which of its forms are sent by POST."""

    found: list[tuple[str, str]] = field(default_factory=list)
    posts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        stated = dict(attrs)
        if tag == "form" and (stated.get("method") or "").lower() == "post":
            self.posts.append(stated.pop("action") or "")
        self.found += [(name, value) for name in _LEADS if (value := stated.get(name))]


@dataclass(frozen=True, slots=True)
class Visitor:
    """Visits the pages below an address, which ends with a slash.

    Attributes:
        headers: what each request says besides, such as to the API server before a proxy.
    """

    session: ClientSession
    address: str
    headers: Mapping[str, str] = field(default_factory=dict)

    async def sign_in(self, key: str) -> None:
        """By the form that is shown to whoever has not."""
        async with self.session.get(self.address, headers=self.headers) as shown:
            assert shown.status == 401, await shown.text()
            [form] = _links(await shown.text()).posts
            form = urljoin(str(shown.url), form)
        async with self.session.post(form, data={"key": key}, headers=self.headers) as answer:
            assert (answer.status, str(answer.url)) == (200, self.address)
            assert answer.history[0].status == 303

    async def visit_all(self) -> set[str]:
        """Follow whatever the pages lead to; returns the paths below the address.

        Raises:
            AssertionError: something leads elsewhere, or is not there.
        """
        seen, left = {self.address}, deque([(self.address, "href")])
        while left and len(seen) <= _MOST:
            url, how = left.popleft()
            headers = {**self.headers, **({"HX-Request": "true"} if how == "hx-get" else {})}
            async with self.session.get(url, headers=headers) as answer:
                assert answer.status == 200, f"{url}: {answer.status}"
                if answer.content_type != "text/html":
                    continue
                page = await answer.text()
            base = self.address if how == "hx-get" else url
            for attribute, link in _links(page).found:
                to = urldefrag(urljoin(base, link)).url
                assert to.startswith(self.address), f"{url} leads to {to}"
                if to not in seen:
                    seen.add(to)
                    left.append((to, attribute))
        return {url.removeprefix(self.address) for url in seen}

    async def send(self, path: str, **form: str) -> str:
        """Send the form that is on a page; returns the page that answers."""
        url = urljoin(self.address, path)
        async with self.session.get(url, headers=self.headers) as shown:
            [to] = _links(await shown.text()).posts
        to = urljoin(url, to)
        own = {"Sec-Fetch-Site": "same-origin"}
        async with self.session.post(to, data=form, headers={**self.headers, **own}) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.text()

    async def events(self) -> Events:
        """The stream of changes, from the time at which it has begun."""
        answer = await self.session.get(urljoin(self.address, "live"), headers=self.headers)
        lines = _Lines(answer)
        assert await lines.following() == "retry: 3000"
        return Events(answer, lines)


@dataclass(frozen=True, slots=True)
class _Lines:
    answer: Any

    async def following(self) -> str:
        line: bytes = await asyncio.wait_for(self.answer.content.readline(), 30)
        return line.decode().strip()


@dataclass(frozen=True, slots=True)
class Events:
    """Server-sent events as they come."""

    answer: Any
    _lines: _Lines

    async def following(self) -> str:
        """The name of the next one."""
        while True:
            line = await self._lines.following()
            if line.startswith("event: "):
                return line.removeprefix("event: ")

    def close(self) -> None:
        """Follow no more."""
        self.answer.close()


def _links(page: str) -> _Links:
    found = _Links()
    found.feed(page)
    return found
