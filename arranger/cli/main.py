"""``arranger``: one command, imported lazily so that ``--help`` is quick."""

from __future__ import annotations

from pathlib import Path

import click

from arranger import __version__
from arranger.bundled import bundled_folder
from arranger.cli.commands.controllers import controllers
from arranger.cli.commands.queue import queue
from arranger.cli.paths import InputPath

_FILE = InputPath(dir_okay=False)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Arranger, a Kubernetes scheduler. Also installed as kubectl-arranger."""


main.add_command(controllers)
main.add_command(queue)


@main.command()
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Form of the output.",
)
def version(output: str) -> None:
    """Print the version, and whose behaviour the plugins have."""
    import json
    import platform

    facts = {"arranger": __version__, "kubernetes": "1.36", "python": platform.python_version()}
    if output == "json":
        click.echo(json.dumps(facts))
    else:
        click.echo("  ".join(f"{name} {what}" for name, what in facts.items()))


@main.command()
@click.option("--kubeconfig", type=_FILE, help="Default: $KUBECONFIG, in-cluster, ~/.kube/config.")
@click.option("--context", help="The kubeconfig context to use.")
@click.option("--config", "config_file", type=_FILE, help="A SchedulerConfiguration file.")
@click.option("--log-level", default="INFO", show_default=True, help="The least that is logged.")
def run(
    kubeconfig: Path | None, context: str | None, config_file: Path | None, log_level: str
) -> None:
    """Schedule the pods of a cluster until stopped."""
    import asyncio

    from arranger.daemon.config.schema import ConfigError, load_config
    from arranger.daemon.logging import configure_logging
    from arranger.daemon.scheduler import LeadershipLostError
    from arranger.daemon.server import run_daemon
    from arranger.kube.client.kubeconfig import KubeconfigError

    try:
        config = load_config(config_file)
        configure_logging(level=log_level.upper())
        asyncio.run(run_daemon(config, kubeconfig=kubeconfig, context=context))
    except (ConfigError, KubeconfigError, LeadershipLostError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.option(
    "-f",
    "--filename",
    "files",
    type=InputPath(),
    multiple=True,
    help="Manifests: YAML or JSON files, or folders of them. May be repeated.",
)
@click.option(
    "--trace",
    type=InputPath(),
    help="Instead of manifests: a trace to replay, a folder or its pod list.",
)
@click.option("--config", "config_file", type=_FILE, help="A SchedulerConfiguration file.")
@click.option("--seed", default=0, show_default=True, help="Equal seeds give equal runs.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    help="Form of the output.",
)
@click.option("--policy", "policies", multiple=True, help="With --trace: default all known ones.")
@click.option(
    "--speedup",
    type=click.FloatRange(min=0, min_open=True),
    default=50_000.0,
    show_default=True,
    help="With --trace: how much faster than in it pods come, while waiting is measured.",
)
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="With --trace: draw how the cluster filled into this file.",
)
@click.pass_context
def simulate(
    context: click.Context,
    files: tuple[Path, ...],
    trace: Path | None,
    config_file: Path | None,
    seed: int,
    output: str,
    policies: tuple[str, ...],
    speedup: float,
    svg: Path | None,
) -> None:
    """Schedule manifests in an embedded cluster, in virtual time, until nothing changes.

    Or replay a trace under several placement policies and compare them.
    """
    _refuse_mixed(context, trace)
    if trace is not None:
        _replay(trace, policies, seed=seed, speedup=speedup, svg=svg, output=output)
    else:
        _simulate(files, config_file, seed, output)


def _refuse_mixed(context: click.Context, trace: Path | None) -> None:
    """Options that would be ignored are mistakes."""
    given = {
        name
        for name in context.params
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    }
    if trace is None:
        if not given & {"files"}:
            raise click.UsageError("give manifests with -f, or a trace with --trace")
        wrong = given & {"policies", "speedup", "svg"}
    else:
        wrong = given & {"files", "config_file"}
    if wrong:
        options = {param.name: param.opts[-1] for param in context.command.params}
        names = ", ".join(sorted(options[name] for name in wrong))
        raise click.UsageError(f"{names}: not {'without' if trace is None else 'with'} --trace")


def _replay(
    trace: Path,
    policies: tuple[str, ...],
    *,
    seed: int,
    speedup: float,
    svg: Path | None,
    output: str,
) -> None:
    from arranger.cli.commands.replay import run_replay
    from arranger.daemon.logging import configure_logging
    from arranger.replay import PolicyError, TraceError

    configure_logging(level="ERROR")
    try:
        run_replay(trace, policies, seed=seed, speedup=speedup, svg=svg, output=output)
    except (TraceError, PolicyError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _simulate(files: tuple[Path, ...], config_file: Path | None, seed: int, output: str) -> None:
    import json

    from arranger.cli.commands.simulate import ManifestError, read_manifests
    from arranger.cli.commands.simulate import simulate as run_simulation
    from arranger.cli.output.tables import print_result
    from arranger.daemon.config.schema import ConfigError, load_config
    from arranger.daemon.logging import configure_logging

    configure_logging(level="ERROR")
    try:
        outcome = run_simulation(read_manifests(files), load_config(config_file), seed=seed)
    except (ManifestError, ConfigError) as error:
        raise click.ClickException(str(error)) from error
    if output == "json":
        click.echo(json.dumps(outcome.as_json(), indent=2))
    else:
        print_result(outcome)


@main.command()
@click.option(
    "-f",
    "--filename",
    "files",
    type=InputPath(),
    multiple=True,
    help="Manifests instead of examples/demo.",
)
@click.option("--port", default=0, help="Loopback port of the cluster; 0 picks a free one.")
@click.option("--keep", is_flag=True, help="Go on serving until Ctrl-C.")
def demo(files: tuple[Path, ...], port: int, keep: bool) -> None:
    """Start an embedded cluster, schedule a mix of pods on it, and show what happens."""
    import asyncio

    from arranger.cli.commands.demo import run_demo
    from arranger.cli.commands.simulate import ManifestError, read_manifests
    from arranger.cli.output.tables import LiveProgress, print_result
    from arranger.daemon.logging import configure_logging

    configure_logging(level="ERROR")
    try:
        manifests = read_manifests(files or (bundled_folder("examples") / "demo",))
        with LiveProgress() as live:
            outcome = asyncio.run(
                run_demo(manifests, port=port, keep=keep, progress=live.show, serving=live.serving)
            )
        print_result(outcome, clock="seconds")
    except KeyboardInterrupt:
        click.echo("stopped")
    except (ManifestError, OSError) as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.option(
    "--snapshot",
    "snapshots",
    type=_FILE,
    multiple=True,
    required=True,
    help="JSON, YAML, or .jsonl[.gz] whose lines are snapshots. May be repeated.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    help="Form of the output.",
)
def explain(snapshots: tuple[Path, ...], output: str) -> None:
    """Judge every pending pod of a snapshot, changing nothing."""
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


if __name__ == "__main__":
    main()
