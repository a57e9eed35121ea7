"""An API server that serves our kinds, for clients that look at objects alone."""

from __future__ import annotations

import pytest_asyncio

from tests.api_conformance.objects import crd_path
from tests.controlplane.harness import ControlPlane
from tests.project.crds.samples import definitions


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def serving_plane(control_plane: ControlPlane) -> ControlPlane:
    """Nobody acts on its objects."""
    for name, definition in definitions().items():
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        status, answer = await control_plane.request("POST", path, definition)
        assert status in (201, 409), answer
        await control_plane.until_served(crd_path(name, "default"))
    return control_plane
