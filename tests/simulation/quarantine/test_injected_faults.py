"""Whatever our own code raises about one object, and wherever, the others go on."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from arranger.api.types.core import Pod
from tests.builders import a_pod
from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.quarantine.harness import CULPRIT, Object, TwoTenants
from tests.simulation.quarantine.valid import objects

pytestmark = VIRTUAL_TIME

ERRORS = (RuntimeError, RecursionError, MemoryError, KeyError, OverflowError)

#: What is called for an object, by module and name → kinds of objects of which one is told of.
STEPS: dict[str, set[str]] = {
    "arranger.controllers.vcjob.cache:JobCache.on_job_updated": {"Job"},
    "arranger.controllers.vcjob.cache:JobCache.on_pod_updated": {"Pod"},
    "arranger.controllers.vcjob.cache:JobCache.on_pod_group_updated": {"PodGroup"},
    "arranger.controllers.vcjob.cache:JobCache.snapshot": {"Job"},
    "arranger.controllers.vcjob.reconciler:plan": {"Job"},
    "arranger.controllers.vcjob.reconciler:delayed_actions": {"Job"},
    "arranger.controllers.vcjob.reconciler:pod_of": {"Job"},
    "arranger.controllers.vcjob.state_machine:first_problem": {"Job"},
    "arranger.controllers.vcjob.plan:build_status": {"Job"},
    "arranger.controllers.tyjob.cache:TYJobCache.on_job_updated": {"TYJob"},
    "arranger.controllers.tyjob.cache:TYJobCache.on_owned_updated": {"Pod", "Service"},
    "arranger.controllers.tyjob.cache:TYJobCache.observed_state": {"TYJob"},
    "arranger.controllers.tyjob.reconciler:plan": {"TYJob"},
    "arranger.controllers.tyjob.state_machine:validate_tyjob": {"TYJob"},
    "arranger.controllers.tyjob.manifests:pod": {"TYJob"},
    "arranger.controllers.gang.cache:GangCache.on_pod_updated": {"Pod"},
    "arranger.controllers.gang.cache:GangCache.on_object_updated": {"PodGroup"},
    "arranger.controllers.gang.cache:GangCache.changes": {"PodGroup"},
    "arranger.controllers.gang.gang_members:summarize_member": {"Pod"},
    "arranger.controllers.gang.gang_members:gang_membership": {"Pod"},
    "arranger.controllers.queue.cache:QueueCache.on_queue_updated": {"Queue"},
    "arranger.controllers.queue.cache:QueueCache.on_pod_updated": {"Pod"},
    "arranger.controllers.queue.cache:QueueCache.on_pod_group_updated": {"PodGroup"},
    "arranger.controllers.queue.cache:gang_membership": {"Pod"},
    "arranger.controllers.queue.cache:pod_requests": {"Pod"},
    "arranger.controllers.queue.cache:read_queue": {"Queue"},
    "arranger.controllers.queue.reconciler:queue_status": {"Queue"},
    "arranger.controllers.runtime.commands:PendingCommands.on_updated": {"Command"},
}


@pytest.mark.parametrize("step", STEPS)
async def test_a_fault_in(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants, errors = TwoTenants(), iter(ERRORS * 1000)
    fault = Fault(step, errors, monkeypatch)
    with capture_logs() as logs:
        async with tenants.at_work():
            for obj in culprits():
                obj["metadata"].pop("annotations", None)
                if obj["kind"] != "Command":
                    tenants.create(obj)
            tenants.create(a_culprit_pod())
            await tenants.neighbour_ends("first")
            tenants.create(objects()["Command"])
            await tenants.neighbour_ends("second")
            assert fault.hits, "nobody has come by this step with an object of the culprit"
            assert _kinds(logs, "object.quarantined") & STEPS[step]
            fault.mended = True
            for obj in culprits():
                tenants.replace(obj)
            await tenants.neighbour_ends("third")
            for _ in range(400):
                await asyncio.sleep(1)
            assert not any(tenants.quarantined().values())


def culprits() -> list[Object]:
    """One object of each kind; each job has a Service of its own name."""
    found = objects()
    found["TYJob"]["metadata"]["name"] = "bad-ty"
    return list(found.values())


def a_culprit_pod() -> Object:
    """A pod of the culprit, of a gang and a queue."""
    label = {"pod-group.scheduling.sigs.k8s.io": "bad"}
    manifest = a_pod("bad-pod").in_namespace(CULPRIT).labelled(label).manifest()
    del manifest["metadata"]["uid"]
    return manifest


def _kinds(logs: Any, event: str) -> set[str]:
    return {line["kind"] for line in logs if line["event"] == event}


class Fault:
    """Has a step raise whenever it comes by something of the culprit's.

    Attributes:
        hits: how often it did.
        mended: whether it raises no more.
    """

    def __init__(
        self, step: str, errors: Iterator[type[Exception]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.hits, self.mended = 0, False
        module, _, path = step.partition(":")
        owner: Any = importlib.import_module(module)
        *within, name = path.split(".")
        for part in within:
            owner = getattr(owner, part)
        real: Callable[..., Any] = getattr(owner, name)

        def broken(*args: Any, **kwargs: Any) -> Any:
            if not self.mended and any(map(_is_culprits, [*args, *kwargs.values()])):
                self.hits += 1
                raise next(errors)("a defect")
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, broken)


def _is_culprits(value: Any) -> bool:
    if isinstance(value, str):
        return value == "bad" or value.startswith(f"{CULPRIT}/")
    value = getattr(value, "job", value)
    meta = getattr(value, "metadata", None)
    if meta is None:
        return isinstance(value, Pod) and value.metadata.namespace == CULPRIT
    return meta.namespace == CULPRIT or meta.name == "bad"
