"""What the watches of workloads deliver: the owners whose pods are gangs because of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from arranger.api.types.core import Pod
from arranger.api.types.workloads import Workload
from arranger.engine.handlers.gang_handlers import GangHandlers
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.engine.handlers.workload_gangs import WorkloadGangs
from arranger.gangs.workloads.index import OwnerKey
from arranger.gangs.workloads.kinds import WorkloadKind


@dataclass(slots=True, eq=False)
class WorkloadHandlers:
    """Notes what owners say of the gangs of their pods, and looks again at these."""

    _workloads: WorkloadGangs
    _gangs: GangHandlers
    _pods: PodHandlers
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
        note: Callable[[WorkloadKind, Workload], Iterable[Pod]],
        kind: WorkloadKind,
        owner: Workload,
        now: float,
    ) -> None:
        """Note an owner, and look again at its pods; at all of them where that raised before."""
        key = OwnerKey(kind, owner.metadata.namespace, owner.metadata.name)
        again = key in self._unfinished
        self._unfinished.add(key)
        concerned = note(kind, owner)
        self._look_again(self._workloads.index.pods_of(key) if again else concerned, now)
        self._unfinished.discard(key)

    def _look_again(self, pods: Iterable[Pod], now: float) -> None:
        claims = [(pod, self._workloads.membership_of(pod)) for pod in pods]
        for gang in dict.fromkeys(claim.gang for _, claim in claims if claim is not None):
            group = self._workloads.index.group_of(gang)
            if group is not None:
                self._gangs.on_workload_group_updated(group, now)
        self._pods.regroup(claims, now)
