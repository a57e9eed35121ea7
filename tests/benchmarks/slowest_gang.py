"""Looks for the slowest legal gang: ``python -m tests.benchmarks.slowest_gang``.

As :mod:`~tests.benchmarks.slowest_attempt`, for gangs: one after the other comes into its cluster,
is tried, tried again when a pod leaves, and deleted; what counts is the longest step of the engine.
Between these a pod of another tenant comes: how many milliseconds of CPU until it is bound is the
second number. Prints the worst. ``--over 100`` ends with exit code 1 if a step takes longer.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from typing import Any, Final

import click

from arranger.api.effects import Applied, Bind
from arranger.api.types import core
from arranger.daemon.garbage import tune_gc
from arranger.daemon.scheduler import ENTITIES_PER_STEP, SECONDS_PER_STEP
from tests.benchmarks.slowest_attempt import HOST, ZONE, Cluster, resident
from tests.builders import PodBuilder, a_pod

Recipe = dict[str, Any]

#: Gene → what it may be; the first is what it is otherwise.
GENES: Final[dict[str, tuple[Any, ...]]] = {
    "members": (300, 12, 1000, 3000, 8000),
    "kinds": (1, 5, 60, 1000),
    "cpu": ("100m", "3", "30", "70"),
    "topology": ("", f"required={ZONE}", "required=rack", "preferred=rack", f"preferred={HOST}"),
    "look": ("", "apart", "spread", "near"),
    "mode": ("Strict", "NonStrict"),
    "spare": (0, 1, 100),
    "bundles": (1, 20),
    "gangs": (1, 10),
    "priority": (0, 9),
}


def members(recipe: Recipe, name: str) -> list[PodBuilder]:
    """The pods of a gang, or of a group of gangs."""
    value = {gene: recipe.get(gene, values[0]) for gene, values in GENES.items()}
    size, gangs, pods = value["members"], value["gangs"], list[PodBuilder]()
    names = [f"{name}-{n}" for n in range(gangs)]
    for n in range(size):
        gang, least = names[n % gangs], max(1, size // gangs - value["spare"])
        pod = a_pod(f"{name}-{n}").in_namespace("theirs").labelled(app=name)
        pod = pod.needs(cpu=value["cpu"], memory=f"{100 + n % value['kinds']}Mi")
        if value["bundles"] > 1:
            of_each = max(1, least // value["bundles"])
            pod = pod.in_bundle(gang, f"b{n // gangs % value['bundles']}", of_each)
        else:
            groups = json.dumps([f"theirs/{other}" for other in names])
            more = {"groups": groups} if gangs > 1 else {}
            pod = pod.in_gang(gang, least, mode=value["mode"], **more)
        if value["topology"]:
            pod = pod.annotated({"arranger.io/topology": value["topology"]})
        match value["look"]:
            case "apart":
                pod = pod.apart(HOST, {"app": name})
            case "spread":
                pod = pod.spreads(ZONE, over={"app": name})
            case "near":
                pod = pod.near(ZONE, {"app": name}, weight=1)
        pods.append(pod.with_priority(value["priority"]).for_scheduler("arranger"))
    return pods


class Player:
    """Plays gangs in one cluster."""

    def __init__(self, cluster: Cluster, nodes: int) -> None:
        self._cluster, self._nodes, self._count = cluster, nodes, 0

    def play(self, recipe: Recipe) -> tuple[float, float]:
        """Milliseconds of CPU: of the longest step, and until another tenant's pod is bound."""
        cluster, handlers = self._cluster, self._cluster.engine.handlers
        self._count += 1
        pods = [pod.build() for pod in members(recipe, f"g{self._count}")]
        cluster.now += 20.0
        for pod in pods:
            handlers.on_pod_updated(pod, cluster.now)
        longest, waited = self._settle_with_another()
        leaver = cluster.decoded(core.Pod, resident(self._count, self._nodes))
        cluster.now += 20.0
        handlers.on_pod_deleted(leaver.key, cluster.now)
        longest = max(longest, cluster.settle())
        handlers.on_pod_updated(leaver, cluster.now)
        for pod in pods:
            handlers.on_pod_deleted(pod.key, cluster.now)
        cluster.settle()
        return longest, waited

    def _settle_with_another(self) -> tuple[float, float]:
        """The first step, then another tenant's pod comes."""
        cluster, engine = self._cluster, self._cluster.engine
        longest = spent = waited = 0.0
        other = a_pod(f"other-{self._count}").in_namespace("team-1").build()
        limits: Any = {"limit": ENTITIES_PER_STEP, "seconds": SECONDS_PER_STEP}
        for number in range(10_000):
            cluster.now += 0.001
            if number == 1:
                engine.handlers.on_pod_updated(other, cluster.now)
            start = time.thread_time()
            effects = engine.run(cluster.now, **limits)
            took = (time.thread_time() - start) * 1000
            longest, spent = max(longest, took), spent + took * (number > 0)
            for effect in effects:
                if isinstance(effect, Bind):
                    engine.on_outcome(effect, Applied(), cluster.now)
                    if effect.pod.uid == other.metadata.uid:
                        waited = spent
            if number and not engine.ready:
                break
        engine.handlers.on_pod_deleted(other.key, cluster.now)
        return longest, waited


def main() -> None:
    """Search for a while."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--tries", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--over", type=float, default=0.0)
    parser.add_argument("--recipe", action="append", help="plays only these, as JSON")
    args = parser.parse_args()
    player, rng = Player(Cluster(args.nodes, args.pods), args.nodes), random.Random(args.seed)
    gc.collect()
    tune_gc()
    found = list[tuple[float, float, Recipe]]()

    def try_one(recipe: Recipe) -> None:
        longest, waited = player.play(recipe)
        click.echo(f"{longest:8.1f} ms, another's pod {waited:8.1f} ms: {json.dumps(recipe)}")
        found.append((longest, waited, recipe))

    if args.recipe:
        for recipe in args.recipe:
            try_one(json.loads(recipe))
    else:
        for gene, values in GENES.items():
            for value in values[1:]:
                try_one({gene: value})
        for _ in range(args.tries):
            worst = sorted(found, key=lambda each: -each[0])[:12]
            gene = rng.choice(list(GENES))
            recipe = {**rng.choice(worst)[2], **rng.choice(worst)[2]}
            try_one({**recipe, gene: rng.choice(GENES[gene])})
    slowest = max(found, key=lambda each: each[0])
    click.echo(
        f"{len(found)} gangs; the longest step {slowest[0]:.1f} ms: {json.dumps(slowest[2])}"
    )
    click.echo(f"another's pod waited for {max(waited for _, waited, _ in found):.1f} ms at most")
    if args.over and slowest[0] > args.over:
        sys.exit(1)


if __name__ == "__main__":
    main()
