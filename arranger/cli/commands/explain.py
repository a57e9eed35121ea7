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
    import msgspec

    from arranger.explain import SnapshotError, evaluate, read_snapshots, render

    try:
        for snapshot in read_snapshots(snapshots):
            verdicts = evaluate(snapshot)
            if output == "json":
                click.echo(msgspec.json.encode({"verdicts": verdicts}))
            else:
                from rich.console import Console

                Console().print(render(snapshot, verdicts))
    except SnapshotError as error:
        raise click.ClickException(str(error)) from error
