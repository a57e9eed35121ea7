"""Large JSON in pieces comes to the same as in one, and no piece is large."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from arranger.api.parsing import pieces
from arranger.api.parsing.pieces import decode_in_pieces
from arranger.api.types.core import Node, Pod
from arranger.api.types.resource_claims import ResourceSlice

KINDS = (Pod, Node, ResourceSlice)
AFFINITY = "preferredDuringSchedulingIgnoredDuringExecution"
MANY = {f"example.com/r{n}": "1" for n in range(20_000)}


def random_json(kind: Any, rng: random.Random, depth: int = 0) -> Any:
    """Something of a type, with keys that it does not know, and now and then nulls."""
    info = msgspec.inspect.type_info(kind) if not isinstance(kind, msgspec.inspect.Type) else kind
    match info:
        case msgspec.inspect.StructType(fields=fields):
            made = {
                f.encode_name: random_json(f.type, rng, depth + 1) for f in fields if few(f, rng)
            }
            return made | ({"unknown": [{"a": None}, 1.5]} if rng.random() < 0.2 else {})
        case msgspec.inspect.ListType(item_type=item):
            many = rng.randrange(40) if rng.random() < 0.1 else rng.randrange(4)
            return [random_json(item, rng, depth + 1) for _ in range(0 if depth > 9 else many)]
        case msgspec.inspect.DictType(value_type=value):
            return {f"k{n}": random_json(value, rng, depth + 1) for n in range(rng.randrange(4))}
        case msgspec.inspect.UnionType(types=types):
            return random_json(rng.choice(types), rng, depth + 1)
        case msgspec.inspect.BoolType():
            return rng.random() < 0.5
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return rng.randrange(100)
        case msgspec.inspect.NoneType():
            return None
        case msgspec.inspect.DateTimeType():
            return "2026-01-02T03:04:05Z"
        case msgspec.inspect.LiteralType(values=values):
            return rng.choice(values)
        case msgspec.inspect.AnyType() | msgspec.inspect.RawType():
            return {"any": ["thing", None]}
    return rng.choice(["", "a", "ü\n", "x" * rng.randrange(300)])


def few(field: msgspec.inspect.Field, rng: random.Random) -> bool:
    return field.required or rng.random() < 0.6


@pytest.mark.parametrize("seed", range(150))
def test_it_comes_to_the_same_as_in_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    line = json.dumps(random_json(kind, rng)).encode()
    monkeypatch.setattr(pieces, "MAX_PIECE", rng.choice([4, 20, 200, 2000]))
    try:
        whole: Any = msgspec.json.decode(line, type=kind)
    except msgspec.ValidationError:
        with pytest.raises(Exception, match=""):
            decode_in_pieces(line, kind)
        return
    assert decode_in_pieces(line, kind) == whole


@pytest.mark.parametrize(
    "part",
    [
        {"spec": {"containers": [{}] * 20_000}},
        {"spec": {"tolerations": [{"key": "a"}] * 20_000}},
        {"spec": {"containers": [{"ports": [{}] * 20_000}]}},
        {"metadata": {"ownerReferences": [{}] * 20_000}},
        {"status": {"conditions": [{}] * 20_000}},
        {
            "spec": {
                "affinity": {"nodeAffinity": {AFFINITY: [{"weight": 1, "preference": {}}] * 20_000}}
            }
        },
        {"spec": {"containers": [{"resources": {"requests": MANY}}]}},
        {"spec": {"overhead": MANY}},
        {"spec": {"containers": [{"env": []}, {"ports": [{}] * 30_000}, {}]}},
    ],
    ids=lambda part: json.dumps(part)[:30],
)
def test_no_piece_is_large(part: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps({"metadata": {"name": "p"}, **part}, separators=(",", ":")).encode()
    sizes, original = list[int](), pieces._decoder

    class Measured:
        def __init__(self, kind: Any) -> None:
            self._kind = kind

        def decode(self, body: bytes) -> Any:
            sizes.append(len(body))
            return original(self._kind).decode(body)

    monkeypatch.setattr(pieces, "_decoder", Measured)
    assert decode_in_pieces(line, Pod) == msgspec.json.decode(line, type=Pod)
    assert len(line) > 2 * pieces.MAX_PIECE
    assert max(sizes) <= pieces.MAX_PIECE + 2


def test_small_parts_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, original = list[Any](), pieces._decoder

    def counted(kind: Any) -> Any:
        asked.append(kind)
        return original(kind)

    monkeypatch.setattr(pieces, "_decoder", counted)
    line = json.dumps({"metadata": {}, "status": {"conditions": [{}] * 20_000}}).encode()
    decode_in_pieces(line, Pod)
    assert len(asked) < 2 * len(line) // pieces.MAX_PIECE


class Tagged(msgspec.Struct, tag="tagged"):
    values: list[int] = []


class Listed(msgspec.Struct, array_like=True):
    values: list[int] = []


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    values: list[int] = []


@pytest.mark.parametrize("kind", [Tagged, Listed, Strict])
def test_structs_of_another_form_are_read_and_refused_as_in_one(kind: Any) -> None:
    large = [7] * pieces.MAX_PIECE
    line = msgspec.json.encode(kind(large))
    assert decode_in_pieces(line, kind) == kind(large)
    wrong = json.dumps({"type": "other", "values": large}).encode()
    with pytest.raises(msgspec.ValidationError):
        decode_in_pieces(wrong, kind)
