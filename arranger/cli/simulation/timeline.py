"""What happened in an embedded cluster, in the order in which it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from arranger.cli.simulation.naming import counted_with, namespaced_name
from arranger.embedded import Object
from arranger.embedded.storage.store import Change

#: Happenings that are kept; of the rest only the number.
MOST: Final = 50_000
#: Resources beside pods whose phase is worth a word, and where they have it.
_PHASES: Final[Mapping[str, tuple[str, ...]]] = {
    "arranger.io/tyjobs": ("stage",),
    "arranger.io/gangs": ("phase",),
    "batch.volcano.sh/jobs": ("state", "phase"),
    "scheduling.volcano.sh/podgroups": ("phase",),
}
_ENDED: Final = ("Succeeded", "Failed")


class Happening(msgspec.Struct, frozen=True, rename="camel"):
    """Something that became of an object.

    Attributes:
        at: seconds from the start.
        what: ``Created``, ``Bound``, ``Started``, ``Succeeded``, ``Failed``, ``Evicted``,
            ``Deleted`` or ``Gone`` of a pod; of other kinds the phase that it has now.
        kind, name: of the object; the name with its namespace.
        owner: what it is counted with: ``Job default/train`` for example.
        node: of a pod that has one.
        note: why, where somebody has said so.
    """

    at: float
    what: str
    kind: str
    name: str
    owner: str
    node: str = ""
    note: str = ""


class Timeline:
    """Watches a cluster and writes down what happens.

    Args:
        clock: seconds; the first time it is asked counts as the start.

    Attributes:
        happenings: the first so many.
        left_out: how many came after them.
        pods: uid → ``namespace/name`` of each pod that there has been.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = clock()
        self.happenings: list[Happening] = []
        self.left_out = 0
        self.pods: dict[str, str] = {}

    def on_change(self, change: Change) -> None:
        """A write to the cluster."""
        if change.resource == "/pods":
            meta = change.after["metadata"]
            self.pods[meta["uid"]] = namespaced_name(meta)
            found = _of_pod(change)
        elif change.resource == "batch/jobs":
            found = _of_job(change)
        elif (path := _PHASES.get(change.resource)) is not None:
            found = _of_phase(change, path)
        else:
            return
        for what, node, note in found:
            self._add(change.after, what, node, note)

    def _add(self, obj: Object, what: str, node: str, note: str) -> None:
        if len(self.happenings) >= MOST:
            self.left_out += 1
            return
        at = round(self._clock() - self._start, 3)
        name = namespaced_name(obj["metadata"])
        self.happenings.append(
            Happening(at, what, obj["kind"], name, counted_with(obj), node=node, note=note)
        )


def _of_pod(change: Change) -> Iterator[tuple[str, str, str]]:
    before, after = change.before, change.after
    node = str(after["spec"].get("nodeName") or "")
    phase = after["status"].get("phase")
    going = bool(after["metadata"].get("deletionTimestamp"))
    if change.type == "DELETED":
        if not (going or phase in _ENDED):
            yield _departure(after)
        yield "Gone", node, ""
        return
    if before is None:
        yield "Created", "", ""
    if node and not (before and before["spec"].get("nodeName")):
        yield "Bound", node, ""
    if phase != (before or {"status": {}})["status"].get("phase"):
        if phase == "Running":
            yield "Started", node, ""
        elif phase in _ENDED:
            yield str(phase), node, ""
    if going and not (before and before["metadata"].get("deletionTimestamp")):
        yield _departure(after)


def _departure(pod: Object) -> tuple[str, str, str]:
    """A pod is to go: because somebody else is to have its place, or for no reason given."""
    node = str(pod["spec"].get("nodeName") or "")
    for each in pod["status"].get("conditions") or ():
        if (each.get("type"), each.get("status")) == ("DisruptionTarget", "True"):
            return "Evicted", node, str(each.get("message") or each.get("reason") or "")
    return "Deleted", node, ""


def _of_job(change: Change) -> Iterator[tuple[str, str, str]]:
    before, after = _conditions(change.before), _conditions(change.after)
    for kind in ("Suspended", "Complete", "Failed"):
        if kind in after and kind not in before:
            yield kind, "", after[kind]


def _conditions(job: Object | None) -> Mapping[str, str]:
    """Those of a Job that hold, and why."""
    status = (job or {}).get("status") or {}
    held = (c for c in status.get("conditions") or () if c.get("status") == "True")
    return {str(c.get("type")): str(c.get("reason", "")) for c in held}


def _of_phase(change: Change, path: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    phase, why = _phase(change.after, path)
    if change.type != "DELETED" and phase and phase != _phase(change.before, path)[0]:
        yield phase, "", why


def _phase(obj: Object | None, path: tuple[str, ...]) -> tuple[str, str]:
    """The phase, and the message beside it."""
    found: Any = (obj or {}).get("status")
    for part in path[:-1]:
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return "", ""
    phase, why = found.get(path[-1]), found.get("message")
    return (phase if isinstance(phase, str) else ""), (why if isinstance(why, str) else "")
