"""The judge of the attacks objects where it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arranger.embedded.server import EmbeddedCluster
from arranger.kube.client.transport import Request
from tests.hostile.attack import CULPRIT, NEIGHBOUR, Attack, Object
from tests.hostile.cluster import HostileCluster
from tests.hostile.overheard import SECRET, Overheard
from tests.hostile.tables import audit
from tests.hostile.told import untold

THEIRS, OURS = (f"/apis/events.k8s.io/v1/namespaces/{n}/events" for n in (CULPRIT, NEIGHBOUR))
#: What is written → whether it tells somebody what is another's.
WRITES: dict[str, tuple[str, str, str, bool]] = {
    "an Event of the culprit's about itself": ("POST", THEIRS, CULPRIT, False),
    "one that names the neighbour's pod": ("POST", THEIRS, SECRET, True),
    "one of the neighbour's that names the culprit": (
        "POST",
        OURS,
        CULPRIT,
        True,
    ),
    "one of the neighbour's about itself": ("POST", OURS, SECRET, False),
    "a Queue's status that names a pod": ("PATCH", "/apis/v1/queues/q/status", SECRET, True),
    "a question": ("GET", "/api/v1/namespaces/culprit/pods", SECRET, False),
}


@pytest.mark.parametrize(("method", "path", "word", "leaks"), WRITES.values(), ids=WRITES)
def test_names_of_others_are_overheard(method: str, path: str, word: str, leaks: bool) -> None:
    overheard = Overheard()
    overheard.note(Request(method, path, body=f'{{"note": "{word}-1"}}'.encode()))
    assert bool(overheard.take()) == leaks
    assert not overheard.take()


def _condition(**more: Any) -> Object:
    return {"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", **more}]}}


_POD, _JOB = audit.pod("p"), audit.tyjob("p")
_UNREADABLE = audit.pod("p", nodeName="node-0", requests={"cpu": "x"})
#: What is there → whether its owner is left without a word.
STATES: dict[str, tuple[Object, Object, bool]] = {
    "a pod that waits": (_POD, {}, True),
    "a pod that waits for a reason": (_POD, _condition(message="no room"), False),
    "a pod whose condition has no message": (_POD, _condition(), True),
    "a pod that was bound": (_POD, {"spec": {**_POD["spec"], "nodeName": "n"}}, False),
    "a pod whose claim is still to be made": (
        audit.pod("p", resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}]),
        {},
        False,
    ),
    "a pod of another scheduler": (audit.pod("p", schedulerName="x"), {}, False),
    "a bound pod that cannot be read": (_UNREADABLE, {}, True),
    "a TYJob": (_JOB, {}, True),
    "a TYJob that has a stage": (_JOB, {"status": {"stage": "Pending"}}, False),
    "a PodGroup in order": (audit.pod_group("p"), {}, False),
    "a PodGroup that asks for less than nothing": (audit.pod_group("p", minMember=-1), {}, True),
    "a PodGroup with a wrong field that nobody reads": (
        audit.pod_group("p", subGroupPolicy=5),
        {},
        False,
    ),
}


@pytest.mark.parametrize(("written", "now", "silent"), STATES.values(), ids=STATES)
@pytest.mark.parametrize("told", [False, True])
def test_who_is_told_nothing_is_noticed(
    written: Object, now: Object, silent: bool, told: bool
) -> None:
    cluster = HostileCluster(EmbeddedCluster(), "", Path(), Overheard())
    cluster.furnish()
    cluster.create({**written, **now})
    if told:
        meta = {"name": "e", "namespace": CULPRIT}
        about = {"kind": written["kind"], "namespace": CULPRIT, "name": "p"}
        cluster.cluster.store.put(
            "events.k8s.io/events", {"metadata": {**meta, "uid": "e"}, "regarding": about}
        )
    attack = Attack("an attack", [written])
    assert untold(cluster, [attack]) == ([attack] if silent and not told else [])
