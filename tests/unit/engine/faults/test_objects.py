"""What every attempt raises with is set aside itself, and pods that do not need it go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from arranger.api.types.core import Node
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.queue import Queue
from arranger.cluster.cluster import Cluster
from arranger.engine.faults.states import stand_in
from arranger.framework.interface import Plugin
from arranger.framework.runtime.plugin_errors import PluginFailureError
from arranger.quota.queue_spec import read_queue
from tests import devices, storage
from tests.builders import PodBuilder, a_node, a_pod
from tests.queueing import a_queue_manifest
from tests.unit.engine.harness import EngineHarness, event_notes, placements, small_profile

MakeHarness = Callable[..., EngineHarness]


class Breaks(Plugin):
    """Raises about pods and nodes labelled ``odd``.

    Attributes:
        mended: whether it raises no more.
    """

    def __init__(self) -> None:
        self.mended = False

    def filter_node(self, state: Any, pod: Any, node: Any) -> None:
        labels = pod.pod.metadata.labels | node.labels
        if "odd" in labels and not self.mended:
            raise RecursionError("deep")


ODD_NODES = [a_node(f"a-{n}").labelled(odd="yes") for n in range(2)]
NODES = [a_node(f"n-{n}") for n in range(6)]


def tenants(count: int) -> list[PodBuilder]:
    return [a_pod(f"p{n}").in_namespace(f"team-{n % 2}").needs(cpu=1) for n in range(count)]


def names_in_quarantine(harness: EngineHarness) -> dict[str, int]:
    return dict(harness.engine.barrier.quarantine.count())


@pytest.mark.parametrize("odd", [1, 2])
def test_nodes_about_which_every_attempt_raises_are_set_aside_at_once(
    make_harness: MakeHarness, odd: int
) -> None:
    plugin = Breaks()
    harness = make_harness(small_profile(plugin))
    harness.observe(*ODD_NODES[:odd], *NODES, *tenants(6))
    said = harness.run()

    assert sorted(pod for pod, _ in placements(said)) == [f"p{n}" for n in range(6)]
    assert names_in_quarantine(harness) == {"Node": odd}
    assert [reason for reason, _ in event_notes(said)].count("Quarantined") == odd
    harness.settle_all(said)

    # They count again after a second; whoever raises with them then sets them aside for longer.
    harness.advance_to(1)
    assert harness.engine.cluster.table.count == len(NODES) + odd
    harness.observe(a_pod("late").in_namespace("team-0").needs(cpu=1))
    assert len(placements(harness.run())) == 1
    assert harness.engine.cluster.table.count == len(NODES)

    plugin.mended = True
    for _ in range(20):
        harness.advance_to(harness.engine.next_timer() or harness.now)
    assert names_in_quarantine(harness) == {}
    assert harness.engine.cluster.table.count == len(NODES) + odd


def test_a_node_that_cannot_be_taken_in_when_it_is_to_count_again_is_tried_later(
    make_harness: MakeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, set_node, fails = Breaks(), Cluster.set_node, [True]

    def failing(cluster: Cluster, node: Node) -> None:
        if fails and "odd" in node.metadata.labels and plugin.mended:
            raise RuntimeError("before it is stored")
        set_node(cluster, node)

    monkeypatch.setattr(Cluster, "set_node", failing)
    harness = make_harness(small_profile(plugin))
    harness.observe(ODD_NODES[0], *NODES, *tenants(6))
    harness.settle_all(harness.run())
    plugin.mended = True
    for _ in range(3):
        harness.advance_to(harness.engine.next_timer() or harness.now)
    assert harness.engine.cluster.table.count == len(NODES)

    fails.clear()
    for _ in range(20):
        harness.advance_to(harness.engine.next_timer() or harness.now)
    assert harness.engine.cluster.table.count == len(NODES) + 1
    assert names_in_quarantine(harness) == {}


@pytest.mark.parametrize("alone", [True, False], ids=["the only one", "among others"])
def test_for_pods_that_raise_with_every_node_no_node_is_missed(
    make_harness: MakeHarness, alone: bool
) -> None:
    harness = make_harness(small_profile(Breaks()))
    bad = [pod.labelled(odd="yes") for pod in tenants(4)]
    harness.observe(*NODES, *bad)
    harness.run()
    for n in range(30):
        harness.advance_to(harness.engine.next_timer() or harness.now)
        if not alone:
            harness.observe(a_pod(f"good-{n}").in_namespace("team-2"))
            assert [pod for pod, _ in placements(harness.run())] == [f"good-{n}"]
    assert harness.engine.cluster.table.count == len(NODES)
    assert "Node" not in names_in_quarantine(harness)


def test_a_pod_that_raises_and_may_only_run_on_one_node_does_not_take_it_from_others(
    make_harness: MakeHarness,
) -> None:
    harness = make_harness(small_profile(Breaks()))
    harness.observe(a_node("only"), a_pod("bad").labelled(odd="yes"))
    harness.run()
    for n in range(20):
        harness.advance_to(harness.engine.next_timer() or harness.now)
        harness.observe(a_pod(f"good-{n}"))
        assert placements(harness.run()) == [(f"good-{n}", "only")]


def test_what_a_budget_that_is_set_aside_protects_stays_protected() -> None:
    budget = PodDisruptionBudget(a_pod("odd").build().metadata)
    budget.status.disruptions_allowed = 5
    kept = stand_in(budget)
    assert kept.spec.selector is not None
    assert kept.status.disruptions_allowed == 0


def test_the_devices_of_a_claim_that_is_set_aside_stay_taken() -> None:
    claim = devices.a_claim().asks().build()
    assert stand_in(claim) is None
    held = devices.a_claim().asks().given("a").build()
    assert stand_in(held).status == held.status


def test_devices_that_others_have_given_to_a_claim_stay_taken_when_its_update_raises(
    make_harness: MakeHarness,
) -> None:
    harness = make_harness(small_profile())
    harness.expects_faults = True
    claim = devices.a_claim().asks()
    harness.observe(claim)
    harness.run()
    held = claim.given("a").build()
    kind = harness.engine.handlers.kinds[type(held)]
    barrier = harness.engine.barrier
    barrier.on_update_fault(kind, held, claim.build(), RuntimeError("odd"), harness.now)
    name = held.metadata.namespace, held.metadata.name
    assert harness.engine.cluster.objects.shown(type(held), *name).status == held.status


@pytest.mark.parametrize("root", [True, False], ids=["all queues", "one queue"])
def test_a_queue_that_is_set_aside_takes_no_pods_and_keeps_its_limits(root: bool) -> None:
    name = "root" if root else "q"
    limits = {"cpu": "2"}
    manifest = a_queue_manifest(name, cards={"A": 1}, capability=limits, parent="p")
    manifest["spec"]["guarantee"] = {"resource": limits}
    stood = read_queue(stand_in(msgspec.convert(manifest, Queue)))
    assert stood.is_open is root
    assert (stood.parent, stood.guarantee) == ("p", {"cpu": 2000})
    assert (stood.capability, stood.card_quota) == ({"cpu": 2000}, {"A": 1})


def test_to_a_node_whose_drivers_are_set_aside_nothing_more_is_attached() -> None:
    drivers = storage.a_csi_node("n", csi_example_com=3, unlimited=None).build()
    assert stand_in(drivers).volume_limits == {"csi.example.com": 0, "unlimited": 0}


def test_who_is_set_aside_without_a_pod_that_accuses_it_is_not_watched_for_ever(
    make_harness: MakeHarness,
) -> None:
    harness = make_harness(small_profile())
    harness.observe(a_node("n1"))
    harness.run()
    barrier, broken = harness.engine.barrier, True

    def advance() -> None:
        node = harness.engine.cluster.table.index.get("n1") if broken else None
        if node is not None:
            raise PluginFailureError("a plugin raised", "n1")

    barrier.run(harness.now, advance)
    assert names_in_quarantine(harness) == {"Node": 1}
    broken = False
    for _ in range(20):
        due = harness.engine.next_timer()
        if due is None:
            break
        assert due >= harness.now, "it is due and stays so"
        harness.advance_to(due)
    assert harness.engine.next_timer() is None
    assert names_in_quarantine(harness) == {}


def test_nobody_takes_from_a_queue_that_is_set_aside_what_he_may_not_take_from_it_else() -> None:
    manifest = a_queue_manifest("q", deserved={"cpu": "2"}, reclaimable=False, priority=3)
    manifest["spec"] |= {"serviceTypes": ["inference"], "maxPriority": 5}
    said = read_queue(msgspec.convert(manifest, Queue))
    stood = read_queue(stand_in(msgspec.convert(manifest, Queue)))
    assert (stood.deserved, stood.reclaimable) == (said.deserved, said.reclaimable)
    assert (stood.priority, stood.rights) == (said.priority, said.rights)
