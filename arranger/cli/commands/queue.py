"""``arranger queue``: the queues of a cluster, their use, and what waits in them."""

from __future__ import annotations

from pathlib import Path

import click

from arranger.cli import options


@click.command()
@click.argument("name", required=False)
@options.cluster
@click.option(
    "--scheduler", "schedulers", multiple=True, default=["arranger"], help="Whose pods wait here."
)
@options.output
def queue(
    name: str | None,
    kubeconfig: Path | None,
    context: str | None,
    schedulers: tuple[str, ...],
    output: str,
) -> None:
    """Show the tree of queues with their use, or queue NAME, and why what waits there waits."""
    import asyncio
    from datetime import UTC, datetime

    import msgspec

    from arranger.cli.output.errors import CommandError
    from arranger.cli.output.queue_tables import print_queues
    from arranger.cli.output.screen import Screen, say, say_json
    from arranger.cli.queues import load_mean_usage, load_queue_cache, queue_views
    from arranger.controllers.queue.cache import QueueCache
    from arranger.daemon.config.schema import Config
    from arranger.daemon.usage import usage_path
    from arranger.kube.client.aiohttp_transport import HttpTransport
    from arranger.kube.client.kubeconfig import KubeconfigError, load_api_server_config
    from arranger.kube.client.transport import TransportError

    async def read() -> tuple[QueueCache, dict[str, dict[str, float]]]:
        transport = HttpTransport(await load_api_server_config(kubeconfig, context))
        try:
            cache = await load_queue_cache(transport, schedulers, unread.append)
            return cache, await load_mean_usage(transport, usage_path(Config()))
        finally:
            await transport.close()

    unread: list[str] = []
    try:
        cache, means = asyncio.run(read())
        views = queue_views(cache, name, means)
    except (KubeconfigError, TransportError, OSError, LookupError, msgspec.MsgspecError) as error:
        raise CommandError(error) from error
    for line in unread:
        say(f"not read: {line}", to_stderr=True)
    if output == "json":
        say_json({"queues": [view.as_json() for view in views]}, indent=2)
    else:
        print_queues(views, Screen(), now=datetime.now(UTC))
