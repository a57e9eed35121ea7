"""``arranger why``: why something waits, and what would help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from arranger.cli import options

if TYPE_CHECKING:
    from arranger.shadow.why import Answer


@click.command()
@click.argument("what")
@options.shadow
@click.option("--no-suggestions", is_flag=True, help="Only the causes; nothing is tried.")
@click.option(
    "--thorough", is_flag=True, help="Takes up to 20 seconds to try changes, rather than one."
)
@options.output
def why(
    what: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    snapshots: tuple[Path, ...],
    config_file: Path | None,
    no_suggestions: bool,
    thorough: bool,
    output: str,
) -> None:
    """Tell why WHAT waits: NAME or pod/NAME, gang/NAME, queue/NAME, or KIND/NAME of what owns pods.

    The scheduler's own core decides in memory with the objects of the cluster, or of --snapshot
    files, and tries what it suggests. Nothing is written.
    """
    import msgspec

    from arranger.cli.output.errors import CommandError
    from arranger.cli.output.screen import say, say_json
    from arranger.cli.output.why_answers import print_answers
    from arranger.cli.shadow import SHADOW_ERRORS, load_source
    from arranger.daemon.config.schema import load_config
    from arranger.daemon.logging import configure_logging
    from arranger.shadow.questions import Why

    configure_logging(level="CRITICAL")
    try:
        config = load_config(config_file)
        source = load_source(snapshots, kubeconfig, context, config)
        question = Why(what, namespace, suggest=not no_suggestions, thorough=thorough)
        answers: list[Answer] = source.shadow.ask_now(question)
    except SHADOW_ERRORS as error:
        raise CommandError(error) from error
    for line in source.shadow.unread:
        say(f"not read: {line}", to_stderr=True)
    if output == "json":
        say_json({"answers": msgspec.to_builtins(answers)}, indent=2)
    else:
        print_answers(answers)
