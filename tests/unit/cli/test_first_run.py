"""What a newcomer gets wrong before anything starts: one line that says what, and what to do."""

from __future__ import annotations

import copy
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from arranger.cli.main import main

KUBECONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "dev",
    "clusters": [{"name": "kind", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "me", "user": {"token": "t"}}],
    "contexts": [{"name": "dev", "context": {"cluster": "kind", "user": "me"}}],
}


def kubeconfig(change: Callable[[dict[str, Any]], Any] = lambda content: None) -> str:
    content = copy.deepcopy(KUBECONFIG)
    change(content)
    return yaml.safe_dump(content)


def of_user(**user: Any) -> str:
    return kubeconfig(lambda content: content["users"][0].update(user=user))


def of_context(**fields: Any) -> str:
    return kubeconfig(lambda content: content["contexts"][0]["context"].update(fields))


def of_cluster(**fields: Any) -> str:
    return kubeconfig(lambda content: content["clusters"][0]["cluster"].update(fields))


def plugin(command: str, *args: str) -> str:
    version = "client.authentication.k8s.io/v1"
    call = {"command": command, "args": list(args), "apiVersion": version}
    return of_user(exec={**call, "interactiveMode": "Never"})


#: The kubeconfig, and the error, where FILE is its path.
WRONG_KUBECONFIGS = {
    "no YAML": (
        "a: [b\n c: }",
        "kubeconfig FILE: not YAML: while parsing a flow sequence:"
        " did not find expected ',' or ']', in line 2, column 3",
    ),
    "empty": ("", "kubeconfig FILE: this is no kubeconfig (kind: Config)"),
    "a text": ("hello", "kubeconfig FILE: this is no kubeconfig (kind: Config)"),
    "no current-context": (
        kubeconfig(lambda content: content.pop("current-context")),
        "kubeconfig FILE: it has no current-context; choose one with --context: 'dev'",
    ),
    "a current-context that is gone": (
        kubeconfig(lambda content: content.update({"current-context": "old"})),
        "kubeconfig FILE: there is no current-context 'old' in it, but 'dev'",
    ),
    "an unknown cluster": (
        of_context(cluster="gone"),
        "kubeconfig FILE: context 'dev' names the cluster 'gone', which is not in it, but 'kind'",
    ),
    "an unknown user": (
        of_context(user="gone"),
        "kubeconfig FILE: context 'dev' names the user 'gone', which is not in it, but 'me'",
    ),
    "a server without a scheme": (
        of_cluster(server="10.0.0.1:6443"),
        "kubeconfig FILE: the server '10.0.0.1:6443' of cluster 'kind' is no URL such as"
        " https://HOST:6443",
    ),
    "a missing authority": (
        of_cluster(**{"certificate-authority": "/nowhere/ca.crt"}),
        "kubeconfig FILE: no such file: /nowhere/ca.crt",
    ),
    "a missing certificate": (
        of_user(**{"client-certificate": "/nowhere/me.crt", "client-key": "/nowhere/me.key"}),
        "kubeconfig FILE: no such file: /nowhere/me.crt",
    ),
    "a missing token": (
        of_user(tokenFile="/nowhere/token"),
        "kubeconfig FILE: /nowhere/token: no such file or directory",
    ),
    "a plugin that is not installed": (
        plugin("no-such-plugin"),
        "kubeconfig FILE: the credential plugin 'no-such-plugin' is not installed, or not in $PATH",
    ),
    "a plugin that fails": (
        plugin("sh", "-c", "echo log in first >&2; exit 3"),
        "kubeconfig FILE: the credential plugin 'sh' failed: process returned 3. log in first",
    ),
}


def error_of(*args: str) -> str:
    """The one line with which a command refuses to run."""
    result = CliRunner().invoke(main, list(args))
    assert result.exit_code != 0
    *usage, line = result.output.splitlines()
    assert not [text for text in usage if text and not text.startswith(("Usage:", "Try "))]
    return line.removeprefix("Error: ")


@pytest.fixture(params=["run", "controllers"])
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any kubeconfig."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("case", WRONG_KUBECONFIGS.values(), ids=WRONG_KUBECONFIGS.keys())
def test_a_wrong_kubeconfig(command: str, case: tuple[str, str], tmp_path: Path) -> None:
    content, error = case
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    assert error_of(command, f"--kubeconfig={file}") == error.replace("FILE", str(file))


def test_no_kubeconfig_at_all(command: str, tmp_path: Path) -> None:
    assert error_of(command) == (
        f"kubeconfig {tmp_path}/.kube/config: no such file; name one with --kubeconfig or in"
        " $KUBECONFIG"
    )


def test_a_kubeconfig_that_the_environment_names(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/one:{tmp_path}/two")
    assert error_of(command).startswith(f"kubeconfig {tmp_path}/one:{tmp_path}/two: no such file")


def test_an_unknown_context(command: str, tmp_path: Path) -> None:
    (tmp_path / "k").write_text(kubeconfig())
    error = error_of(command, f"--kubeconfig={tmp_path / 'k'}", "--context=prod")
    assert error == f"kubeconfig {tmp_path / 'k'}: there is no context 'prod' in it, but 'dev'"


def test_a_pod_without_its_service_account(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert "automountServiceAccountToken" in error_of(command)


def test_a_configuration_that_is_no_yaml(command: str, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a: [b\n c: }")
    error = error_of(command, f"--config={tmp_path / 'c'}")
    assert error == (
        f"{tmp_path / 'c'}: not YAML: while parsing a flow sequence:"
        " did not find expected ',' or ']', in line 2, column 3"
    )


def test_an_unknown_log_level_lists_the_levels(command: str) -> None:
    assert error_of(command, "--log-level=loud").endswith(
        "'loud' is not one of 'debug', 'info', 'warning', 'error'."
    )


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_port_in_use_names_the_field(tmp_path: Path, taken_port: int) -> None:
    (tmp_path / "k").write_text(kubeconfig())
    server = {"host": "127.0.0.1", "port": taken_port}
    head = {"apiVersion": "arranger.io/v1alpha1", "kind": "SchedulerConfiguration"}
    (tmp_path / "c").write_text(yaml.safe_dump({**head, "server": server}))
    error = error_of("run", f"--kubeconfig={tmp_path / 'k'}", f"--config={tmp_path / 'c'}")
    assert error.startswith(f"port {taken_port} is in use on this machine: ")
    assert "server.port" in error


def test_a_port_in_use_names_the_option(tmp_path: Path, taken_port: int) -> None:
    (tmp_path / "k").write_text(kubeconfig())
    where = ("--bind-address=127.0.0.1", f"--secure-port={taken_port}")
    error = error_of("controllers", f"--kubeconfig={tmp_path / 'k'}", *where)
    assert error == f"port {taken_port} is in use on this machine"


def test_half_a_pair_of_certificate_and_key_is_refused(command: str, tmp_path: Path) -> None:
    (tmp_path / "k").write_text(kubeconfig())
    where = (f"--kubeconfig={tmp_path / 'k'}", "--secure-port=0", f"--tls-cert-file={tmp_path}/k")
    assert error_of(command, *where) == "give both --tls-cert-file and --tls-private-key-file"


def test_a_port_in_use_names_the_option_of_the_demo(taken_port: int) -> None:
    error = error_of("demo", f"--port={taken_port}")
    assert error == f"--port: port {taken_port} is in use on this machine; 0 picks a free one"


def test_python_runs_the_package_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "arranger", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: arranger [OPTIONS]")
