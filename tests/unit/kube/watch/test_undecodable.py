"""Objects that cannot be decoded: only they suffer, and what was known of them stays."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from arranger.api.parsing.nesting import MAX_BRACKETS, cut_deep_parts
from arranger.api.types.core import ObjectMeta, Pod
from arranger.kube.client.transport import Response
from arranger.kube.watch.decoder import Decoder, UndecodableObject, WatchEvent
from arranger.kube.watch.informer import Informer, uid_of
from arranger.kube.watch.raw_objects import RawObjectDecoder
from arranger.kube.watch.reflector import Reflector
from tests.unit.kube.scripted_transport import ScriptedTransport, failure

pytestmark = pytest.mark.looptime(noop_cycles=0)

NO_WATCH_LIST = failure(400, "BadRequest")


class Thing(msgspec.Struct):
    metadata: ObjectMeta
    size: int = 0
    parameters: Any = None


def nested(levels: int) -> str:
    return '{"a":[' * (levels // 2) + '"]}{[\\"' + '"' + "]}" * (levels // 2)


#: How an object is spoiled: a value of its field.
SPOILED = {
    "of another type": '"large"',
    "nested in 900 levels": nested(900),
    "nested in 2,000 levels": nested(2000),
    "nested in 10,000 levels": nested(10_000),
}


def thing(name: str, version: int, size: str = "1") -> str:
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return f'{{"parameters": {size}, "metadata": {json.dumps(meta)}, "size": {size}}}'


def event(kind: str, name: str, version: int, size: str = "1") -> bytes:
    return f'{{"object": {thing(name, version, size)}, "type": "{kind}"}}'.encode()


def synced(version: int) -> bytes:
    meta = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}).encode()


def page(version: int, *items: str) -> Response:
    joined = ",".join(items)
    return Response(
        200, f'{{"items": [{joined}], "metadata": {{"resourceVersion": "{version}"}}}}'.encode(), {}
    )


class Handler:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_updated(self, obj: Thing) -> None:
        self.heard.append(f"+{obj.metadata.name}@{obj.metadata.resource_version}")

    def on_deleted(self, obj: Thing) -> None:
        self.heard.append(f"-{obj.metadata.name}@{obj.metadata.resource_version}")


async def heard(transport: ScriptedTransport) -> list[str]:
    handler = Handler()
    reflector = Reflector(
        transport,
        "/things",
        Decoder(Thing),
        Informer[Thing](handler, key=uid_of),
        rng=random.Random(1),
    )
    running = asyncio.create_task(reflector.run())
    await asyncio.sleep(30)
    assert not running.done(), "one object has ended it"
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return handler.heard


@pytest.fixture(params=SPOILED.values(), ids=SPOILED.keys())
def bad(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_others_are_delivered(bad: str) -> None:
    first = [event("ADDED", "bad", 1, bad), event("ADDED", "a", 2), synced(5)]
    then = [event("ADDED", "worse", 6, bad), event("ADDED", "b", 7)]
    assert await heard(ScriptedTransport(streams=[[*first, *then]])) == ["+a@2", "+b@7"]


async def test_others_in_a_list_are_delivered(bad: str) -> None:
    listed = page(5, thing("a", 1), thing("bad", 2, bad), thing("b", 3))
    transport = ScriptedTransport(listed, streams=[NO_WATCH_LIST, [event("ADDED", "c", 6)]])
    assert await heard(transport) == ["+a@1", "+b@3", "+c@6"]


async def test_what_was_known_before_an_edit_stays_and_its_deletion_is_told(bad: str) -> None:
    stream = [
        *[event("ADDED", "a", 1), synced(5)],
        *[event("MODIFIED", "a", 6, bad), event("DELETED", "a", 7, bad)],
        event("ADDED", "b", 8),
    ]
    assert await heard(ScriptedTransport(streams=[stream])) == ["+a@1", "-a@1", "+b@8"]


async def test_an_edit_that_can_be_decoded_is_delivered_again(bad: str) -> None:
    edits = [event("MODIFIED", "a", 6, bad), event("MODIFIED", "a", 7)]
    stream = [event("ADDED", "a", 1), synced(5), *edits]
    assert await heard(ScriptedTransport(streams=[stream])) == ["+a@1", "+a@7"]


@pytest.mark.parametrize("with_watch_list", [True, False])
async def test_in_a_new_full_state_what_was_known_stays_until_it_is_not_there(
    bad: str, with_watch_list: bool
) -> None:
    gone = failure(410, "Expired", "too old resource version")
    first = [event("ADDED", "a", 1), event("ADDED", "b", 2), synced(5)]
    if with_watch_list:
        second = [event("ADDED", "a", 6, bad), event("ADDED", "b", 2), synced(9)]
        streams = [first, gone, [*second, event("DELETED", "a", 10, bad)]]
        transport = ScriptedTransport(streams=streams)
    else:
        pages = [page(5, thing("a", 1), thing("b", 2)), page(9, thing("a", 6, bad), thing("b", 2))]
        streams = [NO_WATCH_LIST, [], gone, [event("DELETED", "a", 10, bad)]]
        transport = ScriptedTransport(*pages, streams=streams)
    assert await heard(transport) == ["+a@1", "+b@2", "+b@2", "-a@1"]


async def test_one_that_was_deleted_within_the_initial_events_is_gone(bad: str) -> None:
    initial = [event("ADDED", "a", 1, bad), event("DELETED", "a", 2, bad), synced(5)]
    assert await heard(ScriptedTransport(streams=[initial])) == []


def test_what_is_cut_is_json_and_the_rest_of_it_the_same() -> None:
    for levels in (2, 60, 64, 66, 2000, 10_000):
        cut = cut_deep_parts(thing("a", 1, nested(levels)).encode())
        assert json.loads(cut)["metadata"]["name"] == "a"
    shallow = thing("a", 1, nested(60)).encode()
    assert cut_deep_parts(shallow) == shallow


def test_what_is_wrong_is_not_cut_where_it_is_not_too_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bracket takes half a microsecond, and an object may have half a million."""
    cut = Mock(side_effect=cut_deep_parts)
    monkeypatch.setattr("arranger.api.parsing.objects.cut_deep_parts", cut)
    wrong = {"metadata": {"name": "a"}, "spec": {"nodeName": 5, "unread": [{}, {}]}}
    line = json.dumps({"type": "ADDED", "object": wrong}).encode()
    seen = Decoder(Pod).decode_event(line)
    assert isinstance(seen, UndecodableObject)
    assert seen.metadata.name == "a"
    Decoder(Pod).decode_page(json.dumps({"metadata": {}, "items": [wrong]}).encode())
    cut.assert_not_called()


@pytest.mark.parametrize("decoder", [Decoder(Pod), RawObjectDecoder()])
def test_of_what_is_too_deep_and_has_very_many_brackets_the_metadata_is_known(
    decoder: Decoder[Any],
) -> None:
    many = "[" * 3000 + "]" * 3000 + ",{}" * (2 * MAX_BRACKETS)
    spec = f'{{"nodeName":"n","unread":[{many}]}}'
    line = f'{{"type":"ADDED","object":{{"metadata":{{"name":"a"}},"spec":{spec}}}}}'.encode()
    seen = decoder.decode_event(line)
    if isinstance(seen, UndecodableObject):
        assert seen.metadata.name == "a"
    else:
        assert isinstance(seen, WatchEvent)
        assert seen.object.metadata.name == "a"
        assert len(seen.object.raw) < len(line) - MAX_BRACKETS
