"""Options that several commands have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from arranger.bundled import bundled_folder


class InputPath(click.Path):
    """A path that must exist, given to the command as a :class:`~pathlib.Path`.

    ``examples/…`` that is not in the current folder is looked up among the examples that come with
    Arranger, so that the commands of the documentation work wherever it is installed.
    """

    def __init__(self, *, dir_okay: bool = True) -> None:
        super().__init__(exists=True, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the path; click calls this."""
        path = Path(value)
        if path.parts[:1] == ("examples",) and not path.exists():
            example = bundled_folder("examples").joinpath(*path.parts[1:])
            value = example if example.exists() else value
        return super().convert(value, param, ctx)


class Duration(click.ParamType[float]):
    """A span of time such as ``90s``, ``12h`` or ``30d``, given to the command in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the span; click calls this."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", str(value))
        seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
        if not 0 < seconds <= _MAX_SECONDS:
            self.fail(f"{value!r} is no span of time such as 90s, 12h or 30d", param, ctx)
        return seconds


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
#: A century; calendars end.
_MAX_SECONDS: Final = 36_525 * 86_400
DURATION = Duration()
FILE = InputPath(dir_okay=False)
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

log_level = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    help="The least that is logged.",
)


def cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--kubeconfig`` and ``--context``: which cluster the command works on."""
    kubeconfig = click.option(
        "--kubeconfig", type=FILE, help="Default: $KUBECONFIG, in-cluster, ~/.kube/config."
    )
    context = click.option("--context", help="The kubeconfig context to use.")
    return kubeconfig(context(command))


def config(text: str = "A SchedulerConfiguration file.") -> Decorator:
    """``--config``; the parameter is called ``config_file``."""
    return click.option("--config", "config_file", type=FILE, help=text)


def manifests(text: str) -> Decorator:
    """``-f``, any number of times; the parameter is called ``files``."""
    return click.option("-f", "--filename", "files", type=InputPath(), multiple=True, help=text)


snapshots = click.option(
    "--snapshot",
    "snapshots",
    type=InputPath(),
    multiple=True,
    help="Instead of a cluster: files or folders of API objects. May be repeated.",
)


class OutputFormat(click.Choice[str]):
    """``table`` for people, ``json`` for programs; ``text`` is an earlier word for the first."""

    def __init__(self) -> None:
        super().__init__(["table", "json"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the format; click calls this."""
        return super().convert("table" if value == "text" else value, param, ctx)


output = click.option(
    "-o",
    "--output",
    type=OutputFormat(),
    default="table",
    show_default=True,
    help="A table for people, or json for programs.",
)


def serving(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options about health and metrics; the parameter is called ``serving``."""

    @wraps(command)
    def gathered(
        *args: Any,
        bind_address: str | None,
        secure_port: int | None,
        tls_cert_file: Path | None,
        tls_private_key_file: Path | None,
        client_ca_file: Path | None,
        always_allow_paths: str,
        token_ttl: float,
        allowed_ttl: float,
        denied_ttl: float,
        **others: Any,
    ) -> Any:
        from arranger.daemon.serving.secure_serving import ServingOptions

        options = ServingOptions(
            bind_address,
            secure_port,
            tls_cert_file,
            tls_private_key_file,
            client_ca_file,
            tuple(filter(None, always_allow_paths.split(","))),
            token_ttl,
            allowed_ttl,
            denied_ttl,
        )
        return command(*args, serving=options, **others)

    for option in reversed(_SERVING):
        gathered = option(gathered)
    return gathered


_SERVING: Final = (
    click.option("--bind-address", help="Where to serve. Default: the configuration's."),
    click.option(
        "--secure-port",
        type=click.IntRange(0, 65535),
        help="The port of /livez, /readyz and /metrics (HTTPS); 0 picks a free one. Default: the"
        " configuration's for the scheduler, none for the controllers.",
    ),
    click.option(
        "--tls-cert-file",
        type=FILE,
        help="Certificate to serve with, read again when it changes. Default: a self-signed one.",
    ),
    click.option("--tls-private-key-file", type=FILE, help="The key of --tls-cert-file."),
    click.option(
        "--client-ca-file",
        type=FILE,
        help="Who shows a certificate of one of these authorities is whom its common name says, in"
        " the groups that its organizations say; read again when it changes.",
    ),
    click.option(
        "--authorization-always-allow-paths",
        "always_allow_paths",
        default="/healthz,/readyz,/livez",
        show_default=True,
        help="What is shown without asking the API server who may see it.",
    ),
    click.option(
        "--authentication-token-webhook-cache-ttl",
        "token_ttl",
        type=DURATION,
        default="10s",
        show_default=True,
        help="How long it is remembered whose a token is.",
    ),
    click.option(
        "--authorization-webhook-cache-authorized-ttl",
        "allowed_ttl",
        type=DURATION,
        default="10s",
        show_default=True,
        help="How long it is remembered that somebody may see something.",
    ),
    click.option(
        "--authorization-webhook-cache-unauthorized-ttl",
        "denied_ttl",
        type=DURATION,
        default="10s",
        show_default=True,
        help="How long it is remembered that somebody may not.",
    ),
)


@dataclass(frozen=True, slots=True)
class ShadowOptions:
    """What the options about a shadow say.

    Attributes:
        namespace: of what is named.
        snapshots: files and folders, instead of a cluster.
    """

    namespace: str
    kubeconfig: Path | None
    context: str | None
    snapshots: tuple[Path, ...]
    config_file: Path | None


def shadow(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds where a shadow gets its objects from: a cluster, or ``--snapshot`` files; the parameter
    is called ``shadow``."""

    @wraps(command)
    def gathered(
        *args: Any,
        namespace: str,
        kubeconfig: Path | None,
        context: str | None,
        snapshots: tuple[Path, ...],
        config_file: Path | None,
        **others: Any,
    ) -> Any:
        options = ShadowOptions(namespace, kubeconfig, context, snapshots, config_file)
        return command(*args, shadow=options, **others)

    namespace = click.option(
        "-n", "--namespace", default="default", show_default=True, help="Of what is named."
    )
    return namespace(cluster(snapshots(config()(gathered))))
