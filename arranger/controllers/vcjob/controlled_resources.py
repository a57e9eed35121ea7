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
    """One job's memory.

    Attributes:
        since: the version that began with all pods anew: those of earlier ones are to go.
        tasks: the same for single tasks.
        pods: the same for single pods.
        seen: pods of the current version that have existed; one that is missing was lost.
        done: pods that have succeeded; they are not made again when somebody tidies them up.
        made: object made for the job → digest of what it was made from.
        asked: the last value of the annotation with an owner's action, as it was done.
    """

    since: int = 0
    tasks: Mapping[str, int] = field(default_factory=dict)
    pods: Mapping[TaskIndex, int] = field(default_factory=dict)
    seen: IndexSets = field(default_factory=dict)
    done: IndexSets = field(default_factory=dict)
    made: Mapping[str, str] = field(default_factory=dict)
    asked: str = ""

    # --- versions --------------------------------------------------------------------------

    def version_of(self, place: TaskIndex) -> int:
        """The version that the pod in a place must have at least."""
        return max(self.since, self.tasks.get(place[0], 0), self.pods.get(place, 0))

    def with_job_restart(self, version: int) -> ControlledResources:
        """All pods are to go, and new ones to come."""
        return replace(self, since=version, tasks={}, pods={}, seen={}, done={})

    def with_task_restart(self, version: int, task: str) -> ControlledResources:
        """The same for the pods of a task."""
        return replace(
            self,
            tasks={**self.tasks, task: version},
            pods={place: n for place, n in self.pods.items() if place[0] != task},
            seen={name: found for name, found in self.seen.items() if name != task},
            done={name: found for name, found in self.done.items() if name != task},
        )

    def with_pod_restart(self, version: int, place: TaskIndex) -> ControlledResources:
        """The same for one pod."""
        return replace(
            self,
            pods={**self.pods, place: version},
            seen=_remove(self.seen, [place]),
            done=_remove(self.done, [place]),
        )

    # --- pods ------------------------------------------------------------------------------

    def has_seen(self, place: TaskIndex) -> bool:
        """Whether the pod has existed."""
        return place[1] in self.seen.get(place[0], ())

    def has_succeeded(self, place: TaskIndex) -> bool:
        """Whether the pod has succeeded."""
        return place[1] in self.done.get(place[0], ())

    def with_observed(
        self, seen: Iterable[TaskIndex], done: Iterable[TaskIndex]
    ) -> ControlledResources:
        """These exist, and these have succeeded."""
        done = list(done)
        return replace(self, seen=_add(_add(self.seen, seen), done), done=_add(self.done, done))

    def without_lost(self, places: Iterable[TaskIndex]) -> ControlledResources:
        """These were lost, and are to be made again."""
        return replace(self, seen=_remove(self.seen, places))

    def limited_to(self, replicas: Mapping[str, int]) -> ControlledResources:
        """Only of pods that the job still has, by task and number."""
        return replace(
            self,
            tasks={name: n for name, n in self.tasks.items() if name in replicas},
            pods={p: n for p, n in self.pods.items() if p[1] < replicas.get(p[0], 0)},
            seen=_truncate(self.seen, replicas),
            done=_truncate(self.done, replicas),
        )

    # --- as it is written ------------------------------------------------------------------

    @classmethod
    def parse(cls, written: Mapping[str, str]) -> ControlledResources:
        """What was written; entries that are not ours are passed over."""
        tasks: dict[str, int] = {}
        pods: dict[TaskIndex, int] = {}
        seen: dict[str, frozenset[int]] = {}
        done: dict[str, frozenset[int]] = {}
        made: dict[str, str] = {}
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
                done[task] = _parse_ranges(text)
            elif kind == _CREATED:
                made[rest] = text
        since = _parse_int(written.get(_RESTART_VERSION, ""))
        return cls(since, tasks, pods, seen, done, made, written.get(_LAST_ACTION, ""))

    def to_dict(self) -> dict[str, str]:
        """As :meth:`decode_object` reads it."""
        written = {_RESTART_VERSION: str(self.since)}
        written |= {f"{_RESTART_VERSION}/{task}": str(n) for task, n in self.tasks.items()}
        written |= {f"{_RESTART_VERSION}/{task}/{i}": str(n) for (task, i), n in self.pods.items()}
        for kind, found in ((_SEEN, self.seen), (_SUCCEEDED, self.done)):
            written |= {f"{kind}/{task}": _format_ranges(n) for task, n in found.items() if n}
        written |= {f"{_CREATED}/{name}": digest for name, digest in self.made.items()}
        return written | ({_LAST_ACTION: self.asked} if self.asked else {})


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
