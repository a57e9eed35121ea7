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


def native_pod_groups() -> dict[str, Any]:
    """What serves the native PodGroup here; the API server does without a definition."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "podgroups.scheduling.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://example.com"},
        },
        "spec": {
            "group": "scheduling.k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "PodGroup", "plural": "podgroups"},
            "versions": [
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }


def _is_of_kopf(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and "/kopf/" in code.co_filename
