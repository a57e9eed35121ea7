"""Labels and selectors of megabytes take little memory, and say the same as before."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from arranger.api.parsing.objects import decode_object
from arranger.api.selectors import Selector
from arranger.api.types.core import LabelSelector, Pod, Requirement
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.packed import (
    MANY,
    PackedLabels,
    PackedList,
    labels_key,
    pack_parts,
    packed_labels,
    unpacked,
)
from arranger.api.types.storage import PersistentVolumeClaim
from arranger.api.types.workloads import (
    Owner,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from arranger.cluster.pod_info import PodInfo
from arranger.controllers.runtime.trimming import trim_owned
from arranger.engine.faults.states import content_of
from arranger.kube.watch.decoder import Decoder, WatchEvent
from arranger.kube.watch.trimming import trim

LABELS = {f"key-{n}": f"{n}" for n in range(10_000, 20_000)}
EXPRESSIONS = [{"key": f"k{n}", "operator": "NotIn", "values": [f"{n}"]} for n in range(5_000)]
VALUES = [{"key": "k", "operator": "NotIn", "values": [f"{n}" for n in range(20_000)]}]
MANY_TERMS = [{"matchExpressions": [each]} for each in EXPRESSIONS]
NESTED = [{"matchExpressions": EXPRESSIONS[n : n + 50]} for n in range(0, 5_000, 50)]


def near_nodes(**affinity: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": affinity}}


def required(terms: list[dict[str, Any]]) -> dict[str, Any]:
    chosen = {"nodeSelectorTerms": terms}
    return near_nodes(requiredDuringSchedulingIgnoredDuringExecution=chosen)


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    }


#: What of a pod's spec may be large, and is looked at by few.
SPECS: dict[str, dict[str, Any]] = {
    "terms of nodes": required(MANY_TERMS),
    "terms of nodes, each with some expressions": required(NESTED),
    "values of nodes": required([{"matchExpressions": VALUES}]),
    "preferred nodes": near_nodes(
        preferredDuringSchedulingIgnoredDuringExecution=[
            {"weight": 1, "preference": term} for term in MANY_TERMS
        ]
    ),
    "terms of pods": apart(*({"topologyKey": f"t{n}"} for n in range(5_000))),
    "labels of pods": apart({"topologyKey": "t", "labelSelector": {"matchLabels": LABELS}}),
    "values of pods": apart({"topologyKey": "t", "labelSelector": {"matchExpressions": VALUES}}),
    "namespaces of pods": apart({"topologyKey": "t", "namespaces": list(LABELS)}),
    "tolerations": {"tolerations": [{"key": key, "operator": "Exists"} for key in LABELS]},
    "spread constraints": {
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key} for key in LABELS]
    },
    "node selector": {"nodeSelector": LABELS},
    "gates": {"schedulingGates": [{"name": key} for key in LABELS]},
    "claims": {"resourceClaims": [{"name": key, "resourceClaimName": key} for key in LABELS]},
    "volumes": {
        "volumes": [{"name": key, "persistentVolumeClaim": {"claimName": key}} for key in LABELS]
    },
    "ports": {"containers": [{"name": "c", "ports": [{"hostPort": n + 1} for n in range(9_000)]}]},
    "requests": {"containers": [{"name": "c", "resources": {"requests": LABELS}}]},
}

LARGE: dict[str, tuple[Any, dict[str, Any], dict[str, str]]] = {
    "the labels of a pod": (Pod, {}, LABELS),
    "the labels of an owner of pods": (Owner, {}, LABELS),
    "the selector of a Service": (Service, {"selector": LABELS}, {}),
    "of a ReplicationController": (ReplicationController, {"selector": LABELS}, {}),
    "of a ReplicaSet": (ReplicaSet, {"selector": {"matchLabels": LABELS}}, {}),
    "of a StatefulSet": (StatefulSet, {"selector": {"matchLabels": LABELS}}, {}),
    "of many expressions": (ReplicaSet, {"selector": {"matchExpressions": EXPRESSIONS}}, {}),
    "of many values": (ReplicaSet, {"selector": {"matchExpressions": VALUES}}, {}),
    "of a budget": (PodDisruptionBudget, {"selector": {"matchLabels": LABELS}}, {}),
    "of a claim": (PersistentVolumeClaim, {"selector": {"matchLabels": LABELS}}, {}),
    **{f"a pod's {name}": (Pod, spec, {}) for name, spec in SPECS.items()},
}


def bytes_of(kind: Any, spec: dict[str, Any], labels: dict[str, str]) -> bytes:
    metadata = {"name": "o", "namespace": "default", "labels": labels}
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


def size_of(decode: Callable[[bytes], Any], body: bytes) -> tuple[int, int]:
    """Bytes that are kept of what is decoded, and at most meanwhile."""
    tracemalloc.start()
    kept = decode(body)
    size = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return size


@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE)
def test_an_object_takes_no_more_than_twice_what_was_sent(
    case: tuple[Any, dict[str, Any], dict[str, str]],
) -> None:
    event = b'{"type":"ADDED","object":' + bytes_of(*case) + b"}"
    kept, _ = size_of(Decoder(case[0], trim).decode_event, event)
    assert kept < 2 * len(event)


def test_the_objects_of_a_page_are_packed_one_after_the_other() -> None:
    items = [bytes_of(Service, {"selector": LABELS}, {})] * 10
    page = b'{"metadata":{"resourceVersion":"1"},"items":[' + b",".join(items) + b"]}"
    kept, meanwhile = size_of(Decoder(Service, trim).decode_page, page)
    assert kept < 2 * len(page)
    assert meanwhile < 4 * len(page)


@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE)
def test_it_says_the_same(case: tuple[Any, dict[str, Any], dict[str, str]]) -> None:
    kind, _, _ = case
    event = Decoder(kind, trim).decode_event(b'{"type":"ADDED","object":' + bytes_of(*case) + b"}")
    assert isinstance(event, WatchEvent)
    whole = msgspec.json.decode(bytes_of(*case), type=kind)
    assert event.object == whole
    assert msgspec.to_builtins(event.object, enc_hook=unpacked) == msgspec.to_builtins(whole)
    again = msgspec.json.decode(bytes_of(*case), type=kind)
    trim_owned(again)
    assert again == event.object
    assert content_of(again) == content_of(event.object)


@pytest.mark.parametrize("seed", range(20))
def test_packed_labels_are_a_mapping_like_any_other(seed: int) -> None:
    rng = random.Random(seed)
    labels = {
        f"{rng.choice(['a', 'b.c/d', 'é', ''])}{rng.randrange(4000)}": f"{rng.randrange(9)}"
        for _ in range(MANY + rng.randrange(1000))
    }
    packed = packed_labels(labels)
    assert isinstance(packed, PackedLabels) is (len(labels) > MANY)
    packed = PackedLabels(labels)
    assert packed == labels == packed
    assert packed.unpacked() == dict(packed) == dict(packed.items()) == labels
    assert len(packed) == len(labels)
    assert all(packed[key] == value and key in packed for key, value in labels.items())
    assert not any(f"{key}!" in packed for key in labels)
    assert "" in packed if "" in labels else packed.get("") is None
    assert labels.items() <= packed.items()
    assert packed.items() <= labels.items()
    less = {key: value for key, value in labels.items() if rng.random() < 0.9}
    assert less.items() <= packed.items()
    assert (packed.items() <= less.items()) is (less == labels)
    assert packed != less or less == labels
    assert packed == PackedLabels(dict(reversed(labels.items())))
    assert labels_key(packed) == labels_key(PackedLabels(labels))
    assert len({packed, PackedLabels(labels), PackedLabels({**labels, "x": "y"})}) == 2
    chosen = rng.choice(list(labels))
    for wanted in (labels[chosen], "other"):
        selector = Selector(LabelSelector(match_labels={chosen: wanted}))
        assert selector.matches(packed) is selector.matches(labels)
        large = Selector(LabelSelector(match_labels=PackedLabels({**labels, chosen: wanted})))
        assert large.matches(labels) is large.matches(packed) is (wanted == labels[chosen])
        listed = Requirement(chosen, "NotIn", [wanted])
        selector = Selector(LabelSelector(match_expressions=[listed]))
        assert selector.matches(packed) is selector.matches(labels)


def test_labels_that_could_not_be_told_apart_are_not_packed() -> None:
    labels = {f"k{n}": "\0" for n in range(2 * MANY)}
    assert packed_labels(labels) is labels


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_pod_of_which_parts_are_packed_says_what_it_said(spec: dict[str, Any]) -> None:
    body = bytes_of(Pod, spec, {})
    plain, packed = decode_object(body, Pod), Decoder(Pod, trim)._decode(body)
    assert packed == plain
    said = msgspec.to_builtins(plain.spec)
    assert msgspec.json.decode(msgspec.json.encode(packed.spec, enc_hook=unpacked)) == said
    assert PodInfo(packed).spec_key == PodInfo(plain).spec_key
    assert pack_parts(packed.spec) <= MANY, "what is left is as large as a usual pod"


@pytest.mark.parametrize(("count", "is_packed"), [(100, False), (700, True), (3_000, True)])
def test_events_of_some_kilobytes_are_packed_as_well(count: int, is_packed: bool) -> None:
    gates = {"schedulingGates": [{"name": f"gates.example.com/{n}"} for n in range(count)]}
    event = Decoder(Pod, trim).decode_event(
        b'{"type":"ADDED","object":' + bytes_of(Pod, gates, {}) + b"}"
    )
    assert isinstance(event, WatchEvent)
    assert isinstance(event.object.spec.scheduling_gates, PackedList) is is_packed


def test_containers_are_read_all_the_time_and_stay_as_they_are() -> None:
    containers = [{"name": f"c{n}", "resources": {"requests": {"cpu": "1"}}} for n in range(2_000)]
    pod = Decoder(Pod, trim)._decode(bytes_of(Pod, {"containers": containers}, {}))
    assert isinstance(pod.spec.containers, list)


def test_a_list_of_which_parts_are_packed_is_a_list_for_who_reads_it() -> None:
    parts = [Requirement("a", "In", ["b"]), Requirement("c", "Exists")]
    packed = PackedList(parts, Requirement)
    assert packed == parts
    assert packed == PackedList(parts, Requirement)
    assert packed != parts[:1]
    assert (len(packed), list(packed), packed[0], packed[1:]) == (2, parts, parts[0], parts[1:])
    assert repr(packed) == "PackedList(2 parts)"
    assert msgspec.json.encode(packed, enc_hook=unpacked) == msgspec.json.encode(parts)
