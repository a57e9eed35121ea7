"""The pods, the Service and the ConfigMap of a TYJob; and jobs of which none can be made."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arranger.api.annotations import (
    JOB_PRIORITY,
    JOB_QUEUE_POLICY,
    LEADER_UID,
    MAX_RUN_TIME,
    PLACEMENT,
    RESTARTS,
    ROLE,
    TOPOLOGY,
    TYJOB,
    WORKER_SET,
)
from arranger.api.settings.gang_membership import gang_membership
from arranger.api.settings.gang_settings import MatchPolicy, Mode
from arranger.api.types.core import Pod
from arranger.api.types.tyjob import TYJob, parse_tyjob, validate_tyjob
from arranger.controllers.tyjob import manifests
from tests.tyjobs import a_template, a_tyjob
from tests.unit.controllers.tyjob.observed import FIRST, LEADER, SECOND, a_job, a_replica_pod

Object = dict[str, Any]


def made(name: str, job: TYJob | None = None, **words: Any) -> Object:
    """A pod as it would be created."""
    job = job or a_job(**words)
    place = next(place for place in job.replicas if place.pod == name)
    return a_replica_pod(job, place, leader="uid-l", restarts=1)


def env_of(pod: Object, container: int = 0) -> dict[str, Any]:
    """The environment of a container: text, or where it comes from."""
    env = pod["spec"]["containers"][container]["env"]
    return {v["name"]: v.get("value", v.get("valueFrom")) for v in env}


STATIC = {
    "MASTER_ADDR": f"{LEADER}.job",
    "MASTER_PORT": "23456",
    "WORLD_SIZE": "3",
    "PET_NPROC_PER_NODE": "auto",
    "PET_MASTER_ADDR": f"{LEADER}.job",
    "PET_MASTER_PORT": "23456",
}


@pytest.mark.parametrize(("name", "rank"), [(LEADER, "0"), (FIRST, "1"), (SECOND, "2")])
def test_the_environment_of_a_job_that_needs_all_its_workers(name: str, rank: str) -> None:
    address: Object = {"configMapKeyRef": {"name": "job-leader", "key": "uid-l"}}
    if name == LEADER:
        address = {"fieldRef": {"fieldPath": "status.podIP"}}
    assert env_of(made(name, least=2)) == {
        "ARRANGER_LEADER_ADDRESS": address,
        **STATIC,
        "RANK": rank,
        "PET_NODE_RANK": rank,
        "PET_NNODES": "3",
    }


def test_a_job_that_may_start_with_fewer_meets_elastically() -> None:
    env = env_of(made(FIRST, least=1))
    assert env["PET_NNODES"] == "2:3"
    assert env["PET_RDZV_BACKEND"] == "c10d"
    assert env["PET_RDZV_ENDPOINT"] == f"{LEADER}.job:23456"
    assert env["PET_RDZV_ID"] == "uid-job"


def test_every_container_gets_it_and_the_template_wins() -> None:
    template = a_template()
    template["spec"]["containers"].append({"name": "side", "image": "img"})
    template["spec"]["initContainers"] = [{"name": "init", "image": "img"}]
    own = {"name": "RANK", "value": "own"}
    template["spec"]["containers"][0]["env"] = [own]
    pod = made(FIRST, worker=template)
    assert env_of(pod)["RANK"] == "own"
    assert pod["spec"]["containers"][0]["env"][-1] == own, "after what it may refer to"
    assert env_of(pod, 1)["RANK"] == "1"
    assert pod["spec"]["initContainers"][0]["env"][0]["name"] == "ARRANGER_LEADER_ADDRESS"


def test_a_port_of_the_leader_called_master_is_the_port() -> None:
    template = a_template()
    template["spec"]["containers"][0]["ports"] = [
        {"name": "metrics", "containerPort": 80},
        {"name": "master", "containerPort": 1234},
    ]
    job = a_job(leader=template)
    assert env_of(made(FIRST, job))["MASTER_PORT"] == "1234"
    assert manifests.service(job, manifests.master_port(job, None))["spec"]["ports"] == [
        {"name": "master", "port": 1234}
    ]


def test_what_a_pod_is_called_and_whose_it_is() -> None:
    template = a_template()
    template["metadata"]["labels"] = {"app": "a", TYJOB: "forged"}
    pod = made(SECOND, worker=template)
    meta = pod["metadata"]
    assert (meta["name"], meta["namespace"]) == (SECOND, "default")
    assert meta["labels"] == {
        "app": "a",
        TYJOB: "job",
        ROLE: "worker",
        WORKER_SET: "actor",
    }
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("TYJob", "uid-job", True)
    assert meta["annotations"][LEADER_UID] == "uid-l"
    assert meta["annotations"][RESTARTS] == "1"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (SECOND, "job")
    assert manifests.service(a_job(), 1)["spec"]["selector"].items() <= meta["labels"].items()


DEFAULTS = {
    "by default": ({}, ("arranger", "Never")),
    "as the template says": (
        {"schedulerName": "other", "restartPolicy": "OnFailure"},
        ("other", "OnFailure"),
    ),
}


@pytest.mark.parametrize("case", DEFAULTS.values(), ids=DEFAULTS.keys())
def test_who_places_it_and_when_it_restarts(case: tuple[Object, tuple[str, str]]) -> None:
    said, expected = case
    template = a_template()
    template["spec"] |= said
    spec = made(FIRST, worker=template)["spec"]
    assert (spec["schedulerName"], spec["restartPolicy"]) == expected


def test_volumes_are_shared_and_the_templates_own_come_first() -> None:
    template = a_template()
    template["spec"]["volumes"] = [{"name": "data", "emptyDir": {"medium": "Memory"}}]
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "code", "emptyDir": {}}]
    spec = made(FIRST, worker=template, volumes=volumes)["spec"]
    assert spec["volumes"] == [
        {"name": "data", "emptyDir": {"medium": "Memory"}},
        {"name": "code", "emptyDir": {}},
    ]
    assert "volumes" not in made(FIRST)["spec"]


def test_the_template_itself_is_left_as_it_is() -> None:
    template = a_template()
    job = a_job(worker=template)
    assert made(FIRST, job) == made(FIRST, job)
    assert template == a_template()


# --- scheduling --------------------------------------------------------------------------------


def notes(name: str, **words: Any) -> dict[str, str]:
    return dict(made(name, **words)["metadata"]["annotations"])


def claims(**words: Any) -> list[Any]:
    """What the scheduler reads of leader and worker."""
    pods = (msgspec.convert(made(name, **words), Pod) for name in (LEADER, FIRST))
    return [gang_membership(pod) for pod in pods]


def test_leader_and_workers_are_bundles_of_one_gang() -> None:
    leader, worker = claims(least=2)
    assert leader.gang == worker.gang == "default/job"
    assert (leader.bundle, worker.bundle) == ("leader", "worker")
    assert (leader.settings.bundle_minimums, worker.settings.bundle_minimums) == (
        (("leader", 1),),
        (("worker", 2),),
    )
    assert leader.settings.minimum == worker.settings.minimum == 3
    assert leader.settings.match_policy is MatchPolicy.WAITING_AND_RUNNING
    assert not leader.problems + worker.problems


def test_annotations_of_the_job_say_how_its_gang_is_placed() -> None:
    prefix = "gang.scheduling.koordinator.sh/"
    said = {prefix + "mode": "NonStrict", prefix + "waiting-time": "30s", "other": "x"}
    for claim in claims(annotations={**said, TOPOLOGY: "required=zone"}):
        assert claim.settings.mode is Mode.NON_STRICT
        assert claim.settings.wait_time == 30.0
        assert claim.settings.topology.key == "zone"
    assert "other" not in notes(FIRST, annotations=said)


def test_without_gang_pods_are_on_their_own() -> None:
    assert claims(schedulerPolicy={"basicPolicy": "BinPack"}) == [None, None]


PLACEMENTS: dict[str, tuple[Object, str | None]] = {
    "by default": ({}, "BinPack"),
    "one": ({"basicPolicy": "LeaderFirst"}, "LeaderFirst"),
    "several": ({"basicPolicy": ["Gang", "MinFragment", "JobAffinity"]}, "MinFragment,JobAffinity"),
    "Gang alone": ({"basicPolicy": "Gang"}, None),
}


@pytest.mark.parametrize("case", PLACEMENTS.values(), ids=PLACEMENTS.keys())
def test_placement(case: tuple[Object, str | None]) -> None:
    policy, expected = case
    assert notes(FIRST, schedulerPolicy=policy).get(PLACEMENT) == expected


def test_queue_and_order_among_jobs() -> None:
    said = notes(LEADER, queue="training", priority=9, schedulerPolicy={"jobQueuePolicy": "DRF"})
    assert said["scheduling.volcano.sh/queue-name"] == "training"
    assert (said[JOB_PRIORITY], said[JOB_QUEUE_POLICY]) == ("9", "DRF")
    assert JOB_QUEUE_POLICY not in notes(LEADER)


# --- jobs of which nothing can be made ---------------------------------------------------------

TWO_PARTS = [{"name": name, "template": a_template()} for name in ("actor", "learner")]
PROBLEMS: dict[str, tuple[str, Object, list[str]]] = {
    "none": ("job", {}, []),
    "no worker must run": ("job", {"least": 0}, []),
    "more must run than there are": ("job", {"least": 3}, ["minWorkersNum is 3 of 2 workers"]),
    "a set is called as the leader": (
        "job",
        {"workerSets": TWO_PARTS},
        ["two parts have the name 'learner'"],
    ),
    "together and apart": (
        "job",
        {"schedulerPolicy": {"basicPolicy": ["JobAffinity", "JobAntiAffinity"]}},
        ["basicPolicy asks for JobAffinity and for JobAntiAffinity"],
    ),
    "an unknown policy": (
        "job",
        {"schedulerPolicy": {"basicPolicy": ["Gang", "Spread"]}},
        ["there is no basic policy 'Spread'"],
    ),
    "a name that no Service may have": (
        "1.job",
        {},
        ["the name '1.job' cannot be that of a Service: [a-z]([-a-z0-9]*[a-z0-9])?"],
    ),
    "names that are too long": (
        "j" * 60,
        {},
        [f"pod name '{'j' * 60}-learner-0' is longer than 63 characters"],
    ),
}


@pytest.mark.parametrize("case", PROBLEMS.values(), ids=PROBLEMS.keys())
def test_problems(case: tuple[str, Object, list[str]]) -> None:
    name, words, expected = case
    assert validate_tyjob(parse_tyjob(a_tyjob(name, **words))) == expected


def test_a_job_that_cannot_be_read_is_there_and_says_why() -> None:
    job = parse_tyjob(a_tyjob(workerSets="many"))
    assert job.key == "default/job"
    assert not job.replicas
    (problem,) = validate_tyjob(job)
    assert "$.spec.workerSets" in problem


def test_the_ends_of_names_do_not_clash() -> None:
    """Every name ends in a number, also the leader's: ``a-1`` alone would be the second ``a``."""
    template = a_template()
    sets = [{"name": name, "template": template, "counts": 2} for name in ("a", "a-1", "a-1-0")]
    job = a_job(workerSets=sets)
    names = [place.pod for place in job.replicas]
    assert len(set(names)) == len(names) == 7


RUN_TIMES: dict[str, tuple[str | None, str | None, int | None]] = {
    "nothing is said": (None, None, None),
    "by the job": ("90s", None, 90),
    "by the template": (None, "1m", 60),
    "the template goes before the job": ("90s", "2m", 120),
    "no duration": ("soon", None, None),
}


@pytest.mark.parametrize("case", RUN_TIMES.values(), ids=RUN_TIMES.keys())
def test_a_maximum_run_time_is_a_deadline(case: tuple[str | None, str | None, int | None]) -> None:
    of_job, of_template, expected = case
    template = a_template() if of_template is None else a_template(max_run_time=of_template)
    notes = {} if of_job is None else {MAX_RUN_TIME: of_job}
    pod = made(SECOND, worker=template, annotations=notes)
    assert pod["spec"].get("activeDeadlineSeconds") == expected
    if expected is not None:
        assert pod["metadata"]["annotations"][MAX_RUN_TIME] == (of_template or of_job)
