from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import msgspec
import pytest

from arranger.api.types.core import ObjectMeta
from arranger.kube.watch.decoder import Decoder, UndecodableObject
from arranger.kube.watch.reflector import Reflector
from arranger.kube.watch.sink import is_newer
from tests.unit.kube.scripted_transport import (
    REFUSED,
    RESET,
    ScriptedStream,
    ScriptedTransport,
    failure,
    ok,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)


class Thing(msgspec.Struct):
    metadata: ObjectMeta
    size: int = 0


class Recorder:
    """A sink that writes down what it is told, and keeps the state it implies."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.state: dict[str, int] = {}
        #: How often it was told that the server does not serve the resource.
        self.absent = 0

    def on_absent(self) -> None:
        self.absent += 1

    def listing(self) -> None:
        pass

    def replaced(self, objects: list[Thing], resource_version: str, undecodable: Any = ()) -> None:
        self.state = {o.metadata.name: o.size for o in objects}
        names = ",".join(sorted(self.state))
        self.told.append(f"={names}@{resource_version}")

    def applied(self, obj: Thing | UndecodableObject) -> None:
        if isinstance(obj, UndecodableObject):
            self.told.append(f"?{obj.metadata.name}@{obj.metadata.resource_version}")
            return
        self.state[obj.metadata.name] = obj.size
        self.told.append(f"+{obj.metadata.name}@{obj.metadata.resource_version}")

    def deleted(self, obj: Thing) -> None:
        del self.state[obj.metadata.name]
        self.told.append(f"-{obj.metadata.name}@{obj.metadata.resource_version}")


def thing(name: str, version: int | str, size: Any = 1) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"metadata": meta, "size": size}


def event(kind: str, name: str, version: int | str, size: Any = 1) -> dict[str, Any]:
    return {"type": kind, "object": thing(name, version, size)}


def bookmark(version: int, *, end: bool = False) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"type": "BOOKMARK", "object": {"kind": "Thing", "metadata": meta}}


def error(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message, "metadata": {}}
    if details:
        status["details"] = details
    return {"type": "ERROR", "object": status}


def page(*items: dict[str, Any], version: int = 10, token: str = "") -> Any:
    meta = {"resourceVersion": str(version), "continue": token}
    return ok({"kind": "ThingList", "metadata": meta, "items": list(items)})


#: The state of most cases: a and b, at version 10.
SYNCED = [event("ADDED", "a", 3), event("ADDED", "b", 7), bookmark(10, end=True)]
GONE = failure(410, "Expired", "too old resource version")
TOO_LARGE = failure(504, "Timeout", "Too large resource version: 99, current: 20")


async def reflect(
    transport: ScriptedTransport, seconds: float, *other_paths: str
) -> tuple[Recorder, Reflector[Thing]]:
    sink = Recorder()
    reflector = Reflector(
        transport,
        "/things",
        Decoder(Thing),
        sink,
        rng=random.Random(4),
        other_paths=other_paths,
        on_absent=sink.on_absent,
    )
    running = asyncio.create_task(reflector.run())
    await asyncio.sleep(seconds)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return sink, reflector


STREAMS: dict[str, tuple[list[Any], list[str]]] = {
    "the initial events arrive as one state": ([SYNCED], ["=a,b@10"]),
    "changes follow in order": (
        [
            [
                *SYNCED,
                event("ADDED", "c", 11),
                event("MODIFIED", "a", 12),
                event("DELETED", "b", 13),
            ]
        ],
        ["=a,b@10", "+c@11", "+a@12", "-b@13"],
    ),
    "an end is normal: the next watch resumes": (
        [[*SYNCED, event("ADDED", "c", 11)], [event("ADDED", "d", 12)]],
        ["=a,b@10", "+c@11", "+d@12"],
    ),
    "a broken connection resumes too": (
        [[*SYNCED, event("ADDED", "c", 11), RESET], [event("ADDED", "d", 12)]],
        ["=a,b@10", "+c@11", "+d@12"],
    ),
    "replayed and stale events are dropped": (
        [
            [*SYNCED, event("MODIFIED", "a", 12)],
            [event("MODIFIED", "a", 12), event("MODIFIED", "a", 9), event("MODIFIED", "a", 13)],
        ],
        ["=a,b@10", "+a@12", "+a@13"],
    ),
    "a deletion told twice is passed on once": (
        [[*SYNCED, event("DELETED", "b", 13), event("DELETED", "b", 13)]],
        ["=a,b@10", "-b@13"],
    ),
    "410 in the stream fetches the state again": (
        [
            [*SYNCED, error(410, "Expired")],
            [event("ADDED", "a", 3), bookmark(20, end=True)],
        ],
        ["=a,b@10", "=a@20"],
    ),
    "410 at connect fetches the state again": (
        [SYNCED, GONE, [event("ADDED", "a", 3), bookmark(20, end=True)]],
        ["=a,b@10", "=a@20"],
    ),
    "a version the server has not reached fetches the state again": (
        [SYNCED, TOO_LARGE, [event("ADDED", "a", 3), bookmark(5, end=True)]],
        ["=a,b@10", "=a@5"],
    ),
    "the same inside the stream": (
        [
            SYNCED,
            [error(504, causes=[{"reason": "ResourceVersionTooLarge"}])],
            [event("ADDED", "a", 3), bookmark(5, end=True)],
        ],
        ["=a,b@10", "=a@5"],
    ),
    "another error in the stream resumes": (
        [[*SYNCED, event("ADDED", "c", 11), error(500)], [event("ADDED", "d", 12)]],
        ["=a,b@10", "+c@11", "+d@12"],
    ),
    "initial events cut short are not the state": (
        [[event("ADDED", "a", 3), RESET], [event("ADDED", "a", 3)], SYNCED],
        ["=a,b@10"],
    ),
    "an object deleted within the initial events is not part of the state": (
        [[event("ADDED", "a", 3), event("DELETED", "a", 4), bookmark(10, end=True)]],
        ["=@10"],
    ),
    "an object that cannot be decoded is told as such, the stream lives on": (
        [
            [
                event("ADDED", "odd", 2, "large"),
                *SYNCED,
                event("MODIFIED", "a", 11, "large"),
                b"{not json",
                event("MODIFIED", "b", 12),
            ]
        ],
        ["=a,b@10", "?a@11", "+b@12"],
    ),
    "an unknown event type is ignored": (
        [[*SYNCED, event("MOVED", "a", 11), event("MODIFIED", "a", 12)]],
        ["=a,b@10", "+a@12"],
    ),
    "opaque versions are taken as they come": (
        [[*SYNCED, event("MODIFIED", "a", "x9"), event("MODIFIED", "a", "x8")]],
        ["=a,b@10", "+a@x9", "+a@x8"],
    ),
}


@pytest.mark.parametrize("case", STREAMS.values(), ids=STREAMS.keys())
async def test_what_the_sink_is_told(case: tuple[list[Any], list[str]]) -> None:
    streams, want = case
    sink, _ = await reflect(ScriptedTransport(streams=streams), 60)
    assert sink.told == want


RESUMED: dict[str, tuple[list[Any], str]] = {
    "from the bookmark that ended the initial events": ([SYNCED], "10"),
    "from the last event": ([[*SYNCED, event("DELETED", "a", 14)]], "14"),
    "from a later bookmark": ([[*SYNCED, event("DELETED", "a", 14), bookmark(33)]], "33"),
    "from an object that could not be decoded": ([[*SYNCED, event("ADDED", "c", 15, "x")]], "15"),
    "never backwards": ([[*SYNCED, event("MODIFIED", "a", 14), bookmark(12)]], "14"),
    "versions are numbers, not words": ([[*SYNCED, bookmark(99), bookmark(100)]], "100"),
}


@pytest.mark.parametrize("case", RESUMED.values(), ids=RESUMED.keys())
async def test_where_the_next_watch_resumes(case: tuple[list[Any], str]) -> None:
    streams, want = case
    transport = ScriptedTransport(streams=streams)
    await reflect(transport, 5)
    assert transport.opened[1].query["resourceVersion"] == want
    assert "sendInitialEvents" not in transport.opened[1].query


async def test_the_first_watch_asks_for_the_state_consistently() -> None:
    transport = ScriptedTransport(streams=[SYNCED])
    _, reflector = await reflect(transport, 0.1)
    query = dict(transport.opened[0].query)
    assert 300 <= int(query.pop("timeoutSeconds")) <= 600
    assert query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "resourceVersion": "",
    }
    assert reflector.synced.is_set()


UNSUPPORTED: dict[str, tuple[Any, float]] = {
    "refused as invalid": (failure(422, "Invalid", "sendInitialEvents is forbidden"), 1),
    "refused as bad": (failure(400, "BadRequest"), 1),
    "ignored, as a plain bookmark shows": ([event("ADDED", "a", 3), 9.0, bookmark(10)], 10),
    "ignored in silence": ([event("ADDED", "a", 3), 60.0, bookmark(10)], 31),
}


@pytest.mark.parametrize("case", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
async def test_without_watch_list_it_lists_page_by_page(case: tuple[Any, float]) -> None:
    first, seconds = case
    transport = ScriptedTransport(
        page(thing("a", 3), token="t1"),
        page(thing("b", 7), thing("odd", 8, "large"), version=12),
        streams=[first, [event("ADDED", "c", 13)]],
    )
    sink, _ = await reflect(transport, seconds)
    assert sink.told == ["=a,b@12", "+c@13"]
    assert [dict(call.query) for call in transport.calls] == [
        {"limit": "500"},
        {"limit": "500", "continue": "t1"},
    ]
    assert transport.opened[1].query["resourceVersion"] == "12"


async def test_an_expired_continue_token_lists_in_one_piece() -> None:
    transport = ScriptedTransport(
        page(thing("a", 3), token="t1"),
        GONE,
        page(thing("a", 3), thing("b", 7), version=15),
        streams=[failure(400)],
    )
    sink, _ = await reflect(transport, 1)
    assert sink.told == ["=a,b@15"]
    assert dict(transport.calls[-1].query) == {}


async def test_a_list_that_fails_is_tried_again() -> None:
    transport = ScriptedTransport(
        RESET, failure(503), ok([]), page(thing("a", 3)), streams=[failure(400)]
    )
    sink, reflector = await reflect(transport, 30)
    assert sink.told == ["=a@10"]
    assert reflector.last_error == ""


async def test_a_resource_not_served_counts_as_empty_until_it_appears() -> None:
    transport = ScriptedTransport(streams=[failure(404), failure(404), SYNCED])
    sink, reflector = await reflect(transport, 59)
    assert sink.told == ["=@"]
    assert sink.absent == 2, "each time that it was asked"
    assert reflector.synced.is_set()
    assert reflector.not_served
    transport = ScriptedTransport(
        streams=[failure(404), failure(404), SYNCED, failure(404), SYNCED]
    )
    sink, reflector = await reflect(transport, 150)
    assert sink.told == ["=@", "=a,b@10", "=@", "=a,b@10"]
    assert not reflector.not_served
    assert gaps(transport)[:2] == [30.0, 30.0]


#: As deep as an API server lets objects be.
DEEP = b'{"a":' * 9990 + b"1" + b"}" * 9990


def _deep(name: str, version: int) -> bytes:
    head = b'{"metadata":{"name":"%s","uid":"uid-%s","resourceVersion":"%d"},"spec":%s}'
    return head % (name.encode(), name.encode(), version, DEEP)


def test_an_object_nested_too_deep_spoils_no_other() -> None:
    decoder = Decoder(Thing)
    told = decoder.decode_event(b'{"type":"ADDED","object":%s}' % _deep("deep", 11))
    assert isinstance(told, UndecodableObject)
    assert (told.metadata.name, told.metadata.resource_version) == ("deep", "11")
    items = b",".join([msgspec.json.encode(thing("a", 3)), _deep("deep", 11)])
    body = b'{"metadata":{"resourceVersion":"12"},"items":[%s]}' % items
    meta, good, bad = decoder.decode_page(body)
    assert (meta.resource_version, [each.metadata.name for each in good]) == ("12", ["a"])
    assert [each.metadata.name for each in bad] == ["deep"]


OLD_AND_NEW: dict[str, tuple[list[Any], list[str], list[str]]] = {
    "the newest version that is served is read": (
        [failure(404), SYNCED],
        ["/things", "/v2/things"],
        ["=a,b@10"],
    ),
    "a version that goes is followed by one that comes": (
        [failure(404), SYNCED, failure(404), failure(404), SYNCED],
        ["/things", "/v2/things", "/v2/things", "/v1/things", "/things"],
        ["=a,b@10", "=a,b@10"],
    ),
    "without any version there are no objects until one is served": (
        [failure(404), failure(404), failure(404), failure(404), SYNCED],
        ["/things", "/v2/things", "/v1/things", "/things", "/v2/things"],
        ["=@", "=a,b@10"],
    ),
}


@pytest.mark.parametrize(("streams", "paths", "told"), OLD_AND_NEW.values(), ids=OLD_AND_NEW.keys())
async def test_other_versions_of_an_api(
    streams: list[Any], paths: list[str], told: list[str]
) -> None:
    transport = ScriptedTransport(streams=streams)
    sink, _ = await reflect(transport, 59, "/v2/things", "/v1/things")
    assert [call.path for call in transport.opened][: len(paths)] == paths
    assert sink.told == told


async def test_a_silent_death_is_noticed_after_70_seconds() -> None:
    transport = ScriptedTransport(streams=[[*SYNCED, 1e6], [event("ADDED", "c", 11)]])
    sink, _ = await reflect(transport, 75)
    assert sink.told == ["=a,b@10", "+c@11"]
    assert 70 <= transport.opened[1].at <= 72


async def test_two_silent_watches_make_it_doubt_its_version() -> None:
    transport = ScriptedTransport(
        streams=[[*SYNCED, event("ADDED", "c", 99)], [1e6], [1e6], SYNCED]
    )
    sink, _ = await reflect(transport, 160)
    assert sink.told == ["=a,b@10", "+c@99", "=a,b@10"]
    assert [call.query["resourceVersion"] for call in transport.opened[:4]] == ["", "99", "99", ""]


def gaps(transport: ScriptedTransport) -> list[float]:
    times = [call.at for call in transport.opened]
    return [later - earlier for earlier, later in itertools.pairwise(times)]


BACKING_OFF: dict[str, Any] = {
    "no connection": REFUSED,
    "5xx": failure(500),
    "no rights": failure(403, "Forbidden"),
    "a watch that ends at once": [],
    "an error at once": [error(500)],
}


@pytest.mark.parametrize("trouble", BACKING_OFF.values(), ids=BACKING_OFF.keys())
async def test_it_backs_off_from(trouble: Any) -> None:
    transport = ScriptedTransport(streams=[[*SYNCED, 2.0], *[trouble] * 500])
    _, reflector = await reflect(transport, 400)
    waits = gaps(transport)[1:]
    assert 0.6 <= waits[0] <= 1.0
    assert all(22 <= wait <= 38 for wait in waits[7:])
    assert all(wait > 0.6 for wait in waits)
    assert reflector.last_error


async def test_it_forgets_the_back_off_once_a_watch_worked() -> None:
    transport = ScriptedTransport(
        streams=[[*SYNCED, 2.0], *[REFUSED] * 6, [5.0], REFUSED, [event("ADDED", "c", 11)]]
    )
    sink, _ = await reflect(transport, 120)
    assert 0.6 <= gaps(transport)[8] - 0.0 <= 1.0
    assert sink.told == ["=a,b@10", "+c@11"]


async def test_it_does_not_relist_in_a_tight_loop() -> None:
    transport = ScriptedTransport(streams=[[*SYNCED, error(410)] for _ in range(500)])
    await reflect(transport, 300)
    assert len(transport.opened) < 20
    assert gaps(transport)[0] == 0.0


async def test_it_gives_up_a_place_where_the_stream_always_fails() -> None:
    transport = ScriptedTransport(streams=[SYNCED, *[[error(500)] for _ in range(4)], SYNCED])
    sink, _ = await reflect(transport, 60)
    assert sink.told == ["=a,b@10", "=a,b@10"]


async def test_429_waits_as_long_as_the_server_says() -> None:
    transport = ScriptedTransport(streams=[SYNCED, failure(429, retry_after="17"), []])
    await reflect(transport, 60)
    assert 17.0 <= transport.opened[2].at < 20


async def test_a_burst_lets_others_run() -> None:
    lines = [event("MODIFIED", "a", 100 + n) for n in range(10_000)]
    transport = ScriptedTransport(streams=[ScriptedStream([*SYNCED, *lines, 1e9], inactivity=2e9)])
    turns = 0

    async def other() -> None:
        nonlocal turns
        while len(sink.told) < 10_001:
            turns += 1
            await asyncio.sleep(0)

    sink = Recorder()
    task = asyncio.create_task(other())
    reflector = Reflector(
        transport,
        "/things",
        Decoder(Thing),
        sink,
        rng=random.Random(4),
    )
    running = asyncio.create_task(reflector.run())
    await asyncio.sleep(1)
    assert len(sink.told) == 10_001
    assert turns >= 50
    await task
    running.cancel()


ORDER = {
    "later": ("10", "9", True),
    "earlier": ("9", "10", False),
    "equal": ("10", "10", False),
    "opaque and different": ("b", "a", True),
    "opaque and equal": ("a", "a", False),
}


@pytest.mark.parametrize("case", ORDER.values(), ids=ORDER.keys())
def test_the_order_of_versions(case: tuple[str, str, bool]) -> None:
    version, than, want = case
    assert is_newer(version, than) is want
