"""The descheduler as it is published, with the rights of its own release, for one round."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import yaml

from tests.controlplane.builds import published
from tests.controlplane.harness import ControlPlane, free_ports

Object = dict[str, Any]

#: Pods that run and have this label are evicted by :data:`MARKED`.
MARK: Final = "evict"
MARKED: Final[tuple[str, Object]] = (
    "PodLifeTime",
    {"states": ["Running"], "labelSelector": {"matchLabels": {MARK: "yes"}}},
)
DUPLICATES: Final[tuple[str, Object]] = ("RemoveDuplicates", {})
RESTARTED: Final[tuple[str, Object]] = (
    "RemovePodsHavingTooManyRestarts",
    {"podRestartThreshold": 5},
)


async def install(plane: ControlPlane) -> None:
    """Its service account and rights; skips the test where it is not built."""
    rights = published("descheduler").parent / "manifests/base/rbac.yaml"
    await plane.apply(yaml.safe_load_all(rights.read_text()))


async def deschedule(plane: ControlPlane, plugin: tuple[str, Object]) -> int:
    """One round of a plugin with its arguments; how many pods it has evicted."""
    name, arguments = plugin
    point = "balance" if name == "RemoveDuplicates" else "deschedule"
    profile = {
        "name": "test",
        "pluginConfig": [{"name": "DefaultEvictor"}, {"name": name, "args": arguments}],
        "plugins": {point: {"enabled": [name]}},
    }
    policy = plane.folder / "descheduler.yaml"
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    policy.write_text(yaml.safe_dump({**head, "profiles": [profile]}))
    token = await plane.service_account_token("kube-system", "descheduler-sa")
    process = await asyncio.create_subprocess_exec(
        str(published("descheduler")),
        f"--policy-config-file={policy}",
        f"--kubeconfig={plane.kubeconfig('descheduler', token)}",
        "--descheduling-interval=0",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_ports(1)[0]}",
        f"--cert-dir={plane.folder / 'certs-descheduler'}",
        "--v=1",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    log = out.decode()
    assert process.returncode == 0, log
    assert "forbidden" not in log, log
    assert "aborting" not in log, log
    return log.count('"Evicted pod"')
