"""``arranger doctor``: what is wrong is said, with how to mend it, and what may not be seen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from click.testing import CliRunner

from arranger.cli.doctor.examination import examine
from arranger.cli.doctor.finding import Finding
from arranger.cli.main import main
from arranger.daemon.config.schema import Config
from arranger.embedded.bundled_crds import bundled_crds
from arranger.kube.client.transport import Request, Response, Stream
from tests.builders import Manifest, a_node, a_pod
from tests.queueing import a_queue_manifest

NOW = datetime(2026, 1, 2, tzinfo=UTC)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/arranger-system/leases/arranger"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
EVENTS = "/apis/events.k8s.io/v1/events"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


class Server:
    """Answers by path; all is well unless said otherwise."""

    def __init__(self, answers: Mapping[str, Any], missing: Sequence[str], skew: float) -> None:
        self._missing = missing
        self._date = format_datetime(NOW - timedelta(seconds=skew))
        lease = {"holderIdentity": "a", "renewTime": "2026-01-01T23:59:58Z"}
        self._answers: dict[str, Any] = {
            "/version": {"gitVersion": "v1.36.0"},
            LEASE: {"metadata": {}, "spec": {**lease, "leaseDurationSeconds": 15}},
            HOOKS: {"items": []},
            HOOKS.replace("validating", "mutating"): {"items": []},
            EVENTS: {"items": []},
            **{f"{CRDS}/{each['metadata']['name']}": established(each) for each in bundled_crds()},
            "/api/v1/nodes": listed(a_node("n1").manifest()),
            "/api/v1/pods": listed(a_pod("p").on("n1").in_phase("Running").manifest()),
            **answers,
        }
        self.written: list[str] = []

    async def send(self, request: Request) -> Response:
        answer: Any = self._answers.get(request.path)
        if request.method == "POST" and "reviews" in request.path:
            spec = json.loads(request.body)["spec"]["resourceAttributes"]
            answer = {
                "status": {"allowed": f"{spec['verb']} {spec['resource']}" not in self._missing}
            }
        elif request.method == "POST" and request.query.get("dryRun") == "All":
            answer = {}
        elif request.method != "GET":
            self.written.append(request.path)
        if isinstance(answer, int):
            return Response(answer, b'{"kind": "Status", "message": "no"}', {"date": self._date})
        status = 200 if answer is not None else 404
        return Response(status, json.dumps(answer or {}).encode(), {"date": self._date})

    def stream(
        self, request: Request, *, inactivity: float = 70.0
    ) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError(request)

    async def close(self) -> None:
        pass


def listed(*items: Manifest) -> Manifest:
    return {"metadata": {"resourceVersion": "1"}, "items": list(items)}


def established(definition: Manifest) -> Manifest:
    conditions = [{"type": name, "status": "True"} for name in ("NamesAccepted", "Established")]
    return {**definition, "status": {"conditions": conditions}}


def examined(
    answers: Mapping[str, Any] | None = None, missing: Sequence[str] = (), skew: float = 0.0
) -> list[Finding]:
    server = Server(answers or {}, missing, skew)
    found = asyncio.run(examine(server, Config(), now=NOW))
    assert not server.written
    return found


def test_nothing_is_wrong_with_a_sound_installation() -> None:
    found = examined()
    assert [each for each in found if each.state != "ok"] == []
    assert {"server", "clock", "lease", "queues", "gangs", "objects set aside"} <= {
        each.check for each in found
    }


def test_a_definition_that_nobody_wants_need_not_be_installed() -> None:
    found = examined({f"{CRDS}/queues.scheduling.volcano.sh": 404})
    assert [each for each in found if each.state != "ok"] == []
    (told,) = [each for each in found if each.check.endswith("queues.scheduling.volcano.sh")]
    assert "not installed; for objects of kind Queue" in told.text


@pytest.mark.parametrize(
    ("served", "state"),
    [({"v1beta1"}, "ok"), (set(), "ok")],
    ids=["one that is served", "one that is not installed"],
)
def test_who_may_not_read_definitions_goes_by_what_is_served(served: set[str], state: str) -> None:
    name = "queues.scheduling.volcano.sh"
    path = "/apis/scheduling.volcano.sh/v1beta1"
    resources = {"resources": [{"name": "queues"}, {"name": "podgroups"}]} if served else 404
    found = examined({f"{CRDS}/{name}": 403, path: resources})
    (told,) = [each for each in found if each.check == f"definition {name}"]
    assert (told.state, "not installed" in told.text) == (state, not served)


def hook(**more: Any) -> Manifest:
    rules = [{"resources": ["pods"], "operations": ["CREATE"]}]
    return {
        "items": [{"metadata": {"name": "w"}, "webhooks": [{"name": "h", "rules": rules, **more}]}]
    }


#: What is wrong → what the server answers, which check tells, and a word of what it says.
WRONG: dict[str, tuple[Mapping[str, Any], str, str]] = {
    "a definition whose names are taken": (
        {f"{CRDS}/gangs.arranger.io": {"spec": {"versions": []}, "status": {}}},
        "definition gangs.arranger.io",
        "not NamesAccepted",
    ),
    "nobody has led yet": ({LEASE: 404}, "lease", "nobody has led"),
    "whoever led is gone": (
        {
            LEASE: {
                "metadata": {},
                "spec": {"holderIdentity": "a", "renewTime": "2026-01-01T23:00:00Z"},
            }
        },
        "lease",
        "a leads, said 3600 s ago",
    ),
    "a webhook that may hold pods up": ({HOOKS: hook(timeoutSeconds=30)}, "webhook limits", "w/h"),
    "an object that was set aside": (
        {EVENTS: {"items": [{"regarding": {"kind": "Pod", "namespace": "a", "name": "b"}}]}},
        "objects set aside",
        "Pod a/b",
    ),
    "another scheduler on our nodes": (
        {
            "/api/v1/pods": listed(
                a_pod("p").on("n1").manifest(),
                a_pod("q").for_scheduler("other").on("n1").manifest(),
            )
        },
        "other schedulers",
        "other has pods on 1 nodes",
    ),
    "a profile without pods": (
        {"/api/v1/pods": listed()},
        "profile arranger",
        "no pod names it",
    ),
    "a pod without a profile": (
        {
            "/api/v1/pods": listed(
                a_pod("p").for_scheduler("arangerr").created("2026-01-01T00:00:00Z").manifest()
            )
        },
        "pods without a profile",
        "arangerr: default/p",
    ),
    "a queue that cannot be as it says": (
        {QUEUES: listed(a_queue_manifest("q", capability={"cpu": "many"}))},
        "queues",
        "q: ",
    ),
    "a gang whose settings cannot be read": (
        {"/api/v1/pods": listed(a_pod("p").in_gang("g", 2, mode="Odd").manifest())},
        "gangs",
        "default/g: ",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_how_to_mend_it(case: str) -> None:
    answers, check, text = WRONG[case]
    wrong = [each for each in examined(answers) if each.check == check and each.state == "wrong"]
    assert wrong, case
    assert text in wrong[0].text
    assert wrong[0].mend


def test_rights_that_are_missing_are_named() -> None:
    wrong = {each.check: each.text for each in examined(missing=["list nodes", "create pods"])}
    assert wrong["your rights"] == "no right to list nodes"
    assert (
        "create pods/binding" in wrong["rights of system:serviceaccount:arranger-system:arranger"]
    )


@pytest.mark.parametrize(("skew", "state"), [(1.0, "ok"), (60.0, "wrong"), (-60.0, "wrong")])
def test_clocks_are_compared(skew: float, state: str) -> None:
    assert [each.state for each in examined(skew=skew) if each.check == "clock"] == [state]


def test_what_may_not_be_seen_is_no_fault() -> None:
    found = examined({LEASE: 403, HOOKS: 403, EVENTS: 403, "/api/v1/pods": 403})
    assert {each.check for each in found if each.state == "unseen"} == {
        "lease",
        "validating webhooks",
        "objects set aside",
        "objects",
    }
    assert not [each for each in found if each.state == "wrong"]


def test_without_a_cluster_there_is_one_line() -> None:
    result = CliRunner().invoke(
        main, ["doctor"], env={"KUBECONFIG": "/nowhere", "HOME": "/nowhere"}
    )
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1


LEASES = "/apis/coordination.k8s.io/v1/leases"


def test_a_lease_in_another_namespace_is_found_and_told() -> None:
    """As in ``arranger demo``, whose scheduler has another configuration."""
    spec = {"holderIdentity": "demo", "renewTime": "2026-01-01T23:59:58Z"}
    there = {"metadata": {"name": "arranger", "namespace": "kube-system"}, "spec": spec}
    found = examined({LEASE: 404, LEASES: {"items": [there]}})
    (lease,) = (each for each in found if each.check == "lease")
    assert (lease.state, lease.text) == (
        "ok",
        "demo leads, said 2 s ago in Lease kube-system/arranger",
    )
    assert "--config" in lease.mend


def test_what_a_server_does_not_serve_is_told_without_a_status() -> None:
    found = examined({HOOKS: 404, EVENTS: 404, "/version": 404})
    unseen = {each.check: each.text for each in found if each.state == "unseen"}
    assert {"validating webhooks", "objects set aside", "server"} <= unseen.keys()
    assert not [text for text in unseen.values() if "404" in text]
    assert not [each for each in found if each.state == "wrong"]


def test_a_lease_that_cannot_be_read_is_wrong_and_raises_nothing() -> None:
    for time in ("never", "2026-13-45", "0001-01-01T00:00:00+14:00"):
        found = examined(
            {LEASE: {"metadata": {}, "spec": {"holderIdentity": "a", "renewTime": time}}}
        )
        (lease,) = (each for each in found if each.check == "lease")
        assert lease.state == "wrong", time


def test_of_thousands_of_things_that_tenants_do_wrong_the_first_are_told() -> None:
    odd = [
        a_pod(f"p{n}").in_namespace("tenant").in_gang(f"G_{n}", 1).for_scheduler(f"s{n}").on("n")
        for n in range(1000)
    ]
    nodes = listed(a_node("n").manifest())
    pods = listed(*(each.manifest() for each in (a_pod("ours").on("n"), *odd)))
    told = examined({"/api/v1/nodes": nodes, "/api/v1/pods": pods})
    assert len(told) < 100
    for check, more in (("other schedulers", 980), ("gangs", 980)):
        (last,) = [each.text for each in told if each.check == check and "more" in each.text]
        assert last == f"and {more} more"
