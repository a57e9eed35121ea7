"""Requests of controllers to the API server.

Every request is sent once. What fails is not repeated here: the work queue reconciles its object
again, from what is there by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from arranger.api.parsing.objects import decode_object
from arranger.controllers.runtime.objects import Object, UnstructuredObject
from arranger.kube.client.status import parse_status
from arranger.kube.client.transport import MERGE_PATCH, Request, Transport

T = TypeVar("T")
R = TypeVar("R")

_JSON: Final = "application/json"
#: Objects of one owner written at a time, at most.
_MAX_BATCH: Final = 32
#: Objects of one owner created before others have their turn.
MAX_CREATED: Final = 256


class StatusError(Exception):
    """The server answered, and not with a success.

    Attributes:
        code: the HTTP status.
        message: what the server says.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code} {message}")
        self.code = code
        self.message = message

    @property
    def not_found(self) -> bool:
        """Whether there is no such object."""
        return self.code == 404

    @property
    def conflict(self) -> bool:
        """Whether an object of the name is there, or the object has changed meanwhile."""
        return self.code == 409

    @property
    def unauthorized(self) -> bool:
        """Whether a credential or a right is missing, which the log tells of all writes at once."""
        return self.code in (401, 403)

    @property
    def invalid(self) -> bool:
        """Whether the same request would be refused again, until something changes."""
        return self.code in (400, 422)


@dataclass(frozen=True, slots=True)
class Writer:
    """Sends JSON, and returns the body of a success.

    Every method raises:
        StatusError: the answer was no success.
        TransportError: no answer came; the server may have acted.
    """

    transport: Transport

    async def get(self, path: str) -> bytes:
        """Read an object."""
        return await self._request("GET", path)

    async def create(self, collection: str, manifest: Object) -> bytes:
        """Create an object."""
        return await self._request("POST", collection, manifest)

    async def create_or_get(self, collection: str, manifest: Object) -> bytes:
        """Create an object, or read the one that has its name already.

        That one may be our own, when the answer to an earlier try was lost, an earlier owner's on
        its way out, or anybody else's. When it is gone by then, the conflict is raised.
        """
        try:
            return await self.create(collection, manifest)
        except StatusError as error:
            if not error.conflict:
                raise
            conflict = error
        try:
            return await self.get(f"{collection}/{manifest['metadata']['name']}")
        except StatusError as error:
            raise (conflict if error.not_found else error) from None

    async def patch(self, path: str, change: Object, *, resource_version: str = "") -> bytes:
        """Merge a change into an object.

        Args:
            resource_version: the state that the change was decided on; any other state is a
                conflict. Empty for whatever state the object is in.
        """
        if resource_version:
            meta = {**change.get("metadata", {}), "resourceVersion": resource_version}
            change = {**change, "metadata": meta}
        return await self._request("PATCH", path, change, content_type=MERGE_PATCH)

    async def delete(
        self, path: str, *, uid: str, resource_version: str = "", **options: Any
    ) -> None:
        """Delete an object, unless it is gone or another one has its name by now.

        Args:
            resource_version: the state that was decided on; in any other it stays. Empty for
                whatever state the object is in.
            options: further fields of ``DeleteOptions``.
        """
        conditions = {"uid": uid}
        if resource_version:
            conditions["resourceVersion"] = resource_version
        try:
            await self._request("DELETE", path, {"preconditions": conditions, **options})
        except StatusError as error:
            if error.not_found:
                return
            if not error.conflict or await self._is_as_meant(path, conditions):
                raise

    async def _is_as_meant(self, path: str, conditions: Mapping[str, str]) -> bool:
        """Whether an object fulfils the conditions of its deletion that was refused all the same.

        A server also says that there is a conflict where two writes met.
        """
        try:
            meta = decode_object(await self.get(path), UnstructuredObject).metadata
        except StatusError as error:
            return not error.not_found
        version = conditions.get("resourceVersion", meta.resource_version)
        return (meta.uid, meta.resource_version) == (conditions["uid"], version)

    async def _request(
        self, method: str, path: str, body: Object | None = None, *, content_type: str = _JSON
    ) -> bytes:
        encoded = b"" if body is None else msgspec.json.encode(body)
        answer = await self.transport.send(
            Request(method, path, body=encoded, content_type=content_type)
        )
        if answer.status >= 300:
            status = parse_status(answer.body, answer.status)
            raise StatusError(answer.status, status.message)
        return answer.body


async def _coroutine(do: Callable[[T], Awaitable[R]], item: T) -> R:
    return await do(item)


async def in_batches(do: Callable[[T], Awaitable[R]], items: Sequence[T]) -> list[R]:
    """Do something for each of many objects, some at a time; the results, in their order.

    Raises:
        Exception: the first that ``do`` raised, after the rest of its batch has ended.
    """
    results: list[R] = []
    for start in range(0, len(items), _MAX_BATCH):
        results += await _do_all(do, items[start : start + _MAX_BATCH])
    return results


async def _do_all(do: Callable[[T], Awaitable[R]], batch: Sequence[T]) -> list[R]:
    tasks: list[asyncio.Task[R]] = []
    try:
        for item in batch:
            tasks.append(asyncio.create_task(_coroutine(do, item)))
            await asyncio.sleep(0)  # each makes its request at once: others go between
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for task in tasks:
            task.cancel()
    return [task.result() for task in tasks]


async def slow_start(create: Callable[[T], Awaitable[bool]], items: Sequence[T]) -> bool:
    """Create one object, then two, then four, and so on; whether all were created.

    It ends with the first batch in which something fails, so that a refusal that holds for all (a
    quota, a bad template) is heard once and not by thousands (kube-controller-manager's
    ``slowStartBatch``).

    Raises:
        Exception: the first that ``create`` raised, after the rest of its batch has ended.
    """
    start, size = 0, 1
    while start < len(items):
        if not all(await _do_all(create, items[start : start + size])):
            return False
        start, size = start + size, min(2 * size, _MAX_BATCH)
    return True
