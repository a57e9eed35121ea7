"""``arranger whatif``: what a change would do, before it is made."""

from __future__ import annotations

from pathlib import Path

import click

from arranger.cli import options


@click.command()
@options.manifests("Created: YAML or JSON files, or folders of them. May be repeated.")
@click.option("--delete", "deleted", multiple=True, metavar="KIND/NAME", help="Is gone.")
@click.option("--cordon", "cordoned", multiple=True, metavar="NODE", help="Takes no more pods.")
@click.option(
    "--add-nodes",
    "added",
    multiple=True,
    metavar="NxNODE",
    help="N more nodes like NODE, with the pods of DaemonSets.",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="QUEUE.FIELD=RESOURCE=AMOUNT",
    help="Another capability, deserved or guarantee of a Queue.",
)
@options.shadow
@options.output
def whatif(
    files: tuple[Path, ...],
    deleted: tuple[str, ...],
    cordoned: tuple[str, ...],
    added: tuple[str, ...],
    queues: tuple[str, ...],
    shadow: options.ShadowOptions,
    output: str,
) -> None:
    """Tell what changes would do: who is placed where, evicted, or waits. Nothing is written.

    All changes are made at once, in the order files, --delete, --cordon, --add-nodes, --queue.
    """
    import msgspec

    from arranger.cli.output.screen import say_json
    from arranger.cli.output.why_answers import print_difference
    from arranger.cli.question import ask
    from arranger.cli.shadow import Source, named_changes, read_changes
    from arranger.shadow.forecasts.changes import MalformedChangeError
    from arranger.shadow.forecasts.comparison import WhatIf

    if not (files or deleted or cordoned or added or queues):
        raise click.UsageError("give a change: -f, --delete, --cordon, --add-nodes or --queue")
    try:
        named_changes(shadow.namespace, deleted, cordoned, added, queues)
    except MalformedChangeError as error:
        raise click.UsageError(str(error)) from error

    def question(source: Source) -> WhatIf:
        namespace = shadow.namespace
        return WhatIf(read_changes(source, namespace, files, deleted, cordoned, added, queues))

    told = ask(shadow, question, surroundings=bool(files))
    if output == "json":
        say_json(msgspec.to_builtins(told), indent=2)
    else:
        print_difference(told)
