"""``python -m tests.differential.gang_preemption N [--first SEED]``: beside brute force.

Prints a table of N random small worlds; ``--seed S`` shows one. Ends with status 1 if anything
happened that must not.
"""

from __future__ import annotations

import sys
import time
from pprint import pformat

import click

from arranger.engine.gang.preemption import plan_search
from tests.differential.gang_preemption.comparison import Comparison, Table
from tests.differential.gang_preemption.world import random_world


@click.command()
@click.argument("count", type=int, default=1000)
@click.option("--first", type=int, default=0, help="The first seed.")
@click.option("--seed", type=int, default=None, help="Show the world of this seed only.")
@click.option("--many", is_flag=True, help="Plan as where there are too many pods for a search.")
def main(count: int, first: int, seed: int | None, *, many: bool) -> None:
    """Play worlds, and say how the engine compares with the best."""
    if many:
        plan_search.MAX_SEARCH_COST = 0  # type: ignore[misc]
    if seed is not None:
        _show(seed)
        return
    table, started = Table(), time.monotonic()
    for each in range(first, first + count):
        table.add(each)
    click.echo("\n".join(table.lines()))
    click.echo(f"{time.monotonic() - started:.0f} s")
    sys.exit(1 if table.faults("gangs") or table.faults("lone pods") else 0)


def _show(seed: int) -> None:
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
