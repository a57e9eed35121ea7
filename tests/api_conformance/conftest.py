"""One suite, two servers: each test runs against the embedded cluster and the real kube-apiserver.

What the real one answers is the truth; a test is an assertion of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.http import serve
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.credentials import ApiServerConfig, Credential, CredentialSource
from arranger.kube.client.transport import Transport
from tests.api_conformance.client import Api
from tests.api_conformance.objects import GROUP, new_namespace, register
from tests.controlplane.harness import ControlPlane

EMBEDDED = "embedded"
REAL = pytest.param(
    "real", marks=[pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of this folder on the loop that the real control plane lives on."""
    for item in items:
        if "tests/api_conformance/" in item.path.as_posix():
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(params=[EMBEDDED, REAL])
def plane(request: pytest.FixtureRequest) -> ControlPlane | None:
    """The real control plane, or none for the embedded cluster."""
    return _plane(request, "control_plane")


@pytest.fixture(params=[EMBEDDED, REAL])
def plane_with_controllers(request: pytest.FixtureRequest) -> ControlPlane | None:
    """The same with the controllers that collect garbage; the embedded cluster has its own."""
    return _plane(request, "control_plane_with_controllers")


@pytest_asyncio.fixture(loop_scope="session")
async def api(plane: ControlPlane | None) -> AsyncIterator[Api]:
    """The server under test."""
    transport = _transport(plane)
    yield Api(transport)
    await transport.close()


@pytest_asyncio.fixture(loop_scope="session")
async def api_with_controllers(plane_with_controllers: ControlPlane | None) -> AsyncIterator[Api]:
    """The server under test, with controllers."""
    transport = _transport(plane_with_controllers)
    yield Api(transport)
    await transport.close()


@pytest_asyncio.fixture(loop_scope="session")
async def api_over_http(plane: ControlPlane | None) -> AsyncIterator[Api]:
    """The server under test, behind a socket in any case."""
    if plane is not None:
        transport = _transport(plane)
        yield Api(transport)
        await transport.close()
        return
    async with serve(EmbeddedCluster()) as url:
        transport = HttpTransport(ApiServerConfig(url))
        yield Api(transport)
        await transport.close()


@pytest_asyncio.fixture(loop_scope="session")
async def ns(api: Api) -> str:
    """A namespace of the test's own; also a prefix for names that all tests share."""
    return await new_namespace(api)


@pytest_asyncio.fixture(loop_scope="session")
async def widgets(api: Api, ns: str) -> str:
    """Where the widgets of the test's namespace are; their kind is registered once a server."""
    await register(api, "Widget")
    return f"/apis/{GROUP}/v1/namespaces/{ns}/widgets"


def _plane(request: pytest.FixtureRequest, fixture: str) -> ControlPlane | None:
    if request.param == EMBEDDED:
        return None
    plane: ControlPlane = request.getfixturevalue(fixture)
    return plane


def _transport(plane: ControlPlane | None) -> Transport:
    if plane is None:
        return InProcessTransport(EmbeddedCluster())
    identity = Credential(authorization=f"Bearer {plane.token}", ca_file=str(plane.ca_file))
    return HttpTransport(ApiServerConfig(plane.url, CredentialSource(identity)))
