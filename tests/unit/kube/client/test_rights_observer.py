from __future__ import annotations

import asyncio

import pytest

from arranger.kube.client.problem_log import GRACE, ProblemLog
from arranger.kube.client.rights_observer import RequestRightsObserver
from arranger.kube.client.transport import Request
from tests.unit.kube.scripted_transport import ScriptedTransport, failure, ok

pytestmark = pytest.mark.looptime(noop_cycles=0)

BINDING = "/api/v1/namespaces/{}/pods/p/binding"
NO_RIGHT = 'forbidden: User "u" cannot create resource "pods/binding" in API group ""'


async def test_a_missing_right_lasts_until_that_kind_of_write_succeeds_in_any_namespace() -> None:
    problems = ProblemLog("r.yaml")
    transport = ScriptedTransport()
    observer = RequestRightsObserver(transport, problems)

    async def post(path: str, *answers: object) -> str | None:
        transport.answers += answers
        await observer.send(Request("POST", path, body=b"{}"))
        await asyncio.sleep(GRACE)
        return problems.readiness_error()

    missing = 'forbidden (403): User "u" has no right to: create pods/binding'
    assert await post(BINDING.format("a"), failure(403, "Forbidden", NO_RIGHT)) == missing
    assert await post("/api/v1/namespaces/a/events", ok(status=201)) == missing
    assert await post(BINDING.format("b"), failure(409, "Conflict")) == missing
    assert await post(BINDING.format("b"), ok(status=201)) is None
    assert await post(BINDING.format("a"), failure(403, "Forbidden", "namespace is ending")) is None
