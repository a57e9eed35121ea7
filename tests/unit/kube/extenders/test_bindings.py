"""Bindings by extenders, and extenders that stay silent, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from arranger.api.effects import (
    Ambiguous,
    Applied,
    Bind,
    ObjectKey,
    Outcome,
    QueryExtenders,
    Refused,
)
from arranger.api.extenders import Extender
from arranger.kube.client.transport import (
    RefusedConnectionError,
    TransportError,
)
from arranger.kube.extenders.http import HttpExtenderTransport
from arranger.kube.watch.raw_objects import RawObject, RawObjectDecoder, RawObjectStore
from tests.builders import a_pod
from tests.unit.kube.extenders.harness import (
    NODES,
    POD,
    Cluster,
    ReceivedRequest,
    consultant,
    outcomes,
)

# --- bindings and silence, in virtual time ------------------------------------------------------


class Silent:
    """A port that does something and answers nothing, or something else."""

    def __init__(self, act: Callable[[], Awaitable[tuple[int, bytes]]]) -> None:
        self._act = act

    async def post(self, extender: Extender, verb: str, body: bytes) -> tuple[int, bytes]:
        return await self._act()

    async def close(self) -> None:
        pass


BINDER = Extender("http://binder", bind_verb="bind", timeout=5.0)


@pytest.mark.looptime(noop_cycles=0)
async def test_a_question_without_an_answer_ends_with_the_time_out() -> None:
    async def hang() -> tuple[int, bytes]:
        await asyncio.Event().wait()
        raise AssertionError

    asker = consultant(Silent(hang))
    (outcome,) = await outcomes(
        asker, QueryExtenders(POD, (Extender("http://x", "filter"),), NODES)
    )
    assert outcome == Refused(0, "Extender", 'running extender "http://x": no answer within 5s')
    assert asyncio.get_running_loop().time() == pytest.approx(5.0, abs=0.1)


#: name → (where the pod is 3 s after the call, the call's end, what it comes to).
BINDINGS: dict[str, tuple[str, TransportError | ReceivedRequest, list[Outcome | type[Outcome]]]] = {
    "no answer, bound": ("n1", TransportError("lost"), [Ambiguous("lost"), Applied()]),
    "no answer, bound elsewhere": (
        "n9",
        TransportError("lost"),
        [Ambiguous("lost"), Refused(409, "AlreadyBound", "the pod is bound to n9")],
    ),
    "no answer, and never bound": (
        "",
        TransportError("lost"),
        [
            Ambiguous("lost"),
            Refused(
                0,
                "Extender",
                'running extender "http://binder": lost; and the pod is not seen bound',
            ),
        ],
    ),
    "never sent": (
        "",
        RefusedConnectionError("refused"),
        [Refused(0, "Extender", 'running extender "http://binder": refused')],
    ),
    "an error": (
        "",
        ReceivedRequest({"Error": "boom"}),
        [Refused(0, "Extender", 'running extender "http://binder": boom')],
    ),
}


@pytest.mark.looptime(noop_cycles=0)
@pytest.mark.parametrize(("node", "end", "expected"), BINDINGS.values(), ids=BINDINGS.keys())
async def test_what_becomes_of_a_binding_is_known_in_the_end(
    node: str, end: TransportError | ReceivedRequest, expected: list[Outcome]
) -> None:
    cluster = Cluster(a_pod().manifest())

    def bind() -> None:
        if node:
            cluster.pods["p"] = a_pod().on(node).manifest()

    async def act() -> tuple[int, bytes]:
        asyncio.get_running_loop().call_later(3, bind)
        if isinstance(end, ReceivedRequest):
            return end.status, end.body
        raise end

    assert (
        await outcomes(consultant(Silent(act), cluster), Bind(POD, "n1", extender=BINDER))
        == expected
    )


@pytest.mark.looptime(noop_cycles=0)
async def test_an_extender_that_binds_and_then_fails_has_bound() -> None:
    cluster = Cluster(a_pod().on("n1").manifest())

    async def act() -> tuple[int, bytes]:
        return 200, b'{"Error": "could not say so"}'

    asker = consultant(Silent(act), cluster)
    assert await outcomes(asker, Bind(POD, "n1", extender=BINDER)) == [Applied()]


UNREAD = {
    "it is bound, as is read later": ("n1", Applied()),
    "it is bound elsewhere": ("n9", Refused(409, "AlreadyBound", "the pod is bound to n9")),
}


@pytest.mark.looptime(noop_cycles=0)
@pytest.mark.parametrize(("node", "expected"), UNREAD.values(), ids=UNREAD.keys())
async def test_after_an_error_nobody_knows_until_the_pod_can_be_read(
    node: str, expected: Outcome
) -> None:
    cluster = Cluster(a_pod().on(node).manifest())
    cluster.lost = True

    async def act() -> tuple[int, bytes]:
        asyncio.get_running_loop().call_later(3, setattr, cluster, "lost", False)
        return 200, b'{"Error": "could not say so"}'

    why = 'running extender "http://binder": could not say so'
    found = await outcomes(consultant(Silent(act), cluster), Bind(POD, "n1", extender=BINDER))
    assert found == [Ambiguous(why), expected]


async def test_nothing_is_bound_while_we_may_not_write() -> None:
    asker = consultant(HttpExtenderTransport(), may_write=False)
    assert await outcomes(asker, Bind(POD, "n1", extender=BINDER)) == [Refused(0, "NotLeader")]


# --- whole objects ------------------------------------------------------------------------------


def test_objects_are_kept_byte_for_byte() -> None:
    raw = b'{"metadata":{"name":"n", "x": [1,  2]},"odd":true}'
    decoder, kept = RawObjectDecoder(), RawObjectStore()
    _, objects, bad = decoder.decode_page(b'{"metadata":{},"items":[' + raw + b"]}")
    assert bad == []
    kept.replaced(objects, "1")
    assert kept["n"] == raw
    event = decoder.decode_event(b'{"type":"DELETED","object":' + raw + b"}")
    assert isinstance(event.object, RawObject)  # type: ignore[union-attr]
    kept.deleted(event.object)  # type: ignore[union-attr]
    assert "n" not in kept


@pytest.mark.looptime(noop_cycles=0)
async def test_slow_bindings_of_one_namespace_count_little_for_whether_others_are_decided() -> None:
    async def hang() -> tuple[int, bytes]:
        await asyncio.Event().wait()
        raise AssertionError

    asker = consultant(Silent(hang))
    for n in range(1000):
        key = ObjectKey("slow", f"p{n}", f"uid-{n}")
        asker.submit(Bind(key, "n1", extender=BINDER), lambda _: None)
    asker.submit(Bind(ObjectKey("other", "p", "uid"), "n1", extender=BINDER), lambda _: None)
    assert asker.pressure == 1001  # at once: more may be decided before anything is sent
    await asyncio.sleep(0.9)
    assert asker.pressure == 1001
    due = asker.next_slow()
    assert due is not None
    await asyncio.sleep(due - asyncio.get_running_loop().time())
    assert (asker.pressure, asker.next_slow()) == (33, None)
    await asker.close()
