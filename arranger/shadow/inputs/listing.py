"""Reads a cluster once, with the rights of whoever asks, and says what they may not see."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from arranger.api.types.core import Node, Pod
from arranger.api.types.workloads import Owner, Workload
from arranger.daemon.config.schema import Config
from arranger.daemon.informers import COLLECTION_PATHS, OTHER_VERSIONS
from arranger.kube.client.transport import Transport
from arranger.kube.watch.listing import NotListedError, list_collection
from arranger.kube.watch.protobuf_decoder import decoder_of
from arranger.kube.watch.trimming import trim
from arranger.shadow.inputs.objects import ClusterObjects, Kind, owner_kinds

#: Told where there can be no answer.
_TAKES: Final = "it takes the right to list pods and nodes of all namespaces"
#: Requests at a time.
_AT_ONCE: Final = 8


class UnreadableError(LookupError):
    """What no answer can do without may not be read."""


async def list_objects(transport: Transport, config: Config) -> ClusterObjects:
    """Everything that the scheduler reads, as of now.

    What may not be listed is named in ``unread``, and what cannot be decoded, too.

    Raises:
        UnreadableError: pods or nodes may not be listed.
        TransportError: there was no answer.
    """
    objects = ClusterObjects(owner_kinds(config))
    slots = asyncio.Semaphore(_AT_ONCE)

    async def read(paths: Sequence[str], of: type[Any], kind: Kind) -> None:
        async with slots:
            for path in paths:
                if await _read_collection(objects, transport, path, of, kind):
                    return

    # What is both, an owner that counts for queues and one whose pods are a gang, is read once.
    read_anyway = {path for kind in config.workload_kinds() for path in kind.paths}
    owner_paths = {f"/apis/{each}" for each in config.queues.owner_resources} - read_anyway
    reads: list[tuple[Sequence[str], type[Any], Kind]] = [
        *(((path, *OTHER_VERSIONS.get(of, ())), of, of) for of, path in COLLECTION_PATHS.items()),
        *((kind.paths, Workload, kind.paths[0]) for kind in config.workload_kinds()),
        *(((path,), Owner, path) for path in sorted(owner_paths)),
    ]
    try:
        async with asyncio.TaskGroup() as group:
            for each in reads:
                group.create_task(read(*each))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    objects.unread.sort()
    return objects


async def _read_collection(
    objects: ClusterObjects, transport: Transport, path: str, of: type[Any], kind: Kind
) -> bool:
    """Put all objects of a collection among the others; False where there is no such kind."""
    try:
        listed = await list_collection(transport, path, decoder_of(of, trim))
    except NotListedError as error:
        if of in (Pod, Node):
            raise UnreadableError(f"{error} ({_TAKES})") from None
        objects.unread.append(str(error))
        return True
    if listed is None:
        return False
    if isinstance(kind, str):
        objects.served.add(kind)
    for obj in listed.objects:
        objects.put(obj, kind)
    objects.unread += [f"{path}: {each.metadata.name}: {each.error}" for each in listed.undecodable]
    return True
