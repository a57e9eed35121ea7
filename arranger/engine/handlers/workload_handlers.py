"""What the watches of workloads deliver: owners whose pods are gangs because of them, or some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from arranger.api.settings.gang_membership import GangMembership
from arranger.api.types.core import Pod
from arranger.api.types.workloads import Workload
from arranger.engine.handlers.gang_handlers import GangHandlers
from arranger.engine.handlers.owned_pods import OwnedPods
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.engine.handlers.workload_gangs import WorkloadGangs
from arranger.gangs.workloads.kinds import WorkloadKind

#: Pods that are looked at in one run of the engine, some 10 ms; and in the handling of an event.
LOOKED_AT: Final = 128
AT_ONCE: Final = 16


@dataclass(slots=True, eq=False)
class WorkloadHandlers:
    """Notes what owners say of their pods and of the gangs of these, and looks again at them."""

    _workloads: WorkloadGangs
    _gangs: GangHandlers
    _pods: PodHandlers
    _lone_pods: OwnedPods
    #: uids of the pods that are to be looked at again.
    _due: dict[str, None] = field(default_factory=dict, init=False)

    @property
    def kinds(self) -> tuple[WorkloadKind, ...]:
        """The kinds that are to be read."""
        return self._workloads.index.kinds

    def on_updated(self, kind: WorkloadKind, owner: Workload, now: float) -> None:
        """An owner appeared or was edited."""
        self._note(self._workloads.index.set_owner(kind, owner), now)

    def on_deleted(self, kind: WorkloadKind, owner: Workload, now: float) -> None:
        """An owner was deleted; its pods wait until they are deleted, too."""
        self._workloads.forget_owner(owner.metadata.uid)
        self._note(self._workloads.index.remove_owner(kind, owner), now)

    def on_served(self, kind: WorkloadKind, now: float, *, served: bool) -> None:
        """The server has said whether it serves a kind; its objects are told of after that."""
        self._note(self._workloads.index.set_served(kind, served=served), now)

    @property
    def ready(self) -> bool:
        """Whether there is more to look at."""
        return bool(self._due)

    def advance(self, now: float) -> None:
        """Look at some pods; where that raises, it is done again."""
        self._look_at(list(islice(self._due, LOOKED_AT)), now)

    def _note(self, concerned: Iterable[Pod], now: float) -> None:
        """Look again at pods: at the first of them at once, as what raises there is the owner's."""
        uids = dict.fromkeys(pod.metadata.uid for pod in concerned)
        self._due.update(uids)
        self._look_at(list(islice(uids, AT_ONCE)), now)

    def _look_at(self, uids: list[str], now: float) -> None:
        index = self._workloads.index
        claims: list[tuple[Pod, GangMembership | None]] = []
        for pod in filter(None, map(index.pod, uids)):
            before = index.settings_of(pod.metadata.uid)
            claims.append((pod, self._workloads.membership_of(pod)))
            if index.settings_of(pod.metadata.uid) != before:
                self._lone_pods.note_pods((pod.metadata.uid,))
        for gang in dict.fromkeys(claim.gang for _, claim in claims if claim is not None):
            group = index.group_of(gang)
            if group is not None:
                self._gangs.on_workload_group_updated(group, now)
        if uids:
            self._pods.regroup(claims, now)
        for uid in uids:
            del self._due[uid]
