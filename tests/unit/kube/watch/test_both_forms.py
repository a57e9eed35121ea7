"""Pods and nodes of ill will say the same in JSON and in the API server's binary form.

The hostile tier speaks JSON; a real server sends pods and nodes in binary form. Whatever an object
says there, both readers make the same of it, or both refuse it. What no server could hold in binary
form, as a field has a value of another type, is left out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Any, Final

import msgspec
import pytest

from arranger.api.types.core import Node, Pod
from arranger.api.types.packed import unpacked
from arranger.kube.watch.decoder import Decoder, UndecodableObject, WatchEvent
from arranger.kube.watch.protobuf_decoder import decoder_of
from arranger.kube.watch.trimming import trim
from tests.binary_form import NoBinaryFormError, a_field, encoded, wrapped
from tests.fuzz.choices import Choices
from tests.fuzz.objects import an_object
from tests.hostile.attack import Attack
from tests.hostile.expansion import expanded
from tests.hostile.tables import audit, generated, tenancy

KINDS: Final[dict[str, type]] = {"Pod": Pod, "Node": Node}
#: Of how many of each source there must be a binary form, so that the comparison means something.
LEAST: Final = {"fields": 80, "sentences": 100, "random": 500}


def _of(attacks: Iterator[Attack]) -> Iterator[Any]:
    for attack in attacks:
        for obj in (*attack.objects, *attack.edits):
            if obj.get("kind") in KINDS and obj.get("apiVersion") == "v1":
                yield obj


def _fields() -> Iterator[Any]:
    return _of(generated.chosen(generated.of_kinds(Pod, Node), 16))


def _sentences() -> Iterator[Any]:
    tables = (audit.amounts, audit.annotations, audit.deep, audit.templates, audit.counts)
    others = (tenancy.costly, tenancy.groups, tenancy.edited)
    every = _of(chain.from_iterable(table() for table in (*tables, *others)))
    return islice(every, 0, None, 8)  # many are alike


def _random() -> Iterator[Any]:
    rng = random.Random(7)
    for number in range(1500):
        kind = ("Pod", "Node")[number % 2]
        made = an_object(Choices(rng.randbytes(rng.randrange(40, 600))), KINDS[kind])
        yield {**made, "kind": kind}


SOURCES: Final = {"fields": _fields, "sentences": _sentences, "random": _random}


@pytest.mark.parametrize("source", SOURCES)
def test_both_forms_say_the_same(source: str) -> None:
    compared = 0
    for obj in SOURCES[source]():
        kind = KINDS[obj["kind"]]
        try:
            text = expanded(json.dumps(obj).encode())
            body = encoded(kind, json.loads(text))
        except (NoBinaryFormError, RecursionError, ValueError):
            continue
        compared += 1
        found = [_listed(kind, text), _listed(kind, _page(body)), _heard(kind, body)]
        assert not list(_differences(found[0], found[1])), f"{obj!r:.400}"
        assert found[1] == found[2], f"{obj!r:.400}"
    assert compared >= LEAST[source]


def _differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(one.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from _differences(a, b, f"{path}[{number}]")
    elif one != other:
        yield f"{path}: {one!r:.200} and {other!r:.200}"


def _page(body: bytes) -> bytes:
    return wrapped(a_field(2, body), "List")


def _listed(kind: type, body: bytes) -> Any:
    """What is made of an object in a list: its fields, or why it is refused."""
    if body.startswith(b"k8s\0"):
        decoder = decoder_of(kind, trim)
    else:
        decoder, body = Decoder(kind, trim), b'{"items":[' + body + b"]}"
    _, good, bad = decoder.decode_page(body)
    return _plain(good[0]) if good else _refused(bad[0])


def _heard(kind: type, body: bytes) -> Any:
    """What is made of an object in an event in binary form."""
    event = a_field(1, "ADDED") + a_field(2, a_field(1, wrapped(body, kind.__name__)))
    found = decoder_of(kind, trim).decode_event(event)
    if isinstance(found, UndecodableObject):
        return _refused(found)
    assert isinstance(found, WatchEvent)
    return _plain(found.object)


def _refused(obj: UndecodableObject) -> Any:
    return "refused", obj.metadata.namespace, obj.metadata.name


def _plain(obj: Any) -> Any:
    """An object as JSON has it, with what is read of disks alone."""
    found = msgspec.to_builtins(
        obj, builtin_types=(datetime,), enc_hook=unpacked
    )  # equal in whatever zone
    for volume in found.get("spec", {}).get("volumes", []):
        for name, source in volume.items():
            if isinstance(source, dict) and name not in ("image", "persistentVolumeClaim"):
                read = ("pdName", "volumeID", "diskURI", "monitors", "image", "pool", "iqn")
                kept = {k: v for k, v in source.items() if k in read and v is not None}
                volume[name] = kept | ({"readOnly": True} if source.get("readOnly") else {})
    return found
