"""``arranger doctor``: what is wrong with an installation, and how to mend it."""

from __future__ import annotations

from pathlib import Path

import click

from arranger.cli import options


@click.command()
@options.cluster
@options.config()
@options.output
def doctor(
    kubeconfig: Path | None, context: str | None, config_file: Path | None, output: str
) -> None:
    """Look for what keeps the scheduler from its work: each finding is ok, or says how to mend it.

    Definitions and their versions, rights, who leads, other schedulers, profiles, webhooks, clocks,
    queues, gangs, and objects that were set aside. Nothing is written. Ends with 1 if something is
    wrong.
    """
    import asyncio

    import msgspec

    from arranger.api.timestamps import utc_now
    from arranger.cli.doctor.examination import examine
    from arranger.cli.doctor.finding import Finding
    from arranger.cli.output.errors import CommandError
    from arranger.cli.output.findings import print_findings
    from arranger.cli.output.screen import say_json
    from arranger.cli.shadow import SHADOW_ERRORS
    from arranger.daemon.config.schema import Config, load_config
    from arranger.daemon.telemetry.logging import configure_logging
    from arranger.kube.client.aiohttp_transport import HttpTransport
    from arranger.kube.client.kubeconfig import load_api_server_config

    async def look(config: Config) -> list[Finding]:
        transport = HttpTransport(await load_api_server_config(kubeconfig, context))
        try:
            return await examine(transport, config, now=utc_now())
        finally:
            await transport.close()

    configure_logging(level="CRITICAL")
    try:
        found = asyncio.run(look(load_config(config_file)))
    except SHADOW_ERRORS as error:
        raise CommandError(error) from error
    if output == "json":
        say_json({"findings": msgspec.to_builtins(found)}, indent=2)
    else:
        print_findings(found)
    if any(each.state == "wrong" for each in found):
        raise SystemExit(1)
