"""What the watches of workloads deliver: owners whose pods are gangs because of them, or some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from arranger.api.types.core import Pod
from arranger.api.types.workloads import Workload
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.handlers.gang_handlers import GangHandlers
from arranger.engine.handlers.owned_pods import OwnedPods
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.engine.handlers.workload_gangs import WorkloadGangs
from arranger.gangs.workloads.kinds import WorkloadKind
from arranger.gangs.workloads.known_owner import OwnerKey


@dataclass(slots=True, eq=False)
class WorkloadHandlers:
    """Notes what owners say of their pods and of the gangs of these, and looks again at them."""

    _workloads: WorkloadGangs
    _gangs: GangHandlers
    _pods: PodHandlers
    _context: EngineContext
    _lone_pods: OwnedPods
    #: Owners at whose pods not all of a look was taken, as it raised.
    _unfinished: set[OwnerKey] = field(default_factory=set, init=False)

    @property
    def kinds(self) -> tuple[WorkloadKind, ...]:
        """The kinds that are to be read."""
        return self._workloads.index.kinds

    def on_updated(self, kind: WorkloadKind, owner: Workload, now: float) -> None:
        """An owner appeared or was edited."""
        self._follow(self._workloads.index.set_owner, kind, owner, now)

    def on_deleted(self, kind: WorkloadKind, owner: Workload, now: float) -> None:
        """An owner was deleted; its pods wait until they are deleted, too."""
        self._workloads.forget_owner(owner.metadata.uid)
        self._follow(self._workloads.index.remove_owner, kind, owner, now)

    def on_served(self, kind: WorkloadKind, now: float, *, served: bool) -> None:
        """The server has said whether it serves a kind; its objects are told of after that."""
        self._look_again(self._workloads.index.set_served(kind, served=served), now)

    def _follow(
        self,
        note: Callable[[WorkloadKind, Workload], Sequence[Pod]],
        kind: WorkloadKind,
        owner: Workload,
        now: float,
    ) -> None:
        """Note an owner, and look again at its pods; at all of them where that raised before."""
        key = OwnerKey(kind, owner.metadata.namespace, owner.metadata.name)
        again = key in self._unfinished
        self._unfinished.add(key)
        concerned = note(kind, owner)
        if again:
            concerned = self._workloads.index.pods_of(key)
        self._look_again(concerned, now, again=again)
        self._unfinished.discard(key)

    def _look_again(self, pods: Sequence[Pod], now: float, *, again: bool = False) -> None:
        index = self._workloads.index
        before = {uid: index.settings_of(uid) for uid in (pod.metadata.uid for pod in pods)}
        claims = [(pod, self._workloads.membership_of(pod)) for pod in pods]
        for gang in dict.fromkeys(claim.gang for _, claim in claims if claim is not None):
            group = index.group_of(gang)
            if group is not None:
                self._gangs.on_workload_group_updated(group, now)
        self._pods.regroup(claims, now)
        told = [uid for uid, said in before.items() if again or index.settings_of(uid) != said]
        if told:
            cluster, known = self._context.cluster, self._context.pods
            placed = [uid for uid in told if uid in cluster]
            self._lone_pods.look_again(placed, [known[uid] for uid in told if uid in known], now)
