"""The controllers as they run, kopf and all, over HTTP against the embedded API server.

In real time: kopf owns its loop, so it has a thread here, and nobody can turn its clock.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from arranger.controllers.gang.cache import GangCache
from arranger.controllers.manager import run_in_thread
from arranger.embedded.fault_injection import FaultInjector, Reply, RequestMatcher
from arranger.embedded.server import EmbeddedCluster, Request
from arranger.embedded.transport.http import serve
from arranger.kube.client.credentials import ApiServerConfig, Credential, CredentialSource
from tests.builders import a_pod
from tests.tyjobs import a_tyjob

Object = dict[str, Any]

CRDS = Path(__file__).parents[3] / "crds"
SIGS = "scheduling.sigs.k8s.io"
WHY = "gang default/g: 3/3 members have arrived, 2 placeable"


class GangControllerHarness:
    """A cluster whose pods are driven by hand, and which controllers may look after."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster()
        self.taps = FaultInjector()

    @asynccontextmanager
    async def controllers(
        self, *, credentials: CredentialSource | None = None, **options: Any
    ) -> AsyncIterator[None]:
        """Controllers at work."""
        async with serve(self.cluster, taps=self.taps) as url:
            access = ApiServerConfig(url, credentials or CredentialSource())
            async with run_in_thread(access, quiet=0.02, **options):
                yield

    def install(self, *names: str) -> None:
        """Create definitions of ``crds/``."""
        for name in names:
            self.cluster.create(yaml.safe_load((CRDS / f"{name}.yaml").read_text()))

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
def town() -> GangControllerHarness:
    return GangControllerHarness()


async def until(reached: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait for something that the controllers do in their thread."""
    for _ in range(1500):
        if reached():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(what())


async def until_phase(town: GangControllerHarness, phase: str) -> None:
    def reached() -> bool:
        return town.gang().get("phase") == town.group().get("phase") == phase

    await until(reached, lambda: (phase, town.gang(), town.group()))


async def test_the_life_of_a_gang(town: GangControllerHarness) -> None:
    town.install("gangs.arranger.io", "podgroups.scheduling.sigs.k8s.io")
    town.cluster.create(
        {
            "apiVersion": f"{SIGS}/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"minMember": 3},
        }
    )
    labels = {"pod-group.scheduling.sigs.k8s.io": "g"}
    pods = ("a", "b", "c")
    async with town.controllers():
        town.create_pods("a", "b", labels=labels)
        await until_phase(town, "Pending")
        assert town.gang()["message"] == "2/3 members have arrived"
        town.create_pods("c", labels=labels)
        await until_phase(town, "PreScheduling")
        town.write_condition(*pods)
        await until_phase(town, "Scheduling")
        assert town.gang()["message"] == town.group()["message"] == WHY
        assert town.group()["scheduleStartTime"] == "2026-01-01T00:00:00Z"
        town.bind(*pods)
        await until_phase(town, "Scheduled")
        assert town.gang()["resourceSatisfied"] is True
        assert "message" not in town.gang()
        town.set_phase("Running", *pods)
        await until_phase(town, "Running")
        assert (town.gang()["running"], town.group()["running"]) == (3, 3)
        town.set_phase("Succeeded", *pods)
        await until_phase(town, "Finished")
        town.delete_pods(*pods)
        await until(lambda: not town.gang(), town.gang)
        assert (town.group()["phase"], town.group()["succeeded"]) == ("Finished", 3)
    _assert_that_only_status_was_written(town)


async def test_definitions_that_are_installed_later(town: GangControllerHarness) -> None:
    async with town.controllers():
        town.create_pods("a", labels={"scheduling.x-k8s.io/pod-group": "g"})
        town.install("podgroups.scheduling.x-k8s.io")
        town.cluster.create(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": "g"},
                "spec": {"minMember": 1},
            }
        )
        await until(lambda: "phase" in town.group("scheduling.x-k8s.io"), lambda: "no phase")
        assert town.group("scheduling.x-k8s.io")["phase"] == "Scheduling"
        town.install("gangs.arranger.io")
        await until(lambda: town.gang().get("phase") == "PreScheduling", town.gang)
    _assert_that_only_status_was_written(town)


async def test_the_pod_group_of_kubernetes_itself(town: GangControllerHarness) -> None:
    town.install("gangs.arranger.io")
    town.cluster.create(_served_by_kubernetes())
    town.cluster.create(
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
        town.cluster.create(manifest)

    def condition() -> tuple[str, str, str]:
        (said,) = town.group("scheduling.k8s.io").get("conditions") or [{}]
        return said.get("type", ""), said.get("status", ""), said.get("message", "")

    kind = "PodGroupInitiallyScheduled"
    async with town.controllers():
        town.write_condition("a", "b")
        await until(lambda: condition() == (kind, "False", WHY), condition)
        # The two objects are written one after the other.
        await until(lambda: town.gang().get("minMember") == 2, town.gang)
        town.bind("a", "b")
        await until(lambda: condition() == (kind, "True", ""), condition)


async def test_what_happened_while_nobody_looked(town: GangControllerHarness) -> None:
    town.install("gangs.arranger.io")
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    town.create_pods("a", "b", labels=labels)
    async with town.controllers():
        await until(lambda: town.gang().get("members") == 2, town.gang)
    town.delete_pods("a")
    async with town.controllers():
        await until(lambda: town.gang().get("members") == 1, town.gang)
    town.delete_pods("b")
    async with town.controllers():
        await until(lambda: not town.gang(), town.gang)


async def test_only_the_namespaces_that_were_named(town: GangControllerHarness) -> None:
    town.install("gangs.arranger.io")
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    for namespace in ("near", "far"):
        head = {"apiVersion": "v1", "kind": "Namespace"}
        town.cluster.create({**head, "metadata": {"name": namespace}})
        town.create_pods("a", labels=labels, namespace=namespace)
    town.create_pods("a", labels=labels)
    async with town.controllers(namespaces=["near", "default"]):
        await until(lambda: _homes(town) >= {"near", "default"}, lambda: _homes(town))
        town.create_pods("b", labels=labels, namespace="far")
        town.create_pods("b", labels={"scheduling.x-k8s.io/pod-group": "h"}, namespace="near")
        await until(lambda: len(_gangs(town)) == 3, lambda: _gangs(town))
        assert _homes(town) == {"near", "default"}


async def test_a_tyjob_is_run_and_nothing_is_kept_on_it(town: GangControllerHarness) -> None:
    town.install("tyjobs.arranger.io")
    town.cluster.create(a_tyjob(workers=2))
    path = "/apis/arranger.io/v1alpha1/namespaces/default/tyjobs/job"

    def job() -> Object:
        (found,) = town.cluster.objects("tyjobs", "arranger.io")
        return dict(found)

    def pods() -> set[str]:
        return {pod["metadata"]["name"] for pod in town.cluster.objects("pods")}

    async with town.controllers():
        await until(lambda: pods() == {"job-learner-0", "job-actor-0", "job-actor-1"}, pods)
        town.request("PATCH", path, {"spec": {"terminating": True}})
        await until(lambda: job()["status"]["stage"] == "Succeeded" and not pods(), job)
        assert job()["metadata"].keys().isdisjoint({"finalizers", "annotations"})
        town.request("DELETE", path)
    for write in town.taps.log:
        assert not write.call.user.startswith("arranger-controllers"), "kopf itself wrote"


async def test_kopf_logs_in_again_when_its_token_has_been_rejected(
    town: GangControllerHarness,
) -> None:
    town.install("gangs.arranger.io")
    rejected = town.taps.inject(
        RequestMatcher(lambda call: call.user.startswith("arranger-controllers")),
        Reply(401, "Unauthorized"),
        times=1,
    )
    tokens = iter(range(100))

    async def load(_rejected: bool) -> Credential:
        return Credential(authorization=f"Bearer {next(tokens)}")

    # A clock by which the token is old at each look.
    credentials = CredentialSource(await load(False), load, now=itertools.count(0, 10).__next__)
    town.create_pods("a", labels={"scheduling.x-k8s.io/pod-group": "g"})
    async with town.controllers(credentials=credentials):
        await until(lambda: town.gang().get("members") == 1, town.gang)
    assert rejected.matched


async def test_a_defect_ends_it_all_rather_than_leave_half_of_it_at_work(
    town: GangControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(GangCache, "changes", fail)
    town.create_pods("a", labels={"scheduling.x-k8s.io/pod-group": "g"})
    with pytest.raises(ExceptionGroup) as raised:
        async with town.controllers():
            await until(_has_ended, lambda: "it is still running")
    assert raised.group_contains(RuntimeError, match="a defect")


def _has_ended() -> bool:
    return not any(thread.name == "controllers" for thread in threading.enumerate())


def _gangs(town: GangControllerHarness) -> list[Object]:
    return town.cluster.objects("gangs", "arranger.io")


def _homes(town: GangControllerHarness) -> set[str]:
    return {gang["metadata"]["namespace"] for gang in _gangs(town)}


def _assert_that_only_status_was_written(town: GangControllerHarness) -> None:
    """kopf has kept nothing on anybody's object, and nobody got an event."""
    for write in town.taps.log:
        assert write.call.path.endswith("/status") or write.call.plural == "gangs", write
        assert not write.call.user.startswith("arranger-controllers"), "kopf itself wrote"
    assert all(write.applied for write in town.taps.log), town.taps.log


def _served_by_kubernetes() -> Object:
    """What serves the native PodGroup here; the API server does without a definition."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "podgroups.scheduling.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://example.com"},
        },
        "spec": {
            "group": "scheduling.k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "PodGroup", "plural": "podgroups"},
            "versions": [
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }
