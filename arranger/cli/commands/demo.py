"""``arranger demo``: everything at work in an embedded cluster, to look at."""

from __future__ import annotations

from pathlib import Path

import click

from arranger.bundled import bundled_folder
from arranger.cli import options


@click.command()
@options.manifests("Manifests instead of examples/demo.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Loopback port of the cluster; 0 picks a free one.",
)
@click.option("--keep", is_flag=True, help="Go on serving until Ctrl-C.")
def demo(files: tuple[Path, ...], port: int, keep: bool) -> None:
    """Start an embedded cluster, let things happen in it, and tell why what waits does."""
    import asyncio
    import errno
    import random

    from arranger.cli.output.errors import CommandError
    from arranger.cli.output.result_tables import LiveProgress, print_result
    from arranger.cli.output.screen import say
    from arranger.cli.output.why_answers import print_answers
    from arranger.cli.simulation.answers import why_waiting
    from arranger.cli.simulation.demo import run_demo
    from arranger.cli.simulation.manifests import ManifestError, introductions, read_manifests
    from arranger.daemon.telemetry.logging import configure_logging
    from arranger.embedded.server import EmbeddedCluster

    configure_logging(level="ERROR")
    try:
        manifests = read_manifests(files or (bundled_folder("examples") / "demo",))
        cluster = EmbeddedCluster(rng=random.Random())
        introduced = () if files else introductions(bundled_folder("examples") / "demo")
        with LiveProgress(introduced) as live:
            result = asyncio.run(
                run_demo(
                    cluster,
                    manifests,
                    port=port,
                    keep=keep,
                    progress=live.show,
                    serving=live.serving,
                )
            )
        print_result(result, clock="seconds")
        print_answers(why_waiting(cluster))
        if not keep:
            say("to look around: arranger demo --keep, and in another terminal what it prints:")
            say("arranger ui serves pages that show all of this, and why things wait")
    except KeyboardInterrupt:
        say("stopped")
    except (ManifestError, OSError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            text = f"--port: port {port} is in use on this machine; 0 picks a free one"
        raise CommandError(text) from error
