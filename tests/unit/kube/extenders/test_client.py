"""The extender protocol on the wire, and what becomes of answers, errors and silence."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from aiohttp.test_utils import unused_port

from arranger.api.effects import (
    Applied,
    Bind,
    ExtenderDecision,
    ExtenderPreemptionDecision,
    NodeVictims,
    QueryExtenderPreemption,
    QueryExtenders,
    Refused,
)
from arranger.api.extenders import Extender, ExtenderTls
from arranger.kube.extenders.http import HttpExtenderTransport
from tests.builders import a_node, a_pod
from tests.unit.kube.extenders.harness import (
    NODES,
    POD,
    VICTIM,
    Cluster,
    FakeExtender,
    ReceivedRequest,
    ask,
    consultant,
    outcomes,
    serving,
)

# --- what is sent -------------------------------------------------------------------------------


async def test_what_filter_and_prioritize_are_sent() -> None:
    by_name = FakeExtender(
        {"filter": ReceivedRequest({"NodeNames": ["n0", "n1"]}), "prioritize": ReceivedRequest([])}
    )
    whole = FakeExtender(
        {
            "filter": ReceivedRequest({"Nodes": {"items": [{"metadata": {"name": "n1"}}]}}),
            "prioritize": ReceivedRequest([]),
        }
    )
    async with serving(by_name, whole):
        extenders = (
            Extender(by_name.url, "filter", "prioritize", node_cache_capable=True),
            Extender(whole.url + "/", "filter", "prioritize"),
        )
        advice = await ask(QueryExtenders(POD, extenders, NODES))
    pod = a_pod().manifest()
    named = lambda *names: {"Pod": pod, "Nodes": None, "NodeNames": list(names)}  # noqa: E731
    listed = lambda *names: {  # noqa: E731
        "Pod": pod,
        "Nodes": {
            "metadata": {},
            "items": [a_node(n).labelled(hidden="yes").manifest() for n in names],
        },
        "NodeNames": None,
    }
    assert by_name.calls == [
        ("/scheduler/filter", "application/json", named(*NODES)),
        ("/scheduler/prioritize", "application/json", named("n1")),
    ]
    assert whole.calls == [
        ("/scheduler/filter", "application/json", listed("n0", "n1")),
        ("/scheduler/prioritize", "application/json", listed("n1")),
    ]
    assert advice == ExtenderDecision(("n1",))


async def test_what_preempt_is_sent() -> None:
    kept = {"NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": VICTIM.uid}], "NumPDBViolations": 1}}}
    by_uid, whole = (
        FakeExtender({"preempt": ReceivedRequest(kept)}),
        FakeExtender({"preempt": ReceivedRequest(kept)}),
    )
    async with serving(by_uid, whole):
        extenders = (
            Extender(by_uid.url, preempt_verb="preempt", node_cache_capable=True),
            Extender(whole.url, preempt_verb="preempt"),
        )
        victims = {node: NodeVictims((VICTIM.uid,), 1) for node in ("n0", "n1")}
        question = QueryExtenderPreemption(POD, extenders, victims, {VICTIM.uid: VICTIM})
        advice = await ask(question)
    pod = a_pod().manifest()
    meta = {"Pods": [{"UID": VICTIM.uid}], "NumPDBViolations": 1}
    ((_, _, first),), ((_, _, second),) = by_uid.calls, whole.calls
    assert first == {
        "Pod": pod,
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {"n0": meta, "n1": meta},
    }
    assert second == {
        "Pod": pod,
        "NodeNameToVictims": {"n0": {"Pods": [a_pod("v").manifest()], "NumPDBViolations": 1}},
        "NodeNameToMetaVictims": None,
    }
    assert advice == ExtenderPreemptionDecision({"n0": NodeVictims((VICTIM.uid,), 1)})


async def test_what_bind_is_sent() -> None:
    fake = FakeExtender({"bind": ReceivedRequest({"Error": ""})})
    async with serving(fake):
        extender = Extender(fake.url, bind_verb="bind")
        assert await ask(Bind(POD, "n1", extender=extender)) == Applied()
    sent = {"PodName": "p", "PodNamespace": "default", "PodUID": POD.uid, "Node": "n1"}
    assert fake.calls == [("/scheduler/bind", "application/json", sent)]


# --- what is answered ---------------------------------------------------------------------------

#: name → (nodeCacheCapable, filter's answer, priorities, the advice or a part of the error).
ANSWERS: dict[str, tuple[bool, ReceivedRequest, ReceivedRequest, ExtenderDecision | str]] = {
    "names": (
        True,
        ReceivedRequest({"NodeNames": ["n2"]}),
        ReceivedRequest([]),
        ExtenderDecision(("n2",)),
    ),
    "names in lower case, as before v1": (
        True,
        ReceivedRequest({"nodenames": ["n2"], "failedNodes": {"n0": "full"}, "error": ""}),
        ReceivedRequest([{"host": "n2", "score": 3}]),
        ExtenderDecision(("n2",), {"n2": 60}, {"n0": "full"}),
    ),
    "names from one that should list nodes count as none": (
        False,
        ReceivedRequest({"NodeNames": ["n2"]}),
        ReceivedRequest([]),
        ExtenderDecision(()),
    ),
    "nodes from one that knows them count": (
        True,
        ReceivedRequest({"Nodes": {"items": [{"metadata": {"name": "n2"}}]}}),
        ReceivedRequest([]),
        ExtenderDecision(("n2",)),
    ),
    "reasons of both kinds": (
        True,
        ReceivedRequest(
            {
                "NodeNames": ["n0"],
                "FailedNodes": {"n1": "full", "n2": "full"},
                "FailedAndUnresolvableNodes": {"n2": "broken"},
            }
        ),
        ReceivedRequest([]),
        ExtenderDecision(("n0",), {}, {"n1": "full", "n2": "full"}, {"n2": "broken"}),
    ),
    "scores are weighted and scaled": (
        True,
        ReceivedRequest({"NodeNames": ["n0", "n1"]}),
        ReceivedRequest([{"Host": "n0", "Score": 10}, {"Host": "n1", "Score": 1}]),
        ExtenderDecision(("n0", "n1"), {"n0": 200, "n1": 20}),
    ),
    "no scores when it cannot prioritize": (
        True,
        ReceivedRequest({"NodeNames": ["n0"]}),
        ReceivedRequest(status=500),
        ExtenderDecision(("n0",)),
    ),
    "no scores when they cannot be read": (
        True,
        ReceivedRequest({"NodeNames": ["n0"]}),
        ReceivedRequest([{"Host": "n0", "Score": "ten"}]),
        ExtenderDecision(("n0",)),
    ),
    "nothing at all": (True, ReceivedRequest(None), ReceivedRequest([]), ExtenderDecision(())),
    "an error": (True, ReceivedRequest({"Error": "boom"}), ReceivedRequest([]), "boom"),
    "a status": (
        True,
        ReceivedRequest({}, status=503),
        ReceivedRequest([]),
        "filter answered with status 503",
    ),
    "no JSON": (True, ReceivedRequest(b"<html>"), ReceivedRequest([]), "unreadable answer"),
    "a node that it was not asked about": (
        True,
        ReceivedRequest({"NodeNames": ["n9"]}),
        ReceivedRequest([]),
        'claims a filtered node "n9" which is not found in the input node list',
    ),
}


@pytest.mark.parametrize(
    ("capable", "filters", "scores", "expected"), ANSWERS.values(), ids=ANSWERS
)
async def test_what_is_made_of_an_answer(
    capable: bool,
    filters: ReceivedRequest,
    scores: ReceivedRequest,
    expected: ExtenderDecision | str,
) -> None:
    fake = FakeExtender({"filter": filters, "prioritize": scores})
    async with serving(fake):
        extender = Extender(fake.url, "filter", "prioritize", weight=2, node_cache_capable=capable)
        outcome = await ask(QueryExtenders(POD, (extender,), NODES))
    if isinstance(expected, ExtenderDecision):
        assert outcome == expected
    else:
        assert isinstance(outcome, Refused)
        assert outcome.message.startswith(f'running extender "{fake.url}": ')
        assert expected in outcome.message


async def test_an_ignorable_extender_that_fails_is_skipped() -> None:
    bad, good = (
        FakeExtender({"filter": ReceivedRequest(status=500)}),
        FakeExtender({"filter": ReceivedRequest({"NodeNames": ["n1"]})}),
    )
    async with serving(bad, good):
        extenders = tuple(
            Extender(fake.url, "filter", node_cache_capable=True, ignorable=True)
            for fake in (bad, good)
        )
        assert await ask(QueryExtenders(POD, extenders, NODES)) == ExtenderDecision(("n1",))
    assert good.calls[0][2]["NodeNames"] == list(NODES)


NO_VICTIMS = {"NodeNameToMetaVictims": {"n0": {"Pods": []}}}


async def test_a_node_without_victims_is_an_error_unless_the_extender_is_ignorable() -> None:
    fake = FakeExtender({"preempt": ReceivedRequest(NO_VICTIMS)})
    victims = {"n0": NodeVictims((VICTIM.uid,))}
    told = []
    async with serving(fake):
        for ignorable in (False, True):
            extender = Extender(
                fake.url, preempt_verb="preempt", node_cache_capable=True, ignorable=ignorable
            )
            told.append(
                await ask(QueryExtenderPreemption(POD, (extender,), victims, {VICTIM.uid: VICTIM}))
            )
    refused, advice = told
    assert isinstance(refused, Refused)
    assert 'expected at least one victim pod on node "n0"' in refused.message
    assert advice == ExtenderPreemptionDecision({})


GONE = {
    "gone": (Cluster(), "NotFound"),
    "recreated": (Cluster(a_pod().with_uid("other").manifest()), "Replaced"),
    "bound, which no watch has told yet": (Cluster(a_pod().on("n1").manifest()), "AlreadyBound"),
}


@pytest.mark.parametrize(("cluster", "reason"), GONE.values(), ids=GONE.keys())
async def test_nobody_is_asked_about_a_pod_without_need(cluster: Cluster, reason: str) -> None:
    outcome = await ask(
        QueryExtenders(POD, (Extender("http://127.0.0.1:1", "filter"),), NODES), cluster
    )
    assert isinstance(outcome, Refused)
    assert outcome.reason == reason


async def test_extenders_that_cannot_be_reached_have_failed() -> None:
    extender = Extender(f"http://127.0.0.1:{unused_port()}", "filter", bind_verb="bind")
    for effect in (QueryExtenders(POD, (extender,), NODES), Bind(POD, "n0", extender=extender)):
        outcome = await ask(effect)
        assert isinstance(outcome, Refused)
        assert outcome.reason == "Extender"


async def test_tls_from_files(throwaway_certificate: tuple[Path, Path]) -> None:
    cert, key = throwaway_certificate
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(cert))
    server.load_cert_chain(cert, key)
    server.verify_mode = ssl.CERT_REQUIRED
    fake = FakeExtender({"filter": ReceivedRequest({"NodeNames": ["n0"]})})
    trusting = ExtenderTls(ca_file=str(cert), cert_file=str(cert), key_file=str(key))
    kinds = {
        "both trust each other": (trusting, True),
        "its authority is unknown": (ExtenderTls(cert_file=str(cert), key_file=str(key)), False),
        "we show no certificate": (ExtenderTls(ca_file=str(cert)), False),
        "the files are missing": (ExtenderTls(ca_file="missing.pem"), False),
    }
    async with serving(fake, tls=server):
        for name, (tls, works) in kinds.items():
            extender = Extender(fake.url, "filter", node_cache_capable=True, tls=tls)
            outcome = await ask(QueryExtenders(POD, (extender,), NODES))
            assert isinstance(outcome, ExtenderDecision) == works, (name, outcome)


async def test_renewed_tls_files_are_used(
    throwaway_certificate: tuple[Path, Path],
    another_certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (cert, key), (trusted, _) = throwaway_certificate, another_certificate
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(cert, key)
    fake = FakeExtender({"filter": ReceivedRequest({"NodeNames": ["n0"]})})
    monkeypatch.setattr("arranger.kube.client.credentials.RECHECK_INTERVAL", 0.0)
    async with serving(fake, tls=server):
        tls = ExtenderTls(ca_file=str(trusted))
        extender = Extender(fake.url, "filter", node_cache_capable=True, tls=tls)
        asker = consultant(HttpExtenderTransport())
        question = QueryExtenders(POD, (extender,), NODES)
        (before,) = await outcomes(asker, question)
        trusted.write_bytes(cert.read_bytes())
        (after,) = await outcomes(asker, question)
        trusted.unlink()  # as in the middle of a rotation
        (kept,) = await outcomes(asker, question)
        await asker.close()
    assert isinstance(before, Refused)
    assert isinstance(after, ExtenderDecision)
    assert isinstance(kept, ExtenderDecision)
