"""Simulates gangs: our definitions are installed, and every gang is whole or nothing."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from arranger.daemon.config.schema import Config
from arranger.daemon.scheduler import Scheduler
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.kubelet import RUN_SECONDS, HollowKubelets
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from arranger.kube.extenders.caller import ExtenderTransport
from tests.builders import PodBuilder, a_pod, a_pod_group
from tests.faults.injector import BINDINGS, from_user
from tests.faults.kinds import DropConnection, FaultRule
from tests.simulation.harnesses.simulation import CONFIG, Object, SimulationHarness
from tests.simulation.harnesses.status_judge import SCHEDULER, status_faults

KOORDINATOR = "gang.scheduling.koordinator.sh/"
BUNDLES = "gang.koordinater.io/"
SIGS_LABEL = "pod-group.scheduling.sigs.k8s.io"
POD_GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
MERGE = "application/merge-patch+json"

#: Read once: a test that starts over after every write makes many simulations.
DEFINITIONS = tuple(bundled_crds())


def members(
    gang: str, count: int, least: int | None = None, *, first: int = 0, **words: str
) -> list[PodBuilder]:
    """Pods ``gang-0`` … of one CPU, a gang by annotations; all of them are needed by default."""
    least = count if least is None else least
    names = (f"{gang}-{n}" for n in range(first, first + count))
    return [a_pod(name).needs(cpu=1).in_gang(gang, least, **words) for name in names]


def of_pod_group(group: str, count: int, *, first: int = 0) -> list[PodBuilder]:
    """Pods ``group-0`` … of one CPU that a PodGroup makes a gang."""
    names = (f"{group}-{n}" for n in range(first, first + count))
    return [a_pod(name).needs(cpu=1).in_pod_group(group) for name in names]


def bundle(gang: str, role: str, count: int, *, cpu: int = 1, **words: str) -> list[PodBuilder]:
    """Pods ``gang-role-0`` … of one bundle, all of them needed."""
    names = (f"{gang}-{role}-{n}" for n in range(count))
    return [a_pod(name).needs(cpu=cpu).in_bundle(gang, role, count, **words) for name in names]


def running_for(seconds: float, pods: Iterable[PodBuilder]) -> list[PodBuilder]:
    """The pods, made to end so long after they start."""
    return [pod.annotated({RUN_SECONDS: str(seconds)}) for pod in pods]


@dataclass(slots=True)
class GangRequirement:
    """The minimums of a gang, read from its objects and not from the scheduler."""

    minima: dict[str, int] = field(default_factory=dict)
    partners: set[str] = field(default_factory=set)

    def add_member(self, pod: Object) -> None:
        """Take up a member's annotations and labels."""
        notes = pod["metadata"].get("annotations", {})
        if least := notes.get(BUNDLES + "minRequiredNumber"):
            self.minima[_role_of(pod)] = int(least)
        if least := notes.get(KOORDINATOR + "min-available"):
            self.minima[""] = int(least)
        self.partners |= set(json.loads(notes.get(KOORDINATOR + "groups") or "[]"))

    def is_met(self, have: Mapping[str, int]) -> bool:
        """Whether so many of each bundle are enough; "" stands for all bundles."""
        total = {**have, "": sum(have.values())}
        return all(total.get(role, 0) >= least for role, least in self.minima.items())


class GangHarness(SimulationHarness):
    """A simulation whose gangs are checked.

    Attributes:
        max_bind_seconds: from the first Binding of a gang to the last that its minimum needs.
        may_be_partial: gangs that may be partially bound, because somebody else took them apart.
    """

    def __init__(self, seed: int = 1, *, max_bind_seconds: float = 1.0) -> None:
        super().__init__(seed)
        self.max_bind_seconds = max_bind_seconds
        self.may_be_partial = self.trace.premises.torn_gangs
        self.trace.premises.bind_seconds = max_bind_seconds
        for definition in DEFINITIONS:
            self.cluster.create(definition)

    def namespaces(self, *names: str) -> None:
        """Create namespaces."""
        for name in names:
            head = {"apiVersion": "v1", "kind": "Namespace"}
            self.cluster.create({**head, "metadata": {"name": name}})

    def pod_group(self, name: str, least: int, **spec: Any) -> None:
        """Create a PodGroup of ``scheduling.sigs.k8s.io``."""
        manifest = a_pod_group(name, least=least, **spec).manifest()
        del manifest["metadata"]["uid"]
        self.cluster.create(manifest)

    def edit_pod_group(self, name: str, **spec: Any) -> None:
        """Merge a change into a PodGroup's spec."""
        self.request("PATCH", f"{POD_GROUPS}/{name}", {"spec": spec}, MERGE)

    def delete_pod_group(self, name: str) -> None:
        """Delete a PodGroup."""
        self.request("DELETE", f"{POD_GROUPS}/{name}")

    @asynccontextmanager
    async def scheduler(
        self, name: str = "one", config: Config = CONFIG, *, port: ExtenderTransport | None = None
    ) -> AsyncIterator[Scheduler]:
        """A scheduler at work; before it stops in good order, what it says of gangs is true."""
        async with super().scheduler(name, config, port=port) as scheduler:
            yield scheduler
            if name in self.alive():
                await self.until_true(
                    lambda: status_faults(self.cluster, virtual_now(), {SCHEDULER})
                )

    @asynccontextmanager
    async def kubelets(self) -> AsyncIterator[None]:
        """Bound pods run, and end when they say so."""
        kubelets = HollowKubelets(InProcessTransport(self.cluster), now=virtual_now)
        running = asyncio.create_task(kubelets.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait({running})

    def crash(self, name: str = "one") -> FaultRule:
        """As ``kill -9``; stop the rule before another of that name is started."""
        self._tasks.pop(name).cancel()
        return self.faults.inject(from_user(name), DropConnection.BEFORE)

    async def stays_unbound(self, gang: str, seconds: float = 60) -> None:
        """Let time pass; none of the gang is bound then."""
        await asyncio.sleep(seconds)
        assert not self.placed(gang)

    # --- looking -----------------------------------------------------------------------------

    def pods_of(self, gang: str) -> list[Object]:
        """A gang's pods; ``gang`` is a name in ``default``, or ``namespace/name``."""
        full = gang if "/" in gang else f"default/{gang}"
        return [pod for pod in self.cluster.objects("pods") if gang_name_of(pod) == full]

    def placed(self, gang: str) -> set[str]:
        """Names of a gang's pods that are bound, ended or not."""
        return {p["metadata"]["name"] for p in self.pods_of(gang) if p["spec"].get("nodeName")}

    def phases(self, gang: str) -> Counter[str]:
        """Phase → how many of a gang's pods."""
        return Counter(pod["status"].get("phase", "Pending") for pod in self.pods_of(gang))

    def condition_message(self, pod: str) -> str:
        """What the condition of a pod says; "" while it has none."""
        conditions = self.pod(pod)["status"].get("conditions") or []
        return next((c["message"] for c in conditions if c["type"] == "PodScheduled"), "")

    def event_notes(self, pod: str, reason: str = "FailedScheduling") -> list[str]:
        """What the events of a reason say about a pod."""
        events = self.cluster.objects("events", "events.k8s.io")
        about = [e for e in events if e["regarding"]["name"] == pod]
        return [e["note"] for e in about if e["reason"] == reason]

    def timed_out_pods(self, gang: str) -> set[str]:
        """Names of a gang's pods that say it ran out of time."""
        return {
            pod["metadata"]["name"]
            for pod in self.pods_of(gang)
            if pod["metadata"]["annotations"].get(KOORDINATOR + "timeout") == "true"
        }

    # --- what must hold ----------------------------------------------------------------------

    def check(self) -> None:
        """The invariants of every simulation, and those of gangs."""
        super().check()
        self.check_all_or_nothing()

    def check_all_or_nothing(self) -> None:
        """No gang rests between nothing and its minimum, unless it had its minimum before.

        By the server's own history: between the first Binding and the last that the minimum needs
        it takes no longer than ``max_bind_seconds``, and no gang is in between now.
        """
        demands = self._requirements()
        times = {w.request.json["metadata"]["uid"]: w.at for w in self.faults.applied(BINDINGS)}
        have: dict[str, Counter[str]] = defaultdict(Counter)
        begun: dict[frozenset[str], float] = {}
        whole: set[frozenset[str]] = set()
        for change in self.cluster.store.changes_since(0):
            gang = gang_name_of(change.after) if change.resource == "/pods" else ""
            if not gang or gang in self.may_be_partial:
                continue
            uid, role = change.after["metadata"]["uid"], _role_of(change.after)
            was_bound = bool(change.before and change.before["spec"].get("nodeName"))
            is_bound = bool(change.after["spec"].get("nodeName")) and change.type != "DELETED"
            have[gang][role] += is_bound - was_bound
            together = frozenset({gang, *demands[gang].partners})
            if together in whole:
                continue
            if all(g in demands and demands[g].is_met(have[g]) for g in together):
                took = times[uid] - begun.pop(together, times[uid])
                assert took <= self.max_bind_seconds, f"{gang} took {took} s to be bound"
                whole.add(together)
            elif not any(have[g].total() for g in together):
                begun.pop(together, None)
            elif uid in times:
                begun.setdefault(together, times[uid])
        assert not begun, f"in pieces: { {g: dict(have[g]) for group in begun for g in group} }"

    def _requirements(self) -> dict[str, GangRequirement]:
        """The minimums of every gang there has been, as its objects had them last."""
        pods: dict[str, Object] = {}
        groups: dict[str, Object] = {}
        for change in self.cluster.store.changes_since(0):
            meta = change.after["metadata"]
            if change.resource == "/pods":
                pods[meta["uid"]] = change.after
            elif change.resource.endswith("/podgroups"):
                groups[f"{meta['namespace']}/{meta['name']}"] = change.after
        demands: dict[str, GangRequirement] = defaultdict(GangRequirement)
        for pod in pods.values():
            if gang := gang_name_of(pod):
                demands[gang].add_member(pod)
        for gang, demand in demands.items():
            if not demand.minima and gang in groups:
                demand.minima = {"": groups[gang]["spec"]["minMember"]}
        return demands


def gang_name_of(pod: Object) -> str:
    """``namespace/name`` of the gang that a pod says it is in, "" for none."""
    meta = pod["metadata"]
    notes, labels = meta.get("annotations", {}), meta.get("labels", {})
    keys = (KOORDINATOR + "name", BUNDLES + "name")
    name = labels.get(SIGS_LABEL) or next((notes[key] for key in keys if key in notes), "")
    return f"{meta['namespace']}/{name}" if name else ""


def _role_of(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get(BUNDLES + "bundleName", ""))
