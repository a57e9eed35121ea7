"""What an attempt rests on beside the pods on nodes: where that changes, it begins anew."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from arranger.cluster.cluster import Cluster
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.spared_pods import SparedPods
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.pod.planned_room import PlannedRoom


@dataclass(frozen=True, slots=True)
class AttemptBasis:
    """Members and settings, nodes, objects that plugins look at, plans for others, and whom nobody
    evicts.

    Not what others change all the time: images of nodes, their own Services, and volumes where no
    member has any.
    """

    _cluster: Cluster
    _holds: GangHolds
    _planned_room: PlannedRoom
    _spared: SparedPods

    def of(self, entity: QueuedEntity) -> tuple[Hashable, ...]:
        """Another one whenever an attempt for the group has to begin anew."""
        cluster, group = self._cluster, entity.gang_group
        objects, members = cluster.objects, entity.members.values()
        return (
            entity.revision,
            tuple(gang.settings for gang in group.gangs),
            tuple(member.uid for member in self._holds.members_of(entity)),
            cluster.table.nodes_version,
            tuple(map(objects.version_for, sorted(group.namespaces))),
            any(member.pod.volumes for member in members) and objects.storage_version,
            tuple((plan.key, plan.nodes) for plan in self._planned_room.plans.values()),
            self._spared.version,
        )
