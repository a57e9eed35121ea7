"""All PodGroups, whether or not they have pods, and which of them defines a gang."""

from __future__ import annotations

from arranger.api.types.pod_groups import GANG_DEFINERS, AnyPodGroup
from arranger.gangs.gang import Gang


class PodGroupIndex:
    """PodGroups by name (``namespace/name``) and type."""

    def __init__(self) -> None:
        self._pod_groups: dict[str, dict[type[AnyPodGroup], AnyPodGroup]] = {}

    def __len__(self) -> int:
        return len(self._pod_groups)

    def get(self, kind: type[AnyPodGroup], name: str) -> AnyPodGroup | None:
        """The PodGroup of that type and name."""
        return self._pod_groups.get(name, {}).get(kind)

    def set(self, pod_group: AnyPodGroup) -> None:
        """A PodGroup was added or edited."""
        self._pod_groups.setdefault(pod_group.key, {})[type(pod_group)] = pod_group

    def remove(self, kind: type[AnyPodGroup], name: str) -> None:
        """A PodGroup was deleted."""
        named = self._pod_groups.pop(name, {})
        named.pop(kind, None)
        if named:
            self._pod_groups[name] = named

    def changes_owner_fields(self, pod_group: AnyPodGroup) -> bool:
        """Whether a PodGroup is new, or differs from before in more than its status."""
        before = self.get(type(pod_group), pod_group.key)
        return before is None or _owner_fields(before) != _owner_fields(pod_group)

    def changes_rules(self, pod_group: AnyPodGroup) -> bool:
        """Whether it is new, or says otherwise of its queue, or by annotations."""
        before = self.get(type(pod_group), pod_group.key)
        return before is None or rules_of(before) != rules_of(pod_group)

    def find(self, gang: Gang) -> AnyPodGroup | None:
        """The first PodGroup of the gang's name whose type a member names, or that any may."""
        if not (named := self._pod_groups.get(gang.name)):
            return None
        for kind in GANG_DEFINERS:
            found = named.get(kind)
            if found and (gang.pod_group_types[kind] or gang.pod_group_types[None]):
                return found
        return None


def rules_of(pod_group: AnyPodGroup) -> tuple[object, ...]:
    """What a PodGroup says that decides its queue, and who of it may be evicted."""
    return getattr(pod_group.spec, "queue", ""), pod_group.metadata.annotations


def _owner_fields(pod_group: AnyPodGroup) -> tuple[object, ...]:
    """The parts of a PodGroup that its owner edits."""
    return pod_group.spec, pod_group.metadata.annotations
