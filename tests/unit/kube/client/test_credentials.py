from __future__ import annotations

import base64
import json
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from arranger.kube.client.credentials import ApiServerConfig, Credential, CredentialSource
from arranger.kube.client.kubeconfig import (
    KubeconfigError,
    load_api_server_config,
    load_in_cluster,
    load_kubeconfig,
)

PLUGIN = """#!{python}
import json, pathlib
ran = pathlib.Path({folder!r}) / "ran"
count = int(ran.read_text()) + 1 if ran.exists() else 1
ran.write_text(str(count))
status = {{"token": f"plugin-{{count}}"}}
status |= {status}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                  "status": status}}))
"""


def write_kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> str:
    path = folder / "config"
    config = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "there", "context": {"cluster": "c", "user": "u"}},
        ],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def with_plugin(folder: Path, **status: Any) -> dict[str, Any]:
    plugin = folder / "plugin"
    plugin.write_text(PLUGIN.format(python=sys.executable, folder=str(folder), status=status))
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"command": str(plugin), "apiVersion": "client.authentication.k8s.io/v1"}}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def clocked(access: ApiServerConfig) -> tuple[CredentialSource, Clock]:
    """The same credentials under a clock of ours, as if read at time 0."""
    clock = Clock()
    return replace(access.credentials, now=clock), clock


async def test_a_token_in_the_kubeconfig(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, {"token": "secret"}, **{"tls-server-name": "kubernetes"})
    access = await load_api_server_config(path)
    assert access.url == "https://api:6443"
    assert access.namespace == "team"
    assert access.server_name == "kubernetes"
    assert await access.credentials.authorization() == "Bearer secret"
    assert (await load_api_server_config(path, "there")).namespace == "default"


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    access = await load_kubeconfig(write_kubeconfig(tmp_path, {"tokenFile": str(token)}))
    credentials, clock = clocked(access)
    token.write_text("two\n")
    clock.now = 59
    assert await credentials.authorization() == "Bearer one"
    clock.now = 61
    assert await credentials.authorization() == "Bearer two"


async def test_client_certificates_and_authority(
    tmp_path: Path, throwaway_certificate: tuple[Path, Path]
) -> None:
    certificate, key = throwaway_certificate
    data = base64.b64encode(certificate.read_bytes()).decode()
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    path = write_kubeconfig(tmp_path, user, **{"certificate-authority-data": data})
    credentials = (await load_kubeconfig(path)).credentials
    assert await credentials.authorization() == ""
    assert len(credentials.ssl_context().get_ca_certs()) == 1


async def test_verification_can_be_switched_off(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, {"token": "t"}, **{"insecure-skip-tls-verify": True})
    assert not (await load_kubeconfig(path)).credentials.ssl_context().check_hostname


async def test_a_plugin_runs_once_until_its_token_is_rejected(tmp_path: Path) -> None:
    access = await load_kubeconfig(write_kubeconfig(tmp_path, with_plugin(tmp_path)))
    credentials, clock = clocked(access)
    assert await credentials.authorization() == "Bearer plugin-1"
    clock.now = 600
    assert await credentials.authorization() == "Bearer plugin-1"
    clock.now = 610
    assert await credentials.renew("Bearer plugin-1")
    assert await credentials.authorization() == "Bearer plugin-2"
    assert not await credentials.renew("Bearer plugin-2")  # at once: no hammering


async def test_a_plugin_with_an_expiry_runs_again_when_it_has_passed(tmp_path: Path) -> None:
    user = with_plugin(tmp_path, expirationTimestamp="2020-01-01T00:00:00Z")
    credentials, clock = clocked(await load_kubeconfig(write_kubeconfig(tmp_path, user)))
    clock.now = 61
    assert await credentials.authorization() == "Bearer plugin-2"


async def test_a_plugin_whose_token_lasts_is_left_alone(tmp_path: Path) -> None:
    user = with_plugin(tmp_path, expirationTimestamp="2120-01-01T00:00:00Z")
    credentials, clock = clocked(await load_kubeconfig(write_kubeconfig(tmp_path, user)))
    clock.now = 61
    assert await credentials.authorization() == "Bearer plugin-1"


async def test_a_plugin_that_breaks_later_keeps_the_old_token(tmp_path: Path) -> None:
    access = await load_kubeconfig(write_kubeconfig(tmp_path, with_plugin(tmp_path)))
    credentials, clock = clocked(access)
    (tmp_path / "plugin").unlink()
    clock.now = 100
    assert not await credentials.renew("Bearer plugin-1")
    assert await credentials.authorization() == "Bearer plugin-1"


async def test_the_service_account_of_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, throwaway_certificate: tuple[Path, Path]
) -> None:
    (tmp_path / "ca.crt").write_bytes(throwaway_certificate[0].read_bytes())
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "namespace").write_text("arranger-system")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    access = await load_in_cluster(tmp_path)
    assert access.url == "https://[fd00::1]:443"
    assert access.namespace == "arranger-system"
    credentials, clock = clocked(access)
    assert await credentials.authorization() == "Bearer one"
    (tmp_path / "token").write_text("two")
    clock.now = 30
    assert await credentials.renew("Bearer one")
    assert await credentials.authorization() == "Bearer two"
    (tmp_path / "token").write_text("three")
    clock.now = 91
    assert await credentials.authorization() == "Bearer three"


BROKEN = {
    "no such file": (None, "no such file"),
    "not YAML": ("{", "kubeconfig"),
    "empty": ("", "kubeconfig"),
    "no current context": ("clusters: []\nusers: []\ncontexts: []\n", "current-context"),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
async def test_what_is_wrong_with_a_kubeconfig_is_said(
    tmp_path: Path, case: tuple[str | None, str]
) -> None:
    text, message = case
    path = tmp_path / "broken"
    if text is not None:
        path.write_text(text)
    with pytest.raises(KubeconfigError, match=message):
        await load_api_server_config(str(path))


async def test_outside_a_cluster_there_is_no_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match="Service host"):
        await load_in_cluster(tmp_path)


async def test_a_reload_that_fails_is_not_repeated_for_every_request() -> None:
    tries = 0

    async def load(rejected: bool) -> Credential:
        nonlocal tries
        tries += 1
        raise OSError(json.dumps("gone"))

    clock = Clock()
    credentials = CredentialSource(Credential("Bearer old"), load, now=clock)
    clock.now = 61
    for _ in range(5):
        assert await credentials.authorization() == "Bearer old"
    assert tries == 1
