"""The controllers as they run, kopf and all, over HTTP against the embedded API server.

In real time, because kopf keeps its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from arranger.controllers.runtime.work_queue import WorkQueue
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.http import serve
from arranger.kube.client.credentials import ApiServerConfig, Credential, CredentialSource
from arranger.kube.client.transport import Request
from tests.builders import a_pod
from tests.faults.injector import FaultInjector, RequestMatcher
from tests.faults.kinds import Reply
from tests.project.crds.samples import definitions
from tests.simulation.harnesses.controllers import native_pod_groups, running_controllers
from tests.tyjobs import a_tyjob

Object = dict[str, Any]

SIGS = "scheduling.sigs.k8s.io"
WHY = "gang default/g: 3/3 members have arrived, 2 placeable"


class GangControllerHarness:
    """A cluster whose pods are driven by hand, and which controllers may look after."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster()
        self.faults = FaultInjector()

    @asynccontextmanager
    async def controllers(
        self, *, credentials: CredentialSource | None = None, **options: Any
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Controllers at work."""
        async with serve(self.cluster, hook=self.faults) as url:
            access = ApiServerConfig(url, credentials or CredentialSource())
            async with running_controllers(self.cluster, access, **options) as task:
                yield task

    def install(self, *names: str) -> None:
        """Create definitions of ``crds/``."""
        for name in names:
            self.cluster.create(definitions()[name])

    def request(self, method: str, path: str, body: Object | None = None) -> None:
        """Somebody's request; it must succeed."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        encoded = json.dumps(body or {}).encode()
        answer = self.cluster.handle(Request(method, path, {}, encoded, kind))
        assert answer.status < 300, answer

    def create_pods(self, *names: str, labels: dict[str, str], namespace: str = "default") -> None:
        """Pods are created."""
        for name in names:
            manifest = a_pod(name).in_namespace(namespace).labelled(labels).manifest()
            del manifest["metadata"]["uid"]
            self.cluster.create(manifest)

    def write_condition(self, *names: str, message: str = WHY) -> None:
        """The scheduler tells pods why they wait."""
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for name in names:
            path = f"/api/v1/namespaces/default/pods/{name}/status"
            self.request("PATCH", path, {"status": {"conditions": [condition]}})

    def bind(self, *names: str) -> None:
        """The scheduler binds pods."""
        for name in names:
            target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
            binding = {"metadata": {"name": name}, "target": target}
            self.request("POST", f"/api/v1/namespaces/default/pods/{name}/binding", binding)

    def set_phase(self, phase: str, *names: str) -> None:
        """The kubelet reports a phase."""
        for name in names:
            path = f"/api/v1/namespaces/default/pods/{name}/status"
            self.request("PATCH", path, {"status": {"phase": phase}})

    def delete_pods(self, *names: str) -> None:
        """Pods are deleted."""
        for name in names:
            path = f"/api/v1/namespaces/default/pods/{name}"
            self.request("DELETE", path, {"gracePeriodSeconds": 0})

    def gang(self) -> Object:
        """The status of the only Gang, empty while there is none."""
        gangs = self.cluster.objects("gangs", "arranger.io")
        return dict(gangs[0].get("status") or {}) if gangs else {}

    def group(self, of: str = SIGS) -> Object:
        """The status of the only PodGroup of an API group."""
        (found,) = self.cluster.objects("podgroups", of)
        return dict(found.get("status") or {})


@pytest.fixture
def harness() -> GangControllerHarness:
    return GangControllerHarness()


async def until(reached: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait for something that the controllers do."""
    for _ in range(1500):
        if reached():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(what())


async def until_phase(harness: GangControllerHarness, phase: str) -> None:
    def reached() -> bool:
        return harness.gang().get("phase") == harness.group().get("phase") == phase

    await until(reached, lambda: (phase, harness.gang(), harness.group()))


async def test_the_life_of_a_gang(harness: GangControllerHarness) -> None:
    harness.install("gangs.arranger.io", "podgroups.scheduling.sigs.k8s.io")
    harness.cluster.create(
        {
            "apiVersion": f"{SIGS}/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"minMember": 3},
        }
    )
    labels = {"pod-group.scheduling.sigs.k8s.io": "g"}
    pods = ("a", "b", "c")
    async with harness.controllers():
        harness.create_pods("a", "b", labels=labels)
        await until_phase(harness, "Pending")
        assert harness.gang()["message"] == "2/3 members have arrived"
        harness.create_pods("c", labels=labels)
        await until_phase(harness, "PreScheduling")
        harness.write_condition(*pods)
        await until_phase(harness, "Scheduling")
        assert harness.gang()["message"] == harness.group()["message"] == WHY
        assert harness.group()["scheduleStartTime"] == "2026-01-01T00:00:00Z"
        harness.bind(*pods)
        await until_phase(harness, "Scheduled")
        assert "message" not in harness.gang()
        harness.set_phase("Running", *pods)
        await until_phase(harness, "Running")
        assert (harness.gang()["running"], harness.group()["running"]) == (3, 3)
        harness.set_phase("Succeeded", *pods)
        await until_phase(harness, "Finished")
        harness.delete_pods(*pods)
        await until(lambda: not harness.gang(), harness.gang)
        assert (harness.group()["phase"], harness.group()["succeeded"]) == ("Finished", 3)
    _assert_that_only_status_was_written(harness)


async def test_definitions_that_are_installed_later(harness: GangControllerHarness) -> None:
    async with harness.controllers():
        harness.create_pods("a", labels={"scheduling.x-k8s.io/pod-group": "g"})
        harness.install("podgroups.scheduling.x-k8s.io")
        harness.cluster.create(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": "g"},
                "spec": {"minMember": 1},
            }
        )
        await until(lambda: "phase" in harness.group("scheduling.x-k8s.io"), lambda: "no phase")
        assert harness.group("scheduling.x-k8s.io")["phase"] == "Scheduling"
        harness.install("gangs.arranger.io")
        await until(lambda: harness.gang().get("phase") == "PreScheduling", harness.gang)
    _assert_that_only_status_was_written(harness)


async def test_the_pod_group_of_kubernetes_itself(harness: GangControllerHarness) -> None:
    harness.install("gangs.arranger.io")
    harness.cluster.create(native_pod_groups())
    harness.cluster.create(
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        }
    )
    for name in ("a", "b"):
        manifest = a_pod(name).with_spec(schedulingGroup={"podGroupName": "g"}).manifest()
        del manifest["metadata"]["uid"]
        harness.cluster.create(manifest)

    def condition() -> tuple[str, str, str]:
        (said,) = harness.group("scheduling.k8s.io").get("conditions") or [{}]
        return said.get("type", ""), said.get("status", ""), said.get("message", "")

    kind = "PodGroupInitiallyScheduled"
    async with harness.controllers():
        harness.write_condition("a", "b")
        await until(lambda: condition() == (kind, "False", WHY), condition)
        # The two objects are written one after the other.
        await until(lambda: harness.gang().get("minMember") == 2, harness.gang)
        harness.bind("a", "b")
        await until(lambda: condition() == (kind, "True", ""), condition)


async def test_what_happened_while_nobody_looked(harness: GangControllerHarness) -> None:
    harness.install("gangs.arranger.io")
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    harness.create_pods("a", "b", labels=labels)
    async with harness.controllers():
        await until(lambda: harness.gang().get("members") == 2, harness.gang)
    harness.delete_pods("a")
    async with harness.controllers():
        await until(lambda: harness.gang().get("members") == 1, harness.gang)
    harness.delete_pods("b")
    async with harness.controllers():
        await until(lambda: not harness.gang(), harness.gang)


async def test_only_the_namespaces_that_were_named(harness: GangControllerHarness) -> None:
    harness.install("gangs.arranger.io")
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    for namespace in ("near", "far"):
        head = {"apiVersion": "v1", "kind": "Namespace"}
        harness.cluster.create({**head, "metadata": {"name": namespace}})
        harness.create_pods("a", labels=labels, namespace=namespace)
    harness.create_pods("a", labels=labels)
    async with harness.controllers(namespaces=["near", "default"]):
        await until(lambda: _homes(harness) >= {"near", "default"}, lambda: _homes(harness))
        harness.create_pods("b", labels=labels, namespace="far")
        harness.create_pods("b", labels={"scheduling.x-k8s.io/pod-group": "h"}, namespace="near")
        await until(lambda: len(_gangs(harness)) == 3, lambda: _gangs(harness))
        assert _homes(harness) == {"near", "default"}


async def test_a_tyjob_is_run_and_nothing_is_kept_on_it(harness: GangControllerHarness) -> None:
    harness.install("tyjobs.arranger.io")
    harness.cluster.create(a_tyjob(workers=2))
    path = "/apis/arranger.io/v1alpha1/namespaces/default/tyjobs/job"

    def job() -> Object:
        (found,) = harness.cluster.objects("tyjobs", "arranger.io")
        return dict(found)

    def pods() -> set[str]:
        return {pod["metadata"]["name"] for pod in harness.cluster.objects("pods")}

    async with harness.controllers():
        await until(lambda: pods() == {"job-learner-0", "job-actor-0", "job-actor-1"}, pods)
        harness.request("PATCH", path, {"spec": {"terminating": True}})
        await until(lambda: job()["status"]["stage"] == "Succeeded" and not pods(), job)
        assert job()["metadata"].keys().isdisjoint({"finalizers", "annotations"})
        harness.request("DELETE", path)
    for write in harness.faults.log:
        assert not write.request.user.startswith("arranger-controllers"), "kopf itself wrote"


async def test_kopf_logs_in_again_when_its_token_has_been_rejected(
    harness: GangControllerHarness,
) -> None:
    harness.install("gangs.arranger.io")
    rejected = harness.faults.inject(
        RequestMatcher(lambda call: call.user.startswith("arranger-controllers")),
        Reply(401, "Unauthorized"),
        times=1,
    )
    tokens = iter(range(100))

    async def load(_rejected: bool) -> Credential:
        return Credential(authorization=f"Bearer {next(tokens)}")

    # A clock by which the token is old at each look.
    credentials = CredentialSource(await load(False), load, now=itertools.count(0, 10).__next__)
    harness.create_pods("a", labels={"scheduling.x-k8s.io/pod-group": "g"})
    async with harness.controllers(credentials=credentials):
        await until(lambda: harness.gang().get("members") == 1, harness.gang)
    assert rejected.matched


async def test_a_signal_ends_it_at_once(harness: GangControllerHarness) -> None:
    harness.install("gangs.arranger.io")
    harness.create_pods("a", labels={"scheduling.x-k8s.io/pod-group": "g"})
    async with harness.controllers() as running:
        await until(lambda: harness.gang().get("members") == 1, harness.gang)
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL, "kopf takes it"
        signal.raise_signal(signal.SIGTERM)
        started = time.monotonic()
        await until(running.done, lambda: "it is still running")
        assert running.exception() is None
        assert time.monotonic() - started < 4, "kopf has waited for something"


async def test_it_ends_when_kopf_has_failed(
    harness: GangControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What kopf's parser does not survive leaves no process behind that is alive and deaf."""
    harness.install("gangs.arranger.io")
    harness.create_pods("a", labels={"scheduling.x-k8s.io/pod-group": "g"})

    def parse(text: bytes) -> object:
        raise RecursionError("too deep")

    async def play() -> None:
        async with harness.controllers() as running:
            await until(lambda: harness.gang().get("members") == 1, harness.gang)
            monkeypatch.setattr("kopf._cogs.clients.api.json.loads", parse)
            harness.install("podgroups.scheduling.x-k8s.io")
            started = time.monotonic()
            await until(running.done, lambda: "it is still running")
            assert time.monotonic() - started < 10

    with pytest.raises(RecursionError, match="too deep"):
        await play()


async def test_a_defect_ends_it_all_rather_than_leave_half_of_it_at_work(
    harness: GangControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(WorkQueue, "_handle_result", fail)
    harness.create_pods("a", labels={"scheduling.x-k8s.io/pod-group": "g"})
    with pytest.raises(ExceptionGroup) as raised:
        async with harness.controllers() as running:
            await until(running.done, lambda: "it is still running")
    assert raised.group_contains(RuntimeError, match="a defect")


def _gangs(harness: GangControllerHarness) -> list[Object]:
    return harness.cluster.objects("gangs", "arranger.io")


def _homes(harness: GangControllerHarness) -> set[str]:
    return {gang["metadata"]["namespace"] for gang in _gangs(harness)}


def _assert_that_only_status_was_written(harness: GangControllerHarness) -> None:
    """kopf has kept nothing on anybody's object, and nobody got an event."""
    for write in harness.faults.log:
        assert write.request.path.endswith("/status") or write.request.plural == "gangs", write
        assert not write.request.user.startswith("arranger-controllers"), "kopf itself wrote"
    assert all(write.applied for write in harness.faults.log), harness.faults.log
