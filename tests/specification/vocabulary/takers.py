"""Takers: pods and gangs that wait, of which it can be said whether they have room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.specification.trace import PODS, QUEUES
from tests.specification.vocabulary.gangs import Gang, gang_of, group_of
from tests.specification.vocabulary.manifests import Object, is_leaving, nominated_to, notes_of
from tests.specification.vocabulary.might_have import Taker, gangs_of
from tests.specification.vocabulary.reservations import RESERVATIONS
from tests.specification.vocabulary.rest import Rest

#: What a gang, or its PodGroup, says of its nodes.
_TOPOLOGY = "arranger.io/topology"


@dataclass(eq=False)
class Takers(Rest):
    """The cluster at rest, and who waits in it."""

    def plain_takers(self) -> Iterator[Taker]:
        """Those that need no more than nodes, for which nobody else waits and that nobody leaves.

        Where there are neither queues nor Reservations.
        """
        if self.world.of(QUEUES) or self.world.of(RESERVATIONS):
            return
        for pods in self._that_start_together():
            taker = Taker(self.world, self.premises, pods)
            if (
                not any(map(nominated_to, pods))
                and not any(map(is_leaving, taker.occupants))
                and not taker.has_rivals
            ):
                yield taker

    def _that_start_together(self) -> Iterator[list[Object]]:
        plain = {pod["metadata"]["uid"]: pod for pod in self.who_needs_but_a_node()}
        waiting, gangs = defaultdict[str, list[Object]](list), self._gangs()
        for pod in self.world.waiting.values():
            if name := gang_of(pod)[0]:
                waiting[name].append(pod)
            elif pod["metadata"]["uid"] in plain and not _is_gated(pod):
                yield [pod]
        for name, pods in waiting.items():
            if all(pod["metadata"]["uid"] in plain for pod in pods):
                yield from self._of_gang(gangs[name], pods)

    def _of_gang(self, gang: Gang, pods: list[Object]) -> Iterator[list[Object]]:
        """What a gang lacks: all that it needs, or each by itself where it needs nobody."""
        needs = gang.needs(self.world)
        if not needs and not any(map(_needs_nobody, self._groups_of(pods))):
            return
        if (
            any(map(_is_gated, pods))
            or any(_TOPOLOGY in notes_of(each) for each in (*pods, *self._groups_of(pods)))
            or gang.partners(self.world)
            or len(gang.members) != len(pods)
        ):
            return
        if not any(needs.values()):
            yield from ([pod] for pod in pods)
        elif needs == {"": len(pods)}:
            yield pods

    def _groups_of(self, pods: list[Object]) -> Iterator[Object]:
        groups = (group_of(self.world, pod) for pod in pods)
        return (group for group in groups if group is not None)

    def _gangs(self) -> dict[str, Gang]:
        """All gangs, with the members that have ended."""
        return gangs_of(self.world, self.world.of(PODS).values())


def _needs_nobody(group: Object) -> bool:
    return "basic" in (group["spec"].get("schedulingPolicy") or {})


def _is_gated(pod: Object) -> bool:
    return bool(pod["spec"].get("schedulingGates"))
