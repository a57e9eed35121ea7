"""The controllers die, or are left in doubt, at every single write they make.

Whatever they have left behind, the next ones finish: every eviction has had its consequence, no
pod was made twice, and no two versions of a job have run side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import pytest

from tests.builders import a_node
from tests.faults.injector import EVENTS, WRITES, from_user
from tests.faults.kinds import ConcurrentAction, DropConnection, FaultRule
from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME

#: Events are best effort: nothing follows from them.
ITS_WRITES = WRITES & ~EVENTS & from_user("one")


@dataclass
class JobFaultScenario:
    """Two jobs: one restarts when it loses a pod, the other aborts until its owner resumes it."""

    sim: JobHarness = field(default_factory=JobHarness)
    died: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self) -> None:
        self.sim.create(a_node("n1").offers(cpu=8))
        plugins: dict[str, list[str]] = {"svc": [], "env": []}
        self.sim.job(
            "restarts", task(runs=20), on={"PodEvicted": "RestartJob"}, plugins=plugins, maxRetry=1
        )
        self.sim.job("aborts", task("m", 1), task(runs=20), on={"PodEvicted": "AbortJob"})

    async def evictions(self) -> None:
        """Once they run; whether or not anybody is there to see it."""
        await self.sim.until(lambda: self._running("restarts") and self._running("aborts"))
        await asyncio.sleep(2)
        self.sim.evict("restarts-w-0", grace=0)
        self.sim.evict("aborts-w-1")
        await self.sim.until_phase("aborts", "Aborted")
        assert self.sim.pods_of_job("aborts") == {}
        self.sim.edit(
            "aborts",
            {
                "metadata": {"annotations": {"arranger.io/action": "ResumeJob"}},
                "spec": {"policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]},
            },
        )
        await self.sim.until_phase("restarts", "Completed", within=120)
        await self.sim.until_phase("aborts", "Completed", within=120)

    def _running(self, job: str) -> bool:
        phases = self.sim.pods_of_job(job).values()
        return len(phases) == {"restarts": 2, "aborts": 3}[job] and set(phases) == {"Running"}

    def die(self) -> None:
        if not self.died.is_set():
            self.sim.kill("one")
            self.died.set()

    async def run(self) -> None:
        """Until they die (or all is done); then others in their place, until all is done."""
        self.begin()
        async with self.sim.kubelets(), self.sim.scheduler():
            owner = asyncio.create_task(self.evictions())
            async with self.sim.controllers("one"):
                died = asyncio.create_task(self.died.wait())
                await asyncio.wait({owner, died}, return_when=asyncio.FIRST_COMPLETED)
                died.cancel()
            if self.died.is_set():
                await asyncio.sleep(4)  # no process starts at once
                async with self.sim.controllers("two"):
                    await owner
                    await asyncio.sleep(2)
            await owner
        self.check()

    def check(self) -> None:
        self.sim.check()
        restarts, aborts = self.sim.status("restarts"), self.sim.status("aborts")
        assert (restarts["version"], restarts["retryCount"], restarts["succeeded"]) == (1, 0, 2)
        assert (aborts["version"], aborts["retryCount"], aborts["succeeded"]) == (3, 0, 2)
        if self.died.is_set():
            assert self.sim.groups() == []


def they_die_after_it(story: JobFaultScenario, nth: int) -> FaultRule:
    return story.sim.job_faults.inject(
        ITS_WRITES, ConcurrentAction(story.die, after=True), skip=nth, times=1
    )


def its_answer_is_lost(story: JobFaultScenario, nth: int) -> FaultRule:
    return story.sim.job_faults.inject(ITS_WRITES, DropConnection.AFTER, skip=nth, times=1)


@pytest.mark.parametrize("fate", [they_die_after_it, its_answer_is_lost])
async def test_at_every_write(fate: Callable[[JobFaultScenario, int], FaultRule]) -> None:
    for nth in count():
        story = JobFaultScenario()
        rule = fate(story, nth)
        try:
            await story.run()
        except BaseException as error:
            with suppress(IndexError):
                error.add_note(f"at write {nth}: {rule.matched[0].method} {rule.matched[0].path}")
            raise
        if not rule.matched:
            assert nth > 25, "there were more writes than that"
            return
