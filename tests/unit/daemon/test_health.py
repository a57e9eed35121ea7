from __future__ import annotations

import socket

import aiohttp
import pytest

from arranger.daemon.health import Checks, ServerError, health_server


async def ask(checks: Checks, path: str) -> tuple[int, str]:
    server = health_server(host="127.0.0.1", port=0, checks=checks)
    async with (
        server as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


GOOD = {"informer-sync": lambda: None, "leader-election": lambda: None}
BAD = {"informer-sync": lambda: "not read yet: pods", "leader-election": lambda: None}
READY = "[+]informer-sync ok\n[+]leader-election ok\nreadyz check passed\n"
NOT_READY = (
    "[-]informer-sync failed: not read yet: pods\n[+]leader-election ok\nreadyz check failed\n"
)
ANSWERS: dict[str, tuple[Checks, str, tuple[int, str]]] = {
    "alive whatever fails": (BAD, "/livez", (200, "ok")),
    "ready": (GOOD, "/readyz", (200, "ok")),
    "ready, in many words": (GOOD, "/readyz?verbose", (200, READY)),
    "not ready, always in many words": (BAD, "/readyz", (503, NOT_READY)),
    "no metrics where there are none": (GOOD, "/metrics", (404, "404: Not Found")),
}


@pytest.mark.parametrize("case", ANSWERS.values(), ids=ANSWERS.keys())
async def test_answers(case: tuple[Checks, str, tuple[int, str]]) -> None:
    checks, path, answer = case
    assert await ask(checks, path) == answer


async def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=f"^port {port} is in use on this machine$"):
            async with health_server(host="127.0.0.1", port=port, checks={}):
                pass
