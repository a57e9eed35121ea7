"""A reverse proxy with the manners of the API server's (``services/…/proxy``), written from its
documentation and behaviour: it takes the path's prefix and the token away, tells where it stands by
``X-Forwarded-*``, and rewrites what of an answer names a path: ``Location``, and links in HTML.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from posixpath import join
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from aiohttp import ClientResponse, ClientSession, DummyCookieJar, web

#: Attributes whose addresses are rewritten, as HTML 4 and 5 have them.
_LINK: Final = re.compile(r'\b(href|src|action|formaction|cite|poster)="([^"]*)"')
_HOP_BY_HOP: Final = {
    *("connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer"),
    *("content-length", "content-encoding", "proxy-authorization", "authorization", "host"),
}


@asynccontextmanager
async def api_proxy(target: str, prefix: str) -> AsyncIterator[str]:
    """Stands at an address whose path is ``prefix`` and passes on to ``target``; yields it."""
    async with ClientSession(cookie_jar=DummyCookieJar(), auto_decompress=True) as session:
        proxy = _Proxy(session, target.rstrip("/"), prefix)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}{prefix}/"
        finally:
            await runner.cleanup()


class _Proxy:
    def __init__(self, session: ClientSession, target: str, prefix: str) -> None:
        self._session, self._target, self._prefix = session, target, prefix

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.raw_path
        if not path.startswith(f"{self._prefix}/"):
            return web.Response(status=404, text="404 page not found")
        below = path.removeprefix(self._prefix)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        headers["X-Forwarded-Uri"] = path
        headers["X-Forwarded-Host"] = request.host
        headers["X-Forwarded-Proto"] = "http"
        async with self._session.request(
            request.method,
            self._target + below,
            headers=headers,
            data=await request.read(),
            allow_redirects=False,
        ) as answer:
            return await self._pass_on(request, answer)

    async def _pass_on(self, request: web.Request, answer: ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                response.headers.add(name, value)
        if location := answer.headers.get("Location"):
            response.headers["Location"] = self._rewritten(location, request.host)
        await response.prepare(request)
        if answer.content_type == "text/html":
            page = (await answer.text()).replace("&#39;", "'")
            await response.write(
                _LINK.sub(
                    lambda m: f'{m[1]}="{self._rewritten(m[2], request.host)}"', page
                ).encode()
            )
        else:
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        return response

    def _rewritten(self, link: str, host: str) -> str:
        """An address on this host gets the prefix; a relative one, or one elsewhere, stays."""
        parts = urlsplit(link)
        if parts.netloc not in ("", host, urlsplit(self._target).netloc):
            return link
        if not parts.path.startswith("/") or parts.path.startswith(self._prefix):
            return link
        path = join(self._prefix, parts.path.lstrip("/"))
        return urlunsplit(("http", host, path, parts.query, parts.fragment))
