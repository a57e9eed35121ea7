"""What messages of the API server's binary form say, written by hand."""

from __future__ import annotations

import msgspec
import pytest

from arranger.api.parsing.protobuf import read_length, read_message
from arranger.api.parsing.protobuf_messages import Inlined, Messages
from arranger.api.types.core import ResourceRequirements
from arranger.api.types.core_messages import CORE_MESSAGES
from tests.binary_form import a_field, an_entry


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
    assert found == Kind(expected), sentence


def test_amounts_are_the_texts_within_quantities() -> None:
    long = "9" * 200
    body = (
        a_field(2, an_entry("cpu", a_field(1, "2")))
        + a_field(2, an_entry("none", b""))
        + a_field(2, an_entry("odd", a_field(7, "x") + a_field(1, "3") + a_field(8, 1)))
        + a_field(2, an_entry("long", a_field(1, long)))
    )
    found = read_message(body, CORE_MESSAGES.of(ResourceRequirements))
    assert found.requests == {"cpu": "2", "none": "", "odd": "3", "long": long}
