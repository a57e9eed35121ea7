"""JSON that is nested too deeply is known as such, and cut."""

from __future__ import annotations

import json

import pytest

from arranger.api.parsing.nesting import CUT, MAX_BRACKETS, cut_deep_parts, is_too_deep


def levels(count: int, *, of: str = "[") -> bytes:
    """So many within each other."""
    opening = {"[": "[", "{": '{"a":'}[of]
    return (opening * count + "1" + {"[": "]", "{": "}"}[of] * count).encode()


@pytest.mark.parametrize(
    ("sentence", "raw", "expected"),
    [
        ("nothing", b"", False),
        ("as deep as is kept", levels(64), False),
        ("one more", levels(65), True),
        ("objects as deep as is kept", levels(64, of="{"), False),
        ("objects, one more", levels(65, of="{"), True),
        ("many beside each other", b"[" + b"[]," * 1000 + b"[]]", False),
        ("brackets in texts", json.dumps(["[" * 500, "{" * 500]).encode(), False),
        ("as many as are looked at", b"[" + b"[]," * (MAX_BRACKETS - 2) + b"[]]", False),
        ("more than are looked at", b"[" + b"[]," * MAX_BRACKETS + b"[]]", True),
    ],
)
def test_what_is_too_deep(sentence: str, raw: bytes, expected: bool) -> None:
    assert is_too_deep(raw) == expected, sentence


@pytest.mark.parametrize("of", ["[", "{"])
def test_only_what_is_below_the_levels_that_are_kept_is_cut(of: str) -> None:
    deep = levels(70, of=of).decode()
    whole = f'{{"before": 1, "deep": {deep}, "after": [2]}}'.encode()
    cut = json.loads(cut_deep_parts(whole))
    assert (cut["before"], cut["after"]) == (1, [2])
    inner, depth = cut["deep"], 0
    while isinstance(inner, (list, dict)):
        inner, depth = inner[0] if isinstance(inner, list) else inner["a"], depth + 1
    assert (json.dumps(inner).encode(), depth) == (CUT, 63)


def test_what_comes_after_so_many_brackets_is_cut_and_all_that_is_open_closed() -> None:
    raw = b'{"metadata": {"name": "n"}, "spec": [' + b"{}," * 20 + b"{}]}"
    cut = json.loads(cut_deep_parts(raw, 6))
    assert cut["metadata"] == {"name": "n"}
    assert cut["spec"] == [{}, {}, {}, json.loads(CUT)]


def test_at_the_last_level_that_is_kept_the_rest_is_cut_after_so_many_brackets() -> None:
    cut = cut_deep_parts(levels(63)[:-63] + b", []" * 2 + b"]" * 63, 63)
    assert cut == levels(63)[:-63] + b", " + CUT + b"]" * 63
    cut = cut_deep_parts(levels(64)[:-64] + b", []" * 2 + b"]" * 64, 64)
    assert cut == levels(64)[:-64] + b", " + CUT + b"]" * 64
