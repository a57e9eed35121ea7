"""All controllers, run by kopf as in a process of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from arranger.controllers.manager import run_controllers
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.kube.client.credentials import ApiServerConfig


@asynccontextmanager
async def running_controllers(
    config: ApiServerConfig, *, namespaces: Sequence[str] = ()
) -> AsyncIterator[asyncio.Task[None]]:
    """Controllers at work while the context lasts; raises at its end what they raised."""
    options = ControllerOptions(namespaces=namespaces, debounce=0.02)
    task = asyncio.create_task(run_controllers(config, options))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()
    left = [other for other in asyncio.all_tasks() if _is_of_kopf(other)]
    assert not left, f"kopf has left {left}"


def _is_of_kopf(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and "/kopf/" in code.co_filename
