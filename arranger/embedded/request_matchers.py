"""Calls to the embedded server, and which of them somebody means: a small language of selections.

``WRITES & of("pods") & ~by("one")`` is true of the calls that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request on its way to the server, the opening of a watch included.

    Attributes:
        at: the loop's time at which it was sent.
        user: who asks: the name of the direct transport, or the User-Agent over HTTP.
    """

    at: float
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
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
    """Some of all calls; ``&``, ``|`` and ``~`` combine them."""

    def __init__(self, test: Callable[[ClientRequest], bool]) -> None:
        self._test = test

    def __call__(self, call: ClientRequest) -> bool:
        """Whether ``call`` is one of them."""
        return self._test(call)

    def __and__(self, other: Callable[[ClientRequest], bool]) -> RequestMatcher:
        return RequestMatcher(lambda call: self(call) and other(call))

    def __or__(self, other: Callable[[ClientRequest], bool]) -> RequestMatcher:
        return RequestMatcher(lambda call: self(call) or other(call))

    def __invert__(self) -> RequestMatcher:
        return RequestMatcher(lambda call: not self(call))


ALL: Final = RequestMatcher(lambda _: True)
WRITES: Final = RequestMatcher(lambda call: call.method not in ("GET", "HEAD"))
WATCHES: Final = RequestMatcher(lambda call: call.query.get("watch") in ("1", "true"))
#: Reads that are no watches.
READS: Final = ~WRITES & ~WATCHES
BINDINGS: Final = RequestMatcher(lambda call: call.path.endswith("/binding"))
STATUSES: Final = WRITES & (lambda call: call.path.endswith("/status"))


def for_resource(plural: str) -> RequestMatcher:
    """Calls about one resource, subresources included."""
    return RequestMatcher(lambda call: call.plural == plural)


def for_object(name: str) -> RequestMatcher:
    """Calls about the object of one name."""
    return RequestMatcher(lambda call: name in call.path.split("/"))


def from_user(user: str) -> RequestMatcher:
    """Calls of one client."""
    return RequestMatcher(lambda call: call.user == user)


EVENTS: Final = for_resource("events")
LEASES: Final = for_resource("leases")
