from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry, Gauge

from arranger.daemon.serving.health import Checks, ServerError, health_server
from arranger.daemon.serving.reviews import Refusal
from tests.unit.daemon.serving.servers import (
    Doorkeeper,
    ask,
    own_certificate,
    serving,
    trusting_all,
)

GOOD = {"informer-sync": lambda: None, "leader-election": lambda: None}
BAD = {"informer-sync": lambda: "not read yet: pods", "leader-election": lambda: None}
READY = "[+]informer-sync ok\n[+]leader-election ok\nreadyz check passed\n"
NOT_READY = (
    "[-]informer-sync failed: not read yet: pods\n[+]leader-election ok\nreadyz check failed\n"
)
ANSWERS: dict[str, tuple[Checks, str, tuple[int, str]]] = {
    "alive whatever fails": (BAD, "/livez", (200, "ok")),
    "alive by its old name": (BAD, "/healthz", (200, "ok")),
    "ready": (GOOD, "/readyz", (200, "ok")),
    "ready, in many words": (GOOD, "/readyz?verbose", (200, READY)),
    "not ready, always in many words": (BAD, "/readyz", (503, NOT_READY)),
    "no metrics where there are none": (GOOD, "/metrics", (404, "404: Not Found")),
    "what is not there": (GOOD, "/debug/pprof", (404, "404: Not Found")),
}


@pytest.mark.parametrize("case", ANSWERS.values(), ids=ANSWERS.keys())
async def test_answers(case: tuple[Checks, str, tuple[int, str]]) -> None:
    checks, path, answer = case
    async with serving(checks) as port:
        assert await ask(port, path) == answer


async def test_what_is_wrong_is_told_on_the_loopback_address_only() -> None:
    async with serving(BAD, host="0.0.0.0") as port:
        assert await ask(port, "/readyz") == (503, NOT_READY)
        elsewhere = await ask(port, "/readyz", host=own_address())
    withheld = NOT_READY.replace("not read yet: pods", "reason withheld")
    assert elsewhere == (503, withheld)


def own_address() -> str:
    """An address of this machine that is not its loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            # Sends nothing: it asks for the route.
            sock.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(sock.getsockname()[0])


def a_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("queue_of_team_x", "Something with a name", registry=registry).set(1)
    return registry


@pytest.mark.parametrize(
    ("accepts", "is_open"),
    [
        ("", False),
        ("text/plain;version=bad", False),
        ("application/openmetrics-text;version=x", True),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", True),
    ],
)
async def test_who_asks_for_open_metrics_gets_them(accepts: str, is_open: bool) -> None:
    async with serving(registry=a_registry()) as port:
        status, text = await ask(port, "/metrics", headers={"Accept": accepts})
    assert status == 200
    assert "queue_of_team_x 1.0" in text
    assert text.endswith("# EOF\n") is is_open


async def test_metrics_are_for_whom_the_guard_lets_in() -> None:
    guard = Doorkeeper()
    async with serving(registry=a_registry(), guard=guard) as port:
        status, text = await ask(port, "/metrics", headers={"Authorization": "Bearer t"})
        assert (status, "queue_of_team_x 1.0" in text) == (200, True)
        assert guard.asked == [("get", "/metrics", "Bearer t")]
        guard.refused["/metrics"] = Refusal(403, "no")
        assert await ask(port, "/metrics") == (403, "no")


async def test_only_what_is_served_is_asked_about() -> None:
    guard = Doorkeeper()
    async with serving(guard=guard) as port:
        assert (await ask(port, "/whatever"))[0] == 404
        assert (await ask(port, "/metrics", method="DELETE"))[0] == 405
        assert (await ask(port, "/livez", method="POST", data=b"x" * 1_000_000))[0] == 405
    assert guard.asked == []


async def test_what_fails_inside_does_not_say_how() -> None:
    def broken() -> None:
        raise RuntimeError("secret")

    async with serving(registry=a_registry(), before_metrics=broken) as port:
        assert await ask(port, "/metrics") == (500, "500: Internal Server Error")
        assert await ask(port, "/livez") == (200, "ok")


async def test_tls_is_spoken_while_the_main_loop_is_held_up() -> None:
    """A hundred strangers begin to, and nothing of the main loop has its turn meanwhile."""
    tls = trusting_all()
    async with serving() as port:
        with ExitStack() as stack:
            for _ in range(100):
                client = socket.create_connection(("127.0.0.1", port), timeout=20)
                stack.enter_context(tls.wrap_socket(client))  # holds this loop
            assert await ask(port, "/livez") == (200, "ok")


async def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=f"^port {port} is in use on this machine$"):
            async with health_server(
                host="127.0.0.1",
                port=port,
                checks={},
                certificate=own_certificate(),
                guard=Doorkeeper(),
            ):
                pass
