"""What messages of the API server's binary form say, written by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.protobuf import read_length, read_message, unwrap
from arranger.api.parsing.protobuf_messages import Inlined, Messages
from arranger.api.types.core import Node, ObjectMeta, Pod, ResourceRequirements
from arranger.api.types.core_messages import core_messages
from tests.binary_form import a_field, an_entry, encoded
from tests.builders import a_node, a_pod, expr


@pytest.mark.parametrize("size", [0, 126, 127, 128, 129, 255, 16383, 16384])
def test_lengths_and_numbers_may_have_one_byte_or_more(size: int) -> None:
    text, last = "x" * size, a_field(1, "last")
    written = a_field(16, size) + a_field(14, text) + a_field(7, size) + last
    meta = read_message(written, core_messages().of(ObjectMeta))
    assert (meta.finalizers, meta.generation, meta.name) == ([text], size, "last")


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a\x09p",
        b"\x0a",
        b"\x08\xff",
        b"\xfd\x07\x00",
        b"\x08" + b"\xff" * 30,
        b"\x0b",
        b"\x7f\x00",
    ],
)
def test_it_is_told_what_is_wrong(body: bytes) -> None:
    with pytest.raises(ParseError, match=r"^not in the binary form, or cut short$"):
        read_message(body, core_messages().of(ObjectMeta))
    with pytest.raises(ParseError, match=r"^not in the binary form, or cut short$"):
        unwrap(b"k8s\x00" + body)
    with pytest.raises(ParseError, match=r"^no object in binary form$"):
        unwrap(body)


def test_a_length_before_a_frame_has_its_largest_byte_first() -> None:
    assert read_length(b"\x00\x01\x02\x03") == 0x10203


class Kind(msgspec.Struct):
    """With what JSON has as an object without a type."""

    inner: dict[str, object] | None = None


CONTENT: dict[str, tuple[int, type]] = {"text": (1, str), "set": (2, bool), "texts": (3, list)}


@pytest.mark.parametrize(
    ("sentence", "body", "expected"),
    [
        ("a text", a_field(1, "t"), {"text": "t"}),
        ("what is set", a_field(2, 1), {"set": True}),
        ("what is not set is left out, as in JSON", a_field(2, 0), {}),
        ("texts", a_field(3, "a") + a_field(3, "b"), {"texts": ["a", "b"]}),
        ("what has no name is not read", a_field(4, "x") + a_field(1, "t"), {"text": "t"}),
    ],
)
def test_what_json_has_as_an_object_is_read_so(
    sentence: str, body: bytes, expected: dict[str, object]
) -> None:
    message = Messages({Kind: {"inner": Inlined(2, 5, CONTENT)}}).of(Kind)
    found = read_message(a_field(2, a_field(5, body)), message)
    assert repr(found) == repr(Kind(expected)), sentence


def test_amounts_are_the_texts_within_quantities() -> None:
    long = "9" * 200
    body = (
        a_field(2, an_entry("cpu", a_field(1, "2")))
        + a_field(2, an_entry("none", b""))
        + a_field(2, an_entry("odd", a_field(7, "x") + a_field(1, "3") + a_field(8, 1)))
        + a_field(2, an_entry("long", a_field(1, long)))
    )
    found = read_message(body, core_messages().of(ResourceRequirements))
    assert found.requests == {"cpu": "2", "none": "", "odd": "3", "long": long}


K, V = a_field(1, "kk"), a_field(2, "vv")
#: Keys in which there are the tag of a value and a length that is right behind it.
LIKE_MORE, LIKE_LESS = "\x06abcde\x12\x06zz", "abcdef\x12\x06gh"


@pytest.mark.parametrize(
    ("sentence", "entry", "expected"),
    [
        ("key and value", K + V, {"kk": "vv"}),
        ("a key alone", K, {"kk": ""}),
        ("a value alone", V, {"": "vv"}),
        ("two values", V + a_field(2, "ww"), {"": "ww"}),
        ("two values, one of ten letters", a_field(2, "v" * 10) + V, {"": "vv"}),
        ("a field that nobody reads", K + a_field(3, "vv"), {"kk": ""}),
        (
            "one behind the value",
            a_field(1, "k\x03") + a_field(2, "v") + a_field(3, 5),
            {"k\x03": "v"},
        ),
        ("a key that looks like more", a_field(1, LIKE_MORE) + V, {LIKE_MORE: "vv"}),
        ("another", a_field(1, LIKE_LESS) + V, {LIKE_LESS: "vv"}),
        ("a value that does", K + a_field(2, "\x11" + "v" * 17), {"kk": "\x11" + "v" * 17}),
        ("all of 128 bytes", a_field(1, "k" * 60) + a_field(2, "v" * 64), {"k" * 60: "v" * 64}),
    ],
)
def test_an_entry_is_read_field_by_field(
    sentence: str, entry: bytes, expected: dict[str, str]
) -> None:
    found = read_message(a_field(11, entry), core_messages().of(ObjectMeta))
    assert found.labels == expected, sentence


@pytest.mark.parametrize("stated", [1, 3, 4, 5, 6])
def test_an_entry_whose_value_has_another_length_is_refused(stated: int) -> None:
    entry = K + bytes([2 << 3 | 2, stated]) + b"vv"
    with pytest.raises(ParseError):
        read_message(a_field(11, entry), core_messages().of(ObjectMeta))


WHOLE: dict[str, tuple[type, Any]] = {
    "a pod": (
        Pod,
        a_pod("p")
        .needs(cpu="1500m", memory="2Gi")
        .labelled(app="web")
        .annotated(note="é")
        .owned_by("ReplicaSet", "rs")
        .created("2026-01-02T03:04:05Z")
        .deleting()
        .host_port(80)
        .with_claim("data")
        .tolerates("a", effect="NoExecute")
        .spreads("zone", over={"app": "web"})
        .apart("kubernetes.io/hostname", {"app": "web"})
        .prefers(3, expr("disk", "In", "ssd"))
        .with_spec(hostNetwork=True)
        .with_priority(-7)
        .on("n"),
    ),
    "a node": (
        Node,
        a_node("n").offers(cpu=4, memory="8Gi").in_zone("z").tainted("a", "b").cordoned(),
    ),
}


@pytest.mark.parametrize(("kind", "written"), WHOLE.values(), ids=WHOLE.keys())
def test_a_whole_object_is_what_it_is_in_json(kind: type, written: Any) -> None:
    manifest = written.manifest()
    body, message = encoded(kind, manifest), core_messages().of(kind)
    for _ in range(2):  # first read, then shared in part
        found, wanted = read_message(body, message), msgspec.convert(manifest, kind)
        assert found == wanted
        assert repr(found) == repr(wanted), "a truth value is no number"
