"""Who may see what, with an API server that says what the case wants."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arranger.daemon.serving.reviews import (
    ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    ExpiringCache,
    Refusal,
    Reviews,
)
from arranger.kube.client.transport import Request, Response, TransportError

PROMETHEUS = {"username": "prometheus", "uid": "u1", "groups": ["g1"], "extra": {"k": ["v"]}}


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class ApiServer:
    """Knows some tokens, and who may see /metrics; or gives the answer it is told to."""

    tokens: dict[str, dict[str, Any]] = field(default_factory=lambda: {"good": PROMETHEUS})
    may: set[str] = field(default_factory=lambda: {"prometheus"})
    answer: Response | TransportError | None = None
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def send(self, request: Request) -> Response:
        body = json.loads(request.body)
        self.asked.append((request.path, body))
        if isinstance(self.answer, TransportError):
            raise self.answer
        if self.answer is not None:
            return self.answer
        if request.path == TOKEN_REVIEWS:
            user = self.tokens.get(body["spec"]["token"])
            status: dict[str, Any] = {"authenticated": True, "user": user} if user else {}
        else:
            assert request.path == ACCESS_REVIEWS
            status = {"allowed": body["spec"]["user"] in self.may}
        return Response(201, json.dumps({**body, "status": status}).encode())

    async def close(self) -> None:
        pass


FORBIDDEN = 'User "{}" cannot get path "/metrics"'
UNANSWERED = Refusal(503, "the API server cannot be asked who you are and what you may do")
HEADERS: dict[str, tuple[str, Refusal | None]] = {
    "a token of somebody who may": ("Bearer good", None),
    "the scheme in capitals": ("BEARER  good", None),
    "somebody who may not": ("Bearer other", Refusal(403, FORBIDDEN.format("other"))),
    "a token nobody has": ("Bearer x", Refusal(401, "the API server does not know this token")),
    "no header": ("", Refusal(403, FORBIDDEN.format("system:anonymous"))),
    "a password": ("Basic good", Refusal(403, FORBIDDEN.format("system:anonymous"))),
    "no token": ("Bearer ", Refusal(403, FORBIDDEN.format("system:anonymous"))),
}


@pytest.mark.parametrize("case", HEADERS.values(), ids=HEADERS.keys())
async def test_headers(case: tuple[str, Refusal | None]) -> None:
    header, refusal = case
    server = ApiServer(tokens={"good": PROMETHEUS, "other": {"username": "other"}})
    assert await Reviews(server).refusal("get", "/metrics", header, "a") == refusal


async def test_what_is_asked() -> None:
    server = ApiServer()
    await Reviews(server).refusal("get", "/metrics", "Bearer good", "a")
    assert server.asked == [
        (
            TOKEN_REVIEWS,
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": "good"},
            },
        ),
        (
            ACCESS_REVIEWS,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": "prometheus",
                    "uid": "u1",
                    "groups": ["g1"],
                    "extra": {"k": ["v"]},
                    "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
                },
            },
        ),
    ]


ALWAYS = {
    "a path by its name": (("/livez",), "/livez", True),
    "not what begins like it": (("/livez",), "/livez/x", False),
    "all that begin so": (("/live*",), "/livez/x", True),
    "another": (("/livez",), "/metrics", False),
}


@pytest.mark.parametrize("case", ALWAYS.values(), ids=ALWAYS.keys())
async def test_paths_that_are_always_allowed(case: tuple[tuple[str, ...], str, bool]) -> None:
    patterns, path, allowed = case
    server = ApiServer()
    reviews = Reviews(server, always_allowed=patterns)
    assert (await reviews.refusal("get", path, "", "a") is None) == allowed
    assert bool(server.asked) != allowed


async def test_answers_hold_for_their_time() -> None:
    clock, server = Clock(), ApiServer(tokens={"good": PROMETHEUS, "no": {"username": "no"}})
    reviews = Reviews(server, token_ttl=30, allowed_ttl=20, denied_ttl=10, now=clock)

    async def asked(header: str) -> list[str]:
        server.asked.clear()
        await reviews.refusal("get", "/metrics", header, "a")
        return [path for path, _ in server.asked]

    assert await asked("Bearer good") == [TOKEN_REVIEWS, ACCESS_REVIEWS]
    assert await asked("Bearer no") == [TOKEN_REVIEWS, ACCESS_REVIEWS]
    assert await asked("Bearer bad") == [TOKEN_REVIEWS]
    clock.seconds = 9.9
    assert await asked("Bearer good") == await asked("Bearer no") == await asked("Bearer bad") == []
    clock.seconds = 10
    assert (await asked("Bearer good"), await asked("Bearer no")) == ([], [ACCESS_REVIEWS])
    clock.seconds = 20
    assert await asked("Bearer good") == [ACCESS_REVIEWS]
    clock.seconds = 30
    assert await asked("Bearer good") == [TOKEN_REVIEWS]
    assert await asked("Bearer bad") == [TOKEN_REVIEWS]


async def test_a_right_that_was_taken_away_is_gone_when_its_time_is_over() -> None:
    clock, server = Clock(), ApiServer()
    reviews = Reviews(server, now=clock)
    assert await reviews.refusal("get", "/metrics", "Bearer good", "a") is None
    server.may.clear()
    clock.seconds = 10
    refusal = await reviews.refusal("get", "/metrics", "Bearer good", "a")
    assert refusal == Refusal(403, FORBIDDEN.format("prometheus"))


SILENCES: dict[str, Response | TransportError] = {
    "no answer": TransportError("gone"),
    "no right to ask": Response(403, b"{}"),
    "no such resource": Response(404, b"{}"),
    "too many requests": Response(429, b"{}"),
    "no JSON": Response(201, b"<html>"),
    "JSON of another shape": Response(201, b'{"status": {"allowed": "yes", "authenticated": 1}}'),
    "no status": Response(201, b"{}"),
}


@pytest.mark.parametrize("silence", SILENCES.values(), ids=SILENCES.keys())
@pytest.mark.parametrize("header", ["", "Bearer good"])
async def test_who_cannot_be_asked_lets_nobody_in(
    header: str, silence: Response | TransportError
) -> None:
    server = ApiServer(answer=silence)
    reviews = Reviews(server)
    assert await reviews.refusal("get", "/metrics", header, "a") == UNANSWERED
    server.answer = None
    # It is not remembered.
    refused = await reviews.refusal("get", "/metrics", header, "a")
    assert (refused is None) == bool(header)


async def test_a_flood_of_tokens_is_not_passed_on_and_hurts_nobody_else() -> None:
    clock, server = Clock(), ApiServer()
    reviews = Reviews(server, now=clock)
    refusals = [await reviews.refusal("get", "/metrics", f"Bearer {n}", "a") for n in range(1000)]
    assert len(server.asked) == 20
    assert {each.status for each in refusals if each} == {401, 429}
    assert await reviews.refusal("get", "/metrics", "Bearer good", "b") is None
    clock.seconds = 1.0
    # What is remembered takes no question.
    before = len(server.asked)
    assert await reviews.refusal("get", "/metrics", "Bearer good", "a") is None
    assert len(server.asked) == before


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=60))
def test_a_cache_is_bounded_and_gives_nothing_that_has_expired(
    steps: list[tuple[int, int]],
) -> None:
    clock = Clock()
    cache = ExpiringCache[int](clock, limit=4)
    put_at: dict[int, float] = {}
    for key, wait in steps:
        clock.seconds += wait
        found = cache.get(key)
        assert found is None or (found == key and clock.seconds - put_at[key] < 3)
        cache.put(key, key, 3)
        put_at[key] = clock.seconds
        assert cache.get(key) == key
        assert len(cache) <= 4
