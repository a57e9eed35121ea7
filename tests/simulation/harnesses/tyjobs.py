"""Simulates TYJobs: their controller at work, in virtual time, beside scheduler and kubelets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

from arranger.api.types.tyjob import API_VERSION
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.informers import unstructured_informer
from arranger.controllers.tyjob.controller import TYJobController
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from tests.builders import a_node
from tests.faults.injector import FaultInjector, RequestMatcher, for_resource
from tests.simulation.harnesses.gangs import GangHarness
from tests.simulation.harnesses.simulation import Object
from tests.simulation.harnesses.status_judge import status_faults
from tests.tyjobs import a_tyjob

JOBS = "/apis/arranger.io/v1alpha1/namespaces/default/tyjobs"
#: Names of the pods of the TYJob ``job`` of :func:`tests.tyjobs.a_tyjob`.
LEADER, FIRST, SECOND = "job-learner-0", "job-actor-0", "job-actor-1"
MERGE = "application/merge-patch+json"
POD_CREATES = for_resource("pods") & RequestMatcher(lambda call: call.method == "POST")

_OPEN = ("Pending", "Starting", "Running", "Rescheduling")
#: (from, to): the changes of stage that are allowed.
EDGES = {
    ("Pending", "Starting"),
    ("Starting", "Running"),
    ("Running", "Rescheduling"),
    ("Rescheduling", "Running"),
    *((stage, end) for stage in _OPEN for end in ("Succeeded", "Failed")),
}


class TYJobHarness(GangHarness):
    """A simulation with the controller of TYJobs.

    Attributes:
        controller_faults: every request of the controller goes through them.
    """

    def __init__(self, seed: int = 1, *, max_bind_seconds: float = 1.0) -> None:
        super().__init__(seed, max_bind_seconds=max_bind_seconds)
        self.controller_faults = FaultInjector(rng=random.Random(seed))

    @asynccontextmanager
    async def controller(
        self, *, judged: bool = True, scheduling_timeout: float | None = None
    ) -> AsyncIterator[TYJobController]:
        """The controller at work; at the end it is killed, as it always is.

        Args:
            judged: whether every status must be true before that (:meth:`until_true`).
        """
        transport = InProcessTransport(
            self.cluster, hook=self.controller_faults, user="controllers"
        )
        rng = random.Random(1)
        options = ControllerOptions(
            debounce=0.1, rng=rng, now=virtual_now, scheduling_timeout=scheduling_timeout
        )
        controller = TYJobController(transport, options)
        shown = unstructured_informer(transport, options, API_VERSION, "tyjobs", controller.jobs)
        tasks = [asyncio.create_task(part) for part in (*controller.tasks(), *shown.tasks())]
        try:
            yield controller
            for task in tasks:
                assert not task.done(), task
            assert not controller.work_queue.panics
            if judged:
                await self.until_true(self.untrue)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Scheduler, kubelets and controller."""
        async with self.scheduler(), self.kubelets(), self.controller():
            yield

    # --- what is there -----------------------------------------------------------------------

    def nodes(self, *names: str, cpu: int = 4) -> None:
        """Create nodes."""
        self.create(*(a_node(name).offers(cpu=cpu) for name in names))

    def submit(self, name: str = "job", **words: Any) -> None:
        """Create a TYJob."""
        self.cluster.create(a_tyjob(name, **words))

    def edit(self, name: str = "job", **spec: Any) -> None:
        """Merge a change into a TYJob's spec."""
        self.request("PATCH", f"{JOBS}/{name}", {"spec": spec}, MERGE)

    def annotate(self, name: str = "job", **notes: str | None) -> None:
        """Merge a change into a TYJob's annotations."""
        self.request("PATCH", f"{JOBS}/{name}", {"metadata": {"annotations": notes}}, MERGE)

    def job(self, name: str = "job") -> Object:
        """A TYJob as the server has it."""
        jobs = self.cluster.objects("tyjobs", "arranger.io")
        return next(job for job in jobs if job["metadata"]["name"] == name)

    def status(self, name: str = "job") -> Object:
        """Its status."""
        return dict(self.job(name).get("status") or {})

    def pods(self, name: str = "job") -> dict[str, Object]:
        """Its pods by name."""
        label = {"arranger.io/tyjob": name}.items()
        pods = self.cluster.objects("pods")
        return {p["metadata"]["name"]: p for p in pods if label <= p["metadata"]["labels"].items()}

    def stages(self, name: str = "job") -> list[str]:
        """The stages a TYJob has gone through."""
        told = [
            change.after["status"]["stage"]
            for change in self.history
            if change.resource.endswith("/tyjobs")
            and change.after["metadata"]["name"] == name
            and "stage" in (change.after.get("status") or {})
        ]
        return [stage for n, stage in enumerate(told) if n == 0 or told[n - 1] != stage]

    def event_reasons(self, name: str = "job") -> list[str]:
        """Reasons of the Events about a TYJob, by time."""
        events = self.cluster.objects("events", "events.k8s.io")
        about = [e for e in events if e["regarding"].get("kind") == "TYJob"]
        mine = [e for e in about if e["regarding"]["name"] == name]
        return [e["reason"] for e in sorted(mine, key=lambda e: e["eventTime"])]

    async def until_stage(self, stage: str, name: str = "job", *, within: float = 60.0) -> None:
        """Let time pass until a TYJob is there."""
        try:
            await self.until(lambda: self.status(name).get("stage") == stage, within=within)
        except TimeoutError:
            raise AssertionError(f"not {stage} but {self.status(name)}") from None

    # --- what must hold ----------------------------------------------------------------------

    def untrue(self) -> list[str]:
        """What is untrue in the status of any TYJob."""
        return status_faults(self.cluster, virtual_now(), {"tyjob"})

    def check(self) -> None:
        """The invariants of gangs; and stages change along the edges, restarts only grow."""
        super().check()
        self.check_rights(self.controller_faults, "arranger-controllers")
        self.check_jobs()
        self._check_addresses()

    def check_jobs(self) -> None:
        """Stages changed along the edges, and restarts only grew."""
        for name in {job["metadata"]["name"] for job in self._jobs_ever()}:
            strange = set(pairwise(self.stages(name))) - EDGES
            assert not strange, f"{name}: {strange}"
        self._check_counts()

    def _jobs_ever(self) -> list[Object]:
        return [c.after for c in self.history if c.resource.endswith("/tyjobs")]

    def _check_counts(self) -> None:
        for change in self.history:
            if change.resource.endswith("/tyjobs") and change.before is not None:
                before = (change.before.get("status") or {}).get("restarts", 0)
                assert (change.after.get("status") or {}).get("restarts", 0) >= before

    def _check_addresses(self) -> None:
        """A worker only ever ran with the address of the leader of that moment."""
        leaders: dict[str, str] = {}
        for change in self.history:
            if change.resource != "/pods":
                continue
            meta, status = change.after["metadata"], change.after["status"]
            job = meta.get("labels", {}).get("arranger.io/tyjob")
            if job is None:
                continue
            if meta["labels"]["arranger.io/role"] == "leader":
                if change.type == "DELETED":
                    leaders.pop(job, None)
                elif status.get("podIP"):
                    leaders[job] = meta["uid"]
                continue
            before = change.before["status"].get("phase") if change.before is not None else ""
            if (before, status.get("phase")) == ("Pending", "Running"):
                mine = meta["annotations"]["arranger.io/leader-uid"]
                assert leaders.get(job) == mine, f"{meta['name']} runs without its leader"
