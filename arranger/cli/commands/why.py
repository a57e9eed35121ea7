"""``arranger why``: why something waits, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arranger.cli import options

if TYPE_CHECKING:
    from arranger.shadow.answers.why import Answer


@click.command()
@click.argument("what")
@options.shadow
@click.option("--no-suggestions", is_flag=True, help="Only the causes; nothing is tried.")
@click.option(
    "--thorough",
    is_flag=True,
    help="Takes up to 20 seconds to try changes, not half of one.",
)
@options.output
def why(
    what: str,
    shadow: options.ShadowOptions,
    no_suggestions: bool,
    thorough: bool,
    output: str,
) -> None:
    """Tell why WHAT waits: NAME or pod/NAME, gang/NAME, queue/NAME, or KIND/NAME of what owns pods.

    The scheduler's own core decides in memory with the objects of the cluster, or of --snapshot
    files, and tries what it suggests. Nothing is written.
    """
    import msgspec

    from arranger.cli.output.screen import say_json
    from arranger.cli.output.why_answers import print_answers
    from arranger.cli.question import ask
    from arranger.shadow.answers.questions import Why

    if not all(what.split("/")):
        raise click.UsageError(f"{what!r}: neither NAME nor KIND/NAME")
    question = Why(what, shadow.namespace, suggest=not no_suggestions, thorough=thorough)
    answers: list[Answer] = ask(shadow, lambda _: question)
    if output == "json":
        say_json({"answers": msgspec.to_builtins(answers)}, indent=2)
    else:
        print_answers(answers)
