"""Brings gangs in line one at a time, soon after they change and not at every change."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import Enum
from typing import Any, Final

import msgspec
import structlog

from arranger.controllers.gang.cache import GANG_VERSION, GANGS, MANAGED_BY, Change, Key, Ledger
from arranger.controllers.runtime.work_queue import Turn, Turns
from arranger.kube.client.status import parse_status
from arranger.kube.client.timestamps import second_time, utc_now
from arranger.kube.client.transport import Response, Transport, TransportError

log = structlog.get_logger(__name__)

Object = dict[str, Any]

_MERGE: Final = "application/merge-patch+json"


class Written(Enum):
    """What became of a change."""

    DONE = "done"
    STALE = "stale"  # the server had something else than we thought; now we know
    REFUSED = "refused"  # and will be, until something changes
    FAILED = "failed"  # for now


class Reconciler:
    """Makes objects what the ledger says.

    Args:
        quiet: seconds to wait after the first change of a gang for more of them; so a gang costs
            two writes an object in a second at most, however large it is.
        now: the calendar clock.

    Attributes:
        turns: whose turn it is.
    """

    def __init__(
        self,
        transport: Transport,
        ledger: Ledger,
        *,
        quiet: float = 0.5,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._transport = transport
        self._ledger = ledger
        self._now = now
        self.turns = Turns(self._reconcile, quiet=quiet, rng=rng or random.Random())

    async def run(self, *, after: Iterable[asyncio.Event] = ()) -> None:
        """Write until cancelled, once all these events have come."""
        await self.turns.run(after=after)

    def look_at(self, names: Iterable[str]) -> None:
        """Look at these gangs soon; one whose writes fail waits for its next try."""
        self.turns.look_at(names)

    async def _reconcile(self, name: str) -> Turn:
        for change in self._ledger.changes(name, second_time(self._now())):
            written = await self._write(change)
            if written is Written.STALE:
                return Turn.AGAIN
            if written is Written.FAILED:
                return Turn.LATER
        self._ledger.settled(name)
        return Turn.DONE

    # --- writing ---------------------------------------------------------------------------

    async def _write(self, change: Change) -> Written:
        if change.seen is None:
            written = await self._create(change)
        elif change.delete:
            body: Object = {"preconditions": {"uid": change.seen.uid}}
            written = await self._send("DELETE", change.key, _path(change), body)
        else:
            written = Written.DONE
            if change.spec:
                written = await self._patch(change, "", {"spec": change.spec})
        if written is Written.DONE and change.status and not change.delete:
            written = await self._patch(change, "/status", {"status": change.status})
        return written

    async def _create(self, change: Change) -> Written:
        namespace, _, name = change.key.name.partition("/")
        body = {
            "apiVersion": f"{GANGS}/{GANG_VERSION}",
            "kind": "Gang",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {MANAGED_BY: self._ledger.signature},
            },
            "spec": {key: value for key, value in change.spec.items() if value is not None},
        }
        collection = f"/apis/{GANGS}/{GANG_VERSION}/namespaces/{namespace}/gangs"
        return await self._send("POST", change.key, collection, body)

    async def _patch(self, change: Change, subresource: str, patch: Object) -> Written:
        if change.seen is not None and "conditions" in change.status:
            # A list is replaced whole: nobody else's condition may get lost by that.
            patch["metadata"] = {"resourceVersion": change.seen.resource_version}
        return await self._send("PATCH", change.key, _path(change) + subresource, patch)

    async def _send(self, method: str, key: Key, path: str, body: Object) -> Written:
        content_type = _MERGE if method == "PATCH" else "application/json"
        encoded = msgspec.json.encode(body)
        try:
            answer = await self._transport.request(
                method, path, body=encoded, content_type=content_type
            )
            if answer.status == 409:
                # Somebody was faster: look, and start from what is there.
                object_path = path.removesuffix("/status")
                if method == "POST":
                    object_path += f"/{body['metadata']['name']}"
                answer = await self._transport.request("GET", object_path)
                self._take(key, answer)
                return Written.STALE
            return self._judge(method, key, path, answer)
        except (TransportError, msgspec.MsgspecError) as error:
            log.info("gang.write_failed", path=path, error=str(error))
            return Written.FAILED

    def _judge(self, method: str, key: Key, path: str, answer: Response) -> Written:
        if answer.status == 404 and method != "POST":
            self.look_at(self._ledger.object_gone(key))
            return Written.DONE if method == "DELETE" else Written.STALE
        if answer.status < 300:
            if method == "DELETE":
                self._ledger.object_gone(key)
            else:
                self._take(key, answer)
            return Written.DONE
        status = parse_status(answer.body, answer.status)
        log.warning("gang.write_refused", path=path, code=status.code, message=status.message)
        return Written.REFUSED if answer.status in (400, 422) else Written.FAILED

    def _take(self, key: Key, answer: Response) -> None:
        """Note the object that the server shows."""
        if answer.status == 404:
            self.look_at(self._ledger.object_gone(key))
        elif answer.status < 300:
            self.look_at(self._ledger.object_set(key.group, msgspec.json.decode(answer.body)))


def _path(change: Change) -> str:
    namespace, _, name = change.key.name.partition("/")
    plural = "gangs" if change.key.group == GANGS else "podgroups"
    version = change.seen.version if change.seen is not None else GANG_VERSION
    return f"/apis/{change.key.group}/{version}/namespaces/{namespace}/{plural}/{name}"
