"""``arranger explain``: why pods of a snapshot do or do not fit."""

from __future__ import annotations

from pathlib import Path

import click

from arranger.cli import options


@click.command()
@click.option(
    "--snapshot",
    "snapshots",
    type=options.FILE,
    multiple=True,
    required=True,
    help="JSON, YAML, or .jsonl[.gz] whose lines are snapshots. May be repeated.",
)
@options.output
def explain(snapshots: tuple[Path, ...], output: str) -> None:
    """Evaluate every pending pod of a snapshot, changing nothing."""
    from arranger.cli.output.errors import CommandError
    from arranger.cli.output.screen import Screen, say_json
    from arranger.explain import SnapshotError, evaluate, read_snapshots, render

    try:
        for snapshot in read_snapshots(snapshots):
            verdicts = evaluate(snapshot)
            if output == "json":
                say_json({"verdicts": verdicts})
            else:
                Screen().print(render(snapshot, verdicts))
    except SnapshotError as error:
        raise CommandError(error) from error
