"""What extenders are shown of victims, and answers about them that are odd."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from arranger.api.effects import (
    ExtenderDecision,
    ExtenderPreemptionDecision,
    NodeVictims,
    ObjectKey,
    QueryExtenderPreemption,
    QueryExtenders,
    Refused,
)
from arranger.api.extenders import Extender
from arranger.kube.extenders import http
from tests.builders import a_pod
from tests.unit.kube.extenders.harness import (
    POD,
    VICTIM,
    Cluster,
    FakeExtender,
    ReceivedRequest,
    ask,
    serving,
)

OTHER = ObjectKey("default", "w", "uid-default-w")
PODS = {key.uid: key for key in (VICTIM, OTHER)}
PROPOSED = {"n0": NodeVictims((VICTIM.uid,)), "n1": NodeVictims((OTHER.uid,))}


def a_question(*extenders: Extender) -> QueryExtenderPreemption:
    return QueryExtenderPreemption(POD, extenders, PROPOSED, PODS)


def agreeing(**uids_on: str) -> FakeExtender:
    said = {node: {"Pods": [{"UID": uid}]} for node, uid in uids_on.items()}
    return FakeExtender({"preempt": ReceivedRequest({"NodeNameToMetaVictims": said})})


@pytest.mark.parametrize("ignorable", [False, True])
@pytest.mark.parametrize(
    "pods",
    [(a_pod("w"),), (a_pod("w"), a_pod("v").with_uid("another"))],
    ids=["gone", "recreated"],
)
async def test_a_node_is_not_asked_about_of_which_a_victim_is_gone(
    pods: tuple[Any, ...], ignorable: bool
) -> None:
    fake = agreeing(n0=VICTIM.uid, n1=OTHER.uid)
    cluster = Cluster(a_pod().manifest(), *(pod.manifest() for pod in pods))
    async with serving(fake):
        extender = Extender(fake.url, preempt_verb="preempt", ignorable=ignorable)
        advice = await ask(a_question(extender), cluster)
    ((_, _, sent),) = fake.calls
    assert sent["NodeNameToVictims"].keys() == {"n1"}
    assert advice == ExtenderPreemptionDecision({"n1": NodeVictims((OTHER.uid,))})


async def test_an_extender_is_not_passed_over_because_the_server_cannot_be_read() -> None:
    class Lost(Cluster):
        async def send(self, request: Any) -> Any:
            self.lost = not request.path.endswith("/p")
            return await super().send(request)

    fake = agreeing(n0=VICTIM.uid)
    async with serving(fake):
        extender = Extender(fake.url, preempt_verb="preempt", ignorable=True)
        advice = await ask(a_question(extender), Lost(a_pod().manifest()))
    assert isinstance(advice, Refused)
    assert fake.calls == []


async def test_the_next_is_not_asked_about_pods_that_nobody_can_show_it() -> None:
    names, whole = agreeing(n0="stranger", n1=OTHER.uid), agreeing(n1=OTHER.uid)
    cluster = Cluster(*(a_pod(name).manifest() for name in ("p", "v", "w")))
    async with serving(names, whole):
        extenders = (
            Extender(names.url, preempt_verb="preempt", node_cache_capable=True),
            Extender(whole.url, preempt_verb="preempt"),
        )
        advice = await ask(a_question(*extenders), cluster)
    assert whole.calls[0][2]["NodeNameToVictims"].keys() == {"n1"}
    assert advice == ExtenderPreemptionDecision({"n1": NodeVictims((OTHER.uid,))})


async def answer_to(body: Any, *, ignorable: bool = False) -> Any:
    fake = FakeExtender({"preempt": ReceivedRequest(body)})
    async with serving(fake):
        extender = Extender(
            fake.url, preempt_verb="preempt", node_cache_capable=True, ignorable=ignorable
        )
        return await ask(a_question(extender))


AS_GO_READS_IT: dict[str, Any] = {
    "Go's names": {"NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": VICTIM.uid}]}}},
    "as before v1": {"nodeNameToMetaVictims": {"n0": {"pods": [{"uid": VICTIM.uid}]}}},
    "in any case, with more": {
        "NODENAMETOMETAVICTIMS": {"n0": {"PODS": [{"Uid": VICTIM.uid, "name": "v"}], "more": [1]}},
        "else": {},
    },
    "null where there is nothing": {
        "NodeNameToMetaVictims": {
            "n0": {"Pods": [{"UID": VICTIM.uid}], "NumPDBViolations": None},
        },
        "NodeNameToVictims": None,
    },
    "a node that it was not asked about": {
        "NodeNameToMetaVictims": {
            "n0": {"Pods": [{"UID": VICTIM.uid}]},
            "n7": {"Pods": [{"UID": OTHER.uid}]},
        }
    },
}


@pytest.mark.parametrize("body", AS_GO_READS_IT.values(), ids=AS_GO_READS_IT.keys())
async def test_an_answer_is_read_as_go_reads_it(body: Any) -> None:
    assert await answer_to(body) == ExtenderPreemptionDecision({"n0": NodeVictims((VICTIM.uid,))})


NONSENSE: dict[str, Any] = {
    "no JSON": b"{",
    "a number": 7,
    "a list": [],
    "nodes as a list": {"NodeNameToMetaVictims": ["n0"]},
    "a node that is a number": {"NodeNameToMetaVictims": {"n0": 1}},
    "pods as a text": {"NodeNameToMetaVictims": {"n0": {"Pods": VICTIM.uid}}},
    "a pod that is a text": {"NodeNameToMetaVictims": {"n0": {"Pods": [VICTIM.uid]}}},
    "a uid that is a number": {"NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": 1}]}}},
    "half a violation": {
        "NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": "v"}], "NumPDBViolations": 0.5}}
    },
    "far more than was asked about": {
        "NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": "v"}] * 100_000}}
    },
    "nested too deeply": b'{"NodeNameToMetaVictims":' + b"[" * 100_000,
}


@pytest.mark.parametrize("ignorable", [False, True])
@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE.keys())
async def test_nonsense_is_an_error_of_the_extender(body: Any, ignorable: bool) -> None:
    advice = await answer_to(body, ignorable=ignorable)
    if ignorable:
        assert advice == ExtenderPreemptionDecision(PROPOSED)
    else:
        assert isinstance(advice, Refused)
        assert advice.reason == "Extender"
        assert len(advice.message) < 500


async def test_an_error_is_repeated_in_part_if_it_is_long() -> None:
    fake = FakeExtender({"filter": ReceivedRequest({"Error": "no" * 1_000_000})})
    async with serving(fake):
        extender = Extender(fake.url, "filter", node_cache_capable=True)
        advice = await ask(QueryExtenders(POD, (extender,), ("n0",)))
    assert isinstance(advice, Refused)
    assert len(advice.message) < 2000


async def test_scores_count_of_the_nodes_that_were_asked_about() -> None:
    scores = [{"Host": f"n{n}", "Score": 1} for n in range(3000)]
    fake = FakeExtender({"prioritize": ReceivedRequest(scores)})
    async with serving(fake):
        extender = Extender(fake.url, prioritize_verb="prioritize", node_cache_capable=True)
        advice = await ask(QueryExtenders(POD, (extender,), ("n0", "n5")))
    assert advice == ExtenderDecision(("n0", "n5"), {"n0": 10, "n5": 10})


async def test_an_answer_without_end_is_not_read_for_as_long_as_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER", 100_000)
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while sent < 50_000_000:
            await response.write(b"{" * 10_000)
            sent += 10_000
        return response

    app = web.Application()
    app.router.add_post("/{path:.*}", endless)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    try:
        url = str(server.make_url("/scheduler"))
        extender = Extender(url, preempt_verb="preempt", node_cache_capable=True)
        advice = await ask(a_question(extender))
    finally:
        await server.close()
    assert isinstance(advice, Refused)
    assert "has more than" in advice.message
    assert sent < 50_000_000
