"""Servers that serve our kinds."""

from __future__ import annotations

import pytest_asyncio

from tests.api_conformance.client import Api
from tests.api_conformance.objects import CRDS, crd_path
from tests.controlplane.harness import until
from tests.project.crds.samples import definitions

DEFINITIONS = definitions()


@pytest_asyncio.fixture(loop_scope="session")
async def served(api: Api) -> Api:
    """The server, serving our kinds; the real one keeps them for the tests that follow."""
    for name, definition in DEFINITIONS.items():
        path = crd_path(name, "default")

        async def answers(path: str = path) -> bool:
            return (await api.call("GET", path)).status == 200

        if await answers():
            continue  # to refuse a definition that it has takes the real one up to a second
        answer = await api.call("POST", CRDS, definition)
        assert answer.status in (201, 409), answer.body
        await until(answers, what=path)
    return api
