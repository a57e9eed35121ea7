"""The real control plane as pytest fixtures, for every tier that wants one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.controlplane import audit
from tests.controlplane.harness import ControlPlane, binary_path

_PROBLEMS = pytest.StashKey[list[str]]()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run of the whole tier fails for a right that no test has asked for."""
    problems = audit.verdict() if exitstatus == pytest.ExitCode.OK else []
    session.config.stash[_PROBLEMS] = problems
    if problems:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say so before the closing line."""
    if problems := config.stash.get(_PROBLEMS, []):
        terminalreporter.section("rights of manifests/")
        for problem in problems:
            terminalreporter.write_line(problem)


def skip_without_binary() -> None:
    """Skip the test that asks, with the command that would make it run."""
    if not binary_path().exists():
        pytest.skip("the control plane is not built: run `make controlplane` (needs Go)")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def control_plane() -> AsyncIterator[ControlPlane]:
    """etcd and kube-apiserver, shared by the tests of one worker."""
    skip_without_binary()
    async with ControlPlane() as plane:
        yield plane


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def control_plane_with_controllers() -> AsyncIterator[ControlPlane]:
    """The same with kube-controller-manager: Jobs, Deployments and owners work."""
    skip_without_binary()
    async with ControlPlane(controllers=True) as plane:
        yield plane
