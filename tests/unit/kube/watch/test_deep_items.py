"""A list of which one item is nested too deeply: it alone is looked at, bracket by bracket."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arranger.api.parsing.list_items import split_list
from arranger.api.parsing.nesting import CUT, TOO_DEEP
from arranger.api.types.core import Pod
from arranger.kube.watch.decoder import Decoder
from arranger.kube.watch.raw_objects import RawObjectDecoder

TEXTS = st.text('a"\\[]{}:,é\n', max_size=8)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS | st.just("items"), VALUES, max_size=4)
DEEP = "[" * 100_000 + "]" * 100_000


@settings(deadline=None)
@given(OBJECTS, st.lists(OBJECTS, max_size=5), st.booleans(), st.booleans())
def test_the_items_of_a_list_are_found(
    meta: dict[str, Any], items: list[Any], compact: bool, ascii_only: bool
) -> None:
    between = (",", ":") if compact else (", ", " : ")
    whole = {"kind": 'a "List" of [', "metadata": meta, "items": items, "more": {"items": [[]]}}
    text = json.dumps(whole, separators=between, ensure_ascii=ascii_only).encode()
    rest, found = split_list(text)
    assert [json.loads(each) for each in found] == items
    assert json.loads(rest) == {**whole, "items": []}


@pytest.mark.parametrize(
    "item",
    [
        {"a": "\\"},
        {"a": "\\\\", "b": "["},
        {"a": '"', "b": '"}'},
        {"a": '\\"', "b": "]"},
        {"items": [{"items": []}, []]},
        {},
    ],
    ids=json.dumps,
)
def test_items_are_found_whatever_their_texts_say(item: dict[str, Any]) -> None:
    for more in ({"z": [1]}, {}):
        whole = {"metadata": {"items": [item], **item}, "items": [item, {"n": 1}, item], **more}
        rest, found = split_list(json.dumps(whole).encode())
        assert [json.loads(each) for each in found] == [item, {"n": 1}, item]
        assert json.loads(rest) == {**whole, "items": []}


@pytest.mark.parametrize(
    "text", [b"{}", b'{"items":null}', b"[]", b'"items":[', b"", b'{"items":[', b'{"items":[{"a":[']
)
def test_what_is_no_list_has_no_items(text: bytes) -> None:
    assert split_list(text)[1] == []


def a_pod_named(name: str, more: str = "") -> str:
    said = r'{"x":"\"items\":[{\\"}'
    annotations = json.dumps({"note": said})
    return f'{{"metadata":{{"name":"{name}","uid":"{name}","annotations":{annotations}}}{more}}}'


@pytest.fixture
def page() -> bytes:
    items = [a_pod_named("a"), a_pod_named("deep", f',"spec":{{"x":{DEEP}}}'), a_pod_named("b")]
    head = '{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"c"}'
    return f'{head},"items":[{",".join(items)}]}}'.encode()


def test_only_what_is_nested_too_deeply_is_undecodable(page: bytes) -> None:
    meta, good, bad = Decoder(Pod).decode_page(page)
    assert [pod.metadata.name for pod in good] == ["a", "b"]
    assert [(each.metadata.name, each.metadata.uid, each.error) for each in bad] == [
        ("deep", "deep", TOO_DEEP)
    ]
    assert (meta.resource_version, meta.continue_) == ("7", "c")


def test_an_extender_gets_it_without_the_deep_part(page: bytes) -> None:
    _, good, _ = RawObjectDecoder().decode_page(page)
    assert [obj.metadata.name for obj in good] == ["a", "deep", "b"]
    assert good[0].raw == a_pod_named("a").encode(), "byte for byte"
    assert CUT in good[1].raw
    assert msgspec.json.decode(good[1].raw)["metadata"]["name"] == "deep"


def test_brackets_of_other_items_are_not_looked_at_one_by_one(
    page: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = list[int]()
    monkeypatch.setattr(
        "arranger.api.parsing.objects.cut_deep_parts",
        lambda raw, most=None: looked_at.append(len(raw)) or b"{}",
    )
    others = ",".join(a_pod_named(f"p{n}") for n in range(1000))
    Decoder(Pod).decode_page(page.replace(b'"items":[', f'"items":[{others},'.encode()))
    assert looked_at, "the deep one"
    assert max(looked_at) < 2 * len(DEEP)
    assert len(looked_at) == 1
