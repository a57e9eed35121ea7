"""Takes away what tests before have left on the API server that all of them share."""

from __future__ import annotations

from tests.controlplane.admin import until
from tests.controlplane.harness import ControlPlane


async def make_empty(plane: ControlPlane, collection: str) -> None:
    """Nothing is left at a path: objects without a namespace are those of every test before."""

    async def gone() -> bool:
        status, answer = await plane.request("DELETE", collection)
        assert status == 200, answer
        return not (await plane.get(collection))["items"]

    await until(gone, what=f"the end of all in {collection}")
