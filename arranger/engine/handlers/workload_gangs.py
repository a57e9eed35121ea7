"""The gangs of pods that are one because of what owns them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from arranger.api.settings.gang_membership import GangMembership, gang_membership
from arranger.api.settings.gang_settings import pod_group_settings
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import WorkloadGroup
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.handlers.initial_objects import InitialObjects
from arranger.gangs.registry import GangRegistry
from arranger.gangs.workloads.index import WorkloadIndex


@dataclass(slots=True, eq=False)
class WorkloadGangs:
    """Finds the gang of a pod by its owner, and has the registry know what defines it.

    Attributes:
        index: the pods that a listed kind owns, and the owners.
    """

    _initial: InitialObjects
    _context: EngineContext
    _registry: GangRegistry
    index: WorkloadIndex
    #: uid of an owner → what of it was told to be unusable.
    _published: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)

    def membership_of(self, pod: Pod) -> GangMembership | None:
        """The gang of a pod: of its own word, else because of its owner."""
        own, meta = gang_membership(pod), pod.metadata
        if not self.index.concerns(meta):
            return own
        if own is not None:
            self.index.forget_pod(meta.uid, moved=True)
            return own
        membership = self.index.membership_of(pod, listed=self._initial.being_handed_on)
        if meta.uid in self.index:
            self._publish_problems(meta.uid, "" if membership is None else membership.gang)
        return membership

    def define(self, gangs: Iterable[str]) -> set[str]:
        """Have the registry know what owners say of gangs; returns those that this changes."""
        changed: set[str] = set()
        for gang in gangs:
            group = self.index.group_of(gang)
            if group is not None and self._registry.changes_owner_fields(group):
                changed |= self._registry.on_pod_group_updated(group)
        for gang in self.index.take_undefined():
            changed |= self._registry.on_pod_group_deleted(WorkloadGroup, gang)
        return changed

    def forget_pod(self, uid: str) -> None:
        """A pod is gone."""
        if uid in self.index:
            self.index.forget_pod(uid)
            self.define(())

    def forget_owner(self, uid: str) -> None:
        """An owner is gone, and what was told of it."""
        self._published.pop(uid, None)

    def _publish_problems(self, pod: str, gang: str) -> None:
        """Tell an owner what of it cannot be used, each state of it once."""
        found, group = self.index.problems_of(pod), self.index.group_of(gang)
        if found is None:
            return
        owner, namespace, problems = found
        if group is not None and group.metadata.annotations:
            settings: list[str] = []
            pod_group_settings(group, settings)
            problems = (*problems, *settings)
        if problems == self._published.get(owner.uid, ()):
            return
        self._published[owner.uid] = problems
        if problems:
            event = pod_events.invalid_workload(owner, namespace, problems)
            self._context.outbox.append(event)
        else:
            del self._published[owner.uid]
