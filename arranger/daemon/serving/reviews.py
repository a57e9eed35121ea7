"""Who may see what: asked of the API server by TokenReview and SubjectAccessReview.

As kube-scheduler does it (``k8s.io/apiserver``, delegated authentication and authorization):
requests without a bearer token are ``system:anonymous``'s, answers are remembered for some seconds,
and paths that are always allowed are never asked about.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object
from arranger.daemon.token_bucket import TokenBucket
from arranger.kube.client.transport import Request, RequestTransport, TransportError

log = structlog.get_logger(__name__)

Value = TypeVar("Value")

TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ALWAYS_ALLOWED: Final = ("/healthz", "/readyz", "/livez")
#: Answers remembered of each kind.
_REMEMBERED: Final = 1024
#: Questions to the API server at once and a second, for each network that asks.
_BURST: Final = 20
_RATE: Final = 5.0
#: Namespaces that are asked about for one who may not list pods everywhere, how many at a time,
#: and for how many seconds the answers hold.
MAX_NAMESPACES: Final = 500
_AT_ONCE: Final = 16
_LISTABLE_TTL: Final = 60.0
#: Seconds that an answer may take.
_TIMEOUT: Final = 10.0


class User(msgspec.Struct, frozen=True):
    """Who somebody is, as the API server says."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


ANONYMOUS: Final = User("system:anonymous", groups=("system:unauthenticated",))


def certified_user(certificate: Mapping[str, Any] | None) -> User | None:
    """Whom a certificate that a client has shown stands for, as kube-apiserver reads it.

    Args:
        certificate: as :meth:`ssl.SSLSocket.getpeercert` tells of one whose chain holds.
    """
    subject = [each for part in (certificate or {}).get("subject", ()) for each in part]
    names = [value for key, value in subject if key == "commonName"]
    if not names:
        return None
    groups = [value for key, value in subject if key == "organizationName"]
    return User(names[-1], groups=(*groups, "system:authenticated"))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered: an HTTP status, and a sentence."""

    status: int
    message: str


class _TokenAnswer(msgspec.Struct):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct):
    status: _TokenAnswer


class _AccessAnswer(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessAnswer


class _NoAnswerError(Exception):
    """The API server did not say; the message says why."""


class ExpiringCache(Generic[Value]):
    """The newest answers, each for as long as it was put in for; a full one forgets the oldest."""

    def __init__(self, now: Callable[[], float], limit: int = _REMEMBERED) -> None:
        self._now, self._limit = now, limit
        self._entries: dict[object, tuple[float, Value]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: object) -> Value | None:
        """What was put in and has not expired."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and self._now() < entry[0] else None

    def put(self, key: object, value: Value, seconds: float) -> None:
        """Remember an answer."""
        self._entries.pop(key, None)
        if len(self._entries) >= self._limit:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = self._now() + seconds, value


@dataclass(eq=False)
class Reviews:
    """Asks the API server, and remembers what it said.

    Args:
        transport: to the API server, as somebody who may create both kinds of reviews.
        always_allowed: paths open to everybody; one that ends in ``*`` stands for all that begin
            like it.
        token_ttl, allowed_ttl, denied_ttl: seconds for which answers hold.
        now: the monotonic clock, seconds.
    """

    transport: RequestTransport
    _: KW_ONLY
    always_allowed: tuple[str, ...] = ALWAYS_ALLOWED
    token_ttl: float = 10.0
    allowed_ttl: float = 10.0
    denied_ttl: float = 10.0
    now: Callable[[], float] = time.monotonic
    _users: ExpiringCache[User | str] = field(init=False)
    _access: ExpiringCache[bool] = field(init=False)
    _budgets: ExpiringCache[TokenBucket] = field(init=False)
    _listable: ExpiringCache[tuple[frozenset[str] | None]] = field(init=False)

    def __post_init__(self) -> None:
        self._users = ExpiringCache(self.now)
        self._access = ExpiringCache(self.now)
        self._budgets = ExpiringCache(self.now)
        self._listable = ExpiringCache(self.now)

    async def refusal(
        self,
        verb: str,
        path: str,
        authorization: str,
        network: str,
        certified: User | None = None,
    ) -> Refusal | None:
        """Why this request is not to be answered; None if it is.

        Args:
            verb: the HTTP method in lower case.
            authorization: the header's value, or "".
            network: whom the questions that this takes are counted for.
            certified: who it is by a certificate; then the header is not looked at.
        """
        if any(_matches(path, pattern) for pattern in self.always_allowed):
            return None
        try:
            user = certified or await self._user(authorization, network)
            if user is None:
                return Refusal(401, "the API server does not know this token")
            if await self._allowed(user, verb, path, network):
                return None
        except _TooManyError:
            return Refusal(429, "too many requests with other tokens from where you are")
        except _NoAnswerError as error:
            log.warning("server.review_failed", path=path, error=str(error))
            return Refusal(503, "the API server cannot be asked who you are and what you may do")
        return Refusal(403, f'User "{user.username}" cannot {verb} path "{path}"')

    async def listable_namespaces(
        self, authorization: str, network: str, namespaces: Iterable[str]
    ) -> frozenset[str] | Refusal | None:
        """Of these namespaces those in which somebody may list pods; None if in all there are.

        Of more than :data:`MAX_NAMESPACES` the first are asked about. For somebody who may see
        something already: questions are not counted against their network.
        """
        try:
            user = await self._user(authorization, network)
            if user is None:
                return Refusal(401, "the API server does not know this token")
            key = _identity(user)
            if (known := self._listable.get(key)) is not None:
                return known[0]
            found: frozenset[str] | None = None
            if not await self._may_list_pods(user, ""):
                asked = sorted(set(namespaces))[:MAX_NAMESPACES]
                allowed: list[str] = []
                for first in range(0, len(asked), _AT_ONCE):
                    some = asked[first : first + _AT_ONCE]
                    told = await asyncio.gather(*(self._may_list_pods(user, n) for n in some))
                    allowed += [name for name, may in zip(some, told, strict=True) if may]
                found = frozenset(allowed)
        except _TooManyError:
            return Refusal(429, "too many requests with other tokens from where you are")
        except _NoAnswerError as error:
            log.warning("server.review_failed", path="pods", error=str(error))
            return Refusal(503, "the API server cannot be asked who you are and what you may do")
        self._listable.put(key, (found,), _LISTABLE_TTL)
        return found

    async def _may_list_pods(self, user: User, namespace: str) -> bool:
        attributes = {"verb": "list", "resource": "pods", "namespace": namespace}
        spec = {**_spec_of(user), "resourceAttributes": attributes}
        kind = "SubjectAccessReview"
        answer = await self._send(ACCESS_REVIEWS, kind, {"spec": spec}, _AccessReview)
        return answer.status.allowed

    async def _user(self, authorization: str, network: str) -> User | None:
        """Who sends this header; None for a token that is not valid."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        # What is remembered must not be of use to who reads our memory.
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._users.get(key)
        if known is None:
            spec = {"spec": {"token": token}}
            answer = await self._ask(TOKEN_REVIEWS, "TokenReview", spec, _TokenReview, network)
            known = answer.status.user if answer.status.authenticated else _UNKNOWN
            self._users.put(key, known, self.token_ttl)
        return known if isinstance(known, User) else None

    async def _allowed(self, user: User, verb: str, path: str, network: str) -> bool:
        key = (*_identity(user), verb, path)
        known = self._access.get(key)
        if known is None:
            spec = {**_spec_of(user), "nonResourceAttributes": {"path": path, "verb": verb}}
            kind = "SubjectAccessReview"
            answer = await self._ask(ACCESS_REVIEWS, kind, {"spec": spec}, _AccessReview, network)
            known = answer.status.allowed
            self._access.put(key, known, self.allowed_ttl if known else self.denied_ttl)
        return known

    async def _ask(
        self, path: str, kind: str, body: Mapping[str, object], answer: type[Value], network: str
    ) -> Value:
        budget = self._budgets.get(network) or TokenBucket(_RATE, _BURST)
        # Forgotten when it would be full again.
        self._budgets.put(network, budget, _BURST / _RATE)
        if not budget.take(self.now()):
            raise _TooManyError
        return await self._send(path, kind, body, answer)

    async def _send(
        self, path: str, kind: str, body: Mapping[str, object], answer: type[Value]
    ) -> Value:
        version = path.removeprefix("/apis/").rpartition("/")[0]
        content = msgspec.json.encode({"apiVersion": version, "kind": kind, **body})
        try:
            response = await self.transport.send(
                Request("POST", path, body=content, timeout=_TIMEOUT)
            )
        except TransportError as error:
            raise _NoAnswerError(str(error)) from error
        if response.status != 201:
            raise _NoAnswerError(f"{kind}: status {response.status}")
        try:
            return decode_object(response.body, answer)
        except ParseError as error:
            raise _NoAnswerError(f"{kind}: {error}") from error


class _TooManyError(Exception):
    """This network has used up its questions."""


#: Remembered of a token that is not valid.
_UNKNOWN: Final = "unknown"


def _identity(user: User) -> tuple[object, ...]:
    extra = tuple(sorted((name, tuple(values)) for name, values in user.extra.items()))
    return user.username, user.uid, tuple(sorted(user.groups)), extra


def _spec_of(user: User) -> dict[str, object]:
    return {"user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra}


def _matches(path: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return path == pattern
