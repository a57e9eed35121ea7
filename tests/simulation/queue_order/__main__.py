"""``python -m tests.simulation.queue_order N``: count overtakings in N random busy worlds.

Give ``--seed S`` to see one world again. Ends with status 1 if anybody was overtaken or forgotten.
"""

from __future__ import annotations

import sys
import time

import click

from tests.simulation.queue_order.churn import moments_taken_by_the_lower
from tests.simulation.queue_order.worlds import BusyWorld


@click.command()
@click.argument("count", type=int, default=1000)
@click.option("--first", type=int, default=0)
@click.option("--seed", type=int, default=None)
def main(count: int, first: int, seed: int | None) -> None:
    """Play worlds, and say what the judge has seen."""
    lower = moments_taken_by_the_lower(80)
    click.echo(f"churn elsewhere: the lower job goes first in {lower} of 80 moments")
    seeds = range(first, first + count) if seed is None else [seed]
    overtakings = forgotten = lucky = moments = tries = placements = bad = 0
    started = time.monotonic()
    for each in seeds:
        judge = BusyWorld(each).play()
        overtakings += len(judge.overtakings)
        forgotten += len(judge.forgotten)
        moments, lucky = moments + judge.moments, lucky + judge.lucky
        tries, placements = tries + judge.tries, placements + judge.placements
        if judge.overtakings or judge.forgotten:
            bad += 1
            if bad <= 10:
                click.echo(f"seed {each}: {(judge.overtakings + judge.forgotten)[:4]}")
    click.echo(
        f"{len(seeds)} worlds, {moments} placements: {overtakings} overtakings, {forgotten} "
        f"forgotten, {lucky} gangs that would fit by luck, "
        f"{tries / max(placements, 1):.2f} tries of gangs for each one placed, "
        f"{time.monotonic() - started:.0f} s"
    )
    sys.exit(1 if overtakings or forgotten or lower else 0)


if __name__ == "__main__":
    main()
