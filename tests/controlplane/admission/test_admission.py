"""The real API server refuses what Volcano's webhooks refuse, by ``crds/`` and ``manifests/``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.controlplane.admin import until
from tests.controlplane.daemon import REPO, manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane
from tests.unit.controllers.vcjob.admissions import CONTAINER, JOBS, Admission

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("controlplane"),
    pytest.mark.asyncio(loop_scope="module"),
]

Object = dict[str, Any]

JOBS_PATH = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
#: Every request is tried and not carried out.
TRY = "?dryRun=All"


def a_queue(name: str, **spec: Any) -> Object:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    notes = spec.pop("notes", {})
    return {**kind, "metadata": {"name": name, "annotations": notes}, "spec": spec}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ControlPlane]:
    """An API server with our definitions and policies, some queues, and the job ``j``."""
    skip_without_binary()
    async with ControlPlane() as plane:
        files = sorted(f"crds/{file.name}" for file in (REPO / "crds").glob("*.volcano.sh.yaml"))
        await plane.apply(manifests(*files))

        async def served() -> bool:
            paths = (JOBS_PATH, QUEUES, GROUPS, COMMANDS)
            return all([(await plane.request("GET", p))[0] == 200 for p in paths])

        await until(served, what="the definitions")
        for queue in (
            a_queue("root"),
            a_queue("default"),
            a_queue("team", capability={"cpu": "8"}),
            a_queue("part", parent="team", capability={"cpu": "4"}),
            a_queue("closed"),
        ):
            await plane.post(QUEUES, queue)
        state = {"status": {"state": "Closed"}}
        await plane.request("PATCH", f"{QUEUES}/closed/status", state, content_type=MERGE)
        await plane.apply(manifests("manifests/80-admission.yaml"))
        await until(lambda: _at_work(plane), what="the policies")
        await plane.post(JOBS_PATH, Admission(False).manifest())
        yield plane


async def _at_work(plane: ControlPlane) -> bool:
    """Whether every policy has refused something: they begin one after the other."""
    wrong = [
        ("POST", JOBS_PATH, JOBS["an unknown plugin"].manifest()),
        ("POST", JOBS_PATH, Admission(True, {"queue": "closed"}).manifest()),
        ("POST", JOBS_PATH, Admission(True, {"queue": "team"}).manifest()),
        ("POST", QUEUES, a_queue("g", guarantee={"resource": {"cpu": "1"}})),
        ("POST", QUEUES, a_queue("big", parent="team", capability={"cpu": "9"})),
        ("POST", PODS, a_pod({"volcano.sh/jdb-min-available": "0"})),
    ]
    answers = [await plane.request(method, path + TRY, body) for method, path, body in wrong]
    return all(status == 422 for status, _ in answers)


def a_pod(notes: Object, scheduler: str = "arranger") -> Object:
    return {
        "metadata": {"name": "p", "annotations": notes},
        "spec": {"schedulerName": scheduler, "containers": [CONTAINER]},
    }


@pytest.mark.parametrize("admission", JOBS.values(), ids=JOBS)
async def test_a_job_is_refused_where_volcano_refuses_it(
    plane: ControlPlane, admission: Admission
) -> None:
    manifest = admission.manifest()
    if admission.name == "j":
        manifest["metadata"]["name"] = "k"
    status, answer = await plane.request("POST", JOBS_PATH + TRY, manifest)
    assert status == (422 if admission.refused else 201), answer


#: What an owner changes in the job ``j`` → whether Volcano refuses it.
UPDATES: dict[str, tuple[Object, bool]] = {
    "its minimum": ({"minAvailable": 1}, False),
    "its minimum, beyond its pods": ({"minAvailable": 5}, True),
    "its priority": ({"priorityClassName": "high"}, False),
    "its queue": ({"queue": "part"}, True),
    "its retries": ({"maxRetry": 7}, True),
    "its policies": ({"policies": [{"event": "PodFailed", "action": "AbortJob"}]}, True),
    "its scheduler": ({"schedulerName": "other"}, True),
    "its plugins": ({"plugins": {"svc": []}}, True),
    "its volumes": ({"volumes": [{"mountPath": "/a", "volumeClaimName": "a"}]}, True),
    "its time to live": ({"ttlSecondsAfterFinished": 9}, True),
}
TASKS: dict[str, tuple[Object, bool]] = {
    "how many pods a task has": ({"replicas": 5}, False),
    "fewer pods than the job needs": ({"replicas": 1}, True),
    "how many pods a task needs": ({"minAvailable": 1}, False),
    "the name of a task": ({"name": "other"}, True),
    "a task's template": (
        {
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{**CONTAINER, "image": "new"}]}
            }
        },
        True,
    ),
}


@pytest.mark.parametrize(("change", "refused"), UPDATES.values(), ids=UPDATES)
async def test_an_update_of_a_job(plane: ControlPlane, change: Object, refused: bool) -> None:
    await _update(plane, {"spec": change}, refused)


@pytest.mark.parametrize(("change", "refused"), TASKS.values(), ids=TASKS)
async def test_an_update_of_a_task(plane: ControlPlane, change: Object, refused: bool) -> None:
    [task] = (await plane.get(f"{JOBS_PATH}/j"))["spec"]["tasks"]
    await _update(plane, {"spec": {"minAvailable": 2, "tasks": [{**task, **change}]}}, refused)


async def test_no_task_is_added_to_a_job(plane: ControlPlane) -> None:
    [task] = (await plane.get(f"{JOBS_PATH}/j"))["spec"]["tasks"]
    await _update(plane, {"spec": {"tasks": [task, {**task, "name": "x"}]}}, True)


async def test_what_is_beside_the_spec_may_always_be_written(plane: ControlPlane) -> None:
    await _update(plane, {"metadata": {"annotations": {"arranger.io/action": "AbortJob"}}}, False)


async def _update(plane: ControlPlane, change: Object, refused: bool) -> None:
    status, answer = await plane.request("PATCH", f"{JOBS_PATH}/j{TRY}", change, content_type=MERGE)
    assert status == (422 if refused else 200), answer


async def test_a_job_that_was_there_before_the_policies_can_still_be_deleted_and_told(
    plane: ControlPlane,
) -> None:
    bad = JOBS["an unknown plugin"].manifest()
    bad["metadata"] |= {"name": "old", "finalizers": ["example.com/kept"]}
    binding = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    [policy] = [
        m
        for m in manifests("manifests/80-admission.yaml")
        if m["kind"].endswith("Binding") and m["metadata"]["name"] == "arranger-volcano-jobs"
    ]
    await plane.request("DELETE", f"{binding}/arranger-volcano-jobs")

    async def taken() -> bool:
        return (await plane.request("POST", JOBS_PATH, deepcopy(bad)))[0] == 201

    await until(taken, what="the policy to end")
    await plane.post(binding, policy)

    async def refused() -> bool:
        other = {**bad, "metadata": {"name": "new"}}
        return (await plane.request("POST", JOBS_PATH + TRY, other))[0] == 422

    await until(refused, what="the policy to begin")
    await asyncio.sleep(0.5)
    for change in ({"metadata": {"labels": {"a": "b"}}}, {"metadata": {"finalizers": None}}):
        await plane.merge(f"{JOBS_PATH}/old", change)


#: A queue → whether Volcano refuses to make it.
NEW_QUEUES: dict[str, tuple[Object, bool]] = {
    "a plain one": (a_queue("q"), False),
    "with a share only": (a_queue("q", deserved={"cpu": "2"}), False),
    "with all three": (
        a_queue("q", guarantee={"resource": {"cpu": "1"}}, deserved={"cpu": "2"})
        | {
            "spec": {
                "guarantee": {"resource": {"cpu": "1"}},
                "deserved": {"cpu": "2"},
                "capability": {"cpu": "4"},
            }
        },
        False,
    ),
    "a guarantee and no share": (a_queue("q", guarantee={"resource": {"cpu": "1"}}), True),
    "a guarantee beyond the share": (
        a_queue("q", guarantee={"resource": {"cpu": "3"}}, deserved={"cpu": "2"}),
        True,
    ),
    "a guarantee of what is not in the share": (
        a_queue("q", guarantee={"resource": {"memory": "1Gi"}}, deserved={"cpu": "2"}),
        True,
    ),
    "a share beyond the limit": (
        a_queue("q", deserved={"cpu": "2"}, capability={"cpu": "1"}),
        True,
    ),
    "a share of what has no limit": (
        a_queue("q", deserved={"memory": "1Gi"}, capability={"cpu": "1"}),
        False,
    ),
    "no weight": (a_queue("q", weight=0), True),
    "half a card": (a_queue("q", capability={"nvidia.com/gpu": "500m"}), True),
    "half a cpu": (a_queue("q", capability={"cpu": "500m"}), False),
    "less than nothing": (a_queue("q", capability={"cpu": "-1"}), True),
    "part of itself": (a_queue("q", parent="q"), True),
    "part of another": (a_queue("q", parent="team", capability={"cpu": "8"}), False),
    "more than what it is part of": (a_queue("q", parent="team", capability={"cpu": "9"}), True),
    "a path with weights": (
        a_queue(
            "q", notes={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2.5"}
        ),
        False,
    ),
    "a path without weights": (a_queue("q", notes={"volcano.sh/hierarchy": "root/a"}), True),
    "weights that are too few": (
        a_queue("q", notes={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1"}),
        True,
    ),
    "a weight below nothing": (
        a_queue(
            "q", notes={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/-2"}
        ),
        True,
    ),
    "a weight that is no number": (
        a_queue(
            "q", notes={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/x"}
        ),
        True,
    ),
}


@pytest.mark.parametrize(("queue", "refused"), NEW_QUEUES.values(), ids=NEW_QUEUES)
async def test_a_new_queue(plane: ControlPlane, queue: Object, refused: bool) -> None:
    status, answer = await plane.request("POST", QUEUES + TRY, queue)
    assert status == (422 if refused else 201), answer


@pytest.mark.parametrize(
    ("name", "refused"),
    [("default", True), ("root", True), ("team", True), ("part", False), ("closed", False)],
)
async def test_a_queue_is_deleted(plane: ControlPlane, name: str, refused: bool) -> None:
    status, answer = await plane.request("DELETE", f"{QUEUES}/{name}{TRY}")
    assert status == (422 if refused else 200), answer


@pytest.mark.parametrize(("cpu", "refused"), [("4", False), ("3", True)])
async def test_a_queue_is_made_smaller(plane: ControlPlane, cpu: str, refused: bool) -> None:
    change = {"spec": {"capability": {"cpu": cpu}}}
    path = f"{QUEUES}/team{TRY}"
    status, answer = await plane.request("PATCH", path, change, content_type=MERGE)
    assert status == (422 if refused else 200), answer


#: The queue of a job or PodGroup → whether a job is refused, and whether a PodGroup is.
USES: dict[str, tuple[bool, bool]] = {
    "default": (False, False),
    "part": (False, False),
    "team": (True, False),
    "closed": (True, True),
    "root": (True, False),
    # Only the controller and the scheduler can tell that it is not there.
    "nobody": (False, False),
}


@pytest.mark.parametrize(("queue", "refused"), USES.items(), ids=USES)
async def test_the_queue_of_a_job_or_a_pod_group(
    plane: ControlPlane, queue: str, refused: tuple[bool, bool]
) -> None:
    job = Admission(False, {"queue": queue}, name="k").manifest()
    status, answer = await plane.request("POST", JOBS_PATH + TRY, job)
    assert status == (422 if refused[0] else 201), answer
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 1, "queue": queue},
    }
    status, answer = await plane.request("POST", GROUPS + TRY, group)
    assert status == (422 if refused[1] else 201), answer


async def test_the_pod_group_of_a_job_is_made_in_a_queue_that_was_closed_meanwhile(
    plane: ControlPlane,
) -> None:
    uid = (await plane.get(f"{JOBS_PATH}/j"))["metadata"]["uid"]
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": uid}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "j-1", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"minMember": 1, "queue": "closed"},
    }
    status, answer = await plane.request("POST", GROUPS + TRY, group)
    assert status == 201, answer


async def test_our_own_examples_are_taken(plane: ControlPlane) -> None:
    files = [
        f"examples/{file.relative_to(REPO / 'examples')}"
        for file in sorted((REPO / "examples").rglob("*.yaml"))
        if "volcano.sh/v1" in file.read_text()
    ]
    assert files
    for file in files:
        for manifest in manifests(file):
            if ".volcano.sh/" in manifest["apiVersion"]:
                path = await plane.collection(manifest) + TRY
                status, answer = await plane.request("POST", path, manifest)
                assert status in (201, 409), (file, answer)


async def test_a_command_takes_the_right_to_update_its_target(
    plane: ControlPlane,
) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    name = {"metadata": {"name": "tenant"}}
    await plane.post("/api/v1/namespaces/default/serviceaccounts", name)
    rule = {"apiGroups": ["bus.volcano.sh"], "resources": ["commands"], "verbs": ["create"]}
    queue = {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"]}
    job = {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"]}
    more = [
        {**queue, "resourceNames": ["team"], "verbs": ["update"]},
        {**job, "resourceNames": ["j"], "verbs": ["update"]},
    ]
    await plane.post(f"{rbac}/clusterroles", {**name, "rules": [rule, *more]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tenant"}
    who = {"kind": "ServiceAccount", "name": "tenant", "namespace": "default"}
    await plane.post(f"{rbac}/clusterrolebindings", {**name, "roleRef": role, "subjects": [who]})
    token = await plane.service_account_token("default", "tenant")

    async def answer(kind: str, target: str) -> int:
        group = "scheduling.volcano.sh/v1beta1" if kind == "Queue" else "batch.volcano.sh/v1alpha1"
        command = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": "c-"},
            "action": "CloseQueue" if kind == "Queue" else "AbortJob",
            "target": {"apiVersion": group, "kind": kind, "name": target, "uid": "u"},
        }
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=plane.ssl_context()),
                headers={"Authorization": f"Bearer {token}"},
            ) as session,
            session.post(plane.url + COMMANDS + TRY, json=command) as response,
        ):
            return response.status

    async def known() -> bool:
        return await answer("Job", "j") == 201

    await until(known, what="the tenant's rights")
    assert await answer("Queue", "team") == 201
    assert await answer("Queue", "part") == 403
    assert await answer("Job", "k") == 403


#: Annotations of a pod → whether Volcano refuses it.
BUDGETS: dict[str, tuple[Object, str, bool]] = {
    "a number": ({"volcano.sh/jdb-min-available": "2"}, "arranger", False),
    "a percentage": ({"volcano.sh/jdb-max-unavailable": "50%"}, "arranger", False),
    "below nothing": ({"volcano.sh/jdb-min-available": "-1"}, "arranger", True),
    "nothing": ({"volcano.sh/jdb-min-available": "0"}, "arranger", True),
    "no percent": ({"volcano.sh/jdb-max-unavailable": "0%"}, "arranger", True),
    "all": ({"volcano.sh/jdb-max-unavailable": "100%"}, "volcano", True),
    "a word": ({"volcano.sh/jdb-min-available": "some"}, "arranger", True),
    "both": (
        {"volcano.sh/jdb-min-available": "2", "volcano.sh/jdb-max-unavailable": "50%"},
        "arranger",
        True,
    ),
    "another scheduler's pod": ({"volcano.sh/jdb-min-available": "-1"}, "other", False),
    "none": ({}, "arranger", False),
}


@pytest.mark.parametrize(("notes", "scheduler", "refused"), BUDGETS.values(), ids=BUDGETS)
async def test_the_budget_of_a_pod(
    plane: ControlPlane, notes: Object, scheduler: str, refused: bool
) -> None:
    status, answer = await plane.request("POST", PODS + TRY, a_pod(notes, scheduler))
    assert status == (422 if refused else 201), answer
