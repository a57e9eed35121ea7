"""Bytes of a watch are cut into frames wherever the chunks of the connection end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.protobuf import MEDIA_TYPE
from arranger.kube.client.frames import (
    MAX_FRAME_BYTES,
    LineSplitter,
    MessageSplitter,
    splitter_of,
)

SPLITS = {
    "one line in one chunk": ([b"abc\n"], [b"abc"]),
    "many lines in one chunk": ([b"a\nb\nc\n"], [b"a", b"b", b"c"]),
    "a line in many chunks": ([b"a", b"b", b"c\nd"], [b"abc"]),
    "the newline comes alone": ([b"a", b"\n", b"b", b"\n"], [b"a", b"b"]),
    "empty lines are keep-alives": ([b"\n\na\n\n"], [b"a"]),
    "a half line at the end is dropped": ([b"a\nhal"], [b"a"]),
}


@pytest.mark.parametrize("case", SPLITS.values(), ids=SPLITS.keys())
def test_lines_are_cut_wherever_the_chunks_are(case: tuple[list[bytes], list[bytes]]) -> None:
    chunks, want = case
    splitter = LineSplitter()
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == want


def with_length(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(0, 400)))
def test_messages_are_cut_wherever_the_chunks_are(messages: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(with_length, messages)) + b"\0\0\0\x09half"
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    chunks = [stream[a:b] for a, b in pairwise(ends)]
    splitter = MessageSplitter()
    assert [message for chunk in chunks for message in splitter.feed(chunk)] == messages


def test_a_message_longer_than_any_object_is_refused_at_its_length() -> None:
    splitter = MessageSplitter()
    assert splitter.feed(MAX_FRAME_BYTES.to_bytes(4, "big")) == []
    with pytest.raises(ParseError, match="a frame of"):
        MessageSplitter().feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))


def test_the_media_type_says_how_frames_are_cut() -> None:
    assert isinstance(splitter_of(f"{MEDIA_TYPE};stream=watch"), MessageSplitter)
    assert isinstance(splitter_of("application/json"), LineSplitter)
    assert isinstance(splitter_of(""), LineSplitter)
