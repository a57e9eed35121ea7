"""Finding the API server and our credentials, with kubernetes-asyncio's configuration loader.

Only its ``config`` package is used, and only when a function here is called: importing it costs
two thirds of a second. Tokens, exec plugins and certificate files are its business; keeping them
fresh is :class:`~arranger.kube.client.credentials.CredentialSource`'.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from arranger.kube.client.credentials import ApiServerConfig, Credential, CredentialSource
from arranger.kube.client.kubeconfig_check import KubeconfigError, check_kubeconfig

__all__ = ["KubeconfigError", "load_api_server_config", "load_in_cluster", "load_kubeconfig"]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


async def load_api_server_config(
    kubeconfig: Path | str | None = None, context: str | None = None
) -> ApiServerConfig:
    """The server of the kubeconfig named, else by ``$KUBECONFIG``, the pod's service account, or
    ``~/.kube/config``, in this order.

    Raises:
        KubeconfigError: none of them exists, or the one chosen cannot be used.
    """
    named = kubeconfig or os.environ.get("KUBECONFIG")
    if named is None and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return await load_in_cluster()
    return await load_kubeconfig(str(named or Path.home() / ".kube" / "config"), context)


async def load_in_cluster(folder: Path = SERVICE_ACCOUNT) -> ApiServerConfig:
    """The server of our own cluster, by the service account mounted into our pod.

    Raises:
        KubeconfigError: we are not in a cluster, or the mount is incomplete.
    """
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException, load_incluster_config

    def configure() -> Any:
        configuration = Configuration()
        load_incluster_config(  # type: ignore[no-untyped-call]
            client_configuration=configuration,
            token_filename=str(folder / "token"),
            cert_filename=str(folder / "ca.crt"),
        )
        return configuration

    async def load(_rejected: bool) -> Credential:
        return _credential(configure())

    try:
        configuration = configure()
    except (ConfigException, OSError) as error:
        raise KubeconfigError(
            f"in-cluster configuration: {error} Is a service account mounted into this pod"
            " (automountServiceAccountToken)?"
        ) from error
    try:
        namespace = (folder / "namespace").read_text().strip()
    except OSError:
        namespace = "default"
    return ApiServerConfig(
        configuration.host, CredentialSource(_credential(configuration), load), namespace
    )


async def load_kubeconfig(path: str, context: str | None = None) -> ApiServerConfig:
    """The server of one kubeconfig, or several separated as in ``$KUBECONFIG``.

    Raises:
        KubeconfigError: the file, the context or a plugin it names cannot be used.
    """
    plugin = check_kubeconfig(path, context)
    source = _KubeconfigSource(path, context)
    try:
        await source.open()
    # A broken file shows itself as anything: KeyError, a missing file, a plugin that fails.
    except Exception as error:
        raise KubeconfigError(f"kubeconfig {path}: {_load_error(error, plugin)}") from error
    configuration = source.configuration
    return ApiServerConfig(
        configuration.host.rstrip("/"),
        CredentialSource(_credential(configuration), source.load),
        source.namespace,
        configuration.tls_server_name,
        configuration.proxy,
    )


@dataclass(slots=True)
class _KubeconfigSource:
    """A kubeconfig that can be read again."""

    path: str
    context: str | None
    loader: Any = None
    configuration: Any = None

    async def open(self) -> None:
        """Read the file anew: it may have been rewritten."""
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import load_kube_config

        self.configuration = Configuration()
        self.loader = await load_kube_config(
            config_file=self.path,
            context=self.context,
            client_configuration=self.configuration,
            persist_config=False,
        )

    async def load(self, rejected: bool) -> Credential:
        """The identity; a plugin runs when its token expires, or was rejected and has no expiry."""
        # The loader has no public way to tell whether a plugin is in use.
        user = self.loader._user  # noqa: SLF001
        if rejected or user is None or "exec" not in user:
            await self.open()
        elif hasattr(self.loader, "exec_plugin_expiry"):
            await self.loader.load_and_set(self.configuration)
        return _credential(self.configuration)

    @property
    def namespace(self) -> str:
        """The context's namespace."""
        context = self.loader.current_context or {}
        return str(context.get("context", {}).get("namespace") or "default")


def _load_error(error: Exception, plugin: str) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.filename:
        if plugin == error.filename:
            return f"the credential plugin {plugin!r} is not installed, or not in $PATH"
        return f"{error.filename}: {(error.strerror or text).lower()}"
    if plugin and text.startswith("exec: "):
        return f"the credential plugin {plugin!r} failed: {text.removeprefix('exec: ')}"
    return text.replace("File does not exists:", "no such file:")


def _credential(configuration: Any) -> Credential:
    # Token files may end in a newline, which no header survives.
    return Credential(
        authorization=(configuration.api_key.get("BearerToken") or "").strip(),
        ca_file=configuration.ssl_ca_cert,
        cert_file=configuration.cert_file,
        key_file=configuration.key_file,
        verify=configuration.verify_ssl,
    )
