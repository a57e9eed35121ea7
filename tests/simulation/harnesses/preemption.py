"""Simulates evictions: none is in vain, and every nomination has a reservation behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from arranger.embedded.kubelet import TERMINATION_SECONDS
from arranger.embedded.storage.store import Change
from tests.builders import PodBuilder, a_node, a_pod
from tests.faults.injector import EVENTS, LEASES, RequestMatcher, for_resource
from tests.simulation.harnesses.gangs import GangHarness
from tests.simulation.harnesses.simulation import Object

#: Deletions of pods; those by schedulers are evictions.
DELETES = for_resource("pods") & RequestMatcher(lambda call: call.method == "DELETE")
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
#: Seconds within which a nomination and the leader's own record of it agree.
NOMINATION_CHECK_DELAY = 2.0


def with_priority(priority: int, *pods: PodBuilder) -> list[PodBuilder]:
    """The pods with a priority of 0 to 99, by its class."""
    return [pod.with_spec(priorityClassName=f"p{priority}") for pod in pods]


def pod(name: str, priority: int = 0, cpu: int = 1) -> PodBuilder:
    """A pod of ours."""
    return with_priority(priority, a_pod(name).needs(cpu=cpu))[0]


def slow_to_terminate(seconds: float, builder: PodBuilder) -> PodBuilder:
    """The pod, made to take so long to end, and allowed to."""
    patient = builder.with_spec(terminationGracePeriodSeconds=int(seconds))
    return patient.annotated({TERMINATION_SECONDS: str(seconds)})


class PreemptionHarness(GangHarness):
    """A simulation whose evictions are checked.

    Attributes:
        deleted_by_owners: pods that their owners have deleted before they were evicted.
        unbacked_nominations: nominations of which the leader had no record a little later.
    """

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.deleted_by_owners: set[str] = set()
        self.unbacked_nominations: list[str] = []
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        for value in range(100):
            self.cluster.create({**head, "metadata": {"name": f"p{value}"}, "value": value})
        self.cluster.store.subscribe(self._note_nomination)

    def nodes_named(self, name: str, cpu: int) -> None:
        """Create one more node."""
        self.create(a_node(name).offers(cpu=cpu))

    def nodes(self, *cpus: int) -> None:
        """Create nodes ``n0`` … of so many CPUs."""
        self.create(*(a_node(f"n{n}").offers(cpu=cpu) for n, cpu in enumerate(cpus)))

    async def until_bound(self, name: str, node: str, within: float = 60) -> None:
        """Let time pass until a pod is on a node."""
        await self.until(lambda: self.exists(name) and self.node_of(name) == node, within=within)

    def budget(self, allowed: int, **labels: str) -> None:
        """A PodDisruptionBudget that lets so many pods go."""
        spec = {"selector": {"matchLabels": labels}, "minAvailable": 1}
        head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        self.cluster.create(
            {**head, "metadata": {"name": "b", "namespace": "default"}} | {"spec": spec}
        )
        status = {"status": {"disruptionsAllowed": allowed}}
        self.request("PATCH", f"{BUDGETS}/b/status", status, "application/merge-patch+json")

    # --- looking -----------------------------------------------------------------------------

    def exists(self, name: str) -> bool:
        """Whether there is a pod of that name."""
        return any(p["metadata"]["name"] == name for p in self.cluster.objects("pods"))

    def nominated(self, name: str) -> str:
        """The node a pod is nominated to, "" for none."""
        return str(self.pod(name)["status"].get("nominatedNodeName") or "")

    def evicted(self) -> list[str]:
        """Names of the pods that schedulers had deleted, in order; each incarnation once."""
        seen: dict[str, str] = {}
        for write in self.faults.applied(DELETES):
            uid = write.request.json["preconditions"]["uid"]
            seen.setdefault(uid, write.request.path.split("/")[-1])
        return list(seen.values())

    # --- what must hold ----------------------------------------------------------------------

    def check(self) -> None:
        """The invariants of every simulation, and those of evictions."""
        super().check()
        assert not self.unbacked_nominations, self.unbacked_nominations
        self._check_victims()
        self._check_events()

    def _check_victims(self) -> None:
        """By the log: the uid of each victim was given, its condition says why, and rightly so."""
        evictions = {
            write.request.json["preconditions"]["uid"] for write in self.faults.applied(DELETES)
        }
        pods: dict[str, Object] = {}
        for change in self.history:
            if change.resource != "/pods":
                continue
            uid = change.after["metadata"]["uid"]
            name = change.after["metadata"]["name"]
            began = change.after["metadata"].get("deletionTimestamp") or change.type == "DELETED"
            by_owner = name in self.deleted_by_owners and not _is_target(change.after)
            if began and uid in evictions and not by_owner:
                evictions.discard(uid)
                waiting = [p["spec"]["priority"] for p in pods.values() if _waits(p)]
                mine = change.after["spec"]["priority"]
                assert any(other > mine for other in waiting), f"{name} left for nobody"
                assert _is_target(change.after), f"{name} was not told why it had to leave"
            if change.type == "DELETED":
                pods.pop(uid, None)
            else:
                pods[uid] = change.after

    def _check_events(self) -> None:
        """No pod is evicted for one of equal or lower priority."""
        priority = {
            change.after["metadata"]["uid"]: change.after["spec"]["priority"]
            for change in self.history
            if change.resource == "/pods"
        }
        for write in self.faults.applied(EVENTS):
            event = write.request.json
            if event.get("reason") == "Preempted":
                victim, by = event["regarding"]["uid"], event["related"]["uid"]
                assert priority[victim] < priority[by], event

    def _note_nomination(self, change: Change) -> None:
        """Check a nomination a little later, when all that belongs to it is written."""
        if change.resource == "/pods" and change.type != "DELETED" and _nomination(change.after):
            uid = change.after["metadata"]["uid"]
            asyncio.get_running_loop().call_later(
                NOMINATION_CHECK_DELAY, self._check_nomination, uid, ""
            )

    def _check_nomination(self, uid: str, doubted: str) -> None:
        found = [p for p in self.cluster.objects("pods") if p["metadata"]["uid"] == uid]
        # Backwards: over days the log grows long, and most of it is of no interest.
        terms = (
            w.request.json["spec"]
            for w in reversed(self.faults.log)
            if w.applied and LEASES(w.request)
        )
        name = next(terms, {}).get("holderIdentity")
        leader = self.schedulers[name] if name in self.alive() else None
        if not found or leader is None or not leader.synced:
            return
        node = _nomination(found[0])
        mind = leader.engine._nominator.node_of(uid)
        if node and node != mind and not doubted:
            # A patch that takes it back may be lost and tried again, for half a minute.
            asyncio.get_running_loop().call_later(35.0, self._check_nomination, uid, node)
        elif node == doubted and node and node != mind:
            name = found[0]["metadata"]["name"]
            self.unbacked_nominations.append(f"{name} is nominated to {node}, in mind is {mind!r}")


def minimal_victims(
    sizes: Sequence[tuple[int, int]], room: int, wanted: int
) -> tuple[int, int, int] | None:
    """The least (top priority, sum of priorities, number) of victims that make room on a node.

    By trying all sets. ``sizes`` are (priority, cpu) of those that may go, ``room`` is what is
    free; None if all of them are too few, or nobody need go.
    """
    costs = [
        (max(p for p, _ in chosen), sum(2**31 + p for p, _ in chosen), len(chosen))
        for chosen in _subsets(sizes)
        if chosen and room + sum(cpu for _, cpu in chosen) >= wanted
    ]
    return min(costs, default=None)


def _subsets(items: Sequence[tuple[int, int]]) -> Iterable[list[tuple[int, int]]]:
    for mask in range(2 ** len(items)):
        yield [item for n, item in enumerate(items) if mask >> n & 1]


def _nomination(manifest: Object) -> str:
    if manifest["spec"].get("nodeName"):
        return ""
    return str((manifest.get("status") or {}).get("nominatedNodeName") or "")


def _waits(manifest: Object) -> bool:
    return not manifest["spec"].get("nodeName") and not manifest["metadata"].get(
        "deletionTimestamp"
    )


def _is_target(manifest: Object) -> bool:
    return any(
        (c["type"], c["status"], c.get("reason"))
        == ("DisruptionTarget", "True", "PreemptionByScheduler")
        for c in manifest["status"].get("conditions", [])
    )
