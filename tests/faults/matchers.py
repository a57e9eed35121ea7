"""Requests to the embedded server, and matchers that select some of them.

``WRITES & for_resource("pods") & ~from_user("one")`` is true of the requests that it describes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec


class ClientRequest(msgspec.Struct, frozen=True):
    """A request on its way to the server, the opening of a watch included.

    Attributes:
        at: the loop's time at which it was sent.
        user: who asks: the name of the in-process transport, or the User-Agent over HTTP.
    """

    at: float
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    user: str = ""

    @property
    def plural(self) -> str:
        """The resource it is about, ``pods`` for example; "" outside the API."""
        return _plural(self.path)

    @property
    def json(self) -> Any:
        """The body, decoded; None where there is none."""
        return msgspec.json.decode(self.body) if self.body else None


@lru_cache(maxsize=4096)
def _plural(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if len(rest) >= 3 and rest[0] == "namespaces":
        rest = rest[2:]
    return rest[0] if rest else ""


class RequestMatcher:
    """Selects requests; ``&``, ``|`` and ``~`` combine them."""

    def __init__(self, test: Callable[[ClientRequest], bool]) -> None:
        self._test = test

    def __call__(self, request: ClientRequest) -> bool:
        """Whether ``request`` is one of them."""
        return self._test(request)

    def __and__(self, other: Callable[[ClientRequest], bool]) -> RequestMatcher:
        first, second = self._test, _test_of(other)
        return RequestMatcher(lambda request: first(request) and second(request))

    def __or__(self, other: Callable[[ClientRequest], bool]) -> RequestMatcher:
        first, second = self._test, _test_of(other)
        return RequestMatcher(lambda request: first(request) or second(request))

    def __invert__(self) -> RequestMatcher:
        test = self._test
        return RequestMatcher(lambda request: not test(request))


def _test_of(matcher: Callable[[ClientRequest], bool]) -> Callable[[ClientRequest], bool]:
    return matcher._test if isinstance(matcher, RequestMatcher) else matcher


ALL: Final = RequestMatcher(lambda _: True)
WRITES: Final = RequestMatcher(lambda request: request.method not in ("GET", "HEAD"))
WATCHES: Final = RequestMatcher(lambda request: request.query.get("watch") in ("1", "true"))
#: Reads that are no watches.
READS: Final = ~WRITES & ~WATCHES
BINDINGS: Final = RequestMatcher(lambda request: request.path.endswith("/binding"))
STATUSES: Final = WRITES & (lambda request: request.path.endswith("/status"))


def for_resource(plural: str) -> RequestMatcher:
    """Requests about one resource, subresources included."""
    return RequestMatcher(lambda request: request.plural == plural)


def for_object(name: str) -> RequestMatcher:
    """Requests about the object of one name."""
    return RequestMatcher(lambda request: name in request.path.split("/"))


def from_user(user: str) -> RequestMatcher:
    """Requests of one client."""
    return RequestMatcher(lambda request: request.user == user)


EVENTS: Final = for_resource("events")
LEASES: Final = for_resource("leases")
