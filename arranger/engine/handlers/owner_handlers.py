"""What the watches of owners deliver: what Deployments and others say about their pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from arranger.api.types.core import ObjectMeta
from arranger.api.types.workloads import AnyOwner
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.handlers.owned_pods import OwnedPods
from arranger.quota.ledger import QuotaLedger
from arranger.quota.pod_owners import PodOwners


@dataclass(slots=True, eq=False)
class OwnerHandlers:
    """Notes what owners say, and looks again at their pods when that has changed."""

    _context: EngineContext
    _owners: PodOwners
    _ledger: QuotaLedger
    _pods: OwnedPods
    #: uids of owners at whose pods not all of a look was taken, as it raised.
    _unfinished: set[str] = field(default_factory=set, init=False)

    def on_updated(self, owner: AnyOwner, now: float) -> None:
        """An owner appeared or was edited."""
        self._follow(self._owners.set, owner.metadata, now)

    def on_deleted(self, owner: AnyOwner, now: float) -> None:
        """An owner was deleted."""
        self._follow(self._owners.remove, owner.metadata, now)

    def _follow(self, note: Callable[[ObjectMeta], bool], owner: ObjectMeta, now: float) -> None:
        """Note an owner, and look again at its pods if that changes anything, or raised before."""
        again = owner.uid in self._unfinished
        self._unfinished.add(owner.uid)
        if note(owner) or again:
            self._reconsider(owner, now)
        self._unfinished.discard(owner.uid)

    def _reconsider(self, owner: ObjectMeta, now: float) -> None:
        """Look again at the pods below an owner, which are of its namespace."""
        cluster, pods = self._context.cluster, self._context.pods
        namespace, uid = owner.namespace, owner.uid
        placed = map(cluster.pod, self._ledger.placed.in_namespace(namespace))
        below = [p.uid for p in placed if p and self._owners.is_owned_by(p.pod.metadata, uid)]
        metas = ((member, member.pod.pod.metadata) for member in pods.values())
        waiting = [
            member
            for member, meta in metas
            if meta.namespace == namespace and self._owners.is_owned_by(meta, uid)
        ]
        self._pods.look_again(below, waiting, now)
