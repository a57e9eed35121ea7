"""What an administrator asks of a real API server, and waiting for what comes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp


class ControlPlaneError(RuntimeError):
    """A request was refused, or a component did not start and says the end of its log."""


@dataclass(slots=True)
class Admin:
    """Requests as administrator of a cluster.

    Attributes:
        url: ``https://127.0.0.1:PORT``, once there is one.
    """

    url: str = ""
    _session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
    ) -> tuple[int, dict[str, Any]]:
        """One request as administrator: status and decoded body."""
        assert self._session is not None, "not started"
        async with self._session.request(
            method,
            self.url + path,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type},
        ) as answer:
            text = await answer.text()
            is_json = answer.content_type == "application/json"
            return answer.status, json.loads(text) if is_json else {"text": text}

    async def get(self, path: str) -> dict[str, Any]:
        """GET that must succeed."""
        return _succeeded(path, *await self.request("GET", path))

    async def post(self, path: str, body: object) -> dict[str, Any]:
        """POST that must succeed."""
        return _succeeded(path, *await self.request("POST", path, body))

    async def merge(self, path: str, change: object) -> dict[str, Any]:
        """A merge patch that must succeed."""
        kind = "application/merge-patch+json"
        return _succeeded(path, *await self.request("PATCH", path, change, content_type=kind))

    async def post_all(self, path: str, bodies: Iterable[object], *, at_once: int = 32) -> None:
        """POST many objects, ``at_once`` of them at a time; all must succeed."""
        left = iter(bodies)

        async def work() -> None:
            for body in left:
                await self.post(path, body)

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())

    async def apply(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Create objects given as manifests, as ``kubectl create`` would."""
        for manifest in manifests:
            await self.post(await self.collection(manifest), manifest)

    async def collection(self, manifest: Mapping[str, Any]) -> str:
        version, kind = manifest["apiVersion"], manifest["kind"]
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        served = (await self.get(root))["resources"]
        resource = next(r for r in served if r["kind"] == kind and "/" not in r["name"])
        if not resource["namespaced"]:
            return f"{root}/{resource['name']}"
        namespace = manifest["metadata"].get("namespace", "default")
        return f"{root}/namespaces/{namespace}/{resource['name']}"


#: Seconds: far more than anything takes. Who waits longer meets a fault, not a busy machine or
#: the garbage collector, which looks for new kinds every half minute.
PATIENCE = 120.0


async def until(
    reached: Callable[[], Awaitable[bool]], *, within: float = PATIENCE, what: str = "it"
) -> None:
    """Ask a real server again and again until ``reached`` says yes.

    Raises:
        TimeoutError: it did not in ``within`` seconds.
    """
    deadline = asyncio.get_running_loop().time() + within
    while not await reached():
        if asyncio.get_running_loop().time() > deadline:
            raise TimeoutError(f"{what} did not come about in {within:g} s")
        await asyncio.sleep(0.1)


def _succeeded(path: str, status: int, body: dict[str, Any]) -> dict[str, Any]:
    if status >= 300:
        raise ControlPlaneError(f"{path}: {status} {body.get('message', body)}")
    return body
