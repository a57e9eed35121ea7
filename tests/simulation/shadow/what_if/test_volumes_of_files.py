"""Claims to volumes that come with files get theirs as in the cluster that is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import storage
from tests.builders import Manifest, a_pod
from tests.simulation.shadow.asking import Given, node
from tests.simulation.shadow.what_if.test_daemon_sets import answered, written

BY_HAND = storage.a_class("local", by="kubernetes.io/no-provisioner")
NODES: list[Given] = [node(f"n{n}").labelled({storage.ZONE: f"z{n}"}) for n in (1, 2)]
POD = a_pod("new").needs(cpu=1).with_claim("data")
DEFAULT = storage.a_class().annotated({"storageclass.kubernetes.io/is-default-class": "true"})


def unnamed() -> Manifest:
    claim = storage.a_claim().manifest()
    del claim["spec"]["storageClassName"]
    return claim


#: What there is, the claim that comes with a pod, and where this goes.
CASES: dict[str, tuple[Sequence[Given], Given, str]] = {
    "to where the only volume is that was made by hand": (
        [BY_HAND, storage.a_volume(of="local").usable_in("z2")],
        storage.a_claim(of="local"),
        "n2",
    ),
    "to where the smallest volume is that is large enough, if it is bound at once": (
        [
            storage.a_class("at-once", by="kubernetes.io/no-provisioner").immediate(),
            storage.a_volume("small", size="1Mi", of="at-once").usable_in("z1"),
            storage.a_volume("large", size="9Gi", of="at-once").usable_in("z1"),
            storage.a_volume("right", size="2Gi", of="at-once").usable_in("z2"),
        ],
        storage.a_claim(of="at-once"),
        "n2",
    ),
    "to where a volume without a class is, without one": (
        [storage.a_volume(of="").usable_in("z2")],
        storage.a_claim(of=""),
        "n2",
    ),
    "nowhere, where there is none": ([BY_HAND], storage.a_claim(of="local"), ""),
    "to where its class has volumes made": (
        [storage.a_class().allowed_in("z2")],
        storage.a_claim(),
        "n2",
    ),
    "nowhere, where its class is not there": ([], storage.a_claim(), ""),
    "as the default class says": ([DEFAULT.allowed_in("z2")], unnamed(), "n2"),
    "to where the volume is of a claim that is there already": (
        [storage.a_volume().usable_in("z2").held_by("data"), storage.a_claim().bound_to("v")],
        storage.a_claim(),
        "n2",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_pod_with_a_claim_goes(case: str, tmp_path: Path) -> None:
    there, claim, at = CASES[case]
    cluster = written(tmp_path / "c.yaml", *NODES, *there)
    told = answered(
        "whatif", "--snapshot", cluster, "-f", written(tmp_path / "new.yaml", claim, POD)
    )
    assert told["placed"] == ({"default/new": at} if at else {})


def test_a_volume_that_is_made_at_once_is_reached_from_everywhere(tmp_path: Path) -> None:
    cluster = written(tmp_path / "c.yaml", *NODES, storage.a_class().immediate())
    file = written(tmp_path / "new.yaml", storage.a_claim(), POD)
    assert answered("whatif", "--snapshot", cluster, "-f", file)["placed"]


def test_each_copy_has_a_volume_of_its_own(tmp_path: Path) -> None:
    """Two were made by hand."""
    volumes = [storage.a_volume(name, of="local") for name in ("v1", "v2")]
    cluster = written(tmp_path / "c.yaml", *NODES, BY_HAND, *volumes)
    file = written(tmp_path / "new.yaml", storage.a_claim(of="local"), POD)
    assert answered("capacity", "--snapshot", cluster, "-f", file)["copies"] == 2
