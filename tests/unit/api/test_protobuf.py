"""The reader of the API server's binary form, against messages written here by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.protobuf import read_message, unwrap
from arranger.api.parsing.protobuf_messages import (
    BYTE_COST,
    MAX_SHARED,
    MAX_SHARED_PART,
    PART_COST,
    Messages,
    Shared,
)
from arranger.api.types.core import Node, ObjectMeta, Pod, PodSpec, Volume
from arranger.api.types.core_messages import CORE_MESSAGES, core_messages
from tests.binary_form import a_field, a_time, an_entry, varint

META = a_field(1, "p") + a_field(3, "ns") + a_field(5, "uid") + a_field(6, "7")
#: Reads the parts of a PodSpec, again and again with one reader.
ReadSpec = Callable[..., PodSpec]
POD = a_field(1, META) + a_field(2, a_field(10, "n1") + a_field(25, 5)) + a_field(3, b"")


@pytest.mark.parametrize(
    ("sentence", "kind", "body", "attribute", "value"),
    [
        ("a text", ObjectMeta, a_field(1, "p"), "name", "p"),
        ("a text that is no UTF-8", ObjectMeta, a_field(1, b"p\xff"), "name", "p\ufffd"),
        (
            "a mark for each byte that is none, as in Go",
            ObjectMeta,
            a_field(1, b"a\xe2\x82b\xed\xa0\x80\xf0\x9f\x98"),
            "name",
            "a" + 2 * "\ufffd" + "b" + 6 * "\ufffd",
        ),
        ("a number", ObjectMeta, a_field(7, 300), "generation", 300),
        ("a list", ObjectMeta, a_field(14, "a") + a_field(14, "b"), "finalizers", ["a", "b"]),
        (
            "a dict",
            ObjectMeta,
            a_field(11, a_field(1, "k") + a_field(2, "v")) + a_field(11, a_field(1, "e")),
            "labels",
            {"k": "v", "e": ""},
        ),
        (
            "a time",
            ObjectMeta,
            a_field(8, a_time(1)),
            "creation_timestamp",
            datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        ),
        (
            "a time before 1970",
            ObjectMeta,
            a_field(8, a_time(-1)),
            "creation_timestamp",
            datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        ),
        (
            "the first second of 1970",
            ObjectMeta,
            a_field(8, a_field(1, 0)),
            "creation_timestamp",
            datetime(1970, 1, 1, tzinfo=UTC),
        ),
        ("a time that is none", ObjectMeta, a_field(8, b""), "creation_timestamp", None),
        (
            "a source that is a dict",
            Volume,
            a_field(2, a_field(3, a_field(1, "d") + a_field(4, 1))),
            "gce_persistent_disk",
            {"pdName": "d", "readOnly": True},
        ),
        ("what nobody reads", ObjectMeta, a_field(17, b"x" * 500) + a_field(1, "p"), "name", "p"),
        ("eight bytes unread", ObjectMeta, b"\xf9\x07" + bytes(8) + a_field(1, "p"), "name", "p"),
        ("four bytes unread", ObjectMeta, b"\xfd\x07" + bytes(4) + a_field(1, "p"), "name", "p"),
    ],
)
def test_fields_are_read(
    sentence: str, kind: type, body: bytes, attribute: str, value: object
) -> None:
    assert getattr(read_message(body, core_messages().of(kind)), attribute) == value, sentence


@pytest.mark.parametrize(
    ("sentence", "body"),
    [
        ("a length beyond the end", varint(1 << 3 | 2) + varint(9) + b"p"),
        ("a length within a part beyond its end", a_field(8, b"\x0a\x09x")),
        ("a number without an end", b"\x38" + b"\xff" * 30),
        ("a number cut short", b"\x38\xff"),
        ("a group", b"\x0b"),
        ("four bytes cut short", b"\xfd\x07\x00"),
        ("a year that Python does not know", a_field(8, a_time(1 << 50))),
    ],
)
def test_what_is_wrong_is_refused(sentence: str, body: bytes) -> None:
    with pytest.raises(
        ParseError, match=r"cut short|more than 64 bits|wire type|year|out of range"
    ):
        read_message(body, core_messages().of(ObjectMeta))
    assert sentence


def test_a_pod_cut_short_anywhere_within_a_field_is_refused() -> None:
    message = core_messages().of(Pod)
    whole = read_message(POD, message)
    assert (whole.metadata.name, whole.spec.node_name, whole.spec.priority) == ("p", "n1", 5)
    ends = {0, len(a_field(1, META)), len(POD) - len(a_field(3, b""))}
    for end in set(range(len(POD))) - ends:
        with pytest.raises(ParseError):
            read_message(POD[:end], message)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    for kind in (Pod, Node):
        with contextlib.suppress(ParseError):
            read_message(body, CORE_MESSAGES.of(kind))


@given(st.integers(0, len(POD) - 1), st.integers(0, 255))
def test_no_wrong_byte_in_a_pod_raises_anything_else(at: int, byte: int) -> None:
    with contextlib.suppress(ParseError):
        read_message(POD[:at] + bytes([byte]) + POD[at + 1 :], CORE_MESSAGES.of(Pod))


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_an_entry_says_the_same_however_it_is_written(key: bytes, value: bytes) -> None:
    entries = (
        an_entry(key, value),
        a_field(2, value) + a_field(1, key),
        an_entry("x", "y") + an_entry(key, value),
        an_entry(key, value) + a_field(900, "what nobody reads"),
    )
    message = core_messages().of(ObjectMeta)
    read = [read_message(a_field(11, entry), message).labels for entry in entries]
    assert all(each == read[0] for each in read)
    assert len(read[0]) == 1


def test_an_object_is_unwrapped_from_unknown() -> None:
    kind = a_field(1, a_field(1, "v1") + a_field(2, "Pod"))
    assert unwrap(b"k8s\x00" + kind + a_field(2, POD) + a_field(3, "")) == POD
    for body in (b"", b"{}", b"k8s\x00\x12\x09x"):
        with pytest.raises(ParseError):
            unwrap(body)


def test_a_default_that_is_not_empty_stands_for_an_empty_text_and_for_zero() -> None:
    class Kind(msgspec.Struct):
        text: str = "TCP"
        number: int = 1
        either: int | None = None
        flag: bool = True

    message = Messages({Kind: {"text": 1, "number": 2, "either": 3, "flag": 4}}).of(Kind)
    body = a_field(1, "") + a_field(2, 0) + a_field(3, 0) + a_field(4, 0)
    assert read_message(body, message) == Kind("TCP", 1, 0, True)


def test_a_zero_is_read_where_there_has_to_be_a_number() -> None:
    class Kind(msgspec.Struct):
        number: int

    assert read_message(a_field(1, 0), Messages({Kind: {"number": 1}}).of(Kind)) == Kind(0)


def test_a_number_of_more_than_64_bits_counts_by_its_last_64() -> None:
    message = core_messages().of(ObjectMeta)
    assert read_message(varint(7 << 3) + b"\xff" * 9 + b"\x7f", message).generation == -1


def test_a_reader_is_made_once() -> None:
    messages = core_messages()
    assert messages.of(Pod) is messages.of(Pod)


def test_a_field_without_a_number_is_a_mistake() -> None:
    class Kind(msgspec.Struct):
        text: str = ""

    with pytest.raises(KeyError):
        Messages({Kind: {}}).of(Kind)


def test_equal_parts_are_shared_up_to_a_bound() -> None:
    read: list[bytes] = []

    def note(part: bytes) -> Any:
        read.append(part)
        return part

    shared = Shared(note)
    assert shared[b"a"] is shared[b"a"]
    assert read == [b"a"]
    for size in (MAX_SHARED_PART, MAX_SHARED_PART + 1):
        for _ in range(2):
            assert shared[b"x" * size]
    assert len(read) == 4
    for size in (1000, 3):
        for n in range(3 * MAX_SHARED // (PART_COST + BYTE_COST * size)):
            assert shared[n.to_bytes(size, "big")]
        assert sum(PART_COST + BYTE_COST * len(part) for part in shared) <= MAX_SHARED


@pytest.fixture
def a_spec() -> ReadSpec:
    message = core_messages().of(PodSpec)
    return lambda *parts: read_message(b"".join(parts), message)


NODE_NAME = a_field(10, "n1")
CONTAINER = a_field(2, a_field(1, "main"))


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        ("a list goes on after another field", (CONTAINER, NODE_NAME, CONTAINER)),
        (
            "of a value that comes twice the last counts",
            (a_field(10, "n0"), *2 * [CONTAINER], NODE_NAME),
        ),
        ("again and again", (CONTAINER + a_field(10, "n0"), CONTAINER, *100 * [NODE_NAME])),
    ],
)
def test_fields_may_come_in_any_order(
    sentence: str, parts: tuple[bytes, ...], a_spec: ReadSpec
) -> None:
    spec = a_spec(*parts)
    assert spec.node_name == "n1", sentence
    assert [each.name for each in spec.containers] == ["main", "main"], sentence


def test_pods_share_what_is_equal_in_them(a_spec: ReadSpec) -> None:
    first, other = (a_spec(a_field(22, a_field(1, "a")), CONTAINER) for _ in range(2))
    assert first.tolerations[0] is other.tolerations[0]
    assert first.containers[0] is not other.containers[0]


def test_texts_that_differ_from_object_to_object_are_not_kept() -> None:
    message = core_messages().of(ObjectMeta)
    body = a_field(1, "web-0") + a_field(3, "team")
    first, other = (read_message(body, message) for _ in range(2))
    assert first.namespace is other.namespace
    assert first.name is not other.name
