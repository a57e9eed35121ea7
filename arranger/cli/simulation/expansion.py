"""The pods and other objects that controllers would make of manifests, without a scheduler."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import Final

from arranger.cli.simulation.controllers import JobControllers
from arranger.cli.simulation.manifests import load_manifests
from arranger.daemon.config.schema import Config
from arranger.embedded import Object
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.virtual_time import run_virtual, virtual_now
from arranger.embedded.workloads.controllers import HollowControllers

#: Virtual seconds that controllers get.
_SECONDS: Final = 10.0


def expand(
    manifests: Iterable[tuple[str, Object]], surroundings: Sequence[Object], config: Config
) -> list[Object]:
    """What there is once controllers have seen the manifests, themselves included.

    They say not when they were created: the clock of this cluster is not that of any other. Claims
    have no volumes: nothing is known here of classes and volumes.

    Args:
        manifests: with where each stands, for messages.
        surroundings: namespaces, PriorityClasses and nodes that are there before.

    Raises:
        ManifestError: the server would refuse an object.
    """
    around = [("the cluster", _bare(each)) for each in surroundings]
    there = {(each["kind"], *_key(each)) for each in surroundings}
    made = run_virtual(_expand([*around, *manifests], config))
    return [_undated(each) for each in made if (each["kind"], *_key(each)) not in there]


async def _expand(manifests: list[tuple[str, Object]], config: Config) -> list[Object]:
    cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(0))
    load_manifests(cluster, [(where, _at_once(manifest)) for where, manifest in manifests])
    parts = [
        asyncio.create_task(HollowControllers(cluster, now=virtual_now, provisions=False).run()),
        asyncio.create_task(JobControllers(cluster, config, random.Random(0)).run()),
    ]
    await asyncio.sleep(_SECONDS)
    for part in parts:
        if part.done():
            part.result()
        part.cancel()
    await asyncio.wait(parts)
    store = cluster.store
    return [obj for resource in store.resources() for obj in store.items(resource)]


def _undated(obj: Object) -> Object:
    meta = {key: it for key, it in obj["metadata"].items() if key != "creationTimestamp"}
    return {**obj, "metadata": meta}


def _at_once(manifest: Object) -> Object:
    """A StatefulSet with all of its pods: nobody starts the first one here for the second."""
    spec = manifest.get("spec")
    if manifest["kind"] != "StatefulSet" or not isinstance(spec, dict):
        return manifest
    return {**manifest, "spec": {**spec, "podManagementPolicy": "Parallel"}}


def _bare(obj: Object) -> Object:
    """An object of another server, without what that server has noted about it."""
    meta = {key: obj["metadata"][key] for key in ("name", "labels") if key in obj["metadata"]}
    return {**obj, "metadata": meta}


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
