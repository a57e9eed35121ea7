"""The web server of ``arranger ui``: addresses to pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Final
from urllib.parse import quote

import structlog
from aiohttp import web
from jinja2 import Environment

from arranger.daemon.serving.connections import network_of
from arranger.daemon.serving.reviews import Refusal
from arranger.ui import security
from arranger.ui.details import DETAILS
from arranger.ui.foretelling import Foretelling
from arranger.ui.history import INTERVAL, History
from arranger.ui.lists import LISTS
from arranger.ui.outcome import parts_of
from arranger.ui.pages import environment, static_files
from arranger.ui.scope import EVERYTHING, Scope, within
from arranger.ui.security import Guard
from arranger.ui.source import QuestionError, Source, WhatIfForm
from arranger.ui.views.observed import Observed

log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

COOKIE: Final = "arranger-ui"
#: What whoever asks may see, in each request for a page.
SCOPE: Final = web.RequestKey("scope", Scope)
#: Addresses whose answers hold numbers alone.
_WITHOUT_NAMES: Final = ("/samples", "/live")
_NOT_YOURS: Final = "There is nothing of that name that waits, or you may not see it."
_WHOLE_ONLY: Final = "Only who may list the pods of all namespaces is told what a change would do."
#: Bytes of a form, and of a field of an address.
_BODY: Final = 1 << 20
_TEXT: Final = 600
#: Characters of a key that browsers keep in a cookie: they drop longer ones without a word.
_COOKIE: Final = 4000
_TOO_LONG: Final = (
    f"It has more than {_COOKIE} characters, and browsers keep no cookie of that length: have an"
    " ingress send it as a bearer token, or take a token of a service account."
)
#: Seconds between two messages about changes, and without any until a sign of life.
_MESSAGES: Final = 2.0
_SILENCE: Final = 15.0
#: Stands for a version that is not the present one.
_SINCE_BEFORE: Final = -1
#: Browsers that are told of changes at a time.
_FOLLOWERS: Final = 64


class _NotFoundError(Exception):
    """There is no such object; the message says which."""


@dataclass(eq=False)
class Cockpit:
    """All pages.

    Args:
        source: what they show.
        guard: who may see them.
        local: whether only this machine reaches them: then Host must name it.
        clock: seconds since 1970.
    """

    source: Source
    guard: Guard
    _: KW_ONLY
    local: bool = True
    clock: Callable[[], float] = time.time
    _templates: Environment = field(default_factory=environment, init=False)
    _files: Mapping[str, tuple[bytes, str]] = field(default_factory=static_files, init=False)
    _history: History = field(default_factory=History, init=False)
    _foretelling: Foretelling = field(init=False)
    _followers: int = field(default=0, init=False)
    _seen: tuple[tuple[int, int], Observed] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._foretelling = Foretelling(self.source, time.monotonic)

    def application(self) -> web.Application:
        """The application for aiohttp."""
        app = web.Application(middlewares=[self._answer], client_max_size=_BODY)
        app.router.add_get("/", self._list)
        for name in LISTS:
            app.router.add_get(f"/{name}", self._list)
        for name in DETAILS:
            app.router.add_get(f"/{name}", self._detail)
        app.router.add_get("/why", self._why)
        app.router.add_get("/what-if", self._what_if_form)
        app.router.add_post("/what-if", self._what_if)
        app.router.add_get("/samples", self._samples)
        app.router.add_get("/live", self._live)
        app.router.add_post("/sign-in", self._sign_in)
        app.router.add_get("/static/{name:.+}", self._static)
        app.cleanup_ctx.append(self._sampling)
        return app

    # --- every request ---------------------------------------------------------------------

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await self._guarded(request, handler)
        except web.HTTPException as error:
            response = web.Response(status=error.status, text=f"{error.status}: {error.reason}")
        except _NotFoundError as error:
            response = self._problem(404, "Not found", str(error))
        # A defect must not say how it came about.
        except Exception:
            log.exception("ui.answer_failed", path=request.path)
            response = self._problem(500, "An error of ours", "It is in the log.")
        if not response.prepared:
            response.headers.update(security.HEADERS)
        return response

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.local and not security.is_local_host(request.host):
            return web.Response(status=403, text="403: this name does not stand for this machine")
        if request.path.startswith("/static/"):
            return await handler(request)
        if security.is_foreign(request.headers) and request.method != "GET":
            return web.Response(status=403, text="403: another site has asked for this")
        if request.path == "/sign-in":
            return await handler(request)
        if (given := request.query.get("key")) is not None and request.path == "/":
            return self._signed_in(request, given)
        key = request.cookies.get(COOKIE, "")
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            key = token.strip()
        if not security.is_key(key):
            return self._ask_for_key(401, "")
        refusal = await self.guard.refusal(key, network_of(request.remote or ""))
        if refusal is not None:
            return self._ask_for_key(refusal.status, refusal.message)
        if request.path not in _WITHOUT_NAMES:
            namespaces = self._observed().counted.namespaces
            scope = await self.guard.scope(key, network_of(request.remote or ""), namespaces)
            if isinstance(scope, Refusal):
                return self._ask_for_key(scope.status, scope.message)
            request[SCOPE] = scope
        return await handler(request)

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        key = str((await request.post()).get("key", "")).strip()
        return self._signed_in(request, key)

    def _signed_in(self, request: web.Request, key: str) -> web.Response:
        """Have the browser remember the key, for the folder that the pages are in, and go there."""
        if not security.is_key(key):
            return self._ask_for_key(401, "This is no key.")
        if len(key) > _COOKIE:
            return self._ask_for_key(401, _TOO_LONG)
        secure = "; Secure" if request.secure or not self.local else ""
        cookie = f"{COOKIE}={key}; HttpOnly; SameSite=Strict{secure}"
        return web.Response(status=303, headers={"Location": "./", "Set-Cookie": cookie})

    def _ask_for_key(self, status: int, problem: str) -> web.Response:
        template = self._templates.get_template("sign_in.html")
        html = template.render(asked=self.guard.asked, hint=self.guard.hint, problem=problem)
        return web.Response(status=status, text=html, content_type="text/html")

    def _problem(self, status: int, title: str, problem: str) -> web.Response:
        return self._page("problem.html", {"title": title, "problem": problem}, status=status)

    def _page(
        self,
        template: str,
        values: Mapping[str, Any],
        *,
        scope: Scope = EVERYTHING,
        status: int = 200,
    ) -> web.Response:
        note = scope.note(bool(self.source.unread))
        facts = {"source": self.source.name, "live": self.source.follows, "note": note, **values}
        html = self._templates.get_template(template).render(facts)
        return web.Response(status=status, text=html, content_type="text/html")

    # --- pages -----------------------------------------------------------------------------

    async def _list(self, request: web.Request) -> web.Response:
        name = request.path.strip("/")
        shows = self._shows(request)
        observed = await self._foreseen(request[SCOPE])
        if name:
            template, values = LISTS[name](observed, _query(request))
        else:
            template, values = LISTS["overview"](observed, {})
            values |= {"health": await self.source.health(), "rate": self._history.rate()}
        current = name if name != "overview" else ""
        values = {"current": current or "./", **shows, **values}
        return self._page(template, values, scope=request[SCOPE])

    async def _detail(self, request: web.Request) -> web.Response:
        kind, query = request.path.strip("/"), _query(request)
        shows = self._shows(request)
        found = DETAILS[kind](await self._foreseen(request[SCOPE]), query)
        if found is None:
            raise _NotFoundError(f"There is no {kind} {query.get('name', '')}.")
        template, values = found
        return self._page(template, {**shows, **values}, scope=request[SCOPE])

    def _shows(self, request: web.Request) -> dict[str, Any]:
        """What a page that follows the cluster is, and the version that it shows at least."""
        version = self.source.version
        return {"follows": self.source.follows, "here": _here(request), "version": version}

    async def _why(self, request: web.Request) -> web.Response:
        what = request.query.get("what", "")[:_TEXT]
        answers, problem, scope = [], "", request[SCOPE]
        try:
            told = (within(scope, each) for each in await self.source.why(what))
            answers = [each for each in told if each is not None]
        except QuestionError as error:
            problem = str(error)
        if not scope.is_whole and not answers:
            problem = _NOT_YOURS  # whether there is such a thing is nobody else's business
        part = "answers.html" if "HX-Request" in request.headers else "why.html"
        values = {"title": "Why", "what": what, "answers": answers, "problem": problem}
        return self._page(part, values, scope=scope)

    async def _what_if_form(self, request: web.Request) -> web.Response:
        if not request[SCOPE].is_whole:
            return self._problem(403, "What if", _WHOLE_ONLY)
        return self._what_if_page(WhatIfForm(**_form_fields(_query(request))))

    async def _what_if(self, request: web.Request) -> web.Response:
        if not request[SCOPE].is_whole:
            return self._problem(403, "What if", _WHOLE_ONLY)
        posted = await request.post()
        form = WhatIfForm(**_form_fields({name: str(value) for name, value in posted.items()}))
        try:
            told = await self.source.what_if(form)
        except QuestionError as error:
            return self._what_if_page(form, problem=str(error), status=422)
        return self._what_if_page(form, told=told, parts_told=parts_of(told))

    def _what_if_page(self, form: WhatIfForm, *, status: int = 200, **values: Any) -> web.Response:
        empty: dict[str, Any] = {"problem": "", "told": None, "parts_told": []}
        common = {"title": "What if", "current": "what-if", "form": form}
        return self._page("whatif.html", {**common, **empty, **values}, status=status)

    # --- what changes ----------------------------------------------------------------------

    async def _static(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        content, kind = found
        return web.Response(body=content, content_type=kind)

    async def _samples(self, _: web.Request) -> web.Response:
        return web.json_response(self._history.columns())

    async def _live(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: ``changed`` when a page that is looked at shows what was."""
        if self._followers >= _FOLLOWERS:
            return web.Response(status=503, text="503: too many follow the cluster already")
        response = web.StreamResponse(
            headers={
                **security.HEADERS,
                "Content-Type": "text/event-stream",
                "X-Accel-Buffering": "no",
            }
        )
        self._followers += 1
        try:
            await response.prepare(request)
            await self._tell_changes(response, request.query.get("since", ""))
        except ConnectionError:
            pass  # nobody looks any more
        finally:
            self._followers -= 1
        return response

    async def _tell_changes(self, response: web.StreamResponse, since: str) -> None:
        """Tell of changes since a version; of those from now on where none is said."""
        now = self.source.version
        version = now if since in ("", str(now)) else _SINCE_BEFORE
        await response.write(b"retry: 3000\n\n")
        while True:
            try:
                async with asyncio.timeout(_SILENCE):
                    version = await self.source.until_changed(version)
            except TimeoutError:
                await response.write(b": still here\n\n")
                continue
            await response.write(f"event: changed\ndata: {version}\n\n".encode())
            await asyncio.sleep(_MESSAGES)

    async def _sampling(self, _: web.Application) -> AsyncIterator[None]:
        async def sample() -> None:
            while True:
                self._history.take(self._observed(), self.clock())
                await asyncio.sleep(INTERVAL)

        task = asyncio.create_task(sample(), name="sample for the chart")
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _foreseen(self, scope: Scope) -> Observed:
        """The state as of now for somebody, with what becomes of pods that were not tried yet."""
        observed = self._observed()
        told = await self._foretelling.texts() if observed.counted.has_untried else {}
        return observed.shown(told, scope)

    def _observed(self) -> Observed:
        """The state as of now; what is counted for one page serves all of the same version."""
        state = self.source.state
        at = id(state), self.source.version
        if self._seen is None or self._seen[0] != at:
            observed = Observed(state.objects, state.engine, tuple(self.source.unread))
            self._seen = at, observed
        return self._seen[1]


@asynccontextmanager
async def serve(cockpit: Cockpit, host: str, port: int, *, tls: Any = None) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port in use.

    Raises:
        OSError: the address cannot be bound.
    """
    runner = web.AppRunner(cockpit.application(), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _query(request: web.Request) -> dict[str, str]:
    return {name: value[:_TEXT] for name, value in request.query.items()}


def _form_fields(values: Mapping[str, str]) -> dict[str, str]:
    known = {each.name for each in fields(WhatIfForm)}
    return {name: value for name, value in values.items() if name in known}


def _here(request: web.Request) -> str:
    """The address of a page as seen from the folder that all are in."""
    query = "&".join(f"{quote(k)}={quote(v)}" for k, v in _query(request).items())
    return f"{request.path.strip('/') or './'}{'?' if query else ''}{query}"
