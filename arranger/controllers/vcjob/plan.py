"""What is to be written next for a Job: its status first, and then what follows from it.

Nothing is made or deleted but on the strength of a status that the server has. So a kill between
two writes loses no decision: whoever comes next draws the same conclusions from the same status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from arranger.api.types.volcano_job import JobPod, Phase
from arranger.controllers.vcjob.controlled_resources import Place
from arranger.controllers.vcjob.manifests import Made, group_of, made_for
from arranger.controllers.vcjob.snapshot import JobView, SeenGroup
from arranger.controllers.vcjob.state_machine import (
    FINISHED,
    Standing,
    advance,
    nonsense,
    status_of,
)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """Writes, in the order of the fields; a status is always alone.

    Attributes:
        status: a merge patch.
        told: (reason, message) for Events once the status is written.
        delete: pods to delete.
        make: objects to make or to change.
        create: places to make a pod for.
        group: the PodGroup to create, or the change of the one that is there.
        drop: PodGroups to delete.
        expired: whether the job itself is to be deleted.
        again: when to look again if nothing changes.
    """

    status: Object = field(default_factory=dict)
    told: tuple[tuple[str, str], ...] = ()
    delete: tuple[JobPod, ...] = ()
    make: tuple[Made, ...] = ()
    create: tuple[Place, ...] = ()
    group: Object | None = None
    drop: tuple[SeenGroup, ...] = ()
    expired: bool = False
    again: datetime | None = None

    @property
    def idle(self) -> bool:
        """Whether there is nothing to write."""
        wants = (self.status, self.delete, self.make, self.create, self.group, self.drop)
        return not (any(wants) or self.expired)


def plan(view: JobView) -> Plan:
    """What to write next; once all of it is written, ask again."""
    if view.job.metadata.deletion_timestamp is not None:
        return Plan()  # what belongs to the job goes with it
    standing = advance(view)
    if not _is_over(view):
        status = difference(status_of(view, standing), view.written)
        if status:
            return Plan(status=status, told=tuple(_news(view, standing)))
    if standing.reason == "Invalid":
        return Plan()
    again = standing.again
    match standing.phase:
        case Phase.PENDING | Phase.RUNNING:
            return _at_work(view, again)
        case Phase.RESTARTING:
            return Plan(delete=_to_go(view.outdated), drop=_other_groups(view))
    drop = tuple(view.groups.values())
    expired = again is not None and standing.phase in FINISHED and again <= view.now
    return Plan(delete=_to_go(view.living), drop=drop, expired=expired, again=again)


def _at_work(view: JobView, again: datetime | None) -> Plan:
    make = [m for m in made_for(view.job) if view.memory.made.get(m.name) != m.digest]
    delete = _to_go(view.surplus)
    drop = _other_groups(view)
    if make:
        return Plan(delete=delete, drop=drop, make=tuple(make), again=again)
    memory, open_tasks = view.memory, {t.name for t in view.spec.tasks if view.may_start(t)}
    create = tuple(
        place
        for place in view.places()
        if place not in view.pods
        and place[0] in open_tasks
        # One that has been seen was lost, or is not seen yet: the status will say which.
        and not memory.has_seen(place)
    )
    return Plan(
        delete=delete,
        create=create,
        group=_group_change(view),
        drop=drop,
        again=again,
    )


def _group_change(view: JobView) -> Object | None:
    """The PodGroup goes last: no pod starts before it is known which pods there are."""
    wanted = group_of(view)
    seen = view.group
    if seen is None:
        have = {task: len(indices) for task, indices in view.memory.seen.items()}
        minima = wanted["spec"].get("minTaskMember", {})
        enough = all(have.get(task, 0) >= least for task, least in minima.items())
        ready = enough and sum(have.values()) >= wanted["spec"]["minMember"]
        return wanted if ready and view.spec.replicas else None
    change: Object = {}
    fields = {*wanted["spec"], "minTaskMember", "priorityClassName", "minResources"}
    spec = {name: wanted["spec"].get(name) for name in fields}
    if differing := difference(spec, seen.spec):
        change["spec"] = differing
    if notes := difference(wanted["metadata"]["annotations"], seen.annotations):
        change["metadata"] = {"annotations": notes}
    return change or None


def _other_groups(view: JobView) -> tuple[SeenGroup, ...]:
    return tuple(group for group in view.groups.values() if group is not view.group)


def _to_go(pods: Mapping[Place, JobPod]) -> tuple[JobPod, ...]:
    return tuple(pod for pod in pods.values() if not pod.leaving)


def _is_over(view: JobView) -> bool:
    """Whether the job is finished and what was counted in the end stays."""
    counted = ("pending", "running", "terminating", "unknown")
    finished = view.job.status.state.phase in FINISHED
    return finished and not view.living and not any(map(view.written.get, counted))


def _news(view: JobView, standing: Standing) -> Iterator[tuple[str, str]]:
    """What is worth an Event: a new phase, that the job is invalid now, an order that is none."""
    if standing.memory.asked != view.memory.asked and (wrong := nonsense(standing.memory.asked)):
        yield "InvalidAction", wrong
    state, invalid = view.job.status.state, standing.reason == "Invalid"
    if invalid and (state.reason, state.message) != (standing.reason, standing.message):
        yield standing.reason, standing.message
    if standing.phase != state.phase and not invalid:
        running = f"{view.count('Running')} of {view.spec.replicas} pods run"
        yield str(standing.phase), standing.message or running


def difference(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> Object:
    """A merge patch that makes the named fields, maps included, as wanted."""
    patch: Object = {}
    for name, value in wanted.items():
        known = there.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            gone = {key: None for key in known if key not in value}
            if inner := difference({**value, **gone}, known):
                patch[name] = inner
        elif value != known:
            patch[name] = value
    return patch
