"""Reads snapshots from files, and says exactly where a file is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from arranger.explain.snapshot import Snapshot, SnapshotError
from arranger.files.content import read_text
from arranger.files.json_text import parse_json
from arranger.files.limits import FileError
from arranger.files.yaml_lines import line_of
from arranger.files.yaml_text import documents

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
            for number, line in enumerate(text.split("\n"), start=1):
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
        return read_text(path)
    except FileError as error:
        raise SnapshotError(f"{path}: {error}") from error


def _json(text: str, origin: str) -> Mapping[str, Any]:
    try:
        return _mapping(parse_json(text), origin)
    except FileError as error:
        where = f"column {error.column}: " if error.column is not None else ""
        raise SnapshotError(f"{origin}: {where}{error}") from error


def _mapping(data: object, origin: str) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise SnapshotError(f"{origin}: expected an object, got {type(data).__name__}")
    return data


def _snapshot(data: Mapping[str, Any], origin: str) -> Snapshot:
    inner = data.get("snapshot", data)
    return Snapshot.parse(_mapping(inner, f"{origin}: snapshot"), origin)


def _documents(text: str, path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line, document) of a YAML or JSON file."""
    try:
        if ".json" in path.suffixes:
            yield 1, _mapping(parse_json(text), str(path))
            return
        for line, data in documents(text):
            if data is not None:
                yield line, _mapping(data, f"{path}:{line}")
    except FileError as error:
        where = f"{path}:{error.line}" if error.line is not None else str(path)
        raise SnapshotError(f"{where}: {error}") from error


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
    try:
        return line_of(text, start, _STEP.findall(field))
    except FileError:
        return start
