"""A whole cluster at work: control plane, scheduler, controllers and hollow kubelets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.kubelet import HollowKubelets
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.kubeconfig import load_api_server_config
from arranger.kube.client.transport import MERGE_PATCH, Request, Response
from tests.controlplane.daemon import Daemon, install_rbac, manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane

Object = dict[str, Any]


class ContainerEndingKubelets(HollowKubelets):
    """They end containers before they remove a pod, which the Job controller waits for."""

    async def _execute(self, action: str, uid: str, pod: Object) -> Response | None:
        if action == "remove":
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
            body = json.dumps({"metadata": {"uid": uid}, "status": {"phase": "Failed"}})
            await self._transport.send(
                Request("PATCH", path, body=body.encode(), content_type=MERGE_PATCH)
            )
        return await super()._execute(action, uid, pod)


@dataclass
class ClusterHarness:
    """A cluster in which everything runs; tests add what they look at in a subclass.

    Attributes:
        controllers: those at work now; a test may replace them.
    """

    plane: ControlPlane
    scheduler: Daemon
    controllers: Daemon

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        nodes: Iterable[Object],
        *,
        served: Iterable[str],
        config: dict[str, object] | None = None,
        kubelets: type[HollowKubelets] = HollowKubelets,
        api_server_flags: Sequence[str] = (),
    ) -> AsyncIterator[Self]:
        """Build it with the rights of ``manifests/``; in the end nobody was refused any.

        Args:
            served: collections of our definitions that must answer first.
            config: the scheduler's.
            api_server_flags: see :class:`~tests.controlplane.harness.ControlPlane`.
        """
        skip_without_binary()
        async with ControlPlane(controllers=True, api_server_flags=api_server_flags) as plane:
            await install_rbac(plane)
            await plane.apply(bundled_crds())
            files = ("30-config", "60-controllers-rbac", "80-admission", "85-queue-rights")
            await plane.apply(manifests(*(f"manifests/{file}.yaml" for file in files)))
            for path in served:
                await plane.until_served(path)
            await plane.post_all("/api/v1/nodes", nodes)
            transport = HttpTransport(
                await load_api_server_config(str(plane.kubeconfig("kubelets")), None)
            )
            working = asyncio.create_task(kubelets(transport, writers=8).run())
            try:
                scheduler = await Daemon.start(plane, config=config)
                harness = cls(plane, scheduler, await Daemon.controllers(plane))
                yield harness
                for daemon in (harness.scheduler, harness.controllers):
                    assert _refused_rights(daemon.log_lines()) == []
                    assert await daemon.stop() == 0, daemon.log_lines()
            finally:
                working.cancel()
                with suppress(asyncio.CancelledError):
                    await working
                await transport.close()

    def assert_alive(self) -> None:
        """Nobody has ended."""
        for daemon in (self.scheduler, self.controllers):
            assert daemon.process.returncode is None, daemon.log_lines()

    def log_lines(self) -> str:
        """What both daemons have logged."""
        return self.controllers.log_lines() + self.scheduler.log_lines()


#: What somebody else may not do either: in a namespace that is going, or beyond its ResourceQuota.
_FORBIDDEN_TO_ALL = ("because it is being terminated", "exceeded quota")


def _refused_rights(log: str) -> list[str]:
    """The lines about what we may not do, and others may."""
    lines = [line for line in log.splitlines() if "orbidden" in line]
    return [line for line in lines if not any(why in line for why in _FORBIDDEN_TO_ALL)]
