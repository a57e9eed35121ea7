"""What is made for a Job, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from arranger.api.types.volcano_job import VolcanoJob
from arranger.controllers.vcjob.controlled_resources import ControlledResources
from arranger.controllers.vcjob.manifests import objects_of, pod_group_of, pod_of
from arranger.controllers.vcjob.plan import plan
from arranger.controllers.vcjob.snapshot import JobSnapshot
from arranger.controllers.vcjob.state_machine import build_status, next_status
from tests.unit.controllers.vcjob.snapshots import (
    CONTAINER,
    a_pod_of,
    a_task,
    job_body,
    job_snapshot,
    on,
)

Object = dict[str, Any]


def _pod(place: tuple[str, int] = ("w", 1), **view: Any) -> Object:
    return pod_of(job_snapshot(**view), place, scheduler="arranger")


def _env(pod: Object) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    return {v["name"]: v.get("value") or v["valueFrom"] for v in container.get("env", ())}


# --- pods ----------------------------------------------------------------------------------------


def test_a_pod_is_called_as_volcano_calls_it() -> None:
    pod = _pod(
        version=3,
        retries=1,
        queue="q",
        memory=ControlledResources(restart_version=2, task_versions={"w": 3}),
    )
    meta = pod["metadata"]
    assert meta["name"] == "j-w-1"
    assert meta["labels"] == {
        "volcano.sh/job-name": "j",
        "volcano.sh/job-namespace": "default",
        "volcano.sh/queue-name": "q",
        "volcano.sh/task-spec": "w",
        "volcano.sh/task-index": "1",
    }
    assert meta["annotations"] == {
        "volcano.sh/job-name": "j",
        "volcano.sh/queue-name": "q",
        "volcano.sh/task-spec": "w",
        "volcano.sh/task-index": "1",
        "volcano.sh/job-version": "3",
        "volcano.sh/job-retry-count": "1",
        "volcano.sh/template-uid": "j-w",
        "scheduling.k8s.io/group-name": "j-2",
        "scheduling.volcano.sh/queue-name": "q",
    }
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", "uid-j", True)


def test_a_template_goes_before_the_job() -> None:
    template = {
        "metadata": {
            "labels": {"app": "x", "volcano.sh/task-spec": "lie"},
            "annotations": {"volcano.sh/preemptable": "false", "note": "n"},
        },
        "spec": {
            "containers": [CONTAINER],
            "schedulerName": "own",
            "priorityClassName": "own",
        },
    }
    pod = _pod(
        tasks=[a_task() | {"template": template}],
        annotations={
            "volcano.sh/preemptable": "true",
            "volcano.sh/card.name": "A",
            "volcano.sh/card.request": '{"A": 2}',
        },
        schedulerName="arranger",
        priorityClassName="pc",
    )
    assert (pod["spec"]["schedulerName"], pod["spec"]["priorityClassName"]) == ("own", "own")
    assert pod["metadata"]["labels"]["volcano.sh/task-spec"] == "w"
    notes = pod["metadata"]["annotations"]
    assert (notes["volcano.sh/preemptable"], notes["note"]) == ("false", "n")
    assert notes["volcano.sh/card.name"] == "A"
    # What the job asks for in all is not what each pod asks for.
    assert "volcano.sh/card.request" not in notes


@pytest.mark.parametrize(("named", "used"), [("", "arranger"), ("volcano", "volcano")])
def test_who_schedules_it(named: str, used: str) -> None:
    pod = _pod(schedulerName=named, priorityClassName="pc")
    assert (pod["spec"]["schedulerName"], pod["spec"]["priorityClassName"]) == (used, "pc")


def test_what_is_null_is_not_said() -> None:
    nothing = {"env": None, "volumeMounts": None, "resources": None}
    spec = {"containers": [{"name": "c", **nothing}], "initContainers": None, "volumes": None}
    template = {"metadata": {"labels": None, "annotations": None}, "spec": spec}
    view = {"tasks": [a_task() | {"template": template}], "plugins": {"env": [], "svc": []}}
    assert _env(_pod(**view)).keys() >= {"VC_TASK_INDEX", "VC_W_HOSTS"}
    least = pod_group_of(job_snapshot(**view))["spec"]["minResources"]
    assert least.keys() == {"pods", "count/pods"}


def test_the_template_itself_is_not_touched() -> None:
    view = job_snapshot(plugins={"env": [], "svc": []})
    before = msgspec.to_builtins(view.spec)
    pod_of(view, ("w", 0), scheduler="arranger")
    assert msgspec.to_builtins(view.spec) == before


def test_plugin_env_tells_the_index() -> None:
    assert _env(_pod(plugins={"env": []})) == {"VC_TASK_INDEX": "1", "VK_TASK_INDEX": "1"}


def test_plugin_svc_names_the_pods_and_tells_their_names() -> None:
    tasks = [a_task("lead-er", 1), a_task()]
    pod = _pod(tasks=tasks, plugins={"svc": ["--publish-not-ready-addresses=true"]})
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("j-w-1", "j")
    names = ("VC_LEAD_ER_HOSTS", "VC_LEAD_ER_NUM", "VC_W_HOSTS", "VC_W_NUM")
    assert _env(pod) == {
        name: {"configMapKeyRef": {"name": "j-svc", "key": name}} for name in names
    }
    (mount,) = pod["spec"]["containers"][0]["volumeMounts"]
    assert (mount["name"], mount["mountPath"]) == ("j-svc", "/etc/volcano")
    body = job_body(tasks=tasks, plugins={"svc": ["--publish-not-ready-addresses=true"]})
    config, service, policy = objects_of(msgspec.convert(body, VolcanoJob))
    assert config.body["data"] == {
        "lead_er.host": "j-lead-er-0.j",
        "VC_LEAD_ER_HOSTS": "j-lead-er-0.j",
        "VC_LEAD_ER_NUM": "1",
        "w.host": "j-w-0.j\nj-w-1.j",
        "VC_W_HOSTS": "j-w-0.j,j-w-1.j",
        "VC_W_NUM": "2",
    }
    assert (service.name, service.collection) == (
        "services/j",
        "/api/v1/namespaces/default/services",
    )
    assert service.body["spec"]["clusterIP"] == "None"
    assert service.body["spec"]["publishNotReadyAddresses"] is True
    labels = pod["metadata"]["labels"]
    assert service.body["spec"]["selector"].items() <= labels.items()
    assert (policy.name, policy.collection) == (
        "networkpolicies/j",
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
    )
    spec = policy.body["spec"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    assert spec["ingress"] == [{"from": [{"podSelector": spec["podSelector"]}]}]
    assert spec["policyTypes"] == ["Ingress"]


SVC_FLAGS: dict[str, tuple[list[str], set[str], bool]] = {
    "without flags": ([], {"configmaps", "services", "networkpolicies"}, True),
    "without variables": (
        ["--inject-hosts-env=false"],
        {"configmaps", "services", "networkpolicies"},
        False,
    ),
    "without a NetworkPolicy": (["--disable-network-policy"], {"configmaps", "services"}, True),
    "with both as by default": (
        ["--inject-hosts-env=true", "--disable-network-policy=false"],
        {"configmaps", "services", "networkpolicies"},
        True,
    ),
}


@pytest.mark.parametrize(
    ("flags", "made", "with_variables"), SVC_FLAGS.values(), ids=SVC_FLAGS.keys()
)
def test_flags_of_plugin_svc(flags: list[str], made: set[str], with_variables: bool) -> None:
    body = job_body(tasks=[a_task()], plugins={"svc": flags})
    assert {m.plural for m in objects_of(msgspec.convert(body, VolcanoJob))} == made
    pod = _pod(tasks=[a_task()], plugins={"svc": flags})
    assert ("VC_W_HOSTS" in _env(pod)) is with_variables
    assert [m["mountPath"] for m in pod["spec"]["containers"][0]["volumeMounts"]] == [
        "/etc/volcano"
    ]


def test_volumes_are_mounted_everywhere() -> None:
    volumes = [
        {"mountPath": "/a", "volumeClaimName": "old"},
        {"mountPath": "/b", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
        {"mountPath": "/c"},
    ]
    pod = _pod(volumes=volumes)
    assert [v.get("persistentVolumeClaim") for v in pod["spec"]["volumes"]] == [
        {"claimName": "old"},
        {"claimName": "j-volume-1"},
        None,
    ]
    paths = [m["mountPath"] for m in pod["spec"]["containers"][0]["volumeMounts"]]
    assert paths == ["/a", "/b", "/c"]
    (claim,) = objects_of(msgspec.convert(job_body(volumes=volumes), VolcanoJob))
    assert (claim.name, claim.immutable) == ("persistentvolumeclaims/j-volume-1", True)


# --- the PodGroup --------------------------------------------------------------------------------

GROUPS: dict[str, tuple[Object, Object]] = {
    "all pods where nobody says": (
        {"tasks": [a_task("a", 1), a_task("b", 3)]},
        {"minMember": 4, "cpu": "4000m"},
    ),
    "fewer": (
        {"tasks": [a_task("a", 1), a_task("b", 3)], "minAvailable": 2},
        {"minMember": 2, "cpu": "2000m"},
    ),
    "some of each": (
        {"tasks": [a_task("a", 1, minAvailable=1), a_task("b", 3, minAvailable=2)]},
        {"minMember": 3, "minTaskMember": {"a": 1, "b": 2}, "cpu": "3000m"},
    ),
    "some of one and as many as it takes of the others": (
        {"tasks": [a_task("a", 4), a_task("b", 3, minAvailable=2)], "minAvailable": 3},
        {"minMember": 3, "minTaskMember": {"b": 2}, "cpu": "3000m"},
    ),
    "less than the tasks ask for together": (
        {"tasks": [a_task("a", 1, minAvailable=1), a_task("b", 2, minAvailable=2)]}
        | {"minAvailable": 1},
        {"minMember": 1, "cpu": "1000m"},
    ),
    "not those that start later": (
        {"tasks": [a_task("a", 1), a_task("b", 3, dependsOn={"name": ["a"]})]},
        {"minMember": 1, "cpu": "1000m"},
    ),
}


@pytest.mark.parametrize(("said", "spec"), GROUPS.values(), ids=GROUPS.keys())
def test_what_the_gang_needs(said: Object, spec: Object) -> None:
    cpu = spec.pop("cpu")
    group = pod_group_of(job_snapshot(**said))
    pods = str(spec["minMember"])
    least = {"cpu": cpu, "requests.cpu": cpu, "pods": pods, "count/pods": pods}
    assert group["spec"] == {**spec, "queue": "default", "minResources": least}


def test_what_is_passed_on_to_the_gang() -> None:
    annotations = {
        "volcano.sh/card.request": '{"NVIDIA-H200":2}',
        "volcano.sh/service.type": "training",
        "gang.scheduling.koordinator.sh/mode": "NonStrict",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "arranger.io/action": "ResumeJob",
    }
    group = pod_group_of(
        job_snapshot(annotations=annotations, queue="q", priorityClassName="pc", version=4)
    )
    assert group["metadata"]["name"] == "j-4"
    assert group["metadata"]["annotations"] == dict(list(annotations.items())[:3])
    assert (group["spec"]["queue"], group["spec"]["priorityClassName"]) == ("q", "pc")


@pytest.mark.parametrize(
    ("resources", "least"),
    [
        (
            {"limits": {"memory": "1Gi"}},
            dict.fromkeys(("memory", "requests.memory", "limits.memory"), "2147483648"),
        ),
        (
            {"requests": {"cpu": "500m"}, "limits": {"cpu": 1}},
            {"cpu": "1000m", "requests.cpu": "1000m", "limits.cpu": "2000m"},
        ),
        (
            {"requests": {"nvidia.com/gpu": 4}, "limits": {"nvidia.com/gpu": 4}},
            dict.fromkeys(("nvidia.com/gpu", "requests.nvidia.com/gpu"), "8"),
        ),
        ({"requests": {"cpu": "a lot"}}, None),
        ({}, {}),
    ],
    ids=[
        "limits alone",
        "limits above requests",
        "cards",
        "nonsense, which the server will refuse",
        "nothing",
    ],
)
def test_least_resources(resources: Object, least: Object | None) -> None:
    task = a_task()
    task["template"] = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    said = pod_group_of(job_snapshot(tasks=[task]))["spec"].get("minResources")
    assert said == (None if least is None else {**least, "pods": "2", "count/pods": "2"})


def test_a_template_without_containers_needs_nothing_but_pods() -> None:
    task = a_task() | {"template": {"spec": {"containers": [], "initContainers": None}}}
    said = pod_group_of(job_snapshot(tasks=[task]))["spec"]["minResources"]
    assert said == {"pods": "2", "count/pods": "2"}


# --- the order -----------------------------------------------------------------------------------


def test_a_status_is_written_before_anything_is_made() -> None:
    planned = plan(job_snapshot(phase=""))
    assert planned.status["state"]["phase"] == "Pending"
    assert not any((planned.create_pods, planned.create_objects, planned.pod_group))


def test_pods_before_the_pod_group() -> None:
    memory = ControlledResources().with_observed([("w", 0)], [])
    view = job_snapshot(phase="Pending", pods={"w/0": "Pending"}, memory=memory)
    view = _settled(view)
    planned = plan(view)
    assert (planned.create_pods, planned.pod_group) == ((("w", 1),), None)


def test_the_pod_group_once_its_pods_are_on_record() -> None:
    view = _settled(job_snapshot(phase="Pending", pods={"w/0": "Pending", "w/1": "Pending"}))
    planned = plan(view)
    assert planned.create_pods == ()
    assert planned.pod_group is not None


def test_a_decision_is_written_before_a_pod_is_deleted() -> None:
    view = job_snapshot(on("PodFailed", "AbortJob"), pods={"w/0": "Failed", "w/1": "Running"})
    planned = plan(view)
    assert (planned.status["state"]["phase"], planned.delete_pods) == ("Aborting", ())
    assert planned.events == (
        ("ExecuteAction", "Start to execute action AbortJob"),
        ("Aborting", "pod j-w-0 failed: AbortJob"),
    )


@pytest.mark.parametrize("asked", ["Explode", "restartjob", "RestartTask"])
def test_an_order_that_is_none_is_told_once(asked: str) -> None:
    orders = {"arranger.io/action": asked}
    view = job_snapshot(
        phase="Pending", pods={"w/0": "Running", "w/1": "Running"}, annotations=orders
    )
    (reason, note), running = plan(view).events
    assert (reason, running[0]) == ("InvalidAction", "Running")
    assert note == (
        f"annotation arranger.io/action: '{asked}' is ignored; it may be one of AbortJob, "
        "CompleteJob, RestartJob, ResumeJob, SyncJob, TerminateJob"
    )
    assert not plan(_settled(view)).events


@pytest.mark.parametrize("asked", ["SyncJob", "RestartJob", ""])
def test_an_order_that_is_one_is_not_found_fault_with(asked: str) -> None:
    pods = {"w/0": "Running", "w/1": "Running"}
    memory = ControlledResources(last_action="before").with_observed([("w", 0), ("w", 1)], [])
    view = job_snapshot(
        phase="Running", pods=pods, memory=memory, annotations={"arranger.io/action": asked}
    )
    assert "InvalidAction" not in dict(plan(view).events)


@pytest.mark.parametrize("phase", ["Aborting", "Aborted", "Terminated", "Failed"])
def test_what_still_lives_is_deleted_at_an_end_and_what_has_ended_stays(phase: str) -> None:
    pods = {"w/0": "Failed", "w/1": "Running"}
    planned = plan(_settled(job_snapshot(phase=phase, pods=pods, group="Running")))
    assert [pod.metadata.name for pod in planned.delete_pods] == ["j-w-1"]
    assert [group.metadata.name for group in planned.delete_pod_groups] == ["j-0"]
    assert not planned.create_pods


def test_a_restart_deletes_the_ended_too_and_makes_nothing() -> None:
    old = [a_pod_of("w/0", "Failed"), a_pod_of("w/1", "Leaving")]
    planned = plan(_settled(job_snapshot(phase="Restarting", pods=old, version=1)))
    assert [pod.metadata.name for pod in planned.delete_pods] == ["j-w-0"]
    assert planned.create_pods == ()


def test_a_task_waits_for_those_it_depends_on() -> None:
    tasks = [a_task("m", 1), a_task("w", 1, dependsOn={"name": ["m"]})]
    waiting = _settled(job_snapshot(tasks=tasks, pods={"m/0": "Pending"}, phase="Pending"))
    assert plan(waiting).create_pods == ()
    started = _settled(job_snapshot(tasks=tasks, pods={"m/0": "Running"}, phase="Pending"))
    assert plan(started).create_pods == (("w", 0),)


@pytest.mark.parametrize(("iteration", "starts"), [("any", True), ("all", False)])
def test_a_task_waits_for_one_or_for_all(iteration: str, starts: bool) -> None:
    needs = {"name": ["a", "b"], "iteration": iteration}
    tasks = [a_task("a", 1), a_task("b", 1), a_task("w", 1, dependsOn=needs)]
    pods = {"a/0": "Succeeded", "b/0": "Pending"}
    view = _settled(job_snapshot(tasks=tasks, pods=pods, phase="Pending"))
    assert bool(plan(view).create_pods) == starts


def test_pods_beyond_the_replicas_are_deleted() -> None:
    planned = plan(
        _settled(job_snapshot(pods={"w/0": "Running", "w/1": "Running", "w/2": "Running"}))
    )
    assert [pod.metadata.name for pod in planned.delete_pods] == ["j-w-2"]


def test_a_job_that_is_being_deleted_is_left_alone() -> None:
    view = job_snapshot(phase="", pods={"w/0": "Failed"})
    view.job.metadata.deletion_timestamp = view.now
    assert plan(view).is_empty


def test_what_was_counted_in_the_end_stays_when_pods_are_tidied_up() -> None:
    view = _settled(job_snapshot(phase="Failed", pods={"w/0": "Failed", "w/1": "Succeeded"}))
    assert plan(replace(job_snapshot(phase="Failed"), raw_status=view.raw_status)).is_empty


def test_an_expired_job_is_deleted() -> None:
    assert plan(_settled(job_snapshot(phase="Completed", ttlSecondsAfterFinished=99))).delete_job
    assert not plan(
        _settled(job_snapshot(phase="Completed", ttlSecondsAfterFinished=101))
    ).delete_job


def _settled(view: JobSnapshot) -> JobSnapshot:
    """The same view, of a server that has the status already."""
    status = build_status(view, next_status(view))
    return replace(view, raw_status=status)


RUN_TIMES: dict[str, tuple[str | None, str | None, int | None, int | None]] = {
    "nothing is said": (None, None, None, None),
    "by the job": ("90s", None, None, 90),
    "by the template": (None, "1m", None, 60),
    "the template goes before the job": ("90s", "2m", None, 120),
    "the deadline is the smaller": ("90s", None, 30, 30),
    "the annotation is the smaller": ("90s", None, 100, 90),
    "no duration": ("soon", None, 100, 100),
    "a part of a second": ("1500ms", None, None, 2),
    "longer than a deadline may be": ("1000000h", None, None, 2**31 - 1),
}


@pytest.mark.parametrize("case", RUN_TIMES.values(), ids=RUN_TIMES.keys())
def test_a_maximum_run_time_is_a_deadline(
    case: tuple[str | None, str | None, int | None, int | None],
) -> None:
    of_job, of_template, stated, expected = case
    template: dict[str, Any] = {"spec": {"containers": [CONTAINER]}}
    if of_template is not None:
        template["metadata"] = {"annotations": {"arranger.io/max-run-time": of_template}}
    if stated is not None:
        template["spec"]["activeDeadlineSeconds"] = stated
    notes = {} if of_job is None else {"arranger.io/max-run-time": of_job}
    pod = _pod(tasks=[a_task() | {"template": template}], annotations=notes)
    assert pod["spec"].get("activeDeadlineSeconds") == expected
