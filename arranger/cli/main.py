"""``arranger``: every command imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

import click

from arranger import __version__
from arranger.cli import options
from arranger.cli.commands.capacity import capacity
from arranger.cli.commands.controllers import controllers
from arranger.cli.commands.demo import demo
from arranger.cli.commands.doctor import doctor
from arranger.cli.commands.explain import explain
from arranger.cli.commands.queue import queue
from arranger.cli.commands.run import run
from arranger.cli.commands.simulate import simulate
from arranger.cli.commands.ui import ui
from arranger.cli.commands.whatif import whatif
from arranger.cli.commands.why import why
from arranger.cli.output.errors import CommandGroup


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Arranger, a Kubernetes scheduler. Also installed as kubectl-arranger."""


for command in (
    capacity,
    controllers,
    demo,
    doctor,
    explain,
    queue,
    run,
    simulate,
    ui,
    whatif,
    why,
):
    main.add_command(command)


@main.command()
@options.output
def version(output: str) -> None:
    """Print the version, and whose behaviour the plugins have."""
    import platform

    from arranger.cli.output.screen import say, say_json

    facts = {"arranger": __version__, "kubernetes": "1.36", "python": platform.python_version()}
    if output == "json":
        say_json(facts)
    else:
        say("  ".join(f"{name} {what}" for name, what in facts.items()))


if __name__ == "__main__":
    main()
