"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from arranger.cli.paths import InputPath

FILE = InputPath(dir_okay=False)
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

log_level = click.option(
    "--log-level", default="INFO", show_default=True, help="The least that is logged."
)


def cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--kubeconfig`` and ``--context``: which cluster the command works on."""
    kubeconfig = click.option(
        "--kubeconfig", type=FILE, help="Default: $KUBECONFIG, in-cluster, ~/.kube/config."
    )
    context = click.option("--context", help="The kubeconfig context to use.")
    return kubeconfig(context(command))


def config(text: str = "A SchedulerConfiguration file.") -> Decorator:
    """``--config``; the parameter is called ``config_file``."""
    return click.option("--config", "config_file", type=FILE, help=text)


def manifests(text: str) -> Decorator:
    """``-f``, any number of times; the parameter is called ``files``."""
    return click.option("-f", "--filename", "files", type=InputPath(), multiple=True, help=text)


def output(form: str) -> Decorator:
    """``-o``: this form for people, or ``json`` for programs."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice([form, "json"]),
        default=form,
        help="Form of the output.",
    )
