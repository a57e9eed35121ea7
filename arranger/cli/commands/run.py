"""``arranger run``: the scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from arranger.cli import options

if TYPE_CHECKING:
    from arranger.daemon.serving.secure_serving import ServingOptions


@click.command()
@options.cluster
@options.config()
@options.serving
@options.log_level
def run(
    kubeconfig: Path | None,
    context: str | None,
    config_file: Path | None,
    serving: ServingOptions,
    log_level: str,
) -> None:
    """Schedule the pods of a cluster until stopped."""
    import asyncio

    from arranger.cli.output.errors import CommandError
    from arranger.daemon.config.schema import ConfigError, load_config
    from arranger.daemon.election import LeadershipLostError
    from arranger.daemon.server import run_daemon
    from arranger.daemon.serving.health import ServerError
    from arranger.daemon.telemetry.logging import configure_logging
    from arranger.kube.client.kubeconfig import KubeconfigError

    try:
        config = load_config(config_file)
        configure_logging(level=log_level.upper())
        asyncio.run(run_daemon(config, kubeconfig=kubeconfig, context=context, serving=serving))
    except (ConfigError, KubeconfigError, LeadershipLostError, ServerError, OSError) as error:
        raise CommandError(error) from error
