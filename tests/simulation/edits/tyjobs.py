"""Edits of TYJobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from arranger.api import annotations as keys
from tests.builders import a_node
from tests.simulation.edits.edit import (
    NODES,
    Edits,
    Look,
    Refused,
    Step,
    TakesEffect,
    create,
    patch,
    steps,
    tyjob_edit,
)
from tests.simulation.edits.fields import Field
from tests.simulation.harnesses.simulation import Object
from tests.simulation.harnesses.tyjobs import FIRST, JOBS, LEADER, TYJobHarness
from tests.simulation.tyjobs.test_tyjobs import ending
from tests.tyjobs import a_template, a_tyjob

ROOM: Final = create(a_node("n1").offers(cpu=4))
_PATH: Final = f"{JOBS}/job"


def spec(**fields: Any) -> Step:
    """The job's spec is edited."""
    return tyjob_edit({"spec": fields})


def story(
    edit: Step, look: Look, without: object, seen: object, *, room: bool, **job: Any
) -> TakesEffect:
    """Of the job ``job``; without ``room`` there is no node."""
    submitted = create(a_tyjob(**job))
    given = steps(ROOM, submitted) if room else submitted
    return TakesEffect(given, edit, look, without, seen, harness=TYJobHarness)


def both(edit: Step, look: Look, without: object, seen: object, **job: Any) -> Edits:
    """The same while the job waits and while it runs."""
    return Edits(
        story(edit, look, without, seen, room=False, **job),
        story(edit, look, without, seen, room=True, **job),
    )


def stage(sim: TYJobHarness) -> object:
    """Where the job is."""
    return sim.status().get("stage")


def bound(sim: TYJobHarness) -> object:
    """How many pods have a node."""
    return sim.bound()


def names(sim: TYJobHarness) -> object:
    """What its pods are called."""
    return set(sim.pods())


def note_of(pod: str, key: str) -> Look:
    """An annotation of a pod."""
    return lambda sim: sim.pods()[pod]["metadata"]["annotations"].get(key)


def image_of(pod: str) -> Look:
    """The image of a pod."""
    return lambda sim: sim.pods()[pod]["spec"]["containers"][0]["image"]


def stale(sim: TYJobHarness) -> object:
    """The status of the condition that tells of pods which an edit has not reached."""
    conditions = sim.status().get("conditions", [])
    return next((c["status"] for c in conditions if c["type"] == "UpToDate"), None)


def made_anew(edit: Step, look: Look, without: object, seen: object) -> Edits:
    """Pods without a node are made anew; of those with one the job says that they are old."""
    return Edits(
        story(edit, look, without, seen, room=False),
        story(edit, stale, None, "False", room=True),
    )


def _other() -> Object:
    template = a_template()
    template["spec"]["containers"][0]["image"] = "other"
    return template


def workers(count: int = 2, name: str = "actor", template: Object | None = None) -> list[Object]:
    """The job's one set."""
    return [{"name": name, "template": template or a_template(), "counts": count}]


def _running(sim: Any) -> None:
    """The job as it is when it runs."""
    sim.cluster.create(a_tyjob())
    patch(_PATH, {"status": {"stage": "Running"}}, sub="/status")(sim)


def until_pending(edits: TakesEffect, **fields: Any) -> Edits:
    """A field that the definition refuses to change once the job runs."""
    return Edits(edits, Refused(_running, _PATH, {"spec": fields}))


def _failing() -> Object:
    return ending(30, 1)


def _lost(sim: TYJobHarness) -> None:
    """Nothing more fits on the node, and the job's pods are gone."""
    patch(f"{NODES}n1", {"spec": {"unschedulable": True}})(sim)
    for name in sim.pods():
        sim.delete("pod", name)


_SMALL: Final = create(a_node("n1").offers(cpu=2))
RESTARTS: Final = Edits(
    replace(
        story(
            spec(restartLimit=0), stage, True, True, room=False, restartLimit=9, leader=_failing()
        ),
        later=ROOM,
        look=lambda sim: stage(sim) == "Failed",
        without=False,
        seconds=90,
    ),
    replace(
        story(
            spec(restartLimit=0), stage, True, True, room=True, restartLimit=9, leader=_failing()
        ),
        look=lambda sim: stage(sim) == "Failed",
        without=False,
        seconds=90,
    ),
)
CLEANED: Final = Edits(
    replace(
        story(
            spec(cleanPodPolicy="None"),
            names,
            set(),
            {LEADER, FIRST},
            room=False,
            workers=1,
            leader=ending(20),
        ),
        later=ROOM,
        seconds=90,
    ),
    replace(
        story(
            spec(cleanPodPolicy="None"),
            names,
            set(),
            {LEADER, FIRST},
            room=True,
            workers=1,
            leader=ending(30),
        ),
        seconds=90,
    ),
)
LEAST: Final = Edits(
    replace(story(spec(minWorkersNum=1), bound, 0, 2, room=False, least=2), later=_SMALL),
    replace(
        story(spec(minWorkersNum=2), stage, "Running", "Rescheduling", room=True),
        given=steps(_SMALL, create(a_tyjob())),
    ),
)


def _two(sim: Any) -> None:
    create(a_tyjob("a", workers=1), a_tyjob("job", workers=1))(sim)


PRIORITY: Final = Edits(
    replace(
        story(spec(priority=9), lambda sim: sim.node_of(LEADER), "", "n1", room=False),
        given=_two,
        later=_SMALL,
        pause=30,
    ),
    story(spec(priority=9), note_of(LEADER, keys.JOB_PRIORITY), "5", "9", room=True),
)
TIMEOUT: Final = Edits(
    story(spec(schedulingTimeoutSeconds=10), stage, "Pending", "Failed", room=False),
    replace(
        story(
            spec(schedulingTimeoutSeconds=10),
            lambda sim: stage(sim) == "Failed",
            False,
            True,
            room=True,
        ),
        later=_lost,
        seconds=90,
    ),
)
POLICY: Final = Edits(
    replace(
        story(spec(schedulerPolicy={"basicPolicy": "BinPack"}), bound, 0, 1, room=False),
        later=create(a_node("n1").offers(cpu=1)),
    ),
    story(
        spec(schedulerPolicy={"basicPolicy": ["Gang", "JobAffinity"]}),
        note_of(LEADER, keys.PLACEMENT),
        "BinPack",
        "JobAffinity",
        room=True,
    ),
)
#: Annotations of a job about its gang, and what an edit writes there.
GANG_NOTES: Final = {
    keys.GANG_MODE: "NonStrict",
    keys.GANG_WAIT: "90s",
    keys.GANG_GROUPS: '["default/job"]',
    keys.GANG_MATCH: "only-waiting",
    keys.TOPOLOGY: "preferred=zone",
}


def _annotated(key: str, value: str) -> Edits:
    edit = tyjob_edit({"metadata": {"annotations": {key: value}}})
    before = "waiting-and-running" if key == keys.GANG_MATCH else None
    return both(edit, lambda sim: _gang_note(sim, key), before, value)


def _gang_note(sim: TYJobHarness, key: str) -> object:
    """What the gang's pods, or its PodGroup, say."""
    groups = sim.cluster.objects("podgroups", "scheduling.sigs.k8s.io")
    objects = [*sim.pods().values(), *groups]
    found = {o["metadata"].get("annotations", {}).get(key) for o in objects} - {None}
    return found.pop() if found else None


ROWS: Final[dict[Field, Edits]] = {
    ("TYJob", "spec.restartLimit"): RESTARTS,
    ("TYJob", "spec.volumes[]"): made_anew(
        spec(volumes=[{"name": "v", "emptyDir": {}}]),
        lambda sim: [v["name"] for v in sim.pods()[LEADER]["spec"].get("volumes", [])],
        [],
        ["v"],
    ),
    ("TYJob", "spec.leader.template"): made_anew(
        spec(leader={"template": _other()}), image_of(LEADER), "img", "other"
    ),
    ("TYJob", "spec.workerSets[].template"): made_anew(
        spec(workerSets=workers(template=_other())), image_of(FIRST), "img", "other"
    ),
    ("TYJob", "spec.leader.name"): until_pending(
        story(
            spec(leader={"name": "boss"}),
            lambda sim: "job-boss-0" in names(sim),
            False,
            True,
            room=False,
        ),
        leader={"name": "boss"},
    ),
    ("TYJob", "spec.queue"): until_pending(
        story(
            spec(queue="other"), note_of(LEADER, keys.QUEUE_NAME), "default", "other", room=False
        ),
        queue="other",
    ),
    ("TYJob", "spec.workerSets[].name"): both(
        spec(workerSets=workers(name="other")),
        lambda sim: "job-other-0" in names(sim),
        False,
        True,
    ),
    ("TYJob", "spec.workerSets[].counts"): both(
        spec(workerSets=workers(3)), lambda sim: len(sim.pods()), 3, 4
    ),
    ("TYJob", "spec.cleanPodPolicy"): CLEANED,
    ("TYJob", "spec.terminating"): Edits(
        story(spec(terminating=True), stage, "Pending", "Succeeded", room=False),
        story(spec(terminating=True), stage, "Running", "Succeeded", room=True),
    ),
    ("TYJob", "spec.minWorkersNum"): LEAST,
    ("TYJob", "spec.priority"): PRIORITY,
    ("TYJob", "spec.schedulingTimeoutSeconds"): TIMEOUT,
    ("TYJob", "spec.schedulerPolicy.basicPolicy"): POLICY,
    ("TYJob", "spec.schedulerPolicy.jobQueuePolicy"): both(
        spec(schedulerPolicy={"jobQueuePolicy": "DRF"}),
        note_of(LEADER, keys.JOB_QUEUE_POLICY),
        None,
        "DRF",
    ),
    **{("TYJob", key): _annotated(key, value) for key, value in GANG_NOTES.items()},
}
