"""A gang of which each member is of a kind of its own holds nobody up, however few the nodes are.

What a kind takes beyond its rows has to be counted, too. Counted here are evaluations from the
beginning, not seconds: the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.effects import Applied, DeletePod
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod

KINDS, ZONE = 250, "topology.kubernetes.io/zone"
#: Evaluations in one step: some 0.5 ms each, with what follows from them.
MOST = 180

Shape = Callable[[PodBuilder], PodBuilder]


def gang(least: int, *shapes: Shape, **more: str) -> list[PodBuilder]:
    members = []
    for n in range(KINDS):
        pod = a_pod(f"g-{n}").labelled(kind=f"k{n}", app="g").needs(cpu=1)
        for shape in shapes:
            pod = shape(pod)
        members.append(pod.in_gang("g", least, **more))
    return members


def within(how: str) -> Shape:
    return lambda pod: pod.annotated({"arranger.io/topology": f"{how}={ZONE}"})


def urgent(pod: PodBuilder) -> PodBuilder:
    return pod.with_priority(10)


GANGS = {
    "all or nothing": gang(KINDS),
    "a small minimum": gang(20),
    "what fits": gang(1, mode="NonStrict"),
    "in a zone if possible": gang(20, within("preferred")),
    "in a zone": gang(20, within("required")),
    "in place of others": gang(20, urgent),
    "all in place of others": gang(KINDS, urgent),
    "in a zone in place of others": gang(20, urgent, within("required")),
    "apart": gang(6, lambda pod: pod.apart("kubernetes.io/hostname", {"app": "g"})),
    "spread": gang(20, lambda pod: pod.spreads(ZONE, over={"app": "g"})),
}


@pytest.mark.parametrize("name", GANGS)
def test_no_step_takes_many_evaluations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, rebuild = [0], Evaluation._rebuild

    def counted(self: Evaluation) -> None:
        begun[0] += 1
        rebuild(self)

    monkeypatch.setattr(Evaluation, "_rebuild", counted)
    engine = Engine(EngineSettings([default_profile()]))
    for n in range(6):
        node = a_node(f"n{n}").offers(cpu=8, pods=110).in_zone(f"z{n % 3}")
        engine.handlers.on_node_updated(node.build(), 0.0)
        for m in range(8):
            pod = a_pod(f"old-{n}-{m}").needs(cpu=1).on(f"n{n}")
            if "place of" in name or m < 2:
                engine.handlers.on_pod_updated(pod.build(), 0.0)
    engine.run(0.0)
    for member in GANGS[name]:
        engine.handlers.on_pod_updated(member.build(), 0.0)
    steps, total = 0, 0
    while engine.ready and steps < 2000:
        begun[0] = 0
        for effect in engine.run(1.0, seconds=1e9, limit=1):
            engine.on_outcome(effect, Applied(), 1.0)
            if isinstance(effect, DeletePod):
                engine.handlers.on_pod_deleted(f"default/{effect.pod.name}", 1.0)
        steps, total = steps + 1, total + begun[0]
        assert begun[0] <= MOST
    assert total >= KINDS, "all kinds were looked at"
    engine.check_consistent()
