"""The scheduler as a process of its own: credentials, signals, health server, exit."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import uuid
from pathlib import Path

import structlog

from arranger.bundled import bundled_definitions
from arranger.daemon.config.schema import Config
from arranger.daemon.debugger import dump
from arranger.daemon.garbage import FrozenGarbage, tune_gc
from arranger.daemon.scheduler import Scheduler
from arranger.daemon.serving.health import ServerError
from arranger.daemon.serving.secure_serving import ServingOptions, secure_server
from arranger.daemon.telemetry.tracing import OpenTelemetryTracer, make_tracer
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.connection_pool import write_transport
from arranger.kube.client.kubeconfig import load_api_server_config
from arranger.kube.client.problem_log import ProblemLog
from arranger.kube.client.rights_observer import RequestRightsObserver

log = structlog.get_logger(__name__)


async def run_daemon(
    config: Config,
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    serving: ServingOptions | None = None,
) -> None:
    """Schedule until SIGTERM or SIGINT.

    Raises:
        ConfigError: the configured plugins, or tracing, cannot be used.
        KubeconfigError: no API server or no credentials were found.
        LeadershipLostError: another replica may have taken over; end the process.
        ServerError: the health server's address is taken, or its certificate cannot be used.
    """
    tune_gc()
    identity = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    tracer = make_tracer(config.tracing, identity)
    collecting = asyncio.create_task(FrozenGarbage().run(), name="collect garbage")
    problems = ProblemLog("the rights of manifests/20-rbac.yaml", bundled_definitions())
    server = await load_api_server_config(kubeconfig, context)
    transport = HttpTransport(server)
    writes = write_transport(server, transport)

    async def open_lease() -> HttpTransport:
        return HttpTransport(await load_api_server_config(kubeconfig, context))

    try:
        scheduler = Scheduler(
            transport,
            config,
            identity=identity,
            write_transport=RequestRightsObserver(writes, problems),
            rng=random.Random(os.urandom(16)),
            problems=problems,
            open_lease=open_lease,
            tracer=tracer,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, scheduler.stop)
        loop.add_signal_handler(signal.SIGUSR2, lambda: dump(scheduler.engine))
        async with secure_server(
            serving or ServingOptions(),
            transport,
            host=config.server.host,
            port=config.server.port,
            checks={**scheduler.readiness_checks(), "api": problems.readiness_error},
            registry=scheduler.metrics.registry,
            before_metrics=lambda: scheduler.metrics.update_gauges(scheduler.engine),
        ) as port:
            log.info("scheduler.starting", server=server.url, identity=identity, health_port=port)
            await scheduler.run()
        log.info("scheduler.stopped")
    except ServerError as error:
        if "in use" not in str(error):
            raise
        raise ServerError(
            f"{error}: is another scheduler there (kube-scheduler's port is 10259, too)? Set"
            " server.port in the configuration (--config); 0 picks a free one"
        ) from error
    finally:
        collecting.cancel()
        await writes.close()
        await transport.close()
        if isinstance(tracer, OpenTelemetryTracer):
            await tracer.close()
