"""Edits of Volcano Jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from arranger.api import annotations as keys
from tests.builders import a_node
from tests.simulation.edits.edit import (
    Edits,
    Look,
    NoMeaning,
    Step,
    TakesEffect,
    create,
    job_edit,
    steps,
)
from tests.simulation.edits.fields import Field
from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.simulation import Object

#: A node with room for everything.
ROOM: Final = create(a_node("n1").offers(cpu=8))
NEXT: Final = NoMeaning("pods that have a node keep it; their successors are made from the edit")


def spec(**fields: Any) -> Step:
    """The job's spec is edited."""
    return job_edit({"spec": fields})


def a_job(*tasks: Object, room: bool = False, **more: Any) -> Step:
    """The job ``j``, and room for it if it is to run."""

    def step(sim: JobHarness) -> None:
        sim.may_repeat_pods.add("j")
        sim.create(*([a_node("n1").offers(cpu=8)] if room else []))
        sim.job("j", *(tasks or [task()]), **more)

    return step


def story(given: Step, edit: Step, look: Look, without: object, seen: object) -> TakesEffect:
    """Of a job with its controllers at work."""
    return TakesEffect(given, edit, look, without, seen, harness=JobHarness)


def pod_spec(*path: str) -> Look:
    """A part of the first pod as it is in the end."""

    def look(sim: JobHarness) -> object:
        found: Any = next(
            p for p in sim.cluster.objects("pods") if p["metadata"]["name"] == "j-w-0"
        )
        for name in path:
            found = found.get(name, {}) if isinstance(found, dict) else found[int(name)]
        return found

    return look


def phase(sim: JobHarness) -> object:
    """The phase of the job; "" when it is gone."""
    return sim.phase("j") if sim.cluster.objects("jobs", "batch.volcano.sh") else "deleted"


def remade(edit: Step, look: Look, without: object, seen: object, **more: Any) -> Edits:
    """Pods without a node are made anew, and fit the edit."""
    return Edits(story(a_job(**more), edit, look, without, seen), NEXT)


_IMAGE: Final = ("spec", "containers", "0", "image")
_TASK: Final = task()
_OTHER: Final = task()
_OTHER["template"]["spec"]["containers"][0]["image"] = "other"
_VOLUMES: Final = [{"mountPath": "/data"}]
_MOUNT: Final = ("spec", "containers", "0", "volumeMounts", "0", "mountPath")
_CLAIM: Final = ("spec", "volumes", "0", "persistentVolumeClaim", "claimName")
_CLAIM_SPEC: Final = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}


def _notes(key: str) -> Edits:
    edit = job_edit({"metadata": {"annotations": {key: "false"}}})
    return remade(edit, pod_spec("metadata", "annotations", key), {}, "false")


def _pods(sim: JobHarness) -> object:
    return set(sim.pods_of_job("j"))


def _has(pod: str) -> Look:
    return lambda sim: pod in sim.pods_of_job("j")


def _bound(sim: JobHarness) -> object:
    return sim.bound()


# --- policies ------------------------------------------------------------------------------------


def failing(**more: Any) -> Object:
    """A task of two pods: one fails with the exit code 3, some time after the edit, one goes on."""
    return task("w", 2, **more)


def _fail(sim: JobHarness) -> None:
    """The pod fails twenty seconds from now."""
    ended = {"name": "c", "restartCount": 5, "state": {"terminated": {"exitCode": 3}}}
    status = {"status": {"phase": "Failed", "containerStatuses": [ended]}}
    loop = asyncio.get_running_loop()
    loop.call_later(20, lambda: sim.patch("pod", "j-w-0", status, sub="/status"))


def after_failure(given: Callable[[bool], Step], edit: Step, otherwise: str, then: str) -> Edits:
    """What the pod's failure leads to, for a job that waits at the edit and one that runs."""
    running = replace(story(given(True), edit, phase, otherwise, then), later=_fail, seconds=60)
    waiting = replace(running, given=given(False), later=steps(ROOM, _fail))
    return Edits(waiting, running)


def policy(kept: Object, edited: Object) -> Edits:
    """By the policies of the job as they are when the pod fails."""

    def given(room: bool) -> Step:
        return a_job(failing(), room=room, policies=[kept])

    return after_failure(given, spec(policies=[edited]), "Running", "Aborted")


def task_policy(kept: Object, edited: Object) -> Edits:
    """By those of the task."""

    def given(room: bool) -> Step:
        return a_job(failing(policies=[kept]), room=room)

    return after_failure(given, spec(tasks=[failing(policies=[edited])]), "Running", "Aborted")


_NEVER: Final = {"event": "TaskCompleted", "action": "AbortJob"}
_ABORT: Final = {"event": "PodFailed", "action": "AbortJob"}
_POLICIES: Final[dict[str, tuple[Object, Object]]] = {
    "action": ({"event": "PodFailed", "action": "ResumeJob"}, _ABORT),
    "event": (_NEVER, _ABORT),
    "events": (_NEVER, {"events": ["PodFailed"], "action": "AbortJob"}),
    "exitCode": (_NEVER, {"exitCode": 3, "action": "AbortJob"}),
    "timeout": ({**_ABORT, "timeout": "1h"}, {**_ABORT, "timeout": "1s"}),
}


def _restarts_often(sim: JobHarness) -> None:
    """The pod's container has been started again five times, twenty seconds from now."""
    often = {"status": {"containerStatuses": [{"name": "c", "restartCount": 5}]}}
    loop = asyncio.get_running_loop()
    loop.call_later(20, lambda: sim.patch("pod", "j-w-0", often, sub="/status"))


def _retrying(*, room: bool) -> TakesEffect:
    given = a_job(failing(maxRetry=10), room=room, on={"TaskFailed": "AbortJob"})
    edited = spec(tasks=[failing(maxRetry=2)])
    made = story(given, edited, phase, "Running", "Aborted")
    later = _restarts_often if room else steps(ROOM, _restarts_often)
    return replace(made, later=later, seconds=60)


TASK_RETRY: Final = Edits(_retrying(room=False), _retrying(room=True))


def _depending(*names: str, how: str = "all") -> list[Object]:
    """A task that fits, one that does not, and ``w``, which is after some of them."""
    after = {"dependsOn": {"name": list(names), "iteration": how}} if names else {}
    return [task("a", 1), task("b", 1, cpu=64), task("w", 1, **after)]


DEPENDS: Final = Edits(
    story(a_job(*_depending("b")), spec(tasks=_depending()), _has("j-w-0"), False, True),
    story(
        a_job(*_depending("b"), room=True, minAvailable=1),
        spec(tasks=_depending("a")),
        _has("j-w-0"),
        False,
        True,
    ),
)
DEPENDS_HOW: Final = Edits.both(
    story(
        a_job(*_depending("a", "b"), room=True, minAvailable=1),
        spec(tasks=_depending("a", "b", how="any")),
        _has("j-w-0"),
        False,
        True,
    )
)
ACTION: Final = job_edit({"metadata": {"annotations": {keys.JOB_ACTION: "TerminateJob"}}})

# --- numbers -------------------------------------------------------------------------------------

REPLICAS: Final = Edits(
    story(
        a_job(),
        spec(tasks=[task(replicas=3)]),
        _pods,
        {"j-w-0", "j-w-1"},
        {f"j-w-{n}" for n in range(3)},
    ),
    story(a_job(room=True), spec(tasks=[task(replicas=3)]), _bound, 2, 3),
)
_HALF: Final = create(a_node("n1").offers(cpu=1))
MIN_AVAILABLE: Final = Edits(
    replace(story(a_job(), spec(minAvailable=1), _bound, 0, 1), later=_HALF),
    story(
        a_job(room=True, minAvailable=2),
        spec(minAvailable=1),
        lambda sim: sim.status("j")["minAvailable"],
        2,
        1,
    ),
)
TASK_MIN: Final = Edits(
    replace(story(a_job(), spec(tasks=[task(minAvailable=1)]), _bound, 0, 1), later=_HALF),
    story(
        a_job(room=True),
        spec(tasks=[task(minAvailable=1)]),
        lambda sim: sim.status("j")["minAvailable"],
        2,
        1,
    ),
)


def _ends(name: str, count: int, runs: float) -> Object:
    return task(name, count, runs=runs)


MIN_SUCCESS: Final = Edits(
    replace(
        story(
            a_job(_ends("w", 1, 5), _ends("x", 1, 3600)),
            spec(minSuccess=1),
            phase,
            "Running",
            "Completed",
        ),
        later=ROOM,
    ),
    story(
        a_job(_ends("w", 1, 20), _ends("x", 1, 3600), room=True),
        spec(minSuccess=1),
        phase,
        "Running",
        "Completed",
    ),
)


def _ends_badly() -> Object:
    return task("w", 1, runs=20, exits=3)


_RESTARTS: Final = {"PodFailed": "RestartJob"}
MAX_RETRY: Final = Edits(
    replace(
        story(
            a_job(_ends_badly(), on=_RESTARTS, maxRetry=1000),
            spec(maxRetry=1),
            phase,
            "Pending",
            "Failed",
        ),
        later=ROOM,
        seconds=60,
        look=lambda sim: phase(sim) == "Failed",
        without=False,
        seen=True,
    ),
    replace(
        story(
            a_job(_ends_badly(), on=_RESTARTS, maxRetry=1000, room=True),
            spec(maxRetry=1),
            lambda sim: phase(sim) == "Failed",
            False,
            True,
        ),
        seconds=60,
    ),
)
TTL: Final = Edits.both(
    story(
        a_job(_ends("w", 1, 5), room=True),
        spec(ttlSecondsAfterFinished=10),
        phase,
        "Completed",
        "deleted",
    )
)

ROWS: Final[dict[Field, Edits]] = {
    ("Volcano Job", "spec.tasks[].template"): remade(
        spec(tasks=[_OTHER]), pod_spec(*_IMAGE), "img", "other"
    ),
    ("Volcano Job", "spec.tasks[].name"): Edits(
        story(a_job(), spec(tasks=[task("x")]), _pods, {"j-w-0", "j-w-1"}, {"j-x-0", "j-x-1"}),
        story(
            a_job(room=True), spec(tasks=[task("x")]), _pods, {"j-w-0", "j-w-1"}, {"j-x-0", "j-x-1"}
        ),
    ),
    ("Volcano Job", "spec.queue"): remade(
        spec(queue="other"),
        pod_spec("metadata", "annotations", keys.QUEUE_NAME),
        "default",
        "other",
    ),
    ("Volcano Job", "spec.priorityClassName"): remade(
        spec(priorityClassName="system-node-critical"),
        pod_spec("spec", "priority"),
        0,
        2_000_001_000,
    ),
    ("Volcano Job", "spec.schedulerName"): Edits.both(
        NoMeaning("a job of another scheduler is that one's controllers', with all its pods")
    ),
    ("Volcano Job", "spec.plugins"): remade(
        spec(plugins={"env": []}),
        pod_spec("spec", "containers", "0", "env", "0", "name"),
        {},
        "VC_TASK_INDEX",
    ),
    ("Volcano Job", "spec.volumes[].mountPath"): remade(
        spec(volumes=[{"mountPath": "/other"}]),
        pod_spec(*_MOUNT),
        "/data",
        "/other",
        volumes=_VOLUMES,
    ),
    ("Volcano Job", "spec.volumes[].volumeClaimName"): remade(
        spec(volumes=[{"mountPath": "/data", "volumeClaimName": "b"}]),
        pod_spec(*_CLAIM),
        "a",
        "b",
        volumes=[{"mountPath": "/data", "volumeClaimName": "a"}],
    ),
    ("Volcano Job", "spec.volumes[].volumeClaim"): remade(
        spec(volumes=[{"mountPath": "/data", "volumeClaim": _CLAIM_SPEC}]),
        pod_spec(*_CLAIM),
        {},
        "j-volume-0",
        volumes=_VOLUMES,
    ),
    ("Volcano Job", "spec.tasks[].replicas"): REPLICAS,
    ("Volcano Job", "spec.minAvailable"): MIN_AVAILABLE,
    ("Volcano Job", "spec.tasks[].minAvailable"): TASK_MIN,
    ("Volcano Job", "spec.minSuccess"): MIN_SUCCESS,
    ("Volcano Job", "spec.maxRetry"): MAX_RETRY,
    ("Volcano Job", "spec.ttlSecondsAfterFinished"): TTL,
    **{("Volcano Job", f"spec.policies[].{key}"): policy(*two) for key, two in _POLICIES.items()},
    **{
        ("Volcano Job", f"spec.tasks[].policies[].{key}"): task_policy(*two)
        for key, two in _POLICIES.items()
    },
    ("Volcano Job", "spec.tasks[].maxRetry"): TASK_RETRY,
    ("Volcano Job", "spec.tasks[].dependsOn.name"): DEPENDS,
    ("Volcano Job", "spec.tasks[].dependsOn.iteration"): DEPENDS_HOW,
    ("Volcano Job", "spec.runningEstimate"): Edits.both(NoMeaning("accepted and not used")),
    ("Volcano Job", keys.JOB_ACTION): Edits(
        story(a_job(), ACTION, phase, "Pending", "Terminated"),
        story(a_job(room=True), ACTION, phase, "Running", "Terminated"),
    ),
    **{("Volcano Job", key): _notes(key) for key in keys.INHERITED_ANNOTATIONS},
    ("Volcano Job", keys.MAX_RUN_TIME): remade(
        job_edit({"metadata": {"annotations": {keys.MAX_RUN_TIME: "90s"}}}),
        pod_spec("spec", "activeDeadlineSeconds"),
        {},
        90,
    ),
}
