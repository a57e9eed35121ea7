"""Small worlds in which somebody wants room that others have: plain data, made from a seed.

Neither this file nor :mod:`~tests.differential.gang_preemption.brute_force` knows anything of the
scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

LOW, HIGH = (0, 10, 20, 30), (20, 30, 40, 40)
ROLES = ("ps", "worker")


@dataclass(frozen=True)
class Node:
    """A node; ``zone`` is "" where it carries no such label."""

    name: str
    cpu: int
    cards: int = 0
    zone: str = ""


@dataclass(frozen=True)
class Pod:
    """A pod; ``start`` in seconds, ``port`` 0 for no host port, ``app`` what budgets select.

    ``zone`` is where it must be, if anywhere; beside one that ``shuns`` no taker may be.
    """

    name: str
    cpu: int
    cards: int = 0
    priority: int = 0
    gang: str = ""
    role: str = ""
    queue: str = ""
    node: str = ""
    start: int = 0
    app: str = ""
    port: int = 0
    preemptable: bool = True
    zone: str = ""
    shuns: bool = False


@dataclass(frozen=True)
class Gang:
    """A gang; those of one ``group`` stand or fall together.

    Attributes:
        roles: role → how many of its members must run.
        together: whether no member may be evicted without all others.
    """

    name: str
    minimum: int
    roles: Mapping[str, int] = field(default_factory=dict)
    group: str = ""
    together: bool = False


@dataclass(frozen=True)
class Budget:
    """Lets ``allowed`` pods with the label ``app`` go."""

    app: str
    allowed: int


@dataclass(frozen=True)
class Queue:
    """A queue of one service type, "" for none.

    ``quota``, ``guarantee`` and ``deserved`` by ``cpu`` and ``cards``; ``parent`` "" for none.
    """

    name: str
    service: str
    priority: int = 0
    reclaimable: bool = True
    quota: Mapping[str, int] = field(default_factory=dict)
    guarantee: Mapping[str, int] = field(default_factory=dict)
    deserved: Mapping[str, int] = field(default_factory=dict)
    parent: str = ""


@dataclass(frozen=True)
class Taker:
    """Who wants room: a gang, or a lone pod where ``gang`` is None.

    Attributes:
        topology: ``required`` or ``preferred`` for one zone, "" for none.
        apart: whether no two members may be on one node.
        spread: whether the zones may differ by one member at most.
        away_from: pods of this ``app``, beside which no member may be.
        partner: a gang that is placed together with this one, if any.
        bound: members that have nodes already; fewer than the minimum.
    """

    members: tuple[Pod, ...]
    gang: Gang | None
    topology: str = ""
    apart: bool = False
    spread: bool = False
    away_from: str = ""
    partner: Gang | None = None
    bound: tuple[Pod, ...] = ()

    @property
    def gangs(self) -> tuple[Gang, ...]:
        """All that must stand."""
        return tuple(gang for gang in (self.gang, self.partner) if gang is not None)


@dataclass(frozen=True)
class World:
    """What there is, and who comes."""

    nodes: tuple[Node, ...]
    running: tuple[Pod, ...]
    gangs: tuple[Gang, ...]
    budgets: tuple[Budget, ...]
    queues: tuple[Queue, ...]
    taker: Taker


def random_world(seed: int) -> World:
    """A world of up to 6 nodes, 5 gangs and 11 pods, in which room is scarce."""
    world = _Maker(random.Random(seed), random.Random(f"shares {seed}")).make()
    # Drawn by itself, so that the seeds of old worlds go on meaning these.
    return _with_company(world, random.Random(f"{seed} company"))


def _with_company(world: World, rng: random.Random) -> World:
    """In some worlds who is beside whom counts, or the taker has a partner, or nodes already."""
    taker, running = world.taker, world.running
    if rng.random() < 0.1:
        running = tuple(replace(pod, shuns=rng.random() < 0.3) for pod in running)
    if rng.random() < 0.1:
        taker = replace(taker, away_from="a")
    if taker.gang is None:
        return replace(world, running=running, taker=taker)
    if rng.random() < 0.1 and len(taker.members) > 1:
        taker = _with_partner(taker, rng)
    if rng.random() < 0.3:
        taker = _partly_bound(taker, replace(world, running=running), rng)
    queues = tuple(_with_room(queue, (*running, *taker.bound)) for queue in world.queues)
    return replace(world, running=running, queues=queues, taker=taker)


def _with_partner(taker: Taker, rng: random.Random) -> Taker:
    """Some of the members are in a second gang; both need all they have, or one fewer."""
    first = rng.randint(1, len(taker.members) - 1)
    parts = (taker.members[:first], taker.members[first:])
    gangs = [
        Gang(name, max(1, len(part) - rng.choice((0, 0, 1))), group="takers")
        for name, part in zip("tu", parts, strict=True)
    ]
    members = [
        replace(pod, gang=name, role="")
        for name, part in zip("tu", parts, strict=True)
        for pod in part
    ]
    return replace(taker, members=tuple(members), gang=gangs[0], partner=gangs[1])


def _partly_bound(taker: Taker, world: World, rng: random.Random) -> Taker:
    """One of the members has got a node that has room for it, as after a crash."""
    needed = sum(max(gang.minimum, sum(gang.roles.values())) for gang in taker.gangs)
    first, where = taker.members[0], list[str]()
    for node in world.nodes:
        there = [pod for pod in world.running if pod.node == node.name]
        enough = node.cpu - sum(pod.cpu for pod in there) >= first.cpu
        enough = enough and node.cards - sum(pod.cards for pod in there) >= first.cards
        shunned = any(pod.shuns or pod.app == taker.away_from != "" for pod in there)
        crowded = shunned or (first.port and any(pod.port == first.port for pod in there))
        if enough and not crowded and (node.zone == first.zone or not first.zone):
            where += [node.name] if node.zone or not (taker.topology or taker.spread) else []
    if not where or needed < 2:
        return taker
    there = replace(first, node=rng.choice(where))
    return replace(taker, members=taker.members[1:], bound=(there,))


def _with_room(queue: Queue, running: tuple[Pod, ...]) -> Queue:
    """The queue with quotas that hold."""
    used = {
        what: sum(getattr(pod, what) for pod in running if pod.queue == queue.name)
        for what in queue.quota
    }
    quota = {what: max(limit, used[what]) for what, limit in queue.quota.items()}
    return replace(queue, quota=quota)


class _Maker:
    def __init__(self, rng: random.Random, shares: random.Random) -> None:
        self.rng = rng
        #: Says who deserves what, so that worlds in which nobody does stay as they are.
        self.shares = shares
        self.with_cards = self.chance(0.2)
        self.with_zones = self.chance(0.4)
        self.with_ports = self.chance(0.15)
        #: Few pods run, so that most takers fit, if in one way only.
        self.roomy = self.chance(0.2)
        #: Small worlds of equal pods are those that people try first.
        self.uniform = self.chance(0.3)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def make(self) -> World:
        nodes = self.nodes()
        queues = self.queues() if self.chance(0.35) else ()
        usable = queues
        if queues and self.shares.random() < 0.6:
            usable = self.with_shares(queues)
            queues = (*usable, *self.teams(usable))
        budgets = tuple(Budget(app, self.rng.randint(0, 2)) for app in ("a", "b"))
        budgets = budgets[: self.rng.randint(0, 2)] if self.chance(0.4) else ()
        gangs, running = self.running(nodes, usable)
        queues = tuple(_with_room(queue, running) for queue in queues)
        return World(nodes, running, gangs, budgets, queues, self.taker(usable))

    def nodes(self) -> tuple[Node, ...]:
        zones = ("east", "west", "north") if self.with_zones else ("",)
        size = self.rng.randint(1, 3)
        return tuple(
            Node(
                f"n{n}",
                size if self.uniform else self.rng.randint(1, 4),
                self.rng.randint(0, 3) if self.with_cards else 0,
                self.rng.choice(zones),
            )
            for n in range(self.rng.randint(1, 6))
        )

    def queues(self) -> tuple[Queue, ...]:
        def limits(share: float, most: int) -> dict[str, int]:
            names = ("cpu", "cards") if self.with_cards else ("cpu",)
            return {name: self.rng.randint(1, most) for name in names if self.chance(share)}

        return tuple(
            Queue(
                f"q{n}",
                "inference" if self.chance(0.4) else "training",
                self.rng.choice((0, 0, 5)),
                self.chance(0.85),
                limits(0.3, 8),
                {k: v for k, v in limits(0.3, 3).items() if k == "cpu"},
            )
            for n in range(self.rng.randint(1, 3))
        )

    def with_shares(self, queues: tuple[Queue, ...]) -> tuple[Queue, ...]:
        """Queues most of which are of no service type, and deserve something."""
        rng, parents = self.shares, self.shares.choice((("",), ("", "team"), ("a", "b")))
        names = ("cpu", "cards") if self.with_cards else ("cpu",)
        return tuple(
            replace(
                queue,
                service="" if rng.random() < 0.9 else queue.service,
                deserved={name: rng.randint(1, 7) for name in names if rng.random() < 0.75},
                parent=rng.choice(parents),
            )
            for queue in queues
        )

    def teams(self, queues: tuple[Queue, ...]) -> tuple[Queue, ...]:
        """What these queues are part of."""
        names = sorted({queue.parent for queue in queues} - {""})
        deserved = ({}, {"cpu": self.shares.randint(2, 8)})
        return tuple(Queue(name, "", deserved=self.shares.choice(deserved)) for name in names)

    def pod(self, name: str, **more: object) -> Pod:
        cpu = 1 if self.uniform else self.rng.choice((1, 1, 1, 2, 2, 3))
        cards = self.rng.choice((0, 1, 1, 2)) if self.with_cards else 0
        port = self.rng.choice((0, 80, 81)) if self.with_ports else 0
        return Pod(name, cpu, cards, port=port, **more)  # type: ignore[arg-type]

    def running(
        self, nodes: tuple[Node, ...], queues: tuple[Queue, ...]
    ) -> tuple[tuple[Gang, ...], tuple[Pod, ...]]:
        """Pods where there is room, some of them in gangs."""
        rng, gangs, running = self.rng, list[Gang](), list[Pod]()
        free = {n.name: [n.cpu, n.cards, {0}] for n in nodes}
        groups = rng.choice(("", "", "", "pair"))
        starts = rng.sample(range(60), 24)
        for number in range(0 if self.roomy else rng.randint(0, 5)):
            name = f"g{number}"
            roles = ROLES if self.chance(0.4) else ("",)
            priority, queue = rng.choice(LOW), rng.choice(queues).name if queues else ""
            placed: dict[str, int] = dict.fromkeys(roles, 0)
            for n in range(rng.randint(1, 4)):
                role = rng.choice(roles)
                own = priority if self.chance(0.85) else rng.choice((*LOW, *LOW, 50))
                pod = self.pod(f"{name}-{n}", gang=name, role=role, priority=own, queue=queue)
                if len(running) < 11 and self.place(pod, free, running, starts):
                    placed[role] += 1
            if not any(placed.values()):
                continue
            minima = {r: rng.randint(0, n) for r, n in placed.items() if r and n}
            minima = {r: n for r, n in minima.items() if n}
            low = max(1, sum(minima.values()))
            minimum = low if self.chance(0.5) else rng.randint(low, sum(placed.values()))
            together = roles == ("",) and self.chance(0.1)
            group = groups if not together and self.chance(0.4) else ""
            gangs.append(Gang(name, minimum, minima, group, together))
        for number in range(rng.randint(0, 2 if self.roomy else 8)):
            queue = rng.choice(queues).name if queues else ""
            pod = self.pod(f"lone-{number}", priority=rng.choice((*LOW, *LOW, 50)), queue=queue)
            if len(running) < 11:
                self.place(pod, free, running, starts)
        if sum(gang.group == "pair" for gang in gangs) == 1:
            gangs = [Gang(g.name, g.minimum, g.roles, "", g.together) for g in gangs]
        return tuple(gangs), tuple(running)

    def place(self, pod: Pod, free: dict[str, list], running: list[Pod], starts: list[int]) -> bool:
        names = [
            name
            for name, (cpu, cards, ports) in free.items()
            if cpu >= pod.cpu and cards >= pod.cards and (not pod.port or pod.port not in ports)
        ]
        if not names:
            return False
        node = self.rng.choice(names)
        free[node][0] -= pod.cpu
        free[node][1] -= pod.cards
        free[node][2].add(pod.port)
        app = self.rng.choice(("", "", "a", "b"))
        preemptable = self.chance(0.9) or not pod.queue
        values = {**pod.__dict__, "node": node, "start": starts.pop(), "app": app}
        running.append(Pod(**{**values, "preemptable": preemptable}))
        return True

    def taker(self, queues: tuple[Queue, ...]) -> Taker:
        rng = self.rng
        priority, queue = rng.choice(HIGH), rng.choice(queues).name if queues else ""
        if self.chance(0.2):
            return Taker((self.pod("t-0", priority=priority, queue=queue),), None)
        roles = ROLES if self.chance(0.3) else ("",)
        shape = self.pod("shape", priority=priority, queue=queue)
        equal, tied = self.chance(0.5), self.with_zones and self.chance(0.4)
        members = []
        for n in range(rng.randint(1, 5)):
            each = shape if equal else self.pod("shape", priority=priority, queue=queue)
            lower = rng.choice(HIGH) if self.chance(0.05) else priority
            members.append(
                Pod(
                    **{
                        **each.__dict__,
                        "name": f"t-{n}",
                        "gang": "t",
                        "role": rng.choice(roles),
                        "priority": lower,
                        "zone": rng.choice(("", "", "east", "west")) if tied else "",
                    }
                )
            )
        counts = {role: sum(m.role == role for m in members) for role in roles if role}
        minima = {role: rng.randint(1, n) for role, n in counts.items() if n}
        low = max(1, sum(minima.values()))
        minimum = len(members) if self.chance(0.7) else rng.randint(low, len(members))
        return Taker(
            tuple(members),
            Gang("t", minimum, minima),
            topology=rng.choice(("", "required", "preferred")) if self.with_zones else "",
            apart=self.chance(0.15),
            spread=self.with_zones and not tied and self.chance(0.3),
        )
