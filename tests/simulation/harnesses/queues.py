"""Simulates queues: no quota exceeded, no gang partially bound, no eviction against the rules.

It plays the owners of pods as well: a Deployment keeps so many, a training job that loses a pod
starts again as a whole.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from arranger.daemon.config.schema import Config, LeaderElectionConfig, QueueConfig
from arranger.embedded.storage.store import Change
from tests.builders import PodBuilder
from tests.faults.injector import BINDINGS, EVENTS
from tests.queueing import CARD, GPU, a_queue_manifest, gpu_node, priority_classes
from tests.simulation.harnesses.preemption import DELETES, PreemptionHarness
from tests.simulation.harnesses.simulation import Object

QUEUE = "scheduling.volcano.sh/queue-name"
SERVICE = "volcano.sh/service.type"
#: What a pod belongs to.
OWNER = "test/owner"

#: The arguments of docs/design/queues.md; and leases that cost little over days.
CONFIG = Config(
    leader_election=LeaderElectionConfig(
        resource_namespace="kube-system",
        lease_duration=3600,
        renew_deadline=1800,
        retry_period=600,
    ),
    queues=QueueConfig(
        over_commit_factor=2, card_unlimited_cpu_memory=True, preempt_within_queue=False
    ),
)


@dataclass(slots=True)
class Owner:
    """Keeps pods alive.

    Attributes:
        count: how many there shall be.
        make: a pod of that name; for a gang, with its life as a second argument.
        gang: whether they are a gang, all of which is needed.
        restarts: whether a gang that has lost a pod starts again.
    """

    name: str
    count: int
    make: Callable[[str, int], PodBuilder]
    gang: bool = False
    restarts: bool = True
    made: int = 0
    life: int = 0


class QueueHarness(PreemptionHarness):
    """A simulation whose queues are checked.

    Attributes:
        owners: by name.
        evictions: (when, owner) of every eviction by the scheduler.
    """

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        for manifest in priority_classes():
            self.cluster.create(manifest)
        self.owners: dict[str, Owner] = {}
        self.evictions: list[tuple[float, str]] = []
        self._due = False
        self._quota: dict[str, int] = {}
        self._used: Counter[str] = Counter()
        self.cluster.store.subscribe(self._account)

    def queues(self, inference: int = 8, training: int = 8) -> None:
        """The queues ``inference`` and ``training``, with these quotas of cards."""
        limits = {"cpu": 4, "memory": "4Gi"}
        for name, quota, priority in (
            ("inference", inference, 80000),
            ("training", training, 20000),
        ):
            self._quota[name] = quota
            self.cluster.create(
                a_queue_manifest(
                    name,
                    cards={CARD: quota},
                    priority=priority,
                    reclaimable=name == "training",
                    capability=limits,
                )
            )

    def gpu_nodes(self, count: int) -> None:
        """Nodes ``n0`` … of 8 cards."""
        self.create(*(gpu_node(f"n{n}").offers(memory="512Gi", pods=110) for n in range(count)))

    # --- owners ------------------------------------------------------------------------------

    def add_owner(self, owner: Owner) -> None:
        """Start an owner at work."""
        self.owners[owner.name] = owner
        self._reconcile_soon()

    def scale(self, name: str, count: int) -> None:
        """Ask for another number of pods."""
        self.owners[name].count = count
        self._reconcile_soon()

    def _reconcile_soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(0.5, self._reconcile)

    def _reconcile(self) -> None:
        self._due = False
        mine: dict[str, list[Object]] = {name: [] for name in self.owners}
        for pod in self.cluster.objects("pods"):
            owner = pod["metadata"].get("annotations", {}).get(OWNER)
            if owner in mine:
                mine[owner].append(pod)
        for name, owner in self.owners.items():
            (self._reconcile_gang if owner.gang else self._reconcile_deployment)(owner, mine[name])

    def _reconcile_deployment(self, owner: Owner, pods: list[Object]) -> None:
        living = [p for p in pods if not p["metadata"].get("deletionTimestamp")]
        for _ in range(owner.count - len(living)):
            self._create_pod(owner)
        # Those that wait go first, then the newest.
        living.sort(key=lambda p: (not p["spec"].get("nodeName"), _number(p)))
        for pod in living[owner.count :]:
            self.delete("pod", pod["metadata"]["name"], grace=1)

    def _reconcile_gang(self, owner: Owner, pods: list[Object]) -> None:
        living = [p for p in pods if not p["metadata"].get("deletionTimestamp")]
        if owner.made and len(living) < owner.count:
            for pod in living:
                self.delete("pod", pod["metadata"]["name"], grace=1)
        if not pods and (owner.restarts or not owner.made):
            owner.life += 1
            for _ in range(owner.count):
                self._create_pod(owner)

    def _create_pod(self, owner: Owner) -> None:
        owner.made += 1
        pod = owner.make(f"{owner.name}-{owner.made}", owner.life)
        self.create(pod.annotated({OWNER: owner.name}))

    # --- looking -----------------------------------------------------------------------------

    def running(self, owner: str) -> int:
        """How many pods of an owner are on nodes, and do not have to leave."""
        return sum(
            bool(pod["spec"].get("nodeName")) and not pod["metadata"].get("deletionTimestamp")
            for pod in self._pods_of(owner)
        )

    def waiting(self, owner: str) -> int:
        """How many pods of an owner have no node."""
        return sum(not pod["spec"].get("nodeName") for pod in self._pods_of(owner))

    def _pods_of(self, owner: str) -> list[Object]:
        pods = self.cluster.objects("pods")
        return [p for p in pods if p["metadata"].get("annotations", {}).get(OWNER) == owner]

    def used_cards(self) -> int:
        """Cards that are in use."""
        return self._used.total()

    def evicted_owners(self) -> Counter[str]:
        """Owner → how many of its pods were evicted."""
        return Counter(owner for _, owner in self.evictions)

    # --- what must hold ----------------------------------------------------------------------

    def _account(self, change: Change) -> None:
        """Every change of a pod as it happens: who uses how much, and who was evicted."""
        if change.resource != "/pods":
            return
        before = _cards(change.before) if change.before else 0
        after = _cards(change.after) if change.type != "DELETED" else 0
        notes = change.after["metadata"].get("annotations", {})
        queue = notes.get(QUEUE, "")
        self._used[queue] += after - before
        if after > before and queue in self._quota:
            assert self._used[queue] <= self._quota[queue], f"{queue} is over its quota"
        began = change.after["metadata"].get("deletionTimestamp") or change.type == "DELETED"
        ended = change.before and change.before["metadata"].get("deletionTimestamp")
        if began and not ended:
            if _is_victim(change.after):
                at = asyncio.get_running_loop().time()
                self.evictions.append((at, notes.get(OWNER, "")))
            if notes.get(OWNER) in self.owners:
                self._reconcile_soon()
        elif change.type == "DELETED" and notes.get(OWNER) in self.owners:
            self._reconcile_soon()

    def _check_victims(self) -> None:
        """The uid of each victim was given, and its condition says why."""
        meant = {
            write.request.json["preconditions"]["uid"] for write in self.faults.applied(DELETES)
        }
        gone = {c.after["metadata"]["uid"]: c.after for c in self.history if c.type == "DELETED"}
        assert all(_is_victim(gone[uid]) for uid in meant if uid in gone)

    def _check_events(self) -> None:
        """Inference takes from less important training, or where nobody has a priority."""
        pods = {c.after["metadata"]["uid"]: c.after for c in self.history if c.resource == "/pods"}
        told: set[str] = set()
        for write in self.faults.applied(EVENTS):
            event = write.request.json
            if event.get("reason") == "MaximumExecutionTimeExceeded":
                told.add(event["regarding"]["uid"])
            if event.get("reason") != "Preempted":
                continue
            victim, by = pods[event["regarding"]["uid"]], pods[event["related"]["uid"]]
            told.add(victim["metadata"]["uid"])
            assert (_service(victim), _service(by)) == ("training", "inference"), event
            mine, theirs = (pod["spec"].get("priority", 0) for pod in (victim, by))
            assert mine < theirs or mine == theirs == 0, event
        for write in self.faults.applied(DELETES):
            assert write.request.json["preconditions"]["uid"] in told, "a victim that was not told"

    def check_gangs(self) -> None:
        """By the history: gangs are bound whole or not at all, within ``max_bind_seconds``."""
        bound: dict[str, set[str]] = {}
        times = {w.request.json["metadata"]["uid"]: w.at for w in self.faults.applied(BINDINGS)}
        sizes: dict[str, int] = {}
        for change in self.history:
            if change.resource != "/pods":
                continue
            notes = change.after["metadata"].get("annotations", {})
            gang = notes.get("gang.scheduling.koordinator.sh/name")
            if not gang:
                continue
            sizes[gang] = int(notes["gang.scheduling.koordinator.sh/min-available"])
            if change.after["spec"].get("nodeName"):
                bound.setdefault(gang, set()).add(change.after["metadata"]["uid"])
        for gang, uids in bound.items():
            assert len(uids) == sizes[gang], f"{gang}: {len(uids)} of {sizes[gang]} were ever bound"
            at = [times[uid] for uid in uids]
            assert max(at) - min(at) <= self.max_bind_seconds, f"{gang} was bound in pieces"


def _cards(pod: Mapping[str, Object] | Object) -> int:
    """Cards that a pod uses where it is."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    containers = pod["spec"]["containers"]
    return sum(int(c.get("resources", {}).get("requests", {}).get(GPU, 0)) for c in containers)


def _service(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get(SERVICE, ""))


def _number(pod: Object) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _is_victim(pod: Object) -> bool:
    return any(
        (c["type"], c["status"]) == ("DisruptionTarget", "True")
        and c.get("reason") in ("PreemptionByScheduler", "MaximumExecutionTimeExceeded")
        for c in pod["status"].get("conditions", [])
    )
