"""What is said of a Binding that did not come about, or of which nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.effects import Ambiguous, Applied, Outcome, Refused
from arranger.kube.client.transport import Response
from arranger.kube.writes.binding import bound_node
from tests.unit.kube.scripted_transport import RESET, failure, ok
from tests.unit.kube.writes.harness import BIND, CREATED, outcomes_of

pytestmark = pytest.mark.looptime(noop_cycles=0)


def the_pod(uid: str = "uid-1", node: str = "") -> Any:
    return ok({"metadata": {"name": "web-0", "uid": uid}, "spec": {"nodeName": node}})


#: Answers in turn, and the outcomes with their texts.
SAID: dict[str, tuple[list[Any], list[Outcome]]] = {
    "a lost answer": ([RESET, CREATED], [Ambiguous("connection reset"), Applied()]),
    "an error of the server, with what it says": (
        [failure(500, "InternalError", "no quorum "), CREATED],
        [Ambiguous("500 no quorum"), Applied()],
    ),
    "an error of the server that says nothing": (
        [failure(503), CREATED],
        [Ambiguous("503"), Applied()],
    ),
    "a conflict, in the server's words": (
        [failure(409, "Gone Fishing", "the pod has gates"), the_pod()],
        [Refused(409, "Gone Fishing", "the pod has gates")],
    ),
    "a conflict without words": (
        [failure(409), the_pod()],
        [Refused(409, "Conflict", "")],
    ),
    "another node": (
        [failure(409), the_pod(node="n9")],
        [Refused(409, "AlreadyBound", "the pod is bound to n9")],
    ),
    "another pod": (
        [failure(409), the_pod(uid="uid-2", node="n1")],
        [Refused(409, "Replaced", "the pod is now uid-2")],
    ),
    "a pod that is gone, in the server's words": (
        [failure(409), failure(404, "Expired", "it is gone")],
        [Refused(404, "Expired", "it is gone")],
    ),
    "a pod that is gone, without words": (
        [failure(409), failure(404)],
        [Refused(404, "NotFound", "")],
    ),
    "a conflict, and then the answer is lost": (
        [failure(409), RESET, failure(409), the_pod(node="n1")],
        [Ambiguous("connection reset"), Applied()],
    ),
    "a conflict, and then the pod is not shown": (
        [failure(409), failure(403, "Forbidden", "no"), failure(409), the_pod(node="n1")],
        [Ambiguous("reading the pod after a conflict: 403"), Applied()],
    ),
}


@pytest.mark.parametrize(("answers", "said"), SAID.values(), ids=SAID.keys())
async def test_what_is_said(answers: list[Any], said: list[Outcome]) -> None:
    outcomes, _ = await outcomes_of(BIND, *answers, wait=400)
    assert outcomes == said


async def test_a_pod_that_cannot_be_read_tells_nothing() -> None:
    answers = [failure(409), ok([]), failure(409), the_pod(node="n1")]
    (doubt, done), _ = await outcomes_of(BIND, *answers, wait=400)
    assert isinstance(doubt, Ambiguous)
    assert doubt.reason.startswith("reading the pod after a conflict: ")
    assert len(doubt.reason) > len("reading the pod after a conflict: ")
    assert done == Applied()


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        pytest.param(b'{"spec": {"nodeName": "n1"}, "metadata": {"uid": "u"}}', "n1", id="bound"),
        pytest.param(b'{"metadata": {"uid": "u"}}', "", id="not bound"),
        pytest.param(b"[", "", id="unreadable"),
    ],
)
def test_where_a_pod_is_bound(pod: bytes, node: str) -> None:
    assert bound_node(pod) == node


def test_a_pod_with_something_nested_too_deeply_is_bound_all_the_same() -> None:
    deep = b"[" * 5000 + b"]" * 5000
    pod = b'{"metadata":{"uid":"u"},"spec":{"nodeName":"n1","odd":' + deep + b"}}"
    assert bound_node(pod) == "n1"


async def test_a_conflict_is_understood_whatever_else_the_pod_has() -> None:
    deep = b"[" * 5000 + b"]" * 5000
    pod = b'{"metadata":{"uid":"uid-1"},"spec":{"nodeName":"elsewhere","odd":' + deep + b"}}"
    outcomes, _ = await outcomes_of(BIND, failure(409), Response(200, pod, {}), wait=400)
    assert outcomes == [Refused(409, "AlreadyBound", "the pod is bound to elsewhere")]
