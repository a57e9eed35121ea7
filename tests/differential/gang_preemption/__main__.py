"""``python -m tests.differential.gang_preemption N [--first SEED]``: beside brute force.

Prints a table of N random small worlds, fresh ones unless told where to begin; ``--seed S`` shows
one world. Ends with status 1 if anything has happened that must not.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import time
from pprint import pformat

import click

from arranger.engine.gang.preemption import plan_search
from tests.differential.gang_preemption.comparison import Comparison, Table, judge
from tests.differential.gang_preemption.world import random_world

CHUNK = 50


def plan_as_for_many() -> None:
    """Let the planner take any number of pods for too many to compare all sets of them."""
    plan_search.MAX_SEARCH_COST = plan_search.MANY_MOVED = 0  # type: ignore[misc]


@click.command()
@click.argument("count", type=int, default=1000)
@click.option("--first", type=int, default=None, help="The first seed.")
@click.option("--seed", type=int, default=None, help="Show the world of this seed only.")
@click.option("--many", is_flag=True, help="Plan as where there are too many pods for a search.")
@click.option("--jobs", type=int, default=os.cpu_count(), help="Processes.")
def main(count: int, first: int | None, seed: int | None, jobs: int, *, many: bool) -> None:
    """Play worlds, and say how the engine compares with the best."""
    if seed is not None:
        if many:
            plan_as_for_many()
        show(seed)
        return
    first = random.SystemRandom().randrange(10**9) if first is None else first
    table, started = Table(), time.monotonic()
    chunks = [range(n, min(n + CHUNK, first + count)) for n in range(first, first + count, CHUNK)]
    with multiprocessing.Pool(jobs, plan_as_for_many if many else None) as pool:
        for each in pool.imap(judge, chunks):
            table.include(each)
    click.echo("\n".join(table.lines()))
    click.echo(f"seeds from {first} on, {time.monotonic() - started:.0f} s")
    sys.exit(1 if table.faults("gangs") or table.faults("lone pods") else 0)


def show(seed: int) -> None:
    """Print a world and what became of it."""
    world = random_world(seed)
    click.echo(pformat(world, width=160))
    judged = Comparison(world)
    reference, best = judged.brute_force, judged.best
    click.echo(f"{judged.verdict}; {judged.played}")
    if judged.played.evicted:
        click.echo(f"cost {reference.cost(judged.played.evicted)}")
    if best is not None:
        click.echo(f"best {sorted(best)}, cost {reference.cost(best)}")


if __name__ == "__main__":
    main()
