"""``arranger capacity``: how many copies of something fit, and what would take more."""

from __future__ import annotations

from pathlib import Path

import click

from arranger.cli import options


@click.command()
@options.manifests("One copy: YAML or JSON files, or folders of them. May be repeated.")
@click.option("--copies", type=click.IntRange(1, 4096), help="Find nodes that take so many.")
@click.option(
    "--like", multiple=True, metavar="NODE", help="Of which kinds nodes may be. May be repeated."
)
@options.shadow
@options.output
def capacity(
    files: tuple[Path, ...],
    copies: int | None,
    like: tuple[str, ...],
    shadow: options.ShadowOptions,
    output: str,
) -> None:
    """Tell how many copies of what -f holds fit now, beside all that waits, evicting nobody.

    With --copies and --like: the fewest nodes of each kind with which so many fit. Nothing is
    written.
    """
    import msgspec

    from arranger.cli.output.screen import say_json
    from arranger.cli.output.why_answers import print_capacity
    from arranger.cli.question import ask
    from arranger.cli.shadow import Source, read_copies
    from arranger.shadow.answers.capacity import Capacity

    if not files:
        raise click.UsageError("give what is to be placed: -f")
    if bool(copies) != bool(like):
        raise click.UsageError("--copies and --like go together")

    def question(source: Source) -> Capacity:
        return Capacity(read_copies(source, shadow.namespace, files), copies or 0, like)

    told = ask(shadow, question, surroundings=True)
    if output == "json":
        say_json(msgspec.to_builtins(told), indent=2)
    else:
        print_capacity(told)
