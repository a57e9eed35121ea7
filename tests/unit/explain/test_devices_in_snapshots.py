"""Resource claims in snapshots: hand-written manifests say less than the API does."""

from __future__ import annotations

from arranger.explain.evaluate import evaluate_pod
from arranger.explain.snapshot import Snapshot
from arranger.plugins import default_profile
from tests.builders import Manifest, a_node, a_pod
from tests.devices import a_claim, a_device_class, a_slice, claiming


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
