"""Who waits is woken by what others do, where that may help."""

from __future__ import annotations

from typing import Any

import msgspec

from arranger.api.types.core import Namespace
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import a_node, a_pod, a_pod_group, a_queue
from tests.unit.engine.harness import EngineHarness, placements

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def has_namespace(harness: EngineHarness, name: str, **labels: str) -> None:
    meta = {"name": name, "uid": f"uid-{name}", "labels": labels}
    namespace = msgspec.convert({"metadata": meta}, Namespace)
    harness.engine.handlers.on_object_updated(namespace, harness.now)


def test_a_namespace_helps_a_gang_whose_other_member_may_leave_the_node_that_one_lacks() -> None:
    """One member may be beside friends of one team only, the other is kept off their other node."""
    harness = EngineHarness(default_profile())
    for name, labels in {"default": {}, "x1": {"team": "x"}, "x2": {}}.items():
        has_namespace(harness, name, **labels)
    harness.start()
    harness.observe(*(a_node(name).offers(cpu=2, pods=9) for name in ("a", "b")))
    harness.observe(
        a_pod("first").in_namespace("x1").labelled(app="friend").on("a"),
        a_pod("second").in_namespace("x2").labelled(app="friend").on("b"),
        a_pod("hater").apart(HOST, {"app": "hated"}).on("b"),
    )
    term: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": "friend"}}}
    term |= {"namespaceSelector": {"matchLabels": {"team": "x"}}, "topologyKey": HOST}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    near = a_pod("near").needs(cpu=2).with_spec(affinity={"podAffinity": required})
    hated = a_pod("hated").labelled(app="hated").needs(cpu="1900m")
    harness.observe(*(pod.in_gang("g", 2) for pod in (near, hated)))
    assert placements(harness.run()) == []
    harness.now = 20.0
    has_namespace(harness, "x2", team="x")
    assert sorted(placements(harness.run())) == [("hated", "a"), ("near", "b")]


def test_a_pod_that_goes_helps_a_gang_whose_other_member_it_kept_off_a_node() -> None:
    harness = EngineHarness(default_profile())
    harness.start()
    harness.observe(*(a_node(name).in_zone(name) for name in ("z0", "z1")))
    there = a_pod("there").labelled(app="t").on("z1")
    harness.observe(there)
    first = a_pod("first").labelled(app="x").apart(ZONE, {"app": "t"})
    second = a_pod("second").selects({ZONE: "z0"}).apart(ZONE, {"app": "x"})
    harness.observe(*(pod.needs(cpu=1).in_gang("g", 2) for pod in (first, second)))
    assert placements(harness.run()) == []
    harness.now = 20.0
    harness.observe_deleted(there)
    assert sorted(placements(harness.run())) == [("first", "z1"), ("second", "z0")]


def test_a_pod_group_that_names_another_queue_opens_the_one_that_it_closed() -> None:
    """Of a pod that cannot be counted, which may be of any queue that is named in its namespace."""
    harness = EngineHarness(default_profile(), queues=QuotaConfig())
    harness.start()
    harness.observe(a_node("n"), *(a_queue(name) for name in ("red", "blue", "default")))

    def names(queue: str) -> None:
        group = a_pod_group("g", minMember=1, queue=queue).build(VolcanoPodGroup)
        harness.engine.handlers.on_pod_group_updated(group, harness.now)

    names("red")
    harness.engine.ledger.uncharged.set("uid-odd", "", "default")
    harness.observe(a_pod("p").needs(cpu=1).in_queue("red"))
    assert placements(harness.run()) == []
    harness.now = 20.0
    names("blue")
    assert placements(harness.run()) == [("p", "n")]
