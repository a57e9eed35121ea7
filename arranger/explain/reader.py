"""Reads snapshots from files, and says exactly where a file is wrong."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from arranger.explain.snapshot import Snapshot, SnapshotError

_STEP: Final = re.compile(r"\.([^.\[\]`]+)|\[(\d+)\]")
_PATH: Final = re.compile(r"at `\$([^`]*)`")


def read_snapshots(paths: Sequence[Path]) -> Iterator[Snapshot]:
    """The snapshots of the files, in order.

    ``.jsonl`` has one snapshot a line, or objects with a ``snapshot`` key; ``.json`` and
    ``.yaml`` hold a snapshot, or API objects (documents or a List). API objects of all files
    together make one last snapshot, so that nodes and pods may come in different files. Any of
    them may be gzipped (``.gz``).

    Raises:
        SnapshotError: a file cannot be read; the message gives file, line and field.
    """
    objects: list[Mapping[str, Any]] = []
    origins: list[str] = []
    for path in paths:
        text = _read(path)
        if ".jsonl" in path.suffixes:
            for number, line in enumerate(text.splitlines(), start=1):
                if line.strip():
                    data = _json(line, f"{path}:{number}")
                    yield _snapshot(data, f"{path}:{number}")
            continue
        found = 0
        for line_number, data in _documents(text, path):
            if "kind" in data:
                objects.extend(_items(data, f"{path}:{line_number}"))
                found += 1
            else:
                yield _snapshot_with_line(data, path, text, line_number)
        if found:
            origins.append(str(path))
    if objects:
        yield Snapshot.from_objects(objects, ", ".join(origins))


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SnapshotError(f"{path}: {reason}") from error


def _json(text: str, origin: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise SnapshotError(f"{origin}: column {error.colno}: not JSON: {error.msg}") from error
    return _mapping(data, origin)


def _mapping(data: object, origin: str) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise SnapshotError(f"{origin}: expected an object, got {type(data).__name__}")
    return data


def _snapshot(data: Mapping[str, Any], origin: str) -> Snapshot:
    inner = data.get("snapshot", data)
    return Snapshot.parse(_mapping(inner, f"{origin}: snapshot"), origin)


def _documents(text: str, path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line, document) of a YAML or JSON file."""
    if ".json" in path.suffixes:
        try:
            yield 1, _mapping(json.loads(text), str(path))
        except json.JSONDecodeError as error:
            raise SnapshotError(f"{path}:{error.lineno}: not JSON: {error.msg}") from error
        return
    loader = yaml.CSafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None, "check_node found one"
            line = node.start_mark.line + 1
            data = loader.construct_document(node)
            if data is not None:
                yield line, _mapping(data, f"{path}:{line}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise SnapshotError(f"{where}: not YAML: {error.problem}") from error
    finally:
        loader.dispose()


def _items(data: Mapping[str, Any], origin: str) -> list[Mapping[str, Any]]:
    """The objects of a List; any other object is its own list."""
    if not str(data["kind"]).endswith("List"):
        return [data]
    items = data.get("items") or []
    if not isinstance(items, list):
        raise SnapshotError(f"{origin}: items: expected a list, got {type(items).__name__}")
    return [
        {"kind": str(data["kind"]).removesuffix("List"), **_mapping(item, f"{origin}: items[{n}]")}
        for n, item in enumerate(items)
    ]


def _snapshot_with_line(data: Mapping[str, Any], path: Path, text: str, line: int) -> Snapshot:
    """The snapshot of one document; an error names the line of the field."""
    try:
        return _snapshot(data, str(path))
    except SnapshotError as error:
        at = _PATH.search(str(error))
        prefix = ".snapshot" if "snapshot" in data else ""
        if at is not None:
            line = _line_of(text, line, prefix + at.group(1))
        raise SnapshotError(str(error).replace(str(path), f"{path}:{line}", 1)) from error


def _line_of(text: str, start: int, field: str) -> int:
    """The line on which ``field`` stands; JSON files are parsed as YAML, too."""
    for node in yaml.compose_all(text, Loader=yaml.CSafeLoader):
        if node is None or node.start_mark.line + 1 != start:
            continue
        for name, index in _STEP.findall(field):
            inner = _child(node, name, index)
            if inner is None:
                break
            node = inner
        return int(node.start_mark.line) + 1
    return start


def _child(node: yaml.Node, name: str, index: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return value  # type: ignore[no-any-return]
    elif isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
        return node.value[int(index)]  # type: ignore[no-any-return]
    return None
