"""Manifests that come at the start of a simulation, and those that come later."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from typing import Any, Final

from arranger.cli.simulation.manifests import ManifestError, load_definitions, load_objects
from arranger.embedded import Object
from arranger.embedded.kubelet import RUN_SECONDS, TERMINATION_SECONDS
from arranger.embedded.server import EmbeddedCluster

#: On a manifest of a simulation or of the demo: it is created after so many seconds.
ARRIVES_AFTER: Final = "arranger.io/arrives-after"
#: Others that say seconds, of pods.
_KUBELETS: Final = frozenset({RUN_SECONDS, TERMINATION_SECONDS})


class Arrivals:
    """Creates the objects of manifests, each when its annotation says.

    Args:
        cluster: where.
        manifests: with where each stands, for messages.
        scheduler: who is to place every pod; None leaves it to what the manifests say.

    Attributes:
        ignored: what has meant nothing here so far, a line for each kind.

    Raises:
        ManifestError: an annotation says no time, or the server refuses an object of the start.
    """

    def __init__(
        self,
        cluster: EmbeddedCluster,
        manifests: Iterable[tuple[str, Object]],
        *,
        scheduler: str | None = None,
    ) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._later: list[tuple[float, tuple[str, Object]]] = []
        at_once = []
        for where, manifest in manifests:
            _check_kubelets_notes(where, manifest)
            if seconds := _arrival(where, manifest):
                self._later.append((seconds, (where, manifest)))
            else:
                at_once.append((where, manifest))
        self._later.sort(key=lambda each: each[0])
        load_definitions(cluster, at_once)
        self.ignored = load_objects(cluster, at_once, scheduler=scheduler)

    @property
    def idle(self) -> bool:
        """Whether all have come."""
        return not self._later

    async def run(self) -> None:
        """Create those that come later; goes on until cancelled.

        Raises:
            ManifestError: the server refuses one.
        """
        start = asyncio.get_running_loop().time()
        while self._later:
            seconds, manifest = self._later[0]
            await asyncio.sleep(start + seconds - asyncio.get_running_loop().time())
            self.ignored += load_objects(self._cluster, [manifest], scheduler=self._scheduler)
            del self._later[0]
        await asyncio.Event().wait()


def _arrival(where: str, manifest: Object) -> float:
    notes = manifest["metadata"].get("annotations")
    text = notes.get(ARRIVES_AFTER, "0") if isinstance(notes, dict) else "0"
    return _seconds(where, ARRIVES_AFTER, text)


def _check_kubelets_notes(where: str, manifest: Object) -> None:
    """What pods and the templates of pods, wherever they stand, tell the hollow kubelets."""
    todo: list[Any] = [manifest]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo += each
        elif isinstance(each, dict):
            todo += each.values()
            notes = each.get("annotations")
            if isinstance(notes, dict):
                for key in sorted(_KUBELETS & notes.keys()):
                    _seconds(where, key, notes[key])


def _seconds(where: str, key: str, text: object) -> float:
    try:
        seconds = float(text)  # type: ignore[arg-type]  # which raises what is caught
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ManifestError(f"{where}: {key}: {text!r} is no number of seconds from 0")
    return seconds
