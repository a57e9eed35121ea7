"""Drives a registry of gangs, and the pods of small gangs."""

from __future__ import annotations

from arranger.api.settings.gang_membership import gang_membership
from arranger.api.types.pod_groups import AnyPodGroup, SigsPodGroup
from arranger.gangs.gang import Gang
from arranger.gangs.registry import GangRegistry
from tests.builders import PodBuilder, PodGroupBuilder, a_pod


class RegistryHarness:
    """A registry that is checked after everything it hears."""

    def __init__(self) -> None:
        self.registry = GangRegistry()

    def see(self, *pods: PodBuilder) -> set[str]:
        return self._all(
            self.registry.on_pod_updated(pod.build(), gang_membership(pod.build())) for pod in pods
        )

    def see_gone(self, *pods: PodBuilder) -> set[str]:
        return self._all(self.registry.on_pod_deleted(uid_of(pod)) for pod in pods)

    def define(self, group: PodGroupBuilder, kind: type[AnyPodGroup] = SigsPodGroup) -> set[str]:
        return self._all([self.registry.on_pod_group_updated(group.build(kind))])

    def undefine(self, name: str, kind: type[AnyPodGroup] = SigsPodGroup) -> set[str]:
        return self._all([self.registry.on_pod_group_deleted(kind, f"default/{name}")])

    def bound(self, *pods: PodBuilder) -> set[str]:
        return self._all(self.registry.mark_bound(uid_of(pod)) for pod in pods)

    def recall(self, name: str) -> set[str]:
        return self._all([self.registry.mark_previously_satisfied(name)])

    def gang(self, name: str = "default/g") -> Gang:
        return self.registry.gangs[name]

    def group(self, name: str) -> tuple[list[str], tuple[str, ...]]:
        """Who is in the group of a gang, and who does not answer."""
        group = self.registry.group_of(self.gang(name))
        return [gang.name for gang in group.gangs], group.missing_partners

    def _all(self, answers: object) -> set[str]:
        changed: set[str] = set()
        for names in answers:  # type: ignore[attr-defined]
            self.registry.check_consistent()
            changed |= names
        return changed


def uid_of(pod: PodBuilder) -> str:
    return str(pod.manifest()["metadata"]["uid"])


def gang(name: str, size: int, least: int | None = None, **more: str) -> list[PodBuilder]:
    return [a_pod(f"{name}-{n}").in_gang(name, least, **more) for n in range(size)]


def member(name: str, groups: str, namespace: str = "default") -> PodBuilder:
    """The only pod of a gang that names others."""
    return a_pod(f"{name}-0").in_gang(name, 1, groups=groups).in_namespace(namespace)


def in_pod_group(size: int, label: str = "pod-group.scheduling.sigs.k8s.io") -> list[PodBuilder]:
    return [a_pod(f"g-{n}").in_pod_group("g", label=label) for n in range(size)]
