"""All controllers, run by kopf as in a process of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from arranger.api.timestamps import utc_now
from arranger.controllers.manager import run_controllers
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.embedded.server import EmbeddedCluster
from arranger.kube.client.credentials import ApiServerConfig
from tests.simulation.harnesses.status_judge import CONTROLLERS, status_faults

#: Seconds within which every status is true once nothing happens any more, in real time.
REST = 20.0


@asynccontextmanager
async def running_controllers(
    cluster: EmbeddedCluster, config: ApiServerConfig, *, namespaces: Sequence[str] = ()
) -> AsyncIterator[asyncio.Task[None]]:
    """Controllers at work while the context lasts; raises at its end what they raised.

    Unless they have ended before, every status must have become true by then.
    """
    options = ControllerOptions(namespaces=namespaces, debounce=0.02)
    task = asyncio.create_task(run_controllers(config, options))
    try:
        yield task
        await _until_true(cluster, task, namespaces)
    finally:
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()
    left = [other for other in asyncio.all_tasks() if _is_of_kopf(other)]
    assert not left, f"kopf has left {left}"


async def _until_true(
    cluster: EmbeddedCluster, controllers: asyncio.Task[None], namespaces: Sequence[str]
) -> None:
    seen = _Namespaces(cluster, namespaces)
    # Queues belong to no namespace.
    writers = CONTROLLERS - {"queue"} if namespaces else CONTROLLERS
    until = asyncio.get_running_loop().time() + REST
    while not controllers.done() and (wrong := status_faults(seen, utc_now(), writers)):
        assert asyncio.get_running_loop().time() < until, wrong
        await asyncio.sleep(0.05)


@dataclass(frozen=True, slots=True)
class _Namespaces:
    """What of a cluster controllers look at that are told some namespaces; none are all."""

    cluster: EmbeddedCluster
    names: Sequence[str]

    def objects(self, plural: str, group: str = "") -> list[dict[str, Any]]:
        found = self.cluster.objects(plural, group)
        if not self.names:
            return found
        return [o for o in found if o["metadata"].get("namespace") in (None, *self.names)]


def native_pod_groups(version: str = "v1beta1") -> dict[str, Any]:
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
                    "name": version,
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
