"""Tries all sets of victims of a small world, and all ways to place the taker then.

Who may be evicted for whom is written down here once more, as docs/design says it:

* without queues, who has a lower priority than every member of the taker;
* with queues, inside a queue the same, and across queues training for inference if the queue is
  reclaimable; nobody who is not preemptable, and no other queue falls below its guarantee;
* across queues of no service type, by what they deserve (or are guaranteed, if that is more): the
  taker's has no more than that with it, of all that the taker wants, and the other keeps at least
  that of something the victim has; queues that both are part of do not count;
* of a gang those beyond its minimum, counted by role and in all, or all of it; gangs of one group
  break together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

from tests.differential.gang_preemption.world import Gang, Node, Pod, Queue, World

#: See :meth:`BruteForce.cost`; less is better.
Cost = tuple[int, tuple[int, int], int, int, int]
Victims = frozenset[str]
NOBODY: Victims = frozenset()
#: What is left on each node: cpu, cards and the host ports in use.
Free = dict[str, tuple[int, int, frozenset[int]]]


@dataclass(frozen=True)
class BruteForce:
    """Answers about one world."""

    world: World

    @cached_property
    def pods(self) -> dict[str, Pod]:
        return {pod.name: pod for pod in self.world.running}

    # --- who may leave -----------------------------------------------------------------------

    def is_evictable(self, pod: Pod) -> bool:
        """Whether every member of the taker may evict the pod."""
        return all(self._may_evict(member, pod) for member in self.world.taker.members)

    def _may_evict(self, member: Pod, pod: Pod) -> bool:
        lower = pod.priority < member.priority
        if not self.world.queues:
            return lower
        if not pod.preemptable:
            return False
        if member.queue == pod.queue:
            return lower
        queues = {queue.name: queue for queue in self.world.queues}
        mine, theirs = queues[member.queue], queues[pod.queue]
        if not (mine.service or theirs.service):
            return theirs.reclaimable and self._is_due(self._apart(mine, theirs))
        if (mine.service, theirs.service) != ("inference", "training") or not theirs.reclaimable:
            return False
        return lower or member.priority == pod.priority == 0

    def stands(self, gang: Gang, left: list[Pod]) -> bool:
        """Whether a gang has its minimum with these members."""
        roles = Counter(pod.role for pod in left)
        enough = all(roles[role] >= n for role, n in gang.roles.items())
        return enough and len(left) >= gang.minimum

    def groups(self) -> list[list[Gang]]:
        """The gangs that stand or fall together."""
        by_group: dict[str, list[Gang]] = {}
        for gang in self.world.gangs:
            by_group.setdefault(gang.group or gang.name, []).append(gang)
        return list(by_group.values())

    def members(self, gangs: list[Gang]) -> list[Pod]:
        names = {gang.name for gang in gangs}
        return [pod for pod in self.world.running if pod.gang in names]

    def ways_of(self, gangs: list[Gang]) -> list[Victims]:
        """Who of a group may leave together: what it can spare, or all of it."""
        members = self.members(gangs)
        evictable = [pod for pod in members if self.is_evictable(pod)]
        ways = [
            frozenset(pod.name for pod in leaving)
            for count in range(len(evictable) + 1)
            for leaving in combinations(evictable, count)
            if not self.breaks(gangs, frozenset(pod.name for pod in leaving))
        ]
        if members and len(evictable) == len(members):
            ways.append(frozenset(pod.name for pod in members))
        return list(dict.fromkeys(ways))

    def breaks(self, gangs: list[Gang], gone: Victims) -> bool:
        """Whether any gang of a group would not stand any more."""
        for gang in gangs:
            members = self.members([gang])
            left = [pod for pod in members if pod.name not in gone]
            if len(left) < len(members) and (gang.together or not self.stands(gang, left)):
                return True
        return False

    def guarantees_hold(self, gone: Victims) -> bool:
        """Whether no other queue that loses something has less than it is guaranteed then."""
        own = self.world.taker.members[0].queue
        for queue in (each for each in self.world.queues if each.name != own):
            theirs = [pod for pod in self.world.running if pod.queue == queue.name]
            for what, least in queue.guarantee.items():
                taken = sum(getattr(pod, what) for pod in theirs if pod.name in gone)
                left = sum(getattr(pod, what) for pod in theirs) - taken
                if taken and left < least:
                    return False
        return True

    # --- what queues deserve -----------------------------------------------------------------

    def _path(self, queue: Queue) -> list[Queue]:
        return [queue, *(each for each in self.world.queues if each.name == queue.parent)]

    def _apart(self, queue: Queue, other: Queue) -> list[Queue]:
        """What a queue is part of, and another is not; itself first."""
        return [each for each in self._path(queue) if each not in self._path(other)]

    def _used(self, queue: Queue, what: str, gone: Victims = NOBODY) -> int:
        parts = {q.name for q in self.world.queues if queue in self._path(q)}
        everybody = (*self.world.running, *self.world.taker.bound)
        there = (p for p in everybody if p.queue in parts and p.name not in gone)
        return sum(getattr(pod, what) for pod in there)

    def _wanted(self, what: str) -> int:
        """What those of the taker's members want that it needs, at most."""
        taker, needed = self.world.taker, 0 if self.world.taker.gangs else 1
        for gang in taker.gangs:
            roles = Counter(pod.role for pod in taker.bound if pod.gang == gang.name)
            by_role = sum(max(0, least - roles[role]) for role, least in gang.roles.items())
            needed += max(0, gang.minimum - roles.total(), by_role)
        return sum(sorted((getattr(m, what) for m in taker.members), reverse=True)[:needed])

    def _is_due(self, queues: list[Queue]) -> bool:
        """Whether queues have no more than they deserve with the taker, of what it wants."""
        found = [
            self._used(queue, what) + self._wanted(what) <= n
            for queue in queues
            for what, n in _due(queue).items()
            if self._wanted(what)
        ]
        return bool(found) and all(found)

    def shares_hold(self, gone: Victims) -> bool:
        """Whether queues that are taken from keep what they deserve of something they lose.

        Of that only what the taker wants counts, if the victim has any.
        """
        queues = {queue.name: queue for queue in self.world.queues}
        mine = queues.get(self.world.taker.members[0].queue)
        for victim in (self.pods[name] for name in gone):
            if mine is None or victim.queue == mine.name or mine.service:
                continue
            for queue in self._apart(queues[victim.queue], mine):
                deserved = [what for what in _due(queue) if getattr(victim, what)]
                shared = [what for what in deserved if self._wanted(what)] or deserved
                kept = (self._used(queue, what, gone) >= _due(queue)[what] for what in shared)
                if shared and not any(kept):
                    return False
        return True

    def is_legal(self, gone: Victims) -> bool:
        """Whether these pods, and nobody else, may be evicted for the taker."""
        if not all(self.is_evictable(self.pods[name]) for name in gone):
            return False
        for gangs in self.groups():
            members = frozenset(pod.name for pod in self.members(gangs))
            if self.breaks(gangs, gone & members) and not members <= gone:
                return False
        return self.guarantees_hold(gone) and self.shares_hold(gone)

    def legal_sets(self) -> Iterator[Victims]:
        """All sets of pods that may be evicted for the taker, the empty one included."""
        lone = [p for p in self.world.running if not p.gang and self.is_evictable(p)]
        ways = [self.ways_of(gangs) for gangs in self.groups()]
        ways += [[NOBODY, frozenset({pod.name})] for pod in lone]
        for choice in product(*ways):
            gone = NOBODY.union(*choice)
            if self.guarantees_hold(gone) and self.shares_hold(gone):
                yield gone

    def cost(self, gone: Victims) -> Cost:
        """The stated order, least first.

        Broken PodDisruptionBudgets, the most important victim, gang groups broken, pods evicted,
        and of the most important victims the later the oldest started, the better.
        """
        victims = [self.pods[name] for name in gone]
        apps = Counter(pod.app for pod in victims)
        broken_budgets = sum(max(0, apps[b.app] - b.allowed) for b in self.world.budgets)
        top = max(map(self.importance, victims), default=(-1, -1))
        oldest = min((pod.start for pod in victims if self.importance(pod) == top), default=0)
        broken = sum(self.breaks(gangs, gone) for gangs in self.groups())
        return broken_budgets, top, broken, len(victims), -oldest

    def importance(self, pod: Pod) -> tuple[int, int]:
        """That of its queue, then its own."""
        priorities = {queue.name: queue.priority for queue in self.world.queues}
        return priorities.get(pod.queue, 0), pod.priority

    # --- the answer --------------------------------------------------------------------------

    @cached_property
    def fits_now(self) -> bool:
        """Whether the taker fits and nobody has to leave."""
        return self.fits(NOBODY)

    @cached_property
    def best(self) -> Victims | None:
        """The legal set that costs least after which the taker fits; None if there is none.

        More room is never worse in these worlds, so nobody need look if all are too few.
        """
        everybody = frozenset(pod.name for pod in self.world.running if self.is_evictable(pod))
        if not self.fits(everybody):
            return None
        known: dict[object, bool] = {}
        for gone in sorted(self.legal_sets(), key=lambda gone: (self.cost(gone), sorted(gone))):
            shunned = tuple(self._is_shunned(node, gone) for node in self.world.nodes)
            left = tuple(self.free(gone).values()), tuple(self.quota_left(gone).items()), shunned
            if left not in known:
                known[left] = self.fits(gone)
            if known[left]:
                return gone
        return None

    # --- whether the taker fits --------------------------------------------------------------

    def free(self, gone: Victims) -> Free:
        """What is left on each node."""
        free: Free = {node.name: (node.cpu, node.cards, frozenset()) for node in self.world.nodes}
        for pod in (*self.world.running, *self.world.taker.bound):
            if pod.name not in gone:
                cpu, cards, ports = free[pod.node]
                used = ports | {pod.port} if pod.port else ports
                free[pod.node] = cpu - pod.cpu, cards - pod.cards, used
        return free

    def quota_left(self, gone: Victims) -> dict[str, int]:
        """What each limit of the taker's queue, and the guarantees of others, leave it."""
        name = self.world.taker.members[0].queue
        queue = next((queue for queue in self.world.queues if queue.name == name), None)
        others = (*self.world.running, *self.world.taker.bound)
        staying = [pod for pod in others if pod.name not in gone]
        if queue is None:
            return {}
        found: dict[str, int] = {}
        for what in ("cpu", "cards"):
            used = Counter[str]()
            for pod in staying:
                used[pod.queue] += getattr(pod, what)
            left = [queue.quota[what] - used[name]] if what in queue.quota else []
            if any(what in each.guarantee for each in self.world.queues):
                promised = {each.name: each.guarantee.get(what, 0) for each in self.world.queues}
                claims = sum(max(used[q], promised.get(q, 0)) for q in {*used, *promised} - {name})
                beside = sum(getattr(node, what) for node in self.world.nodes) - claims
                left.append(max(beside, promised[name]) - used[name])
            if left:
                found[what] = min(left)
        return found

    def fits(self, gone: Victims) -> bool:
        """Whether there is any way to place what the taker needs."""
        taker = self.world.taker
        free, left = self.free(gone), self.quota_left(gone)
        nodes = tuple(node for node in self.world.nodes if not self._is_shunned(node, gone))
        node_of = {node.name: node for node in self.world.nodes}
        placed = {pod.name: node_of[pod.node] for pod in taker.bound}
        if taker.topology != "required":
            return self._place(0, placed, free, left, nodes)
        zones = {node.zone for node in placed.values() or self.world.nodes} - {""}
        return any(
            self._place(0, placed, free, left, tuple(n for n in nodes if n.zone == zone))
            for zone in sorted(zones)
        )

    def _is_shunned(self, node: Node, gone: Victims) -> bool:
        """Whether no taker may be there, for who stays there."""
        away_from = self.world.taker.away_from
        return any(
            pod.shuns or (away_from and pod.app == away_from)
            for pod in self.world.running
            if pod.node == node.name and pod.name not in gone
        )

    def _place(
        self,
        number: int,
        placed: dict[str, Node],
        free: Free,
        left: dict[str, int],
        nodes: tuple[Node, ...],
    ) -> bool:
        """Give each member from ``number`` on a node, or none where it is not needed."""
        taker = self.world.taker
        if not self._can_be_enough(number, placed):
            return False
        if number == len(taker.members):
            return not taker.spread or self._is_spread(placed)
        pod = taker.members[number]
        tried: set[object] = set()
        for node in nodes if _within(pod, left) else ():
            cpu, cards, ports = free[node.name]
            if pod.cpu > cpu or pod.cards > cards or (pod.port and pod.port in ports):
                continue
            if taker.apart and node in placed.values():
                continue
            if (taker.spread and not node.zone) or (pod.zone and node.zone != pod.zone):
                continue
            alike = (cpu, cards, ports, node.zone)
            if alike in tried:
                continue
            tried.add(alike)
            taken = ports | {pod.port} if pod.port else ports
            now_free = {**free, node.name: (cpu - pod.cpu, cards - pod.cards, taken)}
            now_left = {what: n - getattr(pod, what) for what, n in left.items()}
            if self._place(number + 1, {**placed, pod.name: node}, now_free, now_left, nodes):
                return True
        return self._place(number + 1, placed, free, left, nodes)

    def _can_be_enough(self, number: int, placed: dict[str, Node]) -> bool:
        """Whether the minimum is reached if all members still to come get nodes."""
        members = self.world.taker.members
        return self.taker_stands(
            [m for n, m in enumerate(members) if m.name in placed or n >= number]
        )

    def taker_stands(self, members: Iterable[Pod]) -> bool:
        """Whether these members are enough, beside those that had nodes before."""
        those, gangs = [*self.world.taker.bound, *members], self.world.taker.gangs
        if not gangs:
            return bool(those)
        return all(self.stands(gang, [m for m in those if m.gang == gang.name]) for gang in gangs)

    def _is_spread(self, placed: dict[str, Node]) -> bool:
        zones = {node.zone for node in self.world.nodes} - {""}
        counts = Counter(node.zone for node in placed.values())
        return not zones or max(counts[z] for z in zones) - min(counts[z] for z in zones) <= 1


def _due(queue: Queue) -> dict[str, int]:
    """What a queue deserves, or is guaranteed if that is more."""
    whats = {*queue.deserved, *queue.guarantee}
    return {w: max(queue.deserved.get(w, 0), queue.guarantee.get(w, 0)) for w in sorted(whats)}


def _within(pod: Pod, left: dict[str, int]) -> bool:
    """Whether the limits have room for the pod; one that asks for nothing of a thing may go."""
    return all(not getattr(pod, what) or getattr(pod, what) <= n for what, n in left.items())
