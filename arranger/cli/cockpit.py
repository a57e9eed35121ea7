"""What the pages of ``arranger ui`` stand on: a shadow of a cluster, or of files."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from arranger.api.timestamps import utc_now
from arranger.cli.lease import read_leadership
from arranger.cli.output.screen import say
from arranger.cli.shadow import (
    SHADOW_ERRORS,
    Source,
    from_files,
    read_changes,
    read_surroundings,
)
from arranger.daemon.config.schema import Config
from arranger.daemon.serving.certificate import ServingCertificate
from arranger.daemon.serving.reviews import Reviews
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.kubeconfig import load_api_server_config
from arranger.kube.client.transport import Transport, TransportError
from arranger.shadow.answers.questions import Why
from arranger.shadow.answers.why import Answer
from arranger.shadow.forecasts.branch import BranchError
from arranger.shadow.forecasts.changes import ClusterChange
from arranger.shadow.forecasts.comparison import Difference, Present, PresentState, WhatIf
from arranger.shadow.live import LiveShadow
from arranger.shadow.shadow import Shadow
from arranger.ui.security import KeyGuard, TokenGuard, is_loopback
from arranger.ui.server import Cockpit, serve
from arranger.ui.source import QuestionError, WhatIfForm

T = TypeVar("T")

Surroundings = Sequence[dict[str, Any]]


@dataclass(eq=False)
class FileSource:
    """A shadow of files; see :class:`~arranger.ui.source.Source`."""

    source: Source
    name: str

    follows = False
    version = 0

    @property
    def state(self) -> Shadow:
        """The shadow."""
        return self.source.shadow

    @property
    def unread(self) -> list[str]:
        """What the files hold and cannot be read."""
        return self.state.unread

    async def until_changed(self, version: int) -> int:
        """Files stay as they were when they were read."""
        await asyncio.Event().wait()
        return version

    async def health(self) -> list[tuple[str, str]]:
        """There is no scheduler to be well."""
        return [("source", "files: no scheduler, no leader")]

    async def why(self, what: str) -> list[Answer]:
        """See :class:`~arranger.ui.source.Source`."""
        return await _answer(self.state.ask(Why(what)))

    async def present(self) -> PresentState:
        """See :class:`~arranger.ui.source.Source`."""
        return await _answer(self.state.ask(Present()))

    async def what_if(self, form: WhatIfForm) -> Difference:
        """See :class:`~arranger.ui.source.Source`."""
        return await _what_if(self.state, self.source.surroundings, form)


@dataclass(eq=False)
class ClusterSource:
    """A shadow that follows a cluster; see :class:`~arranger.ui.source.Source`.

    Args:
        surroundings: reads what manifests are made in.
    """

    live: LiveShadow
    transport: Transport
    config: Config
    name: str
    surroundings: Callable[[Transport], Awaitable[Surroundings]]

    follows = True

    @property
    def version(self) -> int:
        """That of the cluster."""
        return self.live.version

    @property
    def state(self) -> Shadow:
        """The shadow as of now."""
        return self.live.shadow

    @property
    def unread(self) -> list[str]:
        """What may not be read, and what is wrong just now."""
        return self.live.unread

    async def until_changed(self, version: int) -> int:
        """Wait for a change of the cluster."""
        return await self.live.until_changed(version)

    async def health(self) -> list[tuple[str, str]]:
        """Whose the Lease is, and how fast the API server shows it."""
        began = time.monotonic()
        try:
            told = await read_leadership(self.transport, self.config.leader_election)
        except TransportError as error:
            return [("API server", str(error))]
        spent = time.monotonic() - began
        facts = [("API server", f"answers in {1000 * spent:.0f} ms")]
        return [("leader", told.text(utc_now())), *facts]

    async def why(self, what: str) -> list[Answer]:
        """See :class:`~arranger.ui.source.Source`."""
        return await _answer(self.state.ask(Why(what)))

    async def present(self) -> PresentState:
        """See :class:`~arranger.ui.source.Source`."""
        return await _answer(self.state.ask(Present()))

    async def what_if(self, form: WhatIfForm) -> Difference:
        """See :class:`~arranger.ui.source.Source`."""
        around = await self.surroundings(self.transport) if form.manifests.strip() else ()
        return await _what_if(self.state, around, form)


@dataclass(frozen=True, slots=True)
class ServingPlace:
    """Where pages are served.

    Attributes:
        tls_cert_file, tls_key_file: PEM; only where it is not this machine alone that reaches it.
    """

    address: str
    port: int
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.address)


async def serve_pages(
    place: ServingPlace,
    config: Config,
    snapshots: Sequence[Path],
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Serve until cancelled.

    Raises:
        CertificateError: the certificate cannot be used.
        Exception: one of :data:`~arranger.cli.shadow.SHADOW_ERRORS`.
    """
    if snapshots:
        names = ", ".join(str(path) for path in snapshots)
        source = FileSource(from_files(snapshots, config), f"Files {names}")
        await _serve(source, place, None)
        return
    server = await load_api_server_config(kubeconfig, context)
    transport = HttpTransport(server)
    live = LiveShadow(transport, config)
    following = asyncio.create_task(live.run(), name="follow the cluster")
    try:
        await _first_of(live.until_read(), following)
        whole = ClusterSource(live, transport, config, f"Cluster {server.url}", read_surroundings)
        await _first_of(_serve(whole, place, transport), following)
    finally:
        following.cancel()
        await asyncio.wait([following])
        await transport.close()


async def _serve(
    source: FileSource | ClusterSource, place: ServingPlace, transport: Transport | None
) -> None:
    key = secrets.token_urlsafe(24)
    if place.is_local:
        cockpit, tls = Cockpit(source, KeyGuard(key)), None
    elif transport is None:
        raise LookupError("files are shown on a loopback address only: no server says who may look")
    else:
        cockpit = Cockpit(source, TokenGuard(Reviews(transport)), local=False)
        tls = ServingCertificate(place.tls_cert_file, place.tls_key_file).context()
    async with serve(cockpit, place.address, place.port, tls=tls) as port:
        host = f"[{place.address}]" if ":" in place.address else place.address
        address = f"http://{host}:{port}/?key={key}" if tls is None else f"https://{host}:{port}/"
        say(f"{address}  ({source.name})")
        await asyncio.Event().wait()


async def _first_of(wanted: Coroutine[Any, Any, None], beside: asyncio.Task[None]) -> None:
    """Wait for something while something else goes on; what that raises ends both."""
    task = asyncio.create_task(wanted)
    await asyncio.wait([task, beside], return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
        beside.result()
    task.result()


async def _what_if(shadow: Shadow, around: Surroundings, form: WhatIfForm) -> Difference:
    found = await _apart(partial(_changes, Source(shadow, around), form))
    return await _answer(shadow.ask(WhatIf(found)))


async def _apart(work: Callable[[], T]) -> T:
    """Do something that has an event loop of its own, as a cluster in memory has.

    No thread is left afterwards: each question forks this process.
    """
    with ThreadPoolExecutor(1) as pool:
        return await asyncio.get_running_loop().run_in_executor(pool, work)


def _changes(source: Source, form: WhatIfForm) -> list[ClusterChange]:
    """The changes of a form, read as the options of ``arranger whatif`` are."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "manifests"
        file.write_text(form.manifests, encoding="utf-8")
        try:
            found = read_changes(
                source,
                form.namespace.strip() or "default",
                [file] if form.manifests.strip() else [],
                form.delete.split(),
                form.cordon.split(),
                form.add_nodes.split(),
                form.queues.split(),
            )
        except SHADOW_ERRORS as error:
            raise QuestionError(str(error).replace(str(file), "what is to be created")) from error
    if not found:
        raise QuestionError("Fill in a change.")
    return [
        replace(each, text=each.text.replace(f"with {file}", "what you gave")) for each in found
    ]


async def _answer(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except TimeoutError as error:
        raise QuestionError("There was no answer in time.") from error
    except (*SHADOW_ERRORS, BranchError) as error:
        raise QuestionError(str(error)) from error
