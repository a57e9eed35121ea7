"""``python -m tests.simulation.queue_order N``: count overtakings in N random busy worlds.

``--first S`` begins at another seed, ``--seed S`` shows one world again. Says at the end what the
order costs: tries per placement. Ends with status 1 if anybody was overtaken or forgotten.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter

import click

from tests.simulation.queue_order.churn import moments_taken_by_the_lower
from tests.simulation.queue_order.worlds import BusyWorld

#: Worlds between two lines that say how far it is.
PROGRESS = 500


@click.command()
@click.argument("count", type=int, default=1000)
@click.option("--first", type=int, default=0)
@click.option("--seed", type=int, default=None)
def main(count: int, first: int, seed: int | None) -> None:
    """Play worlds, and say what the judge has seen."""
    logging.disable(logging.ERROR)  # refused Bindings are part of the worlds
    lower = moments_taken_by_the_lower(80)
    click.echo(f"churn elsewhere: the lower job goes first in {lower} of 80 moments")
    seen: Counter[str] = Counter()
    tries: Counter[tuple[str, str]] = Counter()
    placements: Counter[tuple[str, str]] = Counter()
    started, bad = time.monotonic(), 0
    for each in range(first, first + count) if seed is None else [seed]:
        world = BusyWorld(each)
        judge, where = world.play(), "with queues" if world.queues else "without"
        seen["worlds"] += 1
        seen["placements"] += judge.moments
        seen["overtakings"] += len(judge.overtakings)
        seen["forgotten"] += len(judge.forgotten)
        seen["gangs that would fit by luck"] += judge.lucky
        tries.update({(kind, where): n for kind, n in judge.tries.items()})
        placements.update({(kind, where): n for kind, n in judge.placements.items()})
        if found := judge.overtakings + judge.forgotten:
            bad += 1
            if bad <= 10:
                click.echo(f"seed {each}: {found[:4]}")
        if seen["worlds"] % PROGRESS == 0:
            click.echo(f"{_line(seen)}, {time.monotonic() - started:.0f} s")
    click.echo(_line(seen))
    click.echo("tries per placement:")
    for kind, where in sorted(tries):
        tried, placed = tries[kind, where], placements[kind, where]
        click.echo(f"  {kind:6}{where:12}{tried:8} /{placed:8} = {tried / max(placed, 1):.2f}")
    sys.exit(1 if bad or lower else 0)


def _line(seen: Counter[str]) -> str:
    return ", ".join(f"{n} {what}" for what, n in seen.items())


if __name__ == "__main__":
    main()
