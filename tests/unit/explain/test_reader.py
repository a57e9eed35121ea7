"""Snapshots from files of every form, and errors that say where."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from arranger.explain import SnapshotError, evaluate, read_snapshots
from tests.builders import a_node, a_pod

SNAPSHOT: dict[str, Any] = {
    "nodes": [a_node("n1").manifest()],
    "pods": [a_pod("b").on("n1").manifest()],
    "pending": [a_pod("p").manifest()],
}
OBJECTS = [a_node("n1").manifest(), a_pod("b").on("n1").manifest(), a_pod("p").manifest()]
LIST = {"apiVersion": "v1", "kind": "List", "items": OBJECTS}
TWO_LINES = "\n".join(json.dumps(entry) for entry in (SNAPSHOT, {"snapshot": SNAPSHOT}))

FORMS: dict[str, tuple[str, bytes, int]] = {
    "a snapshot in JSON": ("s.json", json.dumps(SNAPSHOT).encode(), 1),
    "a snapshot in YAML": ("s.yaml", yaml.safe_dump(SNAPSHOT).encode(), 1),
    "a snapshot under a key": ("s.yml", yaml.safe_dump({"snapshot": SNAPSHOT}).encode(), 1),
    "a line each": ("s.jsonl", TWO_LINES.encode(), 2),
    "empty lines between": ("s.jsonl", TWO_LINES.replace("\n", "\n\n").encode() + b"\n", 2),
    "gzipped lines": ("s.jsonl.gz", gzip.compress(TWO_LINES.encode()), 2),
    "a List, as kubectl get -o json prints it": ("s.json", json.dumps(LIST).encode(), 1),
    "objects, as kubectl get -o yaml prints them": (
        "s.yaml",
        yaml.safe_dump_all([*OBJECTS, None]).encode(),
        1,
    ),
    "gzipped YAML": ("s.yaml.gz", gzip.compress(yaml.safe_dump(LIST).encode()), 1),
}


@pytest.mark.parametrize("case", FORMS.values(), ids=FORMS.keys())
def test_reads(case: tuple[str, bytes, int], tmp_path: Path) -> None:
    name, data, count = case
    (tmp_path / name).write_bytes(data)
    snapshots = list(read_snapshots([tmp_path / name]))
    assert len(snapshots) == count
    for snapshot in snapshots:
        assert [pod.key for pod in snapshot.pending] == ["default/p"]
        assert snapshot.cluster.node_of("uid-default-b") == "n1"
        assert evaluate(snapshot)[0]["feasible"] == ["n1"]


def test_objects_of_several_files_make_one_snapshot(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.yaml", tmp_path / "pods.json"
    nodes.write_text(yaml.safe_dump({"kind": "NodeList", "items": [_bare(a_node("n1"))]}))
    pods.write_text(json.dumps({"kind": "PodList", "items": [_bare(a_pod("p"))]}))
    (snapshot,) = read_snapshots([nodes, pods])
    assert evaluate(snapshot)[0]["feasible"] == ["n1"]


def _bare(builder: Any) -> dict[str, Any]:
    """An item of a typed list, which does not say its kind."""
    manifest: dict[str, Any] = builder.manifest()
    del manifest["kind"], manifest["apiVersion"]
    return manifest


def test_hand_written_pods_need_neither_namespace_nor_uid(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("kind: Pod\nmetadata: {name: p}\n---\nkind: Node\nmetadata: {name: n}\n")
    (snapshot,) = read_snapshots([path])
    assert [(pod.key, pod.uid) for pod in snapshot.pending] == [("default/p", "default/p")]


def test_pods_that_have_ended_hold_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    ended = a_pod("b").on("n1").in_phase("Succeeded").manifest()
    path.write_text(json.dumps({**SNAPSHOT, "pods": [ended]}))
    (snapshot,) = read_snapshots([path])
    assert len(snapshot.cluster) == 0


NODE_YAML = """\
nodes:
- metadata:
    name: n1
  status:
    allocatable: [4]
"""
BAD: dict[str, tuple[str, str, str]] = {
    "JSON cut off": ("s.json", '{"nodes":\n [', "s.json:2: not JSON"),
    "a line cut off": ("s.jsonl", "{}\n{", "s.jsonl:2: column 2: not JSON"),
    "YAML out of line": ("s.yaml", "a: b\n c: d", "s.yaml:2: not YAML"),
    "no object": ("s.yaml", "---\n- a\n- b", "s.yaml:2: expected an object, got list"),
    "a line that is no object": ("s.jsonl", "{}\n[]", "s.jsonl:2: expected an object, got list"),
    "a field of the wrong type, on its line": (
        "s.yaml",
        NODE_YAML,
        "s.yaml:5: Expected `object`, got `array` - at `$.nodes[0].status.allocatable`",
    ),
    "the same in JSON": (
        "s.json",
        '{"snapshot": {\n "nodes":\n  [\n {"metadata": 5}]}}',
        "s.json:4: Expected `object`, got `int` - at `$.nodes[0].metadata`",
    ),
    "the same in a line": (
        "s.jsonl",
        '{}\n{"nodes": [{}]}',
        "s.jsonl:2: Object missing required field `metadata` - at `$.nodes[0]`",
    ),
    "a List whose items are none": (
        "s.yaml",
        "kind: List\nitems: 5",
        "s.yaml:1: items: expected a list, got int",
    ),
    "an item that is no object": (
        "s.yaml",
        "kind: List\nitems: [5]",
        "s.yaml:1: items[0]: expected an object, got int",
    ),
    "an object of the wrong type": (
        "s.yaml",
        "kind: Node\nmetadata: 5",
        "s.yaml: Expected `object`, got `int` - at `$.nodes[0].metadata`",
    ),
    "an amount that is none": (
        "s.json",
        json.dumps({"nodes": [a_node("n1").offers(cpu="lots").manifest()]}),
        "s.json: nodes[0] (n1): status.allocatable: 'lots' is not a quantity",
    ),
    "a request that is none": (
        "s.json",
        json.dumps({"pending": [a_pod("p").needs(cpu="lots").manifest()]}),
        "s.json: pending[0] (default/p): resources: 'lots' is not a quantity",
    ),
    "a node twice": (
        "s.json",
        json.dumps({"nodes": [a_node("n1").manifest()] * 2}),
        "s.json: nodes[1] (n1): a second node of that name",
    ),
    "a pod twice": (
        "s.json",
        json.dumps({"pods": [a_pod("p").on("n1").manifest()] * 2}),
        "s.json: pods: two have uid uid-default-p",
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_with_its_place(case: tuple[str, str, str], tmp_path: Path) -> None:
    name, text, message = case
    (tmp_path / name).write_text(text)
    with pytest.raises(SnapshotError) as caught:
        _judge_all(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


def _judge_all(path: Path) -> None:
    for snapshot in read_snapshots([path]):
        evaluate(snapshot)


UNREADABLE: dict[str, tuple[str, bytes | None, str]] = {
    "it is not there": ("s.json", None, "No such file or directory"),
    "it is no gzip": ("s.json.gz", b"{}", "Not a gzipped file"),
    "it is no text": ("s.json", b"\xff\xfe", "not text in UTF-8"),
}


@pytest.mark.parametrize("case", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_file_cannot_be_read_if(case: tuple[str, bytes | None, str], tmp_path: Path) -> None:
    name, data, message = case
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(SnapshotError, match=message):
        list(read_snapshots([tmp_path / name]))
