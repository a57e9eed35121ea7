"""The real control plane as pytest fixtures, for every tier that wants one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.controlplane.harness import ControlPlane, binary_path


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
