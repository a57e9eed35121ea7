"""``arranger controllers``: the controllers of Gangs, PodGroups, Queues, Jobs and TYJobs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from arranger.cli import options

if TYPE_CHECKING:
    from arranger.daemon.serving.secure_serving import ServingOptions

#: Seconds from the end of the controllers to that of the process, at most.
_EXIT_WITHIN: Final = 10.0


@click.command()
@options.cluster
@options.config("The scheduler's configuration: whose pods are ours, and what holds for gangs.")
@click.option("-n", "--namespace", "namespaces", multiple=True, help="Only there. May be repeated.")
@options.serving
@options.log_level
def controllers(
    kubeconfig: Path | None,
    context: str | None,
    config_file: Path | None,
    namespaces: tuple[str, ...],
    serving: ServingOptions,
    log_level: str,
) -> None:
    """Maintain Gang objects and the status of PodGroups, and run Jobs and TYJobs, until stopped."""
    import asyncio
    import os
    import threading

    from arranger.bundled import bundled_definitions
    from arranger.cli.output.errors import CommandError
    from arranger.controllers.manager import Readiness, run_controllers
    from arranger.controllers.runtime.controller import ControllerOptions
    from arranger.controllers.runtime.kopf_operator import quiet_kopf
    from arranger.daemon.config.schema import ConfigError, load_config
    from arranger.daemon.serving.health import ServerError
    from arranger.daemon.serving.secure_serving import secure_server
    from arranger.daemon.telemetry.logging import configure_logging
    from arranger.daemon.telemetry.metrics import ClientMetrics
    from arranger.kube.client.aiohttp_transport import HttpTransport
    from arranger.kube.client.kubeconfig import KubeconfigError, load_api_server_config
    from arranger.kube.client.problem_log import ProblemLog

    async def run() -> None:
        access = await load_api_server_config(kubeconfig, context)
        problems = ProblemLog(
            "the rights of manifests/60-controllers-rbac.yaml", bundled_definitions()
        )
        metrics = ClientMetrics()
        schedulers, readiness = [p.scheduler_name for p in config.profiles], Readiness()
        settings = ControllerOptions(
            schedulers,
            namespaces,
            gang_wait_time=config.gangs.wait_time_seconds,
            command_namespaces=config.queues.command_namespaces,
            scheduling_timeout=config.tyjobs.scheduling_timeout_seconds,
            problems=problems,
            metrics=metrics,
        )
        checks = {"informer-sync": readiness.readiness_error, "api": problems.readiness_error}
        async with AsyncExitStack() as stack:
            if serving.secure_port is not None:
                transport = HttpTransport(access)
                stack.push_async_callback(transport.close)
                server = secure_server(
                    serving,
                    transport,
                    host=config.server.host,
                    port=serving.secure_port,
                    checks=checks,
                    registry=metrics.registry,
                )
                await stack.enter_async_context(server)
            try:
                await run_controllers(access, settings, readiness=readiness)
            finally:
                # Whatever does not end by itself must not keep the next process from starting.
                end = threading.Timer(_EXIT_WITHIN, os._exit, (1,))
                end.daemon = True
                end.start()

    try:
        config = load_config(config_file)
        configure_logging(level=log_level.upper())
        quiet_kopf()
        asyncio.run(run())
    except (ConfigError, KubeconfigError, ServerError, OSError) as error:
        raise CommandError(error) from error
