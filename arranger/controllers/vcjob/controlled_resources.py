"""What a Job's status remembers beyond what people read there.

Pods come and go, and nothing in the API says of a pod that is not there whether it was never made,
was evicted, or was removed by us. So the controller writes down which pods it has seen and from
which version on pods are new, before it acts on it: whoever takes over after a kill knows. It lies
in ``status.controlledResources``, a map of texts that Volcano's own definition has as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter
from typing import Final

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.json_text import parse_json
from arranger.api.parsing.scalars import parse_int, parse_int_or
from arranger.api.parsing.timestamps import parse_time
from arranger.api.timestamps import second_time
from arranger.api.types.job_limits import MAX_PODS
from arranger.controllers.runtime.number_ranges import format_ranges

#: (task, index) of a pod.
TaskIndex = tuple[str, int]
#: (event, task, index) of a cause that policies are about; task "" is the whole job, and index -1
#: the whole task.
CauseKey = tuple[str, str, int]

#: The entry that holds the others, as JSON: a single one that nobody takes for a finding.
_STATE: Final = "arranger.io/state"
_RESTART_VERSION: Final = "pods-since"
_SEEN: Final = "pods-seen"
_SUCCEEDED: Final = "pods-succeeded"
_CREATED: Final = "made"
_LAST_ACTION: Final = "action"
_LAST_COMMAND: Final = "command"
_TEMPLATE: Final = "pods-template"
_FIRST_SEEN: Final = "since"
_DROPPED: Final = "pods-dropped"
#: Characters of what is remembered: an object has no more.
_MAX_STATE: Final = 3_000_000
#: Entries of it: one for each pod that is to be replaced, one for each that a policy waits for,
#: and few others. What is beyond, or what more pods are said to be seen than a job can have,
#: somebody else has written.
_MAX_ENTRIES: Final = 3 * MAX_PODS
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
        last_command: uid of the last Command that was obeyed, and may be there still.
        template: digest of what its pods are made from; "" while none was made.
        first_seen: cause that a policy with a timeout waits for, and that does not say itself
            since when it is there, or may cease to say so → since when, in whole seconds.
        dropped: pods that a smaller job has in excess, as long as they are there: they go, and if
            the job becomes larger meanwhile, others take their place.
    """

    restart_version: int = 0
    task_versions: Mapping[str, int] = field(default_factory=dict)
    pod_versions: Mapping[TaskIndex, int] = field(default_factory=dict)
    seen: frozenset[TaskIndex] = frozenset()
    succeeded: frozenset[TaskIndex] = frozenset()
    created: Mapping[str, str] = field(default_factory=dict)
    last_action: str = ""
    last_command: str = ""
    template: str = ""
    first_seen: Mapping[CauseKey, datetime] = field(default_factory=dict)
    dropped: frozenset[TaskIndex] = frozenset()

    def version_of(self, index: TaskIndex) -> int:
        """The version that the pod of an index must have at least."""
        return max(
            self.restart_version,
            self.task_versions.get(index[0], 0),
            self.pod_versions.get(index, 0),
        )

    def with_job_restart(self, version: int) -> ControlledResources:
        """Of a job whose pods are all to be replaced, from this version on."""
        kept = replace(ControlledResources(version), created=self.created, template=self.template)
        return replace(kept, last_action=self.last_action, last_command=self.last_command)

    def without_created(self, plural: str) -> ControlledResources:
        """Of a job that makes its objects of a resource again, those that are gone."""
        kept = {k: v for k, v in self.created.items() if k.partition("/")[0] != plural}
        return replace(self, created=kept)

    def with_task_restart(self, version: int, task: str) -> ControlledResources:
        """Of a job whose pods of one task are to be replaced."""
        return replace(
            self,
            task_versions={**self.task_versions, task: version},
            pod_versions={index: n for index, n in self.pod_versions.items() if index[0] != task},
            seen=frozenset(index for index in self.seen if index[0] != task),
            succeeded=frozenset(index for index in self.succeeded if index[0] != task),
            first_seen={key: t for key, t in self.first_seen.items() if key[1] != task},
        )

    def with_pod_restarts(self, version: int, indices: Iterable[TaskIndex]) -> ControlledResources:
        """Of a job some of whose pods are to be replaced."""
        going = frozenset(indices)
        return replace(
            self,
            pod_versions={**self.pod_versions, **dict.fromkeys(going, version)},
            seen=self.seen - going,
            succeeded=self.succeeded - going,
            first_seen={key: t for key, t in self.first_seen.items() if key[1:] not in going},
        )

    def with_observed(
        self, seen: Iterable[TaskIndex], succeeded: Iterable[TaskIndex]
    ) -> ControlledResources:
        """With pods that exist, and pods that have succeeded, added."""
        ended = frozenset(succeeded)
        return replace(self, seen=self.seen.union(seen, ended), succeeded=self.succeeded | ended)

    def without_lost(self, indices: Iterable[TaskIndex]) -> ControlledResources:
        """Without pods that were lost, so that they are created again."""
        return replace(self, seen=self.seen.difference(indices))

    def limited_to(self, replicas: Mapping[str, int]) -> ControlledResources:
        """Limited to the pods that the job still has; ``replicas`` by task."""

        def has(index: TaskIndex) -> bool:
            return index[1] < replicas.get(index[0], 0)

        return replace(
            self,
            task_versions={name: n for name, n in self.task_versions.items() if name in replicas},
            pod_versions={index: n for index, n in self.pod_versions.items() if has(index)},
            seen=frozenset(filter(has, self.seen)),
            succeeded=frozenset(filter(has, self.succeeded)),
        )

    @classmethod
    def parse(cls, written: Mapping[str, str]) -> ControlledResources:
        """From ``status.controlledResources``; entries that are not ours are passed over.

        Earlier releases wrote the entries themselves, which are read as well.
        """
        written = {**written, **_decode_state(written.get(_STATE, ""))}
        tasks: dict[str, int] = {}
        pods: dict[TaskIndex, int] = {}
        indices: dict[str, set[TaskIndex]] = {_SEEN: set(), _SUCCEEDED: set(), _DROPPED: set()}
        created: dict[str, str] = {}
        first_seen: dict[CauseKey, datetime] = {}
        for key, text in islice(written.items(), _MAX_ENTRIES):
            kind, _, rest = key.partition("/")
            task, _, index = rest.partition("/")
            if kind == _RESTART_VERSION and (number := parse_int_or(index, -1)) >= 0:
                pods[task, number] = parse_int_or(text, 0)
            elif kind == _RESTART_VERSION and task and not index:
                tasks[task] = parse_int_or(text, 0)
            elif kind in indices:
                left = MAX_PODS - len(indices[kind])
                indices[kind] |= {(task, n) for n in islice(_parse_ranges(text), left)}
            elif kind == _CREATED:
                created[rest] = text
            elif kind == _FIRST_SEEN:
                first_seen |= _parse_first_seen(rest, text)
        version = parse_int_or(written.get(_RESTART_VERSION, ""), 0)
        action = written.get(_LAST_ACTION, "")
        seen, succeeded = frozenset(indices[_SEEN]), frozenset(indices[_SUCCEEDED])
        command, template = written.get(_LAST_COMMAND, ""), written.get(_TEMPLATE, "")
        last = (action, command, template)
        dropped = frozenset(indices[_DROPPED])
        return cls(version, tasks, pods, seen, succeeded, created, *last, first_seen, dropped)

    def to_dict(self) -> dict[str, str]:
        """For ``status.controlledResources``; :meth:`parse` reads it."""
        written = {_RESTART_VERSION: str(self.restart_version)}
        written |= {f"{_RESTART_VERSION}/{task}": str(n) for task, n in self.task_versions.items()}
        written |= {
            f"{_RESTART_VERSION}/{task}/{i}": str(n) for (task, i), n in self.pod_versions.items()
        }
        known = {_SEEN: self.seen, _SUCCEEDED: self.succeeded, _DROPPED: self.dropped}
        for kind, found in known.items():
            for task, own in groupby(sorted(found), key=itemgetter(0)):
                written[f"{kind}/{task}"] = format_ranges(index for _, index in own)
        written |= {f"{_CREATED}/{name}": digest for name, digest in self.created.items()}
        written |= {
            f"{_FIRST_SEEN}/{event}/{task}/{index}": second_time(moment)
            for (event, task, index), moment in self.first_seen.items()
        }
        texts = {_LAST_ACTION: self.last_action, _LAST_COMMAND: self.last_command}
        texts[_TEMPLATE] = self.template
        written |= {key: text for key, text in texts.items() if text}
        return {_STATE: json.dumps(written, separators=(",", ":"), sort_keys=True)}


def _decode_state(text: str) -> Mapping[str, str]:
    try:
        state = parse_json(text, max_length=_MAX_STATE, max_elements=_MAX_ENTRIES) if text else {}
    except ParseError:
        return {}
    items = state.items() if isinstance(state, dict) else ()
    return {key: value for key, value in items if isinstance(value, str)}


def _parse_first_seen(cause: str, text: str) -> Iterator[tuple[CauseKey, datetime]]:
    """``event/task/index`` and its time; nothing where they are none."""
    event, _, rest = cause.partition("/")
    task, _, index = rest.partition("/")
    with suppress(ParseError):
        yield (event, task, parse_int_or(index, -1)), parse_time(text)


def _parse_ranges(text: str) -> Iterator[int]:
    """``0-3,7`` as numbers."""
    for found in islice(_RANGE.finditer(text), MAX_PODS):
        first, last = found.groups()
        yield from range(parse_int(first), parse_int(last or first) + 1)
