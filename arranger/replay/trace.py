"""Reads a trace in the format of the openb trace: nodes and pods, a CSV file each.

The format is that of Alibaba's ``cluster-trace-gpu-v2023`` ("openb"), published with the simulator
of Weng et al., *Beware of Fragmentation* (USENIX ATC 2023).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import convert_object
from arranger.files.content import read_text
from arranger.files.limits import FileError

#: Far above any machine's, and far below what its sums must stay under.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
#: Lines of a file.
_MAX_ROWS: Final = 1_000_000
#: A century in seconds; calendars end.
_MAX_TIME: Final = 36_525 * 86_400.0
_Row = TypeVar("_Row", bound=msgspec.Struct)
#: ``gpu_milli`` of a pod that wants its GPUs whole.
_WHOLE_GPU: Final = 1000


class TraceError(ValueError):
    """A trace cannot be used; the message gives file and line."""


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A node: millicores, MiB, whole GPUs of one model (empty without GPUs)."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class TracePod:
    """A pod: millicores, MiB, whole GPUs, and when it came, in seconds.

    Attributes:
        models: GPU models it may run on; any if empty.
        duration: seconds from its start to its end; None if the trace does not say.
    """

    name: str
    cpu: int
    memory: int
    gpus: int
    models: tuple[str, ...]
    arrival: float
    duration: float | None


@dataclass(frozen=True, slots=True)
class Trace:
    """Nodes, and pods by arrival; ``fractional_pods`` of them asked for a part of a GPU."""

    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]
    fractional_pods: int

    @property
    def gpus(self) -> int:
        """All GPUs of the nodes."""
        return sum(node.gpus for node in self.nodes)


class _NodeRow(msgspec.Struct):
    sn: str
    cpu_milli: _Count
    memory_mib: _Count
    gpu: _Count
    model: str = ""


class _PodRow(msgspec.Struct):
    name: str
    cpu_milli: _Count
    memory_mib: _Count
    num_gpu: _Count
    creation_time: float
    gpu_milli: _Count = _WHOLE_GPU
    gpu_spec: str = ""
    deletion_time: float | None = None
    scheduled_time: float | None = None


def read_trace(path: Path) -> Trace:
    """Read a folder with a node list and a pod list, or a pod list with the node list beside it.

    The files are recognized by their names, ``*node_list*.csv`` and ``*pod_list*.csv``.

    Raises:
        TraceError: a list is missing, there are several, or a line of one cannot be used.
    """
    folder = path if path.is_dir() else path.parent
    advice = "name the trace by its folder, one node list in it"
    node_list = _find_one(folder, "*node_list*.csv", advice)
    pod_list = path
    if path.is_dir():
        pod_list = _find_one(folder, "*pod_list*.csv", "name the pod list instead of its folder")
    nodes = tuple(_nodes(node_list))
    if not any(node.gpus for node in nodes):
        raise TraceError(f"{node_list}: no node has a GPU")
    pods, fractions = _pods(pod_list)
    if not any(pod.gpus for pod in pods):
        raise TraceError(f"{pod_list}: no pod asks for a GPU")
    return Trace(nodes, tuple(sorted(pods, key=lambda pod: pod.arrival)), fractions)


def _find_one(folder: Path, pattern: str, otherwise: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise TraceError(f"{folder}: expected one {pattern}, found {names}; {otherwise}")
    return found[0]


def _nodes(path: Path) -> Iterator[TraceNode]:
    seen: dict[str, int] = {}
    for line, row in _rows(path, _NodeRow):
        _check_unique(path, line, row.sn, seen)
        if row.gpu and not row.model:
            raise TraceError(f"{path}, line {line}: {row.sn} has GPUs and no model")
        yield TraceNode(row.sn, row.cpu_milli, row.memory_mib, row.gpu, row.model)


def _pods(path: Path) -> tuple[list[TracePod], int]:
    pods: list[TracePod] = []
    seen: dict[str, int] = {}
    fractions = 0
    for line, row in _rows(path, _PodRow):
        _check_unique(path, line, row.name, seen)
        times = (row.creation_time, row.scheduled_time, row.deletion_time)
        if not all(abs(time or 0.0) <= _MAX_TIME for time in times):
            raise TraceError(f"{path}, line {line}: {row.name}: a time is longer than a century")
        start = row.creation_time if row.scheduled_time is None else row.scheduled_time
        duration = None if row.deletion_time is None else row.deletion_time - start
        if duration is not None and duration < 0:
            raise TraceError(f"{path}, line {line}: {row.name} ends before it starts")
        models = tuple(filter(None, row.gpu_spec.split("|"))) if row.num_gpu else ()
        fractions += bool(row.num_gpu) and row.gpu_milli < _WHOLE_GPU
        size = row.cpu_milli, row.memory_mib, row.num_gpu
        pods.append(TracePod(row.name, *size, models, row.creation_time, duration))
    return pods, fractions


def _rows(path: Path, kind: type[_Row]) -> Iterator[tuple[int, _Row]]:
    """(line number, row) of a file; an empty field counts as absent."""
    try:
        reader = csv.DictReader(io.StringIO(read_text(path), newline=""), restkey="", strict=True)
        for n, row in enumerate(reader):
            if n == _MAX_ROWS:
                raise TraceError(f"{path}: more than {_MAX_ROWS} lines")
            if "" in row:
                raise TraceError(f"{path}, line {reader.line_num}: more fields than the header")
            given = {name: value for name, value in row.items() if value}
            try:
                yield reader.line_num, convert_object(given, kind, strict=False)
            except ParseError as error:
                raise TraceError(f"{path}, line {reader.line_num}: {error}") from error
    except (FileError, csv.Error) as error:
        raise TraceError(f"{path}: {error}") from error


def _check_unique(path: Path, line: int, name: str, seen: dict[str, int]) -> None:
    if name in seen:
        raise TraceError(f"{path}, line {line}: {name} stands in line {seen[name]} already")
    seen[name] = line
