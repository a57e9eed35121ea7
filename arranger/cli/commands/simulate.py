"""``arranger simulate``: manifests in virtual time, or a trace under several policies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from arranger.cli import options


@click.command()
@options.manifests("Manifests: YAML or JSON files, or folders of them. May be repeated.")
@click.option(
    "--trace",
    type=options.InputPath(),
    help="Instead of manifests: a trace to replay, a folder or its pod list.",
)
@options.config()
@click.option("--seed", default=0, show_default=True, help="Equal seeds give equal runs.")
@options.output
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
    help="Draw into this file which pods were where and when; of a trace how the cluster filled.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write a report into this file: the picture, what waits and why, what happened.",
)
@click.option("--timeline", is_flag=True, help="Print what happened, too.")
@click.option(
    "--for",
    "--max-time",
    "max_seconds",
    type=options.DURATION,
    default="30d",
    show_default=True,
    help="Virtual time after which it ends in any case: 90s, 12h, 30d. Where it is given, CronJobs "
    "follow their schedules; else each starts one Job.",
)
@click.option(
    "--until",
    metavar="GOAL",
    help="End as soon as this is so: placed (no pod waits), or KIND/NAME=STATE, such as "
    "pod/web-0=Running, job/train=Complete, tyjob/average=Succeeded. Exit code 1 if it never is.",
)
@click.option("--all-pods", is_flag=True, help="Place the pods of other schedulers too.")
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
    html: Path | None,
    timeline: bool,
    max_seconds: float,
    until: str | None,
    all_pods: bool,
) -> None:
    """Schedule manifests in an embedded cluster, in virtual time, until nothing changes.

    Or replay a trace under several placement policies and compare them.
    """
    _refuse_mixed(context, trace)
    if trace is not None:
        _replay(trace, policies, seed=seed, speedup=speedup, svg=svg, output=output)
    else:
        source = context.get_parameter_source("max_seconds")
        schedules = source is not click.core.ParameterSource.DEFAULT
        asked = _Asked(files, config_file, seed, max_seconds, until, all_pods, schedules)
        _simulate(asked, output, svg=svg, html=html, timeline=timeline)


def _refuse_mixed(context: click.Context, trace: Path | None) -> None:
    """Refuse options that this mode would ignore."""
    given = {
        name
        for name in context.params
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    }
    if trace is None:
        if not given & {"files"}:
            raise click.UsageError("give manifests with -f, or a trace with --trace")
        wrong = given & {"policies", "speedup"}
    else:
        simulated = {"files", "config_file", "max_seconds", "all_pods", "until", "html", "timeline"}
        wrong = given & simulated
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
    from arranger.cli.output.comparison_table import print_comparison
    from arranger.cli.output.errors import CommandError
    from arranger.cli.output.screen import say, say_json
    from arranger.daemon.telemetry.logging import configure_logging
    from arranger.replay import PolicyError, TraceError, compare, draw_svg, read_trace

    def report_start(policy: str) -> None:
        say(f"replaying under {policy}", to_stderr=True)

    configure_logging(level="ERROR")
    try:
        comparison = compare(
            read_trace(trace), policies, seed=seed, speedup=speedup, on_start=report_start
        )
        if svg is not None:
            svg.write_text(draw_svg(comparison), encoding="utf-8")
    except (TraceError, PolicyError, OSError) as error:
        raise CommandError(error) from error
    if output == "json":
        say_json(comparison.as_json(), indent=2)
    else:
        print_comparison(comparison)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be simulated, and until when."""

    files: tuple[Path, ...]
    config_file: Path | None
    seed: int
    max_seconds: float
    until: str | None
    all_pods: bool
    schedules: bool


def _simulate(
    asked: _Asked, output: str, *, svg: Path | None, html: Path | None, timeline: bool
) -> None:
    import msgspec

    from arranger.cli.output.errors import CommandError
    from arranger.cli.output.gantt import draw_timeline
    from arranger.cli.output.report import html_report
    from arranger.cli.output.result_tables import print_result
    from arranger.cli.output.screen import say_json
    from arranger.cli.simulation.goal import Goal, GoalError
    from arranger.cli.simulation.manifests import ManifestError, read_manifests
    from arranger.cli.simulation.simulate import simulate as run_simulation
    from arranger.daemon.config.schema import ConfigError, load_config
    from arranger.daemon.telemetry.logging import configure_logging

    configure_logging(level="ERROR")
    try:
        result = run_simulation(
            read_manifests(asked.files),
            load_config(asked.config_file),
            seed=asked.seed,
            max_seconds=asked.max_seconds,
            all_pods=asked.all_pods,
            until=None if asked.until is None else Goal(asked.until),
            schedules=asked.schedules,
        )
        if svg is not None:
            drawn = draw_timeline(result.timeline, result.virtual_seconds)
            svg.write_text(drawn, encoding="utf-8")
        if html is not None:
            html.write_text(html_report(result), encoding="utf-8")
    except GoalError as error:
        raise click.UsageError(f"--until: {error}") from error
    except (ManifestError, ConfigError, OSError) as error:
        raise CommandError(error) from error
    if output == "json":
        say_json(msgspec.to_builtins(result), indent=2)
    else:
        print_result(result, timeline=timeline)
    if result.missed:
        click.get_current_context().exit(1)
