"""``arranger ui``: the cluster in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from arranger.cli import options


@click.command()
@options.cluster
@options.snapshots
@options.config()
@click.option(
    "--bind-address",
    default="127.0.0.1",
    show_default=True,
    help="Where to serve. On any but a loopback address over HTTPS, and only to those of whom the"
    " API server says that they may get /ui.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="0 picks a free one.",
)
@click.option("--tls-cert-file", type=options.FILE, help="Default: a self-signed certificate.")
@click.option("--tls-private-key-file", type=options.FILE, help="The key of --tls-cert-file.")
@options.log_level
def ui(
    kubeconfig: Path | None,
    context: str | None,
    snapshots: tuple[Path, ...],
    config_file: Path | None,
    bind_address: str,
    port: int,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    log_level: str,
) -> None:
    """Serve pages that show the cluster, why things wait, and what changes would do.

    They are served on this machine alone, with the rights of whoever starts the command, to those
    who have the address that is printed. Nothing is written. Ctrl-C ends it.
    """
    import asyncio

    from arranger.cli.cockpit import ServingPlace, serve_pages
    from arranger.cli.output.errors import CommandError
    from arranger.cli.shadow import SHADOW_ERRORS
    from arranger.daemon.config.schema import load_config
    from arranger.daemon.serving.certificate import CertificateError
    from arranger.daemon.telemetry.logging import configure_logging

    configure_logging(level=log_level.upper())
    place = ServingPlace(bind_address, port, tls_cert_file, tls_private_key_file)
    try:
        config = load_config(config_file)
        asyncio.run(serve_pages(place, config, snapshots, kubeconfig, context))
    except (*SHADOW_ERRORS, CertificateError) as error:
        raise CommandError(error) from error
    except KeyboardInterrupt:
        pass
