"""What a Job's status remembers beyond what people read there.

Pods come and go, and nothing in the API says of a pod that is not there whether it was never made,
was evicted, or was removed by us. So the controller writes down which pods it has seen and from
which version on pods are new, before it acts on it: whoever takes over after a kill knows. It lies
in ``status.controlledResources``, a map of texts that Volcano's own definition has as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

#: (task, index) of a pod.
TaskIndex = tuple[str, int]
#: Task → indices.
IndexSets = Mapping[str, frozenset[int]]

_RESTART_VERSION: Final = "pods-since"
_SEEN: Final = "pods-seen"
_SUCCEEDED: Final = "pods-succeeded"
_CREATED: Final = "made"
_LAST_ACTION: Final = "action"
_RANGE: Final = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ControlledResources:
    """What one job's status remembers.

    Attributes:
        restart_version: the version that began with all pods anew; pods of earlier ones must go.
        task_versions: the same for single tasks.
        pod_versions: the same for single pods.
        seen: pods of the current version that have existed; one that is missing was lost.
        succeeded: pods that have succeeded; they are not made again when somebody removes them.
        created: object created for the job → digest of the manifest it was created from.
        last_action: the last value of the annotation with an owner's action that was acted on.
    """

    restart_version: int = 0
    task_versions: Mapping[str, int] = field(default_factory=dict)
    pod_versions: Mapping[TaskIndex, int] = field(default_factory=dict)
    seen: IndexSets = field(default_factory=dict)
    succeeded: IndexSets = field(default_factory=dict)
    created: Mapping[str, str] = field(default_factory=dict)
    last_action: str = ""

    # --- versions --------------------------------------------------------------------------

    def version_of(self, index: TaskIndex) -> int:
        """The version that the pod of an index must have at least."""
        return max(
            self.restart_version,
            self.task_versions.get(index[0], 0),
            self.pod_versions.get(index, 0),
        )

    def with_job_restart(self, version: int) -> ControlledResources:
        """Of a job whose pods are all to be replaced, from this version on."""
        return replace(
            self, restart_version=version, task_versions={}, pod_versions={}, seen={}, succeeded={}
        )

    def with_task_restart(self, version: int, task: str) -> ControlledResources:
        """Of a job whose pods of one task are to be replaced."""
        return replace(
            self,
            task_versions={**self.task_versions, task: version},
            pod_versions={index: n for index, n in self.pod_versions.items() if index[0] != task},
            seen={name: found for name, found in self.seen.items() if name != task},
            succeeded={name: found for name, found in self.succeeded.items() if name != task},
        )

    def with_pod_restart(self, version: int, index: TaskIndex) -> ControlledResources:
        """Of a job one of whose pods is to be replaced."""
        return replace(
            self,
            pod_versions={**self.pod_versions, index: version},
            seen=_remove(self.seen, [index]),
            succeeded=_remove(self.succeeded, [index]),
        )

    # --- pods ------------------------------------------------------------------------------

    def has_seen(self, index: TaskIndex) -> bool:
        """Whether the pod has existed."""
        return index[1] in self.seen.get(index[0], ())

    def has_succeeded(self, index: TaskIndex) -> bool:
        """Whether the pod has succeeded."""
        return index[1] in self.succeeded.get(index[0], ())

    def with_observed(
        self, seen: Iterable[TaskIndex], succeeded: Iterable[TaskIndex]
    ) -> ControlledResources:
        """With pods that exist, and pods that have succeeded, added."""
        succeeded = list(succeeded)
        return replace(
            self,
            seen=_add(_add(self.seen, seen), succeeded),
            succeeded=_add(self.succeeded, succeeded),
        )

    def without_lost(self, indices: Iterable[TaskIndex]) -> ControlledResources:
        """Without pods that were lost, so that they are created again."""
        return replace(self, seen=_remove(self.seen, indices))

    def limited_to(self, replicas: Mapping[str, int]) -> ControlledResources:
        """Limited to the pods that the job still has; ``replicas`` by task."""
        return replace(
            self,
            task_versions={name: n for name, n in self.task_versions.items() if name in replicas},
            pod_versions={
                p: n for p, n in self.pod_versions.items() if p[1] < replicas.get(p[0], 0)
            },
            seen=_truncate(self.seen, replicas),
            succeeded=_truncate(self.succeeded, replicas),
        )

    # --- as it is written ------------------------------------------------------------------

    @classmethod
    def parse(cls, written: Mapping[str, str]) -> ControlledResources:
        """From ``status.controlledResources``; entries that are not ours are passed over."""
        tasks: dict[str, int] = {}
        pods: dict[TaskIndex, int] = {}
        seen: dict[str, frozenset[int]] = {}
        succeeded: dict[str, frozenset[int]] = {}
        created: dict[str, str] = {}
        for key, text in written.items():
            kind, _, rest = key.partition("/")
            task, _, index = rest.partition("/")
            if kind == _RESTART_VERSION and index.isdecimal():
                pods[task, int(index)] = _parse_int(text)
            elif kind == _RESTART_VERSION and task and not index:
                tasks[task] = _parse_int(text)
            elif kind == _SEEN:
                seen[task] = _parse_ranges(text)
            elif kind == _SUCCEEDED:
                succeeded[task] = _parse_ranges(text)
            elif kind == _CREATED:
                created[rest] = text
        version = _parse_int(written.get(_RESTART_VERSION, ""))
        action = written.get(_LAST_ACTION, "")
        return cls(version, tasks, pods, seen, succeeded, created, action)

    def to_dict(self) -> dict[str, str]:
        """For ``status.controlledResources``; :meth:`parse` reads it."""
        written = {_RESTART_VERSION: str(self.restart_version)}
        written |= {f"{_RESTART_VERSION}/{task}": str(n) for task, n in self.task_versions.items()}
        written |= {
            f"{_RESTART_VERSION}/{task}/{i}": str(n) for (task, i), n in self.pod_versions.items()
        }
        for kind, found in ((_SEEN, self.seen), (_SUCCEEDED, self.succeeded)):
            written |= {f"{kind}/{task}": _format_ranges(n) for task, n in found.items() if n}
        written |= {f"{_CREATED}/{name}": digest for name, digest in self.created.items()}
        return written | ({_LAST_ACTION: self.last_action} if self.last_action else {})


def _parse_int(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _parse_ranges(text: str) -> frozenset[int]:
    """``0-3,7`` as numbers."""
    found: set[int] = set()
    for first, last in _RANGE.findall(text):
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _format_ranges(numbers: Iterable[int]) -> str:
    """Numbers as ``0-3,7``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _add(indices: IndexSets, more: Iterable[TaskIndex]) -> IndexSets:
    found = {task: set(numbers) for task, numbers in indices.items()}
    for task, index in more:
        found.setdefault(task, set()).add(index)
    return {task: frozenset(numbers) for task, numbers in found.items()}


def _remove(indices: IndexSets, fewer: Iterable[TaskIndex]) -> IndexSets:
    gone = set(fewer)
    return {
        task: frozenset(i for i in numbers if (task, i) not in gone)
        for task, numbers in indices.items()
    }


def _truncate(indices: IndexSets, replicas: Mapping[str, int]) -> IndexSets:
    return {
        task: frozenset(i for i in numbers if i < replicas[task])
        for task, numbers in indices.items()
        if task in replicas
    }
