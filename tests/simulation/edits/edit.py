"""What an edit may do, and how it is tried: the same story with the edit and without it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from arranger.daemon.config.schema import Config
from arranger.kube.client.transport import Request
from tests.builders.base import ManifestBuilder
from tests.simulation.harnesses.gangs import GangHarness
from tests.simulation.harnesses.jobs import JOBS, JobHarness
from tests.simulation.harnesses.queues import CONFIG, QueueHarness
from tests.simulation.harnesses.simulation import MERGE, Object
from tests.simulation.harnesses.tyjobs import JOBS as TYJOBS
from tests.simulation.harnesses.tyjobs import TYJobHarness

H = TypeVar("H", bound=GangHarness)

Step = Callable[[Any], None]
Look = Callable[[Any], object]

PODS: Final = "/api/v1/namespaces/default/pods/"
NODES: Final = "/api/v1/nodes/"
QUEUES: Final = "/apis/scheduling.volcano.sh/v1beta1/queues/"
JSON_PATCH: Final = "application/json-patch+json"


def nothing(sim: Any) -> None:
    """A step in which nothing happens."""


@dataclass(frozen=True, slots=True)
class TakesEffect:
    """An edit that changes what happens.

    Attributes:
        given: what there is at first; it has ``settles`` seconds before the edit.
        edit: the edit.
        later: what happens ``pause`` seconds after it, where it shows only then.
        look: what is looked at in the end.
        without: what is seen without the edit.
        seen: what is seen with it.
        seconds: from ``later`` to the end.
    """

    given: Step
    edit: Step
    look: Look
    without: object
    seen: object
    later: Step = nothing
    settles: float = 10.0
    pause: float = 5.0
    seconds: float = 30.0
    harness: type[GangHarness] = QueueHarness
    config: Config = CONFIG

    async def observe(self, *, edited: bool) -> object:
        """Play the story, with the edit or without it."""
        sim = self.harness()
        self.given(sim)
        async with _at_work(sim, self.config):
            await asyncio.sleep(self.settles)
            if edited:
                self.edit(sim)
            await asyncio.sleep(self.pause)
            self.later(sim)
            await asyncio.sleep(self.seconds)
            for scheduler in sim.schedulers.values():
                scheduler.engine.check_consistent()
            return self.look(sim)


@dataclass(frozen=True, slots=True)
class Refused:
    """An edit that the API server refuses.

    Attributes:
        given: what there is.
        path: the object.
        change: a merge patch, or the operations of a JSON patch.
    """

    given: Step
    path: str
    change: Object | Sequence[Object]

    def answer(self) -> tuple[int, str]:
        """Code and message of the server."""
        sim = QueueHarness()
        self.given(sim)
        kind = MERGE if isinstance(self.change, Mapping) else JSON_PATCH
        body = json.dumps(self.change).encode()
        answer = sim.cluster.handle(Request("PATCH", self.path, {}, body, kind))
        return answer.status, str(answer.body["message"])


@dataclass(frozen=True, slots=True)
class NoMeaning:
    """An edit that has no meaning there, and why."""

    why: str


Outcome = TakesEffect | Refused | NoMeaning


@dataclass(frozen=True, slots=True)
class Edits:
    """What an edit of a field does while pods wait, and while they run."""

    waiting: Outcome
    running: Outcome

    @classmethod
    def both(cls, outcome: Outcome) -> Edits:
        """The same for both."""
        return cls(outcome, outcome)


@asynccontextmanager
async def _at_work(sim: GangHarness, config: Config) -> AsyncIterator[None]:
    if isinstance(sim, JobHarness | TYJobHarness):
        async with sim.at_work():
            yield
    else:
        async with sim.scheduler(config=config), sim.kubelets():
            yield


# --- steps ---------------------------------------------------------------------------------------


def create(*builders: ManifestBuilder | Object) -> Step:
    """Objects come into being."""

    def step(sim: GangHarness) -> None:
        for each in builders:
            manifest = each.manifest() if isinstance(each, ManifestBuilder) else dict(each)
            manifest["metadata"] = {
                k: v for k, v in manifest["metadata"].items() if k not in ("uid", "resourceVersion")
            }
            sim.cluster.create(manifest)

    return step


def patch(path: str, change: Object, *, sub: str = "") -> Step:
    """A merge patch of an object, or of its ``sub`` resource."""
    return lambda sim: sim.request("PATCH", path + sub, change, MERGE) and None


def json_patch(path: str, op: str, field: str, value: Any) -> Step:
    """One operation of a JSON patch."""
    change = [{"op": op, "path": field, "value": value}]
    return lambda sim: sim.request("PATCH", path, change, JSON_PATCH) and None


def annotate(path: str, **notes: str | None) -> Step:
    """One annotation is written, or with None taken away; the key as ``key=``, or by ``notes``."""
    return patch(path, {"metadata": {"annotations": notes}})


def note(key: str, value: str | None, *pods: str) -> Step:
    """An annotation of pods is written, or with None taken away."""
    return steps(*(annotate(PODS + pod, **{key: value}) for pod in pods))


def label(key: str, value: str | None, *pods: str) -> Step:
    """A label of pods is written, or with None taken away."""
    return steps(*(patch(PODS + pod, {"metadata": {"labels": {key: value}}}) for pod in pods))


def steps(*each: Step) -> Step:
    """Several steps at once."""

    def step(sim: Any) -> None:
        for one in each:
            one(sim)

    return step


def job_edit(change: Object, name: str = "j") -> Step:
    """A merge patch of a Volcano Job."""
    return patch(f"{JOBS}/{name}", change)


def tyjob_edit(change: Object, name: str = "job") -> Step:
    """A merge patch of a TYJob."""
    return patch(f"{TYJOBS}/{name}", change)


# --- looks ---------------------------------------------------------------------------------------


def nodes_of(*pods: str) -> Look:
    """Where pods are; a text for one of them."""

    def look(sim: GangHarness) -> object:
        found = tuple(sim.node_of(pod) for pod in pods)
        return found[0] if len(found) == 1 else found

    return look


def opens(given: Step, edit: Step, later: Step | None = None) -> TakesEffect:
    """The pod ``p`` gets the node ``n1`` by the edit alone."""
    story = TakesEffect(given, edit, nodes_of("p"), "", "n1")
    return story if later is None else replace(story, later=later)


def placed(*pods: str) -> Look:
    """Which of the pods have a node."""
    return lambda sim: {pod for pod in pods if sim.node_of(pod)}


def evicted(sim: QueueHarness) -> set[str]:
    """The pods that the scheduler has deleted."""
    return set(sim.evicted())
