"""Resource claims in snapshots: hand-written manifests say less than the API does."""

from __future__ import annotations

import io
from importlib import import_module

import pytest
from rich.console import Console

from arranger.explain import render
from arranger.explain.evaluate import evaluate, evaluate_pod
from arranger.explain.report import headline
from arranger.explain.snapshot import Snapshot
from arranger.plugins import default_profile
from arranger.plugins.dynamicresources import allocation_cache
from tests.builders import Manifest, a_node, a_pod
from tests.devices import ATTRIBUTES, a_claim, a_device, a_device_class, a_slice, cel, claiming

#: The module, whose name in the package is the function's.
evaluation = import_module("arranger.explain.evaluate")


def _by_hand(manifest: Manifest) -> Manifest:
    kept = {k: v for k, v in manifest["metadata"].items() if k in ("name", "labels")}
    return {**manifest, "metadata": kept}


def test_claims_are_judged_as_written() -> None:
    written = [
        a_node("n1").offers(cpu=4),
        a_node("n2").offers(cpu=4),
        a_device_class(),
        a_slice("n1", "a"),
        a_slice("n2", "b"),
        a_claim("one").asks(),
        a_claim("two").asks(),
        a_claim("taken").asks().given("b", pool="n2"),
        claiming(a_pod("p"), "one"),
        claiming(a_pod("q"), "one", "two"),
    ]
    snapshot = Snapshot.from_objects([_by_hand(each.manifest()) for each in written], "file")
    verdicts = [
        evaluate_pod(snapshot.cluster, pod, default_profile("arranger")) for pod in snapshot.pending
    ]
    assert verdicts[0]["feasible"] == ["n1"]
    assert verdicts[0]["rejected"]["n2"]["reasons"] == ["cannot allocate all claims"]
    assert verdicts[1]["feasible"] == [], "two claims are two, though nobody gave them uids"


def _of_many_nodes(nodes: int = 40, last: int = 3) -> Snapshot:
    """A pod whose claim only the ``last`` nodes have a device for, and one without claims."""
    chosen = a_claim("c").asks(selectors=[cel(f"{ATTRIBUTES}.index >= {nodes - last}")])
    written = [
        a_device_class(),
        chosen,
        claiming(a_pod("p"), "c"),
        a_pod("q"),
        *(a_node(f"n{n:02}").offers(cpu=4) for n in range(nodes)),
        *(a_slice(f"n{n:02}", a_device("g", index=n)) for n in range(nodes)),
    ]
    return Snapshot.from_objects([each.manifest() for each in written], "file")


def test_all_nodes_are_looked_at_however_long_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    for budget in ("MAX_EFFORT", "MAX_EFFORT_OF_STEP"):
        monkeypatch.setattr(allocation_cache, budget, 600)
    claiming_pod, plain = evaluate(_of_many_nodes())
    assert claiming_pod["feasible"] == ["n37", "n38", "n39"]
    reasons = {reason for why in claiming_pod["rejected"].values() for reason in why["reasons"]}
    assert reasons == {"cannot allocate all claims"}
    assert len(plain["feasible"]) == 40


def test_a_pod_that_takes_too_long_keeps_nothing_of_others_from_being_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for budget in ("MAX_EFFORT", "MAX_EFFORT_OF_STEP"):
        monkeypatch.setattr(allocation_cache, budget, 600)
    monkeypatch.setattr(evaluation, "_MAX_ATTEMPTS", 1)
    snapshot = _of_many_nodes()
    unknown, plain = evaluate(snapshot)
    assert headline(snapshot, unknown).startswith("default/p: it takes too long to find out: ")
    assert len(plain["feasible"]) == 40
    told = io.StringIO()
    Console(file=told, width=200).print(render(snapshot, [unknown, plain]))
    assert "default/q: 40 of 40 nodes fit" in told.getvalue()
    assert "no node fits" not in told.getvalue()
