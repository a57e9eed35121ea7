"""What an attempt rests on beside the pods on nodes: where that changes, it begins anew."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from arranger.api.types.storage import PersistentVolumeClaim
from arranger.cluster.cluster import Cluster
from arranger.cluster.object_store import ObjectStore
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.spared_pods import SparedPods
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.pod.planned_room import PlannedRoom


@dataclass(frozen=True, slots=True)
class AttemptBasis:
    """Members and settings, nodes, objects that plugins look at, plans for others, and whom nobody
    evicts.

    Not what others change all the time: images of nodes, their own Services, and volumes. What has
    become of a volume that was chosen for a member is seen when it is reserved again.
    """

    _cluster: Cluster
    _holds: GangHolds
    _planned_room: PlannedRoom
    _spared: SparedPods

    def of(self, entity: QueuedEntity) -> tuple[Hashable, ...]:
        """Another one whenever an attempt for the group has to begin anew."""
        cluster, group = self._cluster, entity.gang_group
        objects, claims = cluster.objects, tuple(_claims_of(entity, cluster.objects))
        return (
            entity.revision,
            tuple(gang.settings for gang in group.gangs),
            tuple(member.uid for member in self._holds.members_of(entity)),
            cluster.table.nodes_version,
            tuple(map(objects.version_for, sorted(group.namespaces))),
            claims,
            bool(claims) and objects.storage_rules_version,
            tuple((plan.key, plan.nodes) for plan in self._planned_room.plans.values()),
            self._spared.version,
        )


def _claims_of(entity: QueuedEntity, objects: ObjectStore) -> Iterator[str | None]:
    """The versions of the claims that members use; None for one that is not there."""
    for member in entity.members.values():
        for namespace, name in member.pod.pvc_keys:
            claim = objects.get(PersistentVolumeClaim, namespace, name)
            yield None if claim is None else claim.metadata.resource_version
