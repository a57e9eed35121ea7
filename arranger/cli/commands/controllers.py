"""``arranger controllers``: the controllers of Gangs, PodGroups, Queues, Jobs and TYJobs."""

from __future__ import annotations

from pathlib import Path

import click

from arranger.cli import options


@click.command()
@options.cluster
@options.config("The scheduler's configuration: whose pods are ours.")
@click.option("-n", "--namespace", "namespaces", multiple=True, help="Only there. May be repeated.")
@click.option("--liveness", help="Where to answer probes, http://0.0.0.0:8080/healthz for example.")
@options.log_level
def controllers(
    kubeconfig: Path | None,
    context: str | None,
    config_file: Path | None,
    namespaces: tuple[str, ...],
    liveness: str | None,
    log_level: str,
) -> None:
    """Maintain Gang objects and the status of PodGroups, and run Jobs and TYJobs, until stopped."""
    import asyncio
    import logging

    import aiohttp

    from arranger.controllers.manager import run_controllers
    from arranger.controllers.runtime.controller import ControllerOptions
    from arranger.daemon.config.schema import ConfigError, load_config
    from arranger.daemon.logging import configure_logging
    from arranger.kube.client.kubeconfig import KubeconfigError, load_api_server_config

    async def run() -> None:
        access = await load_api_server_config(kubeconfig, context)
        schedulers = [profile.scheduler_name for profile in config.profiles]
        timeout = config.tyjobs.scheduling_timeout_seconds
        settings = ControllerOptions(schedulers, namespaces, scheduling_timeout=timeout)
        await run_controllers(access, settings, liveness=liveness)

    try:
        config = load_config(config_file)
        configure_logging(level=log_level.upper())
        # kopf reports every event that it has handed over as news.
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)
        asyncio.run(run())
    except (ConfigError, KubeconfigError, aiohttp.ClientError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
