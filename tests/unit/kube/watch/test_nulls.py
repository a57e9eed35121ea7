"""Fields that are null count as left out: the API server writes lists that are empty so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from arranger.api.parsing.objects import MAX_PARTS
from arranger.api.types.core import Node, Pod
from arranger.api.types.storage import CSINode
from arranger.kube.watch.decoder import Decoder, UndecodableObject, WatchEvent
from arranger.kube.watch.trimming import trim

METADATA = {"name": "n1", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
DRIVER = {"name": "d", "allocatable": {"count": 3}}
IMAGES = {"images": [{"names": None, "sizeBytes": 5}, {"names": ["a:1"], "sizeBytes": 7}]}


def event(obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": "MODIFIED", "object": obj}).encode()


def a_page(*objects: dict[str, Any]) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "9"}, "items": objects}).encode()


@pytest.mark.parametrize(
    ("sentence", "kind", "obj", "without"),
    [
        (
            "an image of a node that has no name",
            Node,
            {"status": IMAGES},
            {"status": {"images": [{"sizeBytes": 5}, {"names": ["a:1"], "sizeBytes": 7}]}},
        ),
        ("a CSINode without drivers", CSINode, {"spec": {"drivers": None}}, {"spec": {}}),
        (
            "a driver without topology keys",
            CSINode,
            {"spec": {"drivers": [{**DRIVER, "topologyKeys": None}]}},
            {"spec": {"drivers": [DRIVER]}},
        ),
        (
            "lists, dicts and texts of a pod",
            Pod,
            {
                "spec": {"nodeName": None, "containers": None, "nodeSelector": None},
                "status": {"conditions": [{"type": "Ready", "lastTransitionTime": None}]},
            },
            {"spec": {}, "status": {"conditions": [{"type": "Ready"}]}},
        ),
        ("a whole part", Pod, {"spec": None, "status": None}, {}),
    ],
)
def test_null_is_as_if_left_out(
    sentence: str, kind: type[Any], obj: dict[str, Any], without: dict[str, Any]
) -> None:
    decoder = Decoder[Any](kind, trim)
    with_null = {"metadata": {**METADATA, "labels": None}, **obj}
    seen = decoder.decode_event(event(with_null))
    plain = decoder.decode_event(event({"metadata": METADATA, **without}))
    assert isinstance(seen, WatchEvent), sentence
    assert isinstance(plain, WatchEvent)
    assert seen == plain
    _, good, bad = decoder.decode_page(a_page(with_null, {"metadata": METADATA, **without}))
    assert good == [plain.object, plain.object]
    assert not bad


def test_what_is_wrong_beside_a_null_is_still_told() -> None:
    wrong = {"metadata": METADATA, "spec": {"nodeName": 5, "containers": None}}
    seen = Decoder(Pod, trim).decode_event(event(wrong))
    assert isinstance(seen, UndecodableObject)
    assert seen.metadata.name == "n1"
    _, good, [bad] = Decoder(Pod, trim).decode_page(a_page(wrong))
    assert not good
    assert bad.metadata.uid == "u"


def test_an_object_with_nulls_is_trimmed_like_others() -> None:
    metadata = {**METADATA, "annotations": {"note": "x" * 5000}}
    seen = Decoder(Pod, trim).decode_event(event({"metadata": metadata, "spec": None}))
    assert isinstance(seen, WatchEvent)
    assert seen.object.metadata.annotations == {}


@pytest.mark.parametrize("parts", [[{}], [[]], [0]])
def test_an_object_of_very_many_parts_is_not_looked_through(parts: list[Any]) -> None:
    """A tenant who fills an object with what nobody reads would hold up all others."""
    spec = {"containers": None, "unread": parts * (MAX_PARTS + 1)}
    seen = Decoder(Pod, trim).decode_event(event({"metadata": METADATA, "spec": spec}))
    assert isinstance(seen, UndecodableObject)
    assert seen.metadata.name == "n1"
