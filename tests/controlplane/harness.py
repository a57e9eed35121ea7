"""Starts and stops a real control plane on free loopback ports.

The binary is built by ``make controlplane``. Every process ends with ours, even after a kill.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
import yaml

from tests.controlplane import audit
from tests.controlplane.admin import PATIENCE, Admin, ControlPlaneError, until
from tests.controlplane.builds import build_folder
from tests.controlplane.recorder import Recorder

HERE = Path(__file__).parent


def binary_path() -> Path:
    """Where ``make controlplane`` puts the binary for the sources as they are."""
    sources = [HERE / "go.mod", HERE / "go.sum", *sorted((HERE / "cmd/controlplane").glob("*.go"))]
    return build_folder("controlplane", sources) / "arranger-controlplane"


@dataclass(slots=True)
class Component:
    """One running process of the control plane."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    def cpu_seconds(self) -> float:
        """User and system time used so far."""
        return cpu_seconds(self.process.pid)

    def tail(self, lines: int = 20) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@dataclass(slots=True)
class ControlPlane(Admin):
    """etcd and kube-apiserver, and on request the controller-manager and kube-scheduler.

    ::

        async with ControlPlane(controllers=True) as plane:
            await plane.post("/api/v1/namespaces/default/pods", a_pod)

    Attributes:
        controllers: start kube-controller-manager, so that Jobs and Deployments work.
        api_server_flags: more flags of kube-apiserver, for features that are off by default.
        is_judged: the specification judges what our schedulers write. Not where something is
            measured: the server sends all of it once more for that, and this process reads it.
        token: bearer token of a cluster administrator.
        recorder: watches from the start of our first scheduler on; once everything has ended, the
            specification judges what it saw.
        clients: processes that have no life without it; it kills those that are left at its end.
    """

    controllers: bool = False
    api_server_flags: Sequence[str] = ()
    is_judged: bool = True
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    components: dict[str, Component] = field(default_factory=dict)
    clients: list[asyncio.subprocess.Process] = field(default_factory=list)
    recorder: Recorder | None = None
    _folder: Path | None = None

    # --- life ------------------------------------------------------------------------------

    async def __aenter__(self) -> ControlPlane:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        if self.recorder is not None and error is None:
            self.recorder.check()

    async def record(self, config: Mapping[str, Any]) -> None:
        """One of our schedulers is about to start, with this configuration."""
        if not self.is_judged:
            return
        if self.recorder is None:
            assert self._session is not None, "not started"
            self.recorder = Recorder(self.url, self._session)
            await self.recorder.start()
        self.recorder.configure(config)

    async def start(self) -> None:
        """Start everything and wait until the API server is ready.

        Raises:
            ControlPlaneError: a component died or was not ready in time.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="arranger-controlplane-"))
        key = self.folder / "sa.key"
        await self._run_once("genkey", str(key))
        (self.folder / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
        client, peer, api = free_ports(3)
        await self._start(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        # Nothing here removes the not-ready taint again, and without controllers nothing makes
        # the service account that admission would ask for.
        disabled = ["TaintNodesByCondition"] + ([] if self.controllers else ["ServiceAccount"])
        await self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{client}",
            f"--secure-port={api}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'certs'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://arranger.test",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
            f"--disable-admission-plugins={','.join(disabled)}",
            *self._audit_flags(),
            *self.api_server_flags,
        )
        self.url = f"https://127.0.0.1:{api}"
        await self._until_ready()
        if self.controllers:
            await self._start(
                "kube-controller-manager",
                f"--kubeconfig={self.kubeconfig('controllers')}",
                f"--service-account-private-key-file={key}",
                "--use-service-account-credentials=false",
                "--leader-elect=false",
                # Hollow nodes send no heartbeats; it would drain them all.
                "--controllers=*,-node-lifecycle-controller",
                # By default it makes 20 pods a second, and tests would wait for them.
                "--kube-api-qps=1000",
                "--kube-api-burst=1000",
                f"--secure-port={free_ports(1)[0]}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={self.folder / 'certs-controllers'}",
            )
            await self.until_served("/api/v1/namespaces/default/serviceaccounts/default")

    def _audit_flags(self) -> list[str]:
        """For a log of what our service accounts ask for, where it is to be recorded."""
        if audit.RECORD not in os.environ:
            return []
        policy = self.folder / "audit.yaml"
        policy.write_text(audit.POLICY)
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.folder / 'audit.log'}"]

    async def start_scheduler(self, *, qps: int = 5000) -> None:
        """Start kube-scheduler for pods of ``default-scheduler``."""
        config = self.folder / "scheduler.yaml"
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": str(self.kubeconfig("scheduler")),
                "qps": qps,
                "burst": qps,
                "contentType": "application/vnd.kubernetes.protobuf",
            },
            "leaderElection": {"leaderElect": False},
        }
        config.write_text(yaml.safe_dump(content))
        await self._start(
            "kube-scheduler",
            f"--config={config}",
            f"--secure-port={free_ports(1)[0]}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'certs-scheduler'}",
        )

    async def stop(self) -> None:
        """End every process and remove every file; idempotent."""
        if self.recorder is not None:
            await self.recorder.stop()
        if self._session is not None:
            await self._session.close()
            self._session = None
        for client in self.clients:
            if client.returncode is None:
                client.kill()
                await client.wait()
        self.clients.clear()
        for component in reversed(list(self.components.values())):
            await self.stop_component(component.name)
        if self._folder is not None:
            audit.record(self.folder / "audit.log")
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def stop_component(self, name: str) -> None:
        """End one process, politely for three seconds."""
        component = self.components.pop(name)
        process = component.process
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), 3.0)
            except TimeoutError:
                process.kill()
                await process.wait()

    # --- who may talk to it ----------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """The scratch folder of this control plane."""
        assert self._folder is not None, "not started"
        return self._folder

    @property
    def ca_file(self) -> Path:
        """The self-signed certificate of the API server."""
        return self.folder / "certs" / "apiserver.crt"

    def ssl_context(self) -> ssl.SSLContext:
        """Trusts the API server's certificate and nothing else."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def kubeconfig(self, user: str, token: str | None = None) -> Path:
        """Write a kubeconfig for a bearer token (the administrator's by default)."""
        path = self.folder / f"kubeconfig-{user}"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)},
                }
            ],
            "users": [{"name": user, "user": {"token": token or self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        }
        path.write_text(yaml.safe_dump(content))
        return path

    async def service_account_token(self, namespace: str, name: str) -> str:
        """A bound token of a service account, as a pod of it would have."""
        answer = await self.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 7200},
            },
        )
        return str(answer["status"]["token"])

    # --- waiting ---------------------------------------------------------------------------

    async def until_served(self, path: str) -> None:
        """Until a path answers, of a definition just created for example."""

        async def exists() -> bool:
            self._all_alive()
            return (await self.request("GET", path))[0] == 200

        await until(exists, within=PATIENCE, what=path)

    # --- inside ----------------------------------------------------------------------------

    async def _run_once(self, *args: str) -> None:
        process = await asyncio.create_subprocess_exec(str(binary_path()), *args)
        if await process.wait() != 0:
            raise ControlPlaneError(f"{args[0]} failed")

    async def _start(self, name: str, *flags: str) -> None:
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                str(binary_path()),
                name,
                *flags,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                env=os.environ | {"ARRANGER_PARENT": str(os.getpid())},
            )
        self.components[name] = Component(name, process, log)

    async def _until_ready(self) -> None:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not await self._is_ready():
            self._all_alive()
            if asyncio.get_running_loop().time() > deadline:
                raise ControlPlaneError(self._logs("not ready in time"))
            await asyncio.sleep(0.2)
        await self.until_served("/api/v1/namespaces/default")

    async def _is_ready(self) -> bool:
        try:
            if self._session is None:
                # The server makes its certificate as it starts.
                self._session = aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(ssl=self.ssl_context(), limit=64),
                    headers={"Authorization": f"Bearer {self.token}"},
                    timeout=aiohttp.ClientTimeout(total=60),
                )
            return (await self.request("GET", "/readyz"))[0] == 200
        except (OSError, ssl.SSLError, aiohttp.ClientError):
            return False

    def _all_alive(self) -> None:
        for component in self.components.values():
            if component.process.returncode is not None:
                raise ControlPlaneError(self._logs(f"{component.name} ended"))

    def _logs(self, why: str) -> str:
        tails = [f"--- {c.name}\n{c.tail()}" for c in self.components.values()]
        return "\n".join([why, *tails])


def cpu_seconds(pid: int) -> float:
    """User and system time a process has used, 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def a_node(name: str, *, cpu: str = "4", memory: str = "32Gi", pods: str = "110") -> dict[str, Any]:
    """A node that a cloud provider would register, ready to take pods."""
    offered = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Hollow"}],
        },
    }


def a_pod(
    name: str,
    *,
    scheduler: str = "arranger",
    cpu: str = "100m",
    memory: str = "500Mi",
    namespace: str = "default",
) -> dict[str, Any]:
    """A pod that asks for a little."""
    asked = {"cpu": cpu, "memory": memory}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": scheduler,
            "containers": [
                {
                    "name": "main",
                    "image": "pause",
                    "resources": {"requests": asked, "limits": asked},
                }
            ],
        },
    }


def free_ports(count: int) -> Sequence[int]:
    """Ports that were free a moment ago, held together so that they differ."""
    holders = [socket.socket() for _ in range(count)]
    try:
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in holders]
    finally:
        for holder in holders:
            holder.close()
