"""A cluster at rest: nothing happens any more, and who waits has been tried long enough."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from tests.specification.premises import Premises
from tests.specification.trace import NODES, QUEUES, World
from tests.specification.vocabulary.bindings import Binding
from tests.specification.vocabulary.departures import Eviction
from tests.specification.vocabulary.gangs import gang_of
from tests.specification.vocabulary.manifests import (
    Object,
    is_leaving,
    labels_of,
    name_of,
    nominated_to,
    notes_of,
)
from tests.specification.vocabulary.occasions import rules_of
from tests.specification.vocabulary.queues import is_moved, job_of, path, queue_of
from tests.specification.vocabulary.reservations import RESERVATIONS, Reservation

GANGS = "arranger.io/gangs"
#: Who owns pods that are no gang for it.
_LOOSE = ("ReplicaSet", "StatefulSet", "DaemonSet")
#: Volumes that need not be bound.
_PLAIN = {"configMap", "secret", "emptyDir", "hostPath", "projected", "downwardAPI", "name"}


@dataclass(eq=False)
class Keeper:
    """A pod or a gang that waits, and is nominated to nodes.

    Attributes:
        gang: its Gang, if there is one.
        is_lone: whether it is no gang at all.
        nodes: those that it keeps.
    """

    name: str
    world: World
    gang: Object | None
    is_lone: bool
    nodes: set[str] = field(default_factory=set)

    @property
    def says_since_when(self) -> bool:
        """Whether it says since when it waits, or has no Gang that could."""
        return self.gang is None or bool((self.gang.get("status") or {}).get("waitingSince"))

    @property
    def somebody_leaves(self) -> bool:
        """Whether a pod is being deleted on one of its nodes."""
        there = (pod for node in self.nodes for pod in self.world.pods_on.get(node, {}).values())
        return any(is_leaving(pod) for pod in there)


@dataclass(eq=False)
class Rest:
    """The cluster, of which nothing need be unknown any more.

    Attributes:
        evictions: those that made room, as long as the taker waits.
        upheavals: (when, priority) of what may have taken a taker's room: a pod that came, or more
            than any priority for all else that changes where pods may be.
    """

    world: World
    premises: Premises
    evictions: Collection[Eviction]
    upheavals: Collection[tuple[float, float]]

    @cached_property
    def ours(self) -> list[Object]:
        """The pods that wait for one of our schedulers."""
        names, waiting = self.premises.scheduler_names, self.world.waiting.values()
        return [pod for pod in waiting if pod["spec"].get("schedulerName") in names]

    def keepers(self) -> Iterator[Keeper]:
        """Our pods and gangs that keep nodes which are there."""
        found: dict[str, Keeper] = {}
        for pod in self.ours:
            node, gang = nominated_to(pod), gang_of(pod)[0]
            if self.world.get(NODES, node) is None:
                continue
            name = f"gang {gang}" if gang else f"pod {name_of(pod)}"
            is_lone = not gang and job_of(self.world, pod) is None
            keeper = Keeper(name, self.world, self.world.get(GANGS, gang), is_lone)
            found.setdefault(name, keeper).nodes.add(node)
        yield from found.values()

    def nominated(self) -> Iterator[tuple[Object, str]]:
        """Whoever waits and is promised room on a node, with the node's name."""
        for pod in self.world.waiting.values():
            if node := nominated_to(pod):
                yield pod, node

    @property
    def date(self) -> float:
        """When it is, in seconds since 1970; not a number where nobody knows the date."""
        calendar = self.premises.calendar
        return float("nan") if calendar is None else calendar + self.world.now

    def on_reserved_nodes(self) -> Iterator[tuple[Object, str, Reservation]]:
        """Our pods that are not leaving, their nodes, and each Reservation that has these."""
        found = (Reservation(self.world, each) for each in self.world.of(RESERVATIONS).values())
        for kept in found:
            for name, node in self.world.of(NODES).items():
                if kept.window is None or kept.part or not kept.has(node):
                    continue
                for pod in self.world.pods_on.get(name, {}).values():
                    ours = pod["spec"].get("schedulerName") in self.premises.scheduler_names
                    if ours and not is_leaving(pod) and not is_moved(self.world, pod):
                        yield pod, name, kept

    # --- who waits ---------------------------------------------------------------------------

    @property
    def a_gang_waits(self) -> bool:
        """Whether any of ours does, so that room may be kept free for it."""
        return any(gang_of(pod)[0] for pod in self.ours)

    def who_needs_but_a_node(self) -> Iterator[Object]:
        """Our pods that wait and need no more: no volumes to be bound, no devices, no gang.

        Not where it is not known what queues use.
        """
        if self.world.of(QUEUES) and any(is_moved(self.world, p) for p in self.world.placed()):
            return
        for pod in self.ours:
            spec, owners = pod["spec"], pod["metadata"].get("ownerReferences") or ()
            kinds = {kind for volume in spec.get("volumes") or () for kind in volume}
            queues = path(self.world, queue_of(self.world, pod)) if self.world.of(QUEUES) else []
            if (
                kinds <= _PLAIN
                and not spec.get("resourceClaims")
                and all(each["kind"] in _LOOSE for each in owners)
                and not any("card" in key for key in (*notes_of(pod), *labels_of(pod)))
                and not any(queue["spec"].get("affinity") for queue in queues)
            ):
                yield pod

    def find_node(self, pod: Object, *occasions: type[Binding]) -> str:
        """A node to which a pod may be bound by the rules of these occasions; "" for none."""
        of = (self.world, self._all_known, pod)
        for node in self.world.of(NODES):
            bindings = (occasion(*of, node, self.world.now, None) for occasion in occasions)
            broken = (rule(each) for each in bindings for rule in rules_of(type(each)))
            if not any(True for texts in broken for _ in texts):
                return node
        return ""

    @cached_property
    def _all_known(self) -> Premises:
        return replace(self.premises, notice=0.0, changing_nodes=set())

    # --- who has left ------------------------------------------------------------------------

    def evictions_in_vain(self) -> Iterator[tuple[Object, Object, float]]:
        """Victims whose takers wait still, those takers, and from when on others may have come."""
        for eviction in self.evictions:
            taker = eviction.taker
            if taker is not None and taker["metadata"]["uid"] in self.world.waiting:
                yield eviction.victim, taker, eviction.at - self.premises.notice

    def something_happened(self, since: float, priority: int) -> bool:
        """Whether something has happened since that may have taken the room of a priority."""
        return any(at >= since and level >= priority for at, level in self.upheavals)
