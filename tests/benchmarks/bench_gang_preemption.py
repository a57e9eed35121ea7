"""How long a plan whom to evict for a gang holds the loop: ``bench_gang_preemption [nodes]``.

Nodes are full of pods of three priorities, or of training where inference may take from it, and a
gang comes; or nodes of two devices each, and a gang whose members have a claim for one each. Prints
the CPU until its victims are told, the longest step, and how many they are.
``--over 100`` ends with exit code 1 if a step takes longer.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import click

from arranger.api.effects import DeletePod
from arranger.api.types.queue import Queue
from arranger.daemon.garbage import tune_gc
from arranger.daemon.scheduler import ENTITIES_PER_STEP, SECONDS_PER_STEP
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, a_queue
from tests.devices import a_claim, a_device_class, a_slice, claiming_from
from tests.queueing import CARD, gpu_node, inference, training

#: Name → (pods on each node, members, what each requests).
ROWS = {
    "100 members": (3.5, 100, "3"),
    "1,000 members": (3.5, 1000, "3"),
    "1,000 members, nothing helps": (3.5, 1000, "5"),
    "1,000 members of 20 victims each": (30, 1000, "3"),
}
RECLAIM = (100, 1000)
#: Name → (members, what each requests, devices, pods on each node).
CLAIMS = {
    "1,000 claims": (1000, "1", 1000, 0),
    "1,000 claims, devices for 998": (1000, "1", 998, 0),
    "100 claims, 20,000 pods": (100, "3", 10_000, 4),
    "100 claims, 20,000 pods, nothing helps": (100, "5", 10_000, 4),
    "1,000 claims, 20,000 pods": (1000, "3", 10_000, 4),
}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
#: What members say of each other, of whom ``app`` is the label.
LOOKS: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "apart": lambda pod: pod.apart(HOST, {"app": "g"}),
    "spread": lambda pod: pod.spreads(ZONE, over={"app": "g"}),
    "near": lambda pod: pod.near(ZONE, {"app": "g"}),
}


class Player:
    """A cluster, and the steps of the daemon."""

    def __init__(
        self, nodes: Iterator[NodeBuilder], pods: Iterator[PodBuilder], queues: Iterable[Queue] = ()
    ) -> None:
        self.engine = Engine(
            EngineSettings(
                [default_profile()], quota_config=QuotaConfig(), perf_counter=time.perf_counter
            )
        )
        for queue in queues:
            self.engine.handlers.on_queue_updated(queue, 0.0)
        for node in nodes:
            self.engine.handlers.on_node_updated(node.build(), 0.0)
        for pod in pods:
            self.engine.handlers.on_pod_updated(pod.build(), 0.0)
        self.engine.run(0.0)
        gc.collect()
        tune_gc()

    def play(self, gang: Iterable[PodBuilder]) -> tuple[float, float, int]:
        """Milliseconds of CPU in all and of the longest step, and how many are evicted."""
        for pod in gang:
            self.engine.handlers.on_pod_updated(pod.build(), 1.0)
        spent = longest = 0.0
        evicted = 0
        for number in range(10_000):
            start = time.thread_time()
            effects = self.engine.run(
                1.0 + number / 1000, limit=ENTITIES_PER_STEP, seconds=SECONDS_PER_STEP
            )
            took = (time.thread_time() - start) * 1000
            spent, longest = spent + took, max(longest, took)
            evicted += sum(isinstance(effect, DeletePod) for effect in effects)
            if not self.engine.ready:
                break
        return spent, longest, evicted


def by_priority(
    nodes: int,
    each: float,
    members: int,
    cpu: str,
    look: Callable[[PodBuilder], PodBuilder] = lambda pod: pod,
    victims: str = "low",
) -> tuple[float, float, int]:
    """A gang of a higher priority than all others, which have the label ``app`` = ``victims``."""
    small = "1" if each <= 4 else "100m"
    player = Player(
        (a_node(f"n{n}").offers(cpu=4, pods=110).in_zone(f"z{n % 3}") for n in range(nodes)),
        (
            a_pod(f"low-{n}")
            .labelled(app=victims)
            .needs(cpu=small)
            .on(f"n{n % nodes}")
            .with_priority(n % 3)
            for n in range(int(nodes * each))
        ),
    )
    return player.play(
        look(a_pod(f"g-{n}").labelled(app="g").needs(cpu=cpu))
        .with_priority(10)
        .in_gang("g", members)
        for n in range(members)
    )


def by_reclaim(nodes: int, members: int) -> tuple[float, float, int]:
    """A gang of inference, which takes cards from training of another queue."""
    count = nodes * 4
    player = Player(
        (gpu_node(f"n{n}", 4) for n in range(nodes)),
        (training(f"t{n}").on(f"n{n // 4}") for n in range(count)),
        [
            a_queue(name, cards={CARD: count}, priority=priority)
            for name, priority in (("inference", 80000), ("training", 20000))
        ],
    )
    return player.play(inference(f"i{n}", 2).in_gang("g", members) for n in range(members))


def by_claims(
    nodes: int, members: int, cpu: str, devices: int, each: int
) -> tuple[float, float, int]:
    """A gang whose members have a claim each; the first nodes have two devices each."""
    player = Player(
        (a_node(f"n{n}").offers(cpu=4, pods=110) for n in range(nodes)),
        (
            a_pod(f"low-{n}").needs(cpu=1).on(f"n{n % nodes}").with_priority(n % 3)
            for n in range(nodes * each)
        ),
    )
    handlers = player.engine.handlers
    handlers.on_object_updated(a_device_class().build(), 0.5)
    for n in range(min(nodes, devices // 2)):
        handlers.on_object_updated(a_slice(f"n{n}", "d0", "d1").build(), 0.5)
    gang = list[PodBuilder]()
    for n in range(members):
        pod = a_pod(f"g-{n}").needs(cpu=cpu).with_priority(10).in_gang("g", members)
        pod, name = claiming_from(pod, "gpu"), f"g-{n}-gpu"
        handlers.on_object_updated(a_claim(name).asks().made_for(pod).build(), 0.5)
        told = {"name": "gpu", "resourceClaimName": name}
        gang.append(pod._append("status", resourceClaimStatuses=told))
    player.engine.run(0.5)
    return player.play(gang)


def main() -> None:
    """Measure each row once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?", default=5000)
    parser.add_argument("--over", type=float, default=0.0)
    parser.add_argument("--only", default="", help="what the names of rows contain")
    args = parser.parse_args()
    worst = 0.0
    measured = dict[str, Callable[[], tuple[float, float, int]]]()
    for name, row in ROWS.items():
        measured[name] = partial(by_priority, args.nodes, *row)
    for name, look in LOOKS.items():
        for victims, like in (("low", ""), ("g", " like them")):
            measured[f"500 members {name}, 20,000 pods{like}"] = partial(
                by_priority, args.nodes, 4, 500, "3", look, victims
            )
    for size in RECLAIM:
        measured[f"reclaim by {size:,} members"] = partial(by_reclaim, args.nodes, size)
    for name, claims in CLAIMS.items():
        measured[name] = partial(by_claims, args.nodes, *claims)
    for name, measure in measured.items():
        if args.only not in name:
            continue
        spent, longest, evicted = measure()
        worst = max(worst, longest)
        click.echo(f"{name:44} {spent:8.0f} ms, longest {longest:6.0f} ms, {evicted} evicted")
    if args.over and worst > args.over:
        sys.exit(1)


if __name__ == "__main__":
    main()
