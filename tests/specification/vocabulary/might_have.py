"""What might have been: worlds in which some have left and others have come in their place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

from tests.specification.premises import Premises
from tests.specification.trace import NODES, PODS, World
from tests.specification.vocabulary.bindings import Binding
from tests.specification.vocabulary.gangs import Gang, gang_of, member, stands
from tests.specification.vocabulary.manifests import (
    Object,
    is_leaving,
    name_of,
    node_of,
    priority_of,
    untolerated,
    wants_node,
)
from tests.specification.vocabulary.occasions import rules_of
from tests.specification.vocabulary.queues import Standing, is_moved

#: Whether a taker may have the place of another.
MayHave = Callable[[Standing, Standing], bool]
#: So many sets of victims are looked at; where there are more candidates nothing is said.
_MOST_CANDIDATES = 8
#: Seconds for which those who may have to leave are as they are before that is judged.
_STEADY = 1.0


def gangs_of(world: World, pods: Iterable[Object]) -> dict[str, Gang]:
    """The gangs that pods are in, with these alone as members."""
    found: dict[str, Gang] = {}
    for pod in pods:
        name, dialect = gang_of(pod)
        if name:
            gang = found.setdefault(name, Gang(name))
            gang.put(pod["metadata"]["uid"], member(pod, dialect))
    return found


def without(world: World, uids: Collection[str]) -> World:
    """The world once these pods have left."""
    on = {
        node: {uid: pod for uid, pod in pods.items() if uid not in uids}
        for node, pods in world.pods_on.items()
    }
    apart = {uid: pod for uid, pod in world.apart.items() if uid not in uids}
    return replace(world, pods_on=on, apart=apart)


def copy_of(world: World) -> World:
    """The world as it is now; its objects are never changed."""
    objects = {resource: dict(each) for resource, each in world.objects.items()}
    on = {node: dict(pods) for node, pods in world.pods_on.items()}
    more = {name: dict(getattr(world, name)) for name in ("apart", "waiting", "asked", "changed")}
    return replace(world, objects=objects, pods_on=on, gone=dict(world.gone), **more)


@dataclass(eq=False)
class Taker:
    """Pods that wait together: one, or those that a gang lacks."""

    world: World
    premises: Premises
    pods: Sequence[Object]

    @property
    def name(self) -> str:
        """For a sentence about it."""
        gang = gang_of(self.pods[0])[0]
        return f"gang {gang}" if gang else name_of(self.pods[0])

    @cached_property
    def nodes(self) -> list[str]:
        """Those that any of it may be on by its selector and its tolerations."""
        return [
            name
            for name, node in sorted(self.world.of(NODES).items())
            if any(
                wants_node(pod, node) and not any(True for _ in untolerated(pod, node))
                for pod in self.pods
            )
        ]

    @cached_property
    def occupants(self) -> list[Object]:
        """The pods on these nodes."""
        there = (self.world.pods_on.get(node, {}) for node in self.nodes)
        return [pod for pods in there for pod in pods.values()]

    @property
    def has_rivals(self) -> bool:
        """Whether others wait for any of its nodes."""
        mine = {pod["metadata"]["uid"] for pod in self.pods}
        nodes = [self.world.of(NODES)[name] for name in self.nodes]
        return any(
            wants_node(pod, node) and not any(True for _ in untolerated(pod, node))
            for uid, pod in self.world.waiting.items()
            if uid not in mine
            for node in nodes
        )

    def may_have_places_of(self, may: MayHave) -> list[Object]:
        """Those on its nodes whose place all of it may have, with all of their gangs."""
        if len({priority_of(pod) for pod in self.pods}) > 1:
            return []
        mine = Standing(self.world, self.premises, self.pods[0])
        known = (p for p in self.occupants if not is_moved(self.world, p))
        found = [p for p in known if may(mine, Standing(self.world, self.premises, p))]
        uids = {pod["metadata"]["uid"] for pod in found}
        held = {
            gang_of(pod)[0]
            for pod in self.world.placed()
            if stands(pod) and pod["metadata"]["uid"] not in uids
        }
        return [pod for pod in found if gang_of(pod)[0] not in held - {""}]

    def fits(self, left: Collection[str], occasions: Sequence[type[Binding]]) -> bool:
        """Whether all of it has room once these have left, by the rules of Bindings.

        One after the other, each on the first node that will do: it may have room where it is not
        found.
        """
        world = without(self.world, left)
        known = replace(self.premises, notice=0.0, changing_nodes=set())
        for pod in self.pods:
            node = next((n for n in self.nodes if _may(world, known, pod, n, occasions)), None)
            if node is None:
                return False
            placed = {**pod, "spec": {**pod["spec"], "nodeName": node}}
            world.pods_on.setdefault(node, {})[pod["metadata"]["uid"]] = placed
            world.apart[pod["metadata"]["uid"]] = placed
        return True


def _may(
    world: World, premises: Premises, pod: Object, node: str, occasions: Sequence[type[Binding]]
) -> bool:
    """Whether no rule of Bindings keeps a pod from a node."""
    bindings = (each(world, premises, pod, node, world.now, None) for each in occasions)
    return not any(True for each in bindings for rule in rules_of(type(each)) for _ in rule(each))


# --- who might have left instead ------------------------------------------------------------------


@dataclass(eq=False)
class Raid:
    """Pods that have left for one taker, and the world as it was before the first of them did.

    Attributes:
        taker: for whom, one pod of it, as an Event has told.
    """

    world: World
    premises: Premises
    at: float
    victims: list[Object]
    taker: Object

    @cached_property
    def whole_taker(self) -> Taker:
        """The pod, or what its gang lacked of its minimum, in a world that nobody is leaving."""
        gone = {pod["metadata"]["uid"] for pod in self.world.placed() if is_leaving(pod)}
        gang = gang_of(self.taker)[0]
        same = [pod for pod in self.world.waiting.values() if gang and gang_of(pod)[0] == gang]
        return Taker(without(self.world, gone), self.premises, same or [self.taker])

    @cached_property
    def is_plain(self) -> bool:
        """Whether nothing plays a part but requests, nodes and gangs, all known for a while."""
        taker, world = self.whole_taker, self.world
        gangs = gangs_of(world, taker.pods).values()
        needs = [gang.needs(world).get("", 0) for gang in gangs]
        victims = [*taker.occupants, *(world.of(NODES)[node] for node in taker.nodes)]
        return (
            not taker.has_rivals
            and not world.of("policy/poddisruptionbudgets")
            and not world.was_gone_since(self.at - _STEADY, PODS, NODES)
            and all(need == len(taker.pods) for need in needs)
            and not any(gang.partners(world) for gang in gangs_of(world, world.placed()).values())
            and all(
                self.at - world.changed.get((resource, name_of(each)), (float("-inf"), None))[0]
                >= _STEADY
                for each in victims
                for resource in (PODS if "nodeName" in each["spec"] else NODES,)
            )
        )

    def others(self, may: MayHave) -> Iterator[tuple[Object, ...]]:
        """Each set that might have left in their place; gangs leave whole, or keep their minimum.

        For a lone pod those of the same node alone: it looks at nodes one by one.
        """
        found = self.whole_taker.may_have_places_of(may)
        if not gang_of(self.taker)[0]:
            nodes = {node_of(pod) for pod in self.victims}
            found = [pod for pod in found if node_of(pod) in nodes]
        if len(found) > _MOST_CANDIDATES:
            return
        for size in range(len(self.victims) + 1):
            yield from combinations(found, size)

    def broken_by(self, left: Iterable[Object]) -> int | None:
        """How many gangs leave whole if these leave; None where one would be left in part."""
        uids = {pod["metadata"]["uid"] for pod in left}
        placed = [pod for pod in self.world.placed() if stands(pod)]
        before = gangs_of(self.world, placed)
        stay = gangs_of(self.world, (p for p in placed if p["metadata"]["uid"] not in uids))
        broken = 0
        for name, gang in before.items():
            if gang.members.keys().isdisjoint(uids) or not gang.has_its_minimum(self.world):
                continue
            if name not in stay:
                broken += 1
            elif not stay[name].has_its_minimum(self.world):
                return None
        return broken

    def most_important(self, left: Iterable[Object]) -> float:
        """The priority of the most important of some pods."""
        known = (Standing(self.world, self.premises, pod).importance for pod in left)
        return max(known, default=float("-inf"))


@dataclass(slots=True)
class RaidBook:
    """Who has left to make room, and for whom, as Events tell it."""

    premises: Premises
    #: Victim's uid → (when, the victim, the world before it).
    _left: dict[str, tuple[float, Object, World]] = field(default_factory=dict)
    _takers: dict[str, Object] = field(default_factory=dict)
    _last: tuple[float, World] | None = None

    def leaves(self, world: World, victim: Object, at: float) -> None:
        """A pod is about to leave."""
        if self._last is None or at - self._last[0] > _STEADY:
            self._last = at, copy_of(world)
        self._left[victim["metadata"]["uid"]] = at, victim, self._last[1]

    def told(self, victim: str, taker: Object) -> None:
        """An Event tells for whom."""
        self._takers.setdefault(victim, taker)

    def raids(self) -> Iterator[Raid]:
        """Those that left at once for the same taker; nothing is said where an Event is missing."""
        found: dict[tuple[int, str], Raid] = {}
        silent = {id(world) for uid, (_, _, world) in self._left.items() if uid not in self._takers}
        for uid, (at, victim, world) in self._left.items():
            if id(world) in silent:
                continue
            taker = self._takers[uid]
            key = id(world), gang_of(taker)[0] or taker["metadata"]["uid"]
            raid = Raid(world, self.premises, at, [], taker)
            found.setdefault(key, raid).victims.append(victim)
        yield from found.values()
