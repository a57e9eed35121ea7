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
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    snapshots: tuple[Path, ...],
    config_file: Path | None,
    output: str,
) -> None:
    """Tell how many copies of what -f holds fit now, beside all that waits, evicting nobody.

    With --copies and --like: the fewest nodes of each kind with which so many fit. Nothing is
    written.
    """
    import msgspec

    from arranger.cli.output.errors import CommandError
    from arranger.cli.output.screen import say, say_json
    from arranger.cli.output.why_answers import print_capacity
    from arranger.cli.shadow import SHADOW_ERRORS, load_source, read_copies
    from arranger.daemon.config.schema import load_config
    from arranger.daemon.logging import configure_logging
    from arranger.shadow.capacity import Capacity

    if not files:
        raise click.UsageError("give what is to be placed: -f")
    if bool(copies) != bool(like):
        raise click.UsageError("--copies and --like go together")
    configure_logging(level="CRITICAL")
    try:
        config = load_config(config_file)
        source = load_source(snapshots, kubeconfig, context, config, surroundings=True)
        question = Capacity(read_copies(source, config, namespace, files), copies or 0, like)
        told = source.shadow.ask_now(question)
    except SHADOW_ERRORS as error:
        raise CommandError(error) from error
    for line in source.shadow.unread:
        say(f"not read: {line}", to_stderr=True)
    if output == "json":
        say_json(msgspec.to_builtins(told), indent=2)
    else:
        print_capacity(told)
