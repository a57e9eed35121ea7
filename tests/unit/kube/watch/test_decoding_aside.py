"""What is large is decoded while others go on, and in its turn all the same."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Sequence

import msgspec
import pytest

from arranger.api.parsing import pieces
from arranger.api.types.core import Pod
from arranger.kube.watch.decoder import Decoder, RawWatchEvent, UndecodableObject, WatchEvent
from arranger.kube.watch.decoding_aside import MAX_AT_ONCE, decode_event, decode_page
from arranger.kube.watch.protobuf_decoder import decoder_of
from arranger.kube.watch.reflector import BYTES_PER_YIELD, Reflector
from tests.binary_form import a_field, an_entry, an_event, wrapped
from tests.unit.kube.scripted_transport import ScriptedStream, ScriptedTransport

#: Seconds that a decoder waits for others at most.
PATIENCE = 5.0


def a_pod(name: str, version: int, size: int = 0) -> bytes:
    """A pod with labels of so many bytes."""
    labels = b"".join(a_field(11, an_entry(f"k{n}", "")) for n in range(size // 10))
    meta = a_field(1, name) + a_field(3, "ns") + a_field(5, name) + a_field(6, str(version))
    return a_field(1, meta + labels) + a_field(2, b"") + a_field(3, b"")


def a_list(*pods: bytes) -> bytes:
    items = b"".join(a_field(2, pod) for pod in pods)
    return wrapped(a_field(1, a_field(2, "9")) + items, "PodList")


def a_bookmark(version: int) -> bytes:
    end = a_field(12, an_entry("k8s.io/initial-events-end", "true"))
    return an_event("BOOKMARK", a_field(1, a_field(6, str(version)) + end))


class Patient(Decoder[Pod]):
    """Ends once somebody else has had a turn."""

    def __init__(self, other_turn: threading.Event, *, gives_way: bool) -> None:
        super().__init__(Pod)
        self._other_turn, self._gives_way = other_turn, gives_way
        self.waited = False

    def decode_event(self, line: bytes) -> WatchEvent[Pod] | RawWatchEvent | UndecodableObject:
        self.waited = self._gives_way and not self._other_turn.wait(PATIENCE)
        return RawWatchEvent("BOOKMARK")


@pytest.mark.parametrize(("gives_way", "size"), [(True, MAX_AT_ONCE + 1), (False, 1)])
async def test_others_go_on_while_a_large_frame_is_decoded(gives_way: bool, size: int) -> None:
    turn = threading.Event()
    asyncio.get_running_loop().call_soon(turn.set)
    decoder = Patient(turn, gives_way=gives_way)
    await decode_event(decoder, b"x" * size)
    assert not decoder.waited
    assert turn.is_set() == gives_way, "what is small is decoded at once"


@pytest.mark.parametrize("size", [0, 2 * MAX_AT_ONCE])
async def test_it_says_the_same(size: int) -> None:
    decoder, pod = decoder_of(Pod), a_pod("p", 3, size)
    frame, page = an_event("ADDED", pod), a_list(pod, pod)
    assert (len(frame) > MAX_AT_ONCE) == bool(size)
    assert await decode_event(decoder, frame) == decoder.decode_event(frame)
    assert await decode_page(decoder, page) == decoder.decode_page(page)
    assert (len(page) > MAX_AT_ONCE) == bool(size)


@pytest.mark.parametrize("size", [0, 2 * MAX_AT_ONCE])
async def test_json_says_the_same(size: int) -> None:
    decoder = Decoder(Pod)
    labels = {f"k{n}": "" for n in range(size // 10)}
    pod = {"metadata": {"name": "p", "uid": "p", "resourceVersion": "3", "labels": labels}}
    frame = json.dumps({"type": "ADDED", "object": pod}).encode()
    page = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [pod, pod]}).encode()
    event = await decode_event(decoder, frame)
    assert isinstance(event, WatchEvent)
    assert event == WatchEvent("ADDED", msgspec.convert(pod, Pod))
    meta, items, bad = await decode_page(decoder, page)
    assert (meta.resource_version, bad) == ("9", [])
    assert items == [msgspec.convert(pod, Pod)] * 2
    assert (len(frame) > MAX_AT_ONCE) == bool(size)
    assert (len(page) > MAX_AT_ONCE) == bool(size)


async def test_of_large_json_that_is_wrong_only_what_is_wrong_suffers() -> None:
    decoder, labels = Decoder(Pod), {f"k{n}": "" for n in range(2 * MAX_AT_ONCE // 10)}
    good = {"metadata": {"name": "p", "uid": "p", "resourceVersion": "3", "labels": labels}}
    wrong = {**good, "spec": {"containers": 5}}
    frame = json.dumps({"type": "MODIFIED", "object": wrong}).encode()
    event = await decode_event(decoder, frame)
    assert isinstance(event, UndecodableObject)
    assert (event.metadata.name, event.event) == ("p", "MODIFIED")
    _, items, bad = await decode_page(decoder, json.dumps({"items": [good, wrong]}).encode())
    assert [each.metadata.name for each in items] == ["p"]
    assert [each.metadata.name for each in bad] == ["p"]


class Told:
    """A sink that keeps the versions that it is told of."""

    def __init__(self) -> None:
        self.versions: list[str] = []
        self.wanted = 0
        self.all_told = asyncio.Event()

    def listing(self) -> None:
        """Nothing is known but what is told."""

    def replaced(
        self,
        objects: list[Pod],
        resource_version: str,
        undecodable: Sequence[UndecodableObject] = (),
    ) -> None:
        for each in objects:
            self.applied(each)

    def applied(self, obj: Pod | UndecodableObject) -> None:
        self.versions.append(obj.metadata.resource_version)
        if len(self.versions) == self.wanted:
            self.all_told.set()

    def deleted(self, obj: Pod | UndecodableObject) -> None:
        self.versions.append(obj.metadata.resource_version)


async def told_of(frames: list[bytes], told: Told) -> None:
    """Reflect these frames until all are told."""
    stream = ScriptedStream([*frames, 1e9], inactivity=2e9)
    transport = ScriptedTransport(streams=[stream])
    decoder = decoder_of(Pod)
    reflector = Reflector(transport, "/api/v1/pods", decoder, told, rng=random.Random(1))
    running = asyncio.create_task(reflector.run())
    told.wanted = sum(b"BOOKMARK" not in frame for frame in frames)
    async with asyncio.timeout(PATIENCE * 4):
        await told.all_told.wait()
    running.cancel()
    await asyncio.wait({running})


async def test_what_is_small_does_not_overtake_what_is_large() -> None:
    large = 2 * MAX_AT_ONCE
    sizes = [0, large, 0, 0, large, 0]
    initial = [an_event("ADDED", a_pod(f"a{n}", n + 1, size)) for n, size in enumerate(sizes)]
    later = [an_event("MODIFIED", a_pod("a0", n + 21, size)) for n, size in enumerate(sizes)]
    told = Told()
    await told_of([*initial, a_bookmark(20), *later], told)
    assert told.versions == [str(n) for n in (*range(1, 7), *range(21, 27))]


async def test_a_burst_of_frames_that_are_not_large_lets_others_run() -> None:
    frames = [an_event("MODIFIED", a_pod("p", n + 2, MAX_AT_ONCE // 2)) for n in range(100)]
    told, turns = Told(), 0

    async def other() -> None:
        nonlocal turns
        while len(told.versions) < len(frames):
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await told_of([a_bookmark(1), *frames], told)
    await task
    assert sum(map(len, frames)) > 10 * BYTES_PER_YIELD
    assert turns >= 10


async def test_the_event_loop_can_turn_after_each_piece_of_a_megabyte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tolerations = [{"key": f"k{n}", "operator": "Exists"} for n in range(27_000)]
    meta = {"name": "p", "uid": "p", "resourceVersion": "3"}
    pod = {"metadata": meta, "spec": {"containers": [], "tolerations": tolerations}}
    frame = json.dumps({"type": "ADDED", "object": pod}).encode()
    assert len(frame) > 1_000_000
    turned, lengths = threading.Event(), list[int]()
    decoder_of_piece = pieces._decoder

    class WaitsForATurn:
        """Decodes a piece, and goes on once the event loop has turned."""

        def __init__(self, kind: object) -> None:
            self._decode = decoder_of_piece(kind).decode

        def decode(self, body: bytes) -> object:
            decoded = self._decode(body)
            turned.clear()
            assert turned.wait(PATIENCE), "the event loop stood still"
            lengths.append(len(body))
            return decoded

    monkeypatch.setattr(pieces, "_decoder", WaitsForATurn)
    decoding = asyncio.create_task(decode_event(Decoder(Pod), frame))
    turns = 0
    while not decoding.done():
        turns += 1
        turned.set()
        await asyncio.sleep(0)
    event = decoding.result()
    assert isinstance(event, WatchEvent)
    assert len(event.object.spec.tolerations) == len(tolerations)
    assert max(lengths) <= pieces.MAX_PIECE <= MAX_AT_ONCE
    assert turns >= len(lengths) > len(frame) // pieces.MAX_PIECE
