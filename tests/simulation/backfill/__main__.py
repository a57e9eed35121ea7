"""``python -m tests.simulation.backfill N``: judge the plan by N random traces in virtual time.

``--first S`` begins at another seed, ``--jobs J`` makes longer traces, ``--openb`` takes run times
from the openb trace. Ends with status 1 if a promise from known ends was not kept. Jobs that
do not start when they do by EASY are shown: on nodes, unlike in a pool, what is planned does not
move aside for each of them.
"""

from __future__ import annotations

import sys
import time

import click

from tests.simulation.backfill.judge import Verdict

#: Traces between two lines that say how far it is.
PROGRESS = 50


@click.command()
@click.argument("count", type=int, default=1000)
@click.option("--first", type=int, default=0)
@click.option("--jobs", type=int, default=40)
@click.option("--openb", is_flag=True)
def main(count: int, first: int, jobs: int, openb: bool) -> None:
    """Play traces, and say what the judge has seen."""
    verdict, started = Verdict(), time.monotonic()
    for seed in range(first, first + count):
        verdict.add(seed, jobs, openb=openb)
        if verdict.traces % PROGRESS == 0 or verdict.traces == count:
            report(verdict, time.monotonic() - started)
    for each in verdict.late:
        click.echo(
            f"late: seed {each[0]}, {each[1]} planned: {each[2]} by {each[3]}, was {each[4]}"
        )
    for seed, job, start, expected in verdict.unlike:
        click.echo(f"unlike EASY: seed {seed}, {job} at {start}, not {expected}")
    sys.exit(1 if verdict.late or verdict.counted else 0)


def report(verdict: Verdict, seconds: float) -> None:
    """One line for each thing that is judged."""
    n, late, given_up = verdict.traces, len(verdict.late), verdict.counted
    wait = verdict.wait / max(1, verdict.wait_without)
    own, reference = verdict.utilisation / n, verdict.reference_utilisation / n
    click.echo(f"{n} traces, {seconds:.0f} s")
    click.echo(f"  promises: {verdict.promises}, late {late}, given up {given_up}")
    click.echo(f"  utilisation: {own:.4f}, of the reference {reference:.4f}")
    click.echo(f"  starts unlike the reference: {len(verdict.unlike)}")
    click.echo(f"  waits of the largest: {wait:.2f} of without")
    click.echo(f"  p90 error of estimates: {verdict.estimate_error:.0f} s of {len(verdict.errors)}")


if __name__ == "__main__":
    main()
