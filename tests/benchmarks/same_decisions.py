"""Whether two checkouts decide alike: ``python -m tests.benchmarks.same_decisions [worlds]``.

Prints a line a random world: its seed, and a digest of all effects that the engine gave for the
same events. Run it in both checkouts (``PYTHONPATH`` says which code is judged) and compare; a
world whose line differs is looked at with ``--show``. ``--large`` makes worlds of 2,000 nodes.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from collections.abc import Iterator

from msgspec import structs

from arranger.api.effects import Applied, Bind, DeletePod, Effect
from arranger.api.types.core import LabelSelector, Namespace, ObjectMeta, Pod
from arranger.api.types.workloads import ReplicaSet, Service, ServiceSpec, WorkloadSpec
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, expr

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
IMAGES = ("nginx:1", "redis:7", "big:2")


class World:
    """One random cluster and what happens in it."""

    def __init__(self, seed: int, nodes: int, pods: int) -> None:
        self._random = random.Random(seed)
        self._engine = Engine(EngineSettings([default_profile()]))
        self._nodes, self._pods = nodes, pods
        self._apps = self._random.choice((1, 3, 10, pods))
        self._present: dict[str, Pod] = {}
        self._placed: dict[str, str] = {}
        self._now = 0.0

    def play(self) -> Iterator[str]:
        """What the engine wants done, as text."""
        choose, handlers = self._random, self._engine.handlers
        for name in ("default", "other"):
            handlers.on_object_updated(
                Namespace(metadata=ObjectMeta(name=name, labels={"team": name})), 0.0
            )
        for n in range(self._nodes):
            handlers.on_node_updated(self._node(n).build(), 0.0)
        for app in range(min(self._apps, 20)):
            for stored in self._workload(app):
                handlers.on_object_updated(stored, 0.0)
        yield from self._run()
        for n in range(self._pods):
            pod = self._pod(n).build()
            self._present[pod.metadata.uid] = pod
            handlers.on_pod_updated(pod, self._now)
            if choose.random() < 0.4:
                yield from self._run()
            if choose.random() < 0.1:
                self._disturb()
        for _ in range(6):
            self._now += 10.0
            yield from self._run()
        self._engine.check_consistent()

    def _node(self, n: int) -> NodeBuilder:
        choose = self._random
        sizes = {"cpu": choose.choice((2, 4, 4, 8)), "memory": choose.choice(("4Gi", "8Gi"))}
        node = a_node(f"n{n}").offers(sizes, pods=choose.choice((5, 110)))
        if choose.random() < 0.9:
            node = node.in_zone(f"z{n % 3}").labelled({HOST: f"n{n}"})
        node = node.labelled(pool=choose.choice("abc"), number=str(n))
        if choose.random() < 0.15:
            effect = choose.choice(("NoSchedule", "PreferNoSchedule", "PreferNoSchedule"))
            node = node.tainted(choose.choice(("gpu", "old")), effect=effect)
        if choose.random() < 0.3:
            node = node.holding(choose.choice(IMAGES), choose.randrange(10**8, 10**9))
        return node.cordoned() if choose.random() < 0.05 else node

    def _workload(self, app: int) -> Iterator[ReplicaSet | Service]:
        meta = ObjectMeta(name=f"rs-{app}", namespace="default", uid=f"rs-{app}")
        selector = LabelSelector(match_labels={"app": f"app-{app}"})
        yield ReplicaSet(metadata=meta, spec=WorkloadSpec(selector=selector))
        if app % 3 == 0:
            meta = ObjectMeta(name=f"svc-{app}", namespace="default", uid=f"svc-{app}")
            yield Service(metadata=meta, spec=ServiceSpec(selector={"tier": f"t{app % 2}"}))

    def _pod(self, n: int) -> PodBuilder:
        choose = self._random
        app = choose.randrange(self._apps)
        pod = a_pod(f"p{n}").labelled(app=f"app-{app}", tier=f"t{app % 2}")
        pod = pod.needs(cpu=f"{50 + 50 * (app % 7)}m", memory=f"{100 + app % 90}Mi")
        if choose.random() < 0.7:
            pod = pod.owned_by("ReplicaSet", f"rs-{app}")
        if choose.random() < 0.1:
            pod = pod.in_namespace("other")
        over = {"app": f"app-{app}"}
        features = {
            0.25: lambda p: p.selects(pool=choose.choice("abc")),
            0.20: lambda p: p.spreads(ZONE, over=over, soft=choose.random() < 0.7),
            0.15: lambda p: p.tolerates(choose.choice(("gpu", "old"))),
            0.14: lambda p: p.prefers(10, expr("pool", "In", choose.choice("abc"))),
            0.12: lambda p: p.apart(HOST, over, weight=choose.choice((None, 5))),
            0.11: lambda p: p.near(ZONE, over, weight=choose.choice((None, 50))),
            0.10: lambda p: p.host_port(8000 + app % 3),
            0.09: lambda p: p.running(choose.choice(IMAGES)),
            0.08: lambda p: p.spreads(HOST, over={"tier": "t0"}, skew=2),
            0.07: lambda p: p.with_priority(choose.choice((1, 100))),
            0.06: lambda p: p.in_gang(f"g{n // 4}", 1),
            0.05: lambda p: p.requires(expr("number", "Gt", "3")),
            0.04: lambda p: p.needs(cpu=choose.choice((1, 3, 20))),
        }
        for chance, change in features.items():
            if choose.random() < chance:
                pod = change(pod)
        return pod

    def _disturb(self) -> None:
        choose, handlers = self._random, self._engine.handlers
        what = choose.randrange(4)
        if what == 0:
            n = choose.randrange(self._nodes)
            handlers.on_node_updated(self._node(n).build(), self._now)
        elif what == 1 and self._nodes > 3:
            handlers.on_node_deleted(f"n{choose.randrange(self._nodes)}", self._now)
        elif self._placed:
            uid = choose.choice(list(self._placed))
            pod = self._present.pop(uid)
            del self._placed[uid]
            handlers.on_pod_deleted(pod.key, self._now)
        self._now += choose.choice((0.0, 0.5, 2.0))

    def _run(self) -> Iterator[str]:
        engine = self._engine
        for _ in range(200):
            effects = engine.run(self._now, limit=16)
            for effect in effects:
                yield repr(effect)
                self._carry_out(effect)
            if not engine.ready:
                return

    def _carry_out(self, effect: Effect) -> None:
        engine = self._engine
        if isinstance(effect, Bind):
            pod = self._present[effect.pod.uid]
            pod = structs.replace(pod, spec=structs.replace(pod.spec, node_name=effect.node))
            self._present[effect.pod.uid], self._placed[effect.pod.uid] = pod, effect.node
            engine.on_outcome(effect, Applied(), self._now)
            engine.handlers.on_pod_updated(pod, self._now)
        elif isinstance(effect, DeletePod):
            engine.on_outcome(effect, Applied(), self._now)
            pod = self._present.pop(effect.pod.uid)
            self._placed.pop(effect.pod.uid, None)
            engine.handlers.on_pod_deleted(pod.key, self._now)
        elif engine.awaits(effect):
            engine.on_outcome(effect, Applied(), self._now)


def main() -> None:
    """Print the digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", type=int, nargs="?", default=1000)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    for seed in range(args.first, args.first + args.worlds):
        sizes = random.Random(-seed - 1)
        size = (2000, 1500) if args.large else (sizes.randint(1, 40), sizes.randint(1, 60))
        lines = list(World(seed, *size).play())
        if args.show:
            print("\n".join(lines))
        bound = sum(line.startswith("Bind(") for line in lines)
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
        print(f"{seed} {size[0]} nodes, {bound} bound, {len(lines)} effects: {digest}")


if __name__ == "__main__":
    main()
