"""What leaves in a what-if gives back what it had, and new nodes have what the old ones have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from arranger.cli.main import main
from tests import devices, storage
from tests.builders import Manifest, a_node, a_pod
from tests.builders.base import ManifestBuilder


def written(path: Path, *objects: ManifestBuilder | Manifest) -> Path:
    path.write_text(
        yaml.safe_dump_all([o.manifest() if isinstance(o, ManifestBuilder) else o for o in objects])
    )
    return path


def answered(*words: object) -> Any:
    result = CliRunner().invoke(main, [*map(str, words), "-o", "json"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def node(name: str = "n1", cpu: int = 4) -> ManifestBuilder:
    return a_node(name).offers(cpu=cpu, memory="8Gi", pods=20)


def test_an_uncordoned_node_has_lost_the_taint_of_a_cordoned_one(tmp_path: Path) -> None:
    cluster = written(tmp_path / "c.yaml", a_node("n1").cordoned(), a_pod("new").needs(cpu=1))
    told = answered("why", "new", "--snapshot", cluster, "--thorough")["answers"][0]
    assert "node n1 uncordoned" in [each["change"] for each in told["suggestions"]]
    more = answered("whatif", "--snapshot", cluster, "--add-nodes", "1xn1")
    assert more["placed"] == {"default/new": "n1-like-1"}


def with_a_device_taken(cpu: int = 1) -> list[ManifestBuilder | Manifest]:
    """``old`` has the only device on ``n1``, which anybody may use; ``new`` waits for it."""
    old = a_pod("old").needs(cpu=cpu).on("n2").with_uid("uid-default-old")
    new = a_pod("new").needs(cpu=1).selects({"kubernetes.io/hostname": "n1"})
    return [
        node(),
        node("n2"),
        devices.a_device_class(),
        devices.a_slice("n1", "d0").usable_everywhere(),
        devices.a_claim("theirs").asks().given("d0").reserved_for("uid-default-old"),
        devices.claiming(old, "theirs"),
        devices.a_claim("mine").asks(),
        devices.claiming(new, "mine"),
    ]


@pytest.mark.parametrize("what", ["pod/old", "node/n2"])
def test_what_is_deleted_gives_its_devices_back(tmp_path: Path, what: str) -> None:
    cluster = written(tmp_path / "c.yaml", *with_a_device_taken())
    told = answered("whatif", "--snapshot", cluster, "--delete", what)
    assert told["placed"] == {"default/new": "n1"}


def test_who_is_evicted_gives_his_devices_back(tmp_path: Path) -> None:
    urgent = a_pod("urgent").needs(cpu=1).with_priority(9).selects({"kubernetes.io/hostname": "n2"})
    cluster = written(tmp_path / "c.yaml", *with_a_device_taken(cpu=4), urgent)
    told = answered("why", "new", "--snapshot", cluster, "--no-suggestions")
    assert told["answers"][0]["state"] == "Placeable"


def test_new_nodes_have_devices_like_the_one_they_are_like(tmp_path: Path) -> None:
    old = a_pod("old").needs(cpu=1).on("n1").with_uid("uid-default-old")
    cluster = written(
        tmp_path / "c.yaml",
        node(),
        devices.a_device_class(),
        devices.a_slice("n1", "d0"),
        devices.a_claim("theirs").asks().given("d0", on="n1").reserved_for("uid-default-old"),
        devices.claiming(old, "theirs"),
        devices.a_claim("mine").asks(),
        devices.claiming(a_pod("new").needs(cpu=1), "mine"),
    )
    told = answered("whatif", "--snapshot", cluster, "--add-nodes", "1xn1")
    assert told["placed"] == {"default/new": "n1-like-1"}


def test_new_nodes_attach_as_many_volumes_as_the_one_they_are_like(tmp_path: Path) -> None:
    """One; ``n1`` has no room, so that of two pods with a volume one waits."""
    volumes = [storage.a_volume(v).held_by(v).served_by(storage.DRIVER, v) for v in "ab"]
    claims = [storage.a_claim(v).bound_to(v) for v in "ab"]
    cluster = written(
        tmp_path / "c.yaml",
        node(),
        a_pod("old").needs(cpu=4).on("n1"),
        storage.a_csi_node("n1", csi_example_com=1),
        *volumes,
        *claims,
        *(a_pod(f"new-{v}").needs(cpu=1).with_claim(v) for v in "ab"),
    )
    told = answered("whatif", "--snapshot", cluster, "--add-nodes", "1xn1")
    assert list(told["placed"].values()) == ["n1-like-1"]
    assert "exceed max volume count" in str(told["stillWaiting"])


def test_a_deleted_pod_is_made_again_by_its_controller(tmp_path: Path) -> None:
    owner: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-ReplicaSet-web"},
        "spec": {"template": {}},
    }
    old = a_pod("web-abc").needs(cpu=1).on("n1").owned_by("ReplicaSet", "web")
    cluster = written(tmp_path / "c.yaml", node(), owner, old)
    told = answered("whatif", "--snapshot", cluster, "--delete", "pod/web-abc")
    assert told["replaced"] == {"default/web-abc": "default/web-abc-again"}
