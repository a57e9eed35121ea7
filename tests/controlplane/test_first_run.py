"""A first run against the real API server, with each thing missing: one line, and not ready."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml

from tests.controlplane.daemon import Daemon, install_rbac, manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, a_pod, until
from tests.unit.kube.conftest import MAKE_CERTIFICATE

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

#: Seconds in which a second line would come.
SILENCE = 6.0
NO_RIGHT = " has no right to: "
NOBODY = 'User "system:serviceaccount:default:nobody"'


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A control plane of its own, with nothing of ours in it."""
    skip_without_binary()
    async with ControlPlane() as running:
        yield running


class Process:
    """``arranger run`` or ``arranger controllers`` as somebody starts it from a checkout."""

    def __init__(self, daemon: Daemon, port: int) -> None:
        self.daemon, self.port = daemon, port

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.daemon.log_lines().splitlines()]

    def problems(self) -> list[tuple[str, str]]:
        """The lines about problems; rights that are said in two lines count as said in one, as not
        all is read at the same time."""
        found: list[tuple[str, str]] = []
        rights: list[str] = []
        for line in self.lines():
            if line["level"] not in ("warning", "error"):
                continue
            assert line["remedy"]
            what, has_rights, which = line["problem"].partition(NO_RIGHT)
            rights += which.split(", ") if has_rights else []
            if not has_rights or (line["event"], what) not in found:
                found.append((line["event"], what))
        named = f"{NO_RIGHT}{', '.join(sorted(rights))}" if rights else ""
        return [(event, what + named) for event, what in found]

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines()]

    async def ready(self) -> tuple[int, str]:
        url = f"https://127.0.0.1:{self.port}/readyz?verbose"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
            return answer.status, await answer.text()


async def start(
    plane: ControlPlane, command: str, kubeconfig: Path, port: int, **config: Any
) -> Process:
    name = f"{command}-{port}"
    args = [command, f"--kubeconfig={kubeconfig}"]
    if command == "run":
        file = plane.folder / f"{name}.yaml"
        head = {"apiVersion": "arranger.io/v1alpha1", "kind": "SchedulerConfiguration"}
        server = {"host": "127.0.0.1", "port": port}
        file.write_text(yaml.safe_dump({**head, "server": server, **config}))
        args.append(f"--config={file}")
    else:
        args += ["--bind-address=127.0.0.1", f"--secure-port={port}"]
    return Process(await Daemon.launch(plane, name, *args), port)


async def kubeconfigs(plane: ControlPlane, folder: Path) -> dict[str, Path]:
    """An administrator's, one without rights, and some that cannot work."""
    await plane.post(
        "/api/v1/namespaces/default/serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}},
    )
    admin = plane.kubeconfig("admin")
    ca = folder / "other.crt"
    keys = ["-keyout", str(folder / "other.key"), "-out", str(ca)]
    made = await asyncio.create_subprocess_exec(*MAKE_CERTIFICATE.split(), *keys, stderr=DEVNULL)
    assert await made.wait() == 0

    def changed(name: str, **cluster: str) -> Path:
        content = yaml.safe_load(admin.read_text())
        content["clusters"][0]["cluster"].update(cluster)
        (folder / name).write_text(yaml.safe_dump(content))
        return folder / name

    return {
        "admin": admin,
        "nobody": plane.kubeconfig(
            "nobody", await plane.service_account_token("default", "nobody")
        ),
        "stale": plane.kubeconfig("stale", "no-token-of-this-server"),
        "foreign": changed("foreign", **{"certificate-authority": str(ca)}),
        "down": changed("down", server="https://127.0.0.1:1"),
        "nowhere": changed("nowhere", server="https://nowhere.invalid:6443"),
    }


def no_right(*rights: str) -> tuple[str, str]:
    return "api.forbidden", f"forbidden (403): {NOBODY}{NO_RIGHT}{', '.join(rights)}"


def expected(plane: ControlPlane) -> dict[tuple[str, str], tuple[str, str]]:
    """Command and kubeconfig → event and problem."""
    host = plane.url.removeprefix("https://")
    untrusted = f"the certificate of {host} is not trusted: self-signed certificate"
    both = {
        "stale": ("api.unauthorized", "the API server does not accept our credentials (401)"),
        "foreign": ("api.untrusted", f"{untrusted} in certificate chain"),
        "down": ("api.unreachable", "127.0.0.1:1 refuses connections"),
        "nowhere": ("api.unresolved", "the host name nowhere.invalid cannot be resolved"),
    }
    missing = "the namespace of the lease does not exist: arranger-system"
    return {
        **{(command, who): both[who] for command in ("run", "controllers") for who in both},
        ("run", "admin"): ("api.namespace_missing", missing),
        ("run", "nobody"): no_right("get leases.coordination.k8s.io in arranger-system"),
        ("controllers", "nobody"): no_right(
            "list customresourcedefinitions.apiextensions.k8s.io",
            "watch commands.bus.volcano.sh",
            "watch configmaps",
            "watch gangs.arranger.io",
            "watch jobs.batch.volcano.sh",
            "watch namespaces",
            "watch nodes",
            "watch podgroups.scheduling.k8s.io",
            "watch podgroups.scheduling.sigs.k8s.io",
            "watch podgroups.scheduling.volcano.sh",
            "watch podgroups.scheduling.x-k8s.io",
            "watch pods",
            "watch queues.scheduling.volcano.sh",
            "watch services",
            "watch tyjobs.arranger.io",
        ),
    }


async def test_each_thing_that_is_missing_is_said_in_one_line(
    plane: ControlPlane, tmp_path: Path, unused_tcp_port_factory: Any
) -> None:
    access, want = await kubeconfigs(plane, tmp_path), expected(plane)
    started = {
        (command, who): await start(plane, command, access[who], unused_tcp_port_factory())
        for command, who in want
    }

    async def all_told() -> bool:
        return all(process.problems() for process in started.values())

    await until(all_told, what="a line of each")
    await asyncio.sleep(SILENCE)
    assert {case: process.problems() for case, process in started.items()} == {
        case: [line] for case, line in want.items()
    }
    for case, process in started.items():
        status, text = await process.ready()
        assert status == 503, (case, text)
        # All that is read by then, in whatever order.
        assert want[case][1].partition(NO_RIGHT)[0] in text
        assert "0x" not in process.daemon.log_lines()
    await asyncio.gather(*(process.daemon.kill() for process in started.values()))


async def test_what_is_mended_is_noticed_and_what_is_not_there_is_told_with_its_file(
    plane: ControlPlane, unused_tcp_port_factory: Any
) -> None:
    admin = plane.kubeconfig("admin")
    leader = await start(plane, "run", admin, unused_tcp_port_factory())
    controllers = await start(plane, "controllers", admin, unused_tcp_port_factory())

    def seen(process: Process, *events: str) -> Any:
        async def look() -> bool:
            return set(events) <= set(process.events())

        return until(look, what=f"{events} in {process.daemon.log}")

    await seen(leader, "api.namespace_missing")
    await install_rbac(plane)
    await seen(leader, "lease.acquired", "scheduler.synced", "api.restored", "resources.absent")
    await seen(controllers, "resources.absent")
    standby = await start(plane, "run", admin, unused_tcp_port_factory())
    await seen(standby, "lease.standing_by")
    for process in (leader, standby, controllers):
        status, text = await process.ready()
        assert status == 200, text
        assert text.endswith("readyz check passed\n")

    await plane.post("/api/v1/nodes", a_node("n1"))
    await plane.post("/api/v1/namespaces/default/pods", a_pod("p1"))
    await seen(leader, "pod.bound")
    [bound] = [line for line in leader.lines() if line["event"] == "pod.bound"]
    assert (bound["pod"], bound["node"], bound["level"]) == ("default/p1", "n1", "info")

    for manifest in manifests("crds/gangs.arranger.io.yaml"):
        await plane.post(await plane.collection(manifest), manifest)
    await seen(leader, "resources.served")
    await seen(controllers, "resources.served")
    for process in (leader, controllers):
        told = process.lines()
        [absent] = [line for line in told if line["event"] == "resources.absent"]
        assert "gangs.arranger.io" in absent["resources"]
        # Of Commands an informer tells, perhaps a moment later than kopf of the others.
        assert "kubectl apply --server-side -f crds/{" in absent["remedy"]
        assert "gangs.arranger.io," in absent["remedy"]
        [served] = [line for line in told if line["event"] == "resources.served"]
        assert served["resources"] == "gangs.arranger.io"

    assert await leader.daemon.stop() == 0
    await seen(standby, "lease.acquired")
    assert leader.events()[-2:] == ["lease.released", "scheduler.stopped"]
    assert await controllers.daemon.stop() == 0


async def test_a_scheduler_without_the_right_to_bind_is_not_ready_until_it_has_it(
    plane: ControlPlane, unused_tcp_port_factory: Any
) -> None:
    await install_rbac(plane)
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    role = await plane.get(f"{roles}/arranger")
    cut = [rule for rule in role["rules"] if "pods/binding" not in rule["resources"]]
    status, role = await plane.request("PUT", f"{roles}/arranger", {**role, "rules": cut})
    assert status == 200
    token = await plane.service_account_token("arranger-system", "arranger")
    kubeconfig = plane.kubeconfig("arranger-cut", token)
    process = await start(plane, "run", kubeconfig, unused_tcp_port_factory())
    await plane.post("/api/v1/nodes", a_node("n1"))
    await plane.post("/api/v1/namespaces/default/pods", a_pod("p1"))

    async def told() -> bool:
        return bool(process.problems())

    await until(told, what="a line")
    await asyncio.sleep(SILENCE)
    user = 'User "system:serviceaccount:arranger-system:arranger"'
    problem = f"forbidden (403): {user}{NO_RIGHT}create pods/binding"
    assert process.problems() == [("api.forbidden", problem)]
    status, text = await process.ready()
    assert (status, f"[-]api failed: {problem}" in text) == (503, True)

    status, _ = await plane.request(
        "PUT",
        f"{roles}/arranger",
        {
            **role,
            "rules": [
                *cut,
                {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
            ],
        },
    )
    assert status == 200

    async def bound() -> bool:
        return "pod.bound" in process.events()

    await until(bound, what="the binding")
    assert (await process.ready())[0] == 200
    assert await process.daemon.stop() == 0
