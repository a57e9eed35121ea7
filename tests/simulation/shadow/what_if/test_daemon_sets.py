"""DaemonSets in a what-if: a pod for each node that they may run on, also for one that is added."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from arranger.cli.main import main
from tests.builders import Manifest, PodBuilder, a_node, a_pod
from tests.simulation.shadow.asking import Given, manifests, node


def written(path: Path, *objects: Given) -> Path:
    path.write_text(yaml.safe_dump_all(manifests(objects)))
    return path


def answered(*words: object) -> Any:
    result = CliRunner().invoke(main, [*map(str, words), "-o", "json"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def a_daemon_set(cpu: int = 1, **spec: Any) -> Manifest:
    asked = {"requests": {"cpu": str(cpu)}}
    container = {"name": "c", "image": "i", "resources": asked}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "log", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "log"}},
            "template": {
                "metadata": {"labels": {"app": "log"}},
                "spec": {"schedulerName": "arranger", "containers": [container], **spec},
            },
        },
    }


def a_daemon(name: str, on: str, *, cpu: int = 1, scheduler: str = "arranger") -> PodBuilder:
    """A pod of a DaemonSet that runs."""
    here: Manifest = {"key": "metadata.name", "operator": "In", "values": [on]}
    made = a_pod(name).needs(cpu=cpu).requires(fields=[here]).for_scheduler(scheduler)
    return made.owned_by("DaemonSet", "log").on(on).in_phase("Running")


#: What the pods say, and on which nodes they are placed.
MATCHING: dict[str, tuple[dict[str, Any], Sequence[str]]] = {
    "all nodes but tainted ones": ({}, ["n1", "n2", "off"]),
    "nodes with a label": ({"nodeSelector": {"disk": "ssd"}}, ["n2"]),
    "tainted ones that are tolerated": (
        {"tolerations": [{"operator": "Exists"}]},
        ["gpu", "n1", "n2", "off"],
    ),
}


@pytest.mark.parametrize("case", MATCHING)
def test_a_daemon_set_of_a_file_has_a_pod_on_each_node_that_it_may_run_on(
    case: str, tmp_path: Path
) -> None:
    spec, nodes = MATCHING[case]
    cluster = written(
        tmp_path / "c.yaml",
        node("n1"),
        node("n2").labelled(disk="ssd"),
        node("off").cordoned(),
        node("gpu").tainted("gpu"),
    )
    file = written(tmp_path / "new.yaml", a_daemon_set(**spec))
    told = answered("whatif", "--snapshot", cluster, "-f", file)
    assert sorted(told["placed"].values()) == nodes
    assert told["waiting"] == {}


@pytest.mark.parametrize("scheduler", ["arranger", "default-scheduler"])
def test_the_pods_of_daemon_sets_take_room_on_nodes_that_are_added(
    scheduler: str, tmp_path: Path
) -> None:
    """Of the four cores of a new node one is left for those that wait."""
    cluster = written(
        tmp_path / "c.yaml",
        node(),
        a_daemon("log-abc", "n1", cpu=3, scheduler=scheduler).with_priority(9),
        *(a_pod(f"new-{n}").needs(cpu=1) for n in range(5)),
    )
    told = answered("whatif", "--snapshot", cluster, "--add-nodes", "2xn1")
    placed = told["placed"]
    assert placed["default/log-abc-n1-like-1"] == "n1-like-1"
    assert placed["default/log-abc-n1-like-2"] == "n1-like-2"
    assert len(placed) == 4
    assert len(told["stillWaiting"]) == 2


def test_a_daemon_set_that_is_for_one_node_has_no_pod_on_others(tmp_path: Path) -> None:
    daemon = a_daemon("log-abc", "n1").selects({"kubernetes.io/hostname": "n1"})
    like = node().labelled({"kubernetes.io/hostname": "n1"})
    cluster = written(tmp_path / "c.yaml", like, daemon)
    assert answered("whatif", "--snapshot", cluster, "--add-nodes", "1xn1")["placed"] == {}


def test_of_two_pods_of_a_daemon_set_one_is_for_a_node_that_is_added(tmp_path: Path) -> None:
    """It is replaced just now."""
    old, new = a_daemon("log-old", "n1").deleting(), a_daemon("log-new", "n1")
    cluster = written(tmp_path / "c.yaml", node(), old, new)
    told = answered("whatif", "--snapshot", cluster, "--add-nodes", "1xn1")
    assert told["placed"] == {"default/log-new-n1-like-1": "n1-like-1"}


def test_a_daemon_set_of_a_file_is_on_added_nodes_too_and_on_none_that_is_deleted(
    tmp_path: Path,
) -> None:
    cluster = written(tmp_path / "c.yaml", node("n1"), node("n2"))
    file = written(tmp_path / "new.yaml", a_daemon_set())
    change = "--add-nodes", "1xn1", "--delete", "node/n2"
    told = answered("whatif", "--snapshot", cluster, "-f", file, *change)
    assert sorted(told["placed"].values()) == ["n1", "n1-like-1"]
    assert told["waiting"] == {}


def test_as_many_copies_of_a_daemon_set_fit_as_the_smallest_node_takes(tmp_path: Path) -> None:
    cluster = written(tmp_path / "c.yaml", node(cpu=4), a_node("n2").offers(cpu=2, pods=20))
    file = written(tmp_path / "new.yaml", a_daemon_set())
    told = answered("capacity", "--snapshot", cluster, "-f", file)
    assert told["copies"] == 2


def test_nodes_for_copies_take_what_daemon_sets_have_there_too(tmp_path: Path) -> None:
    """A new node has one of four cores left: each copy takes one."""
    cluster = written(tmp_path / "c.yaml", node(), a_daemon("log-abc", "n1", cpu=3))
    file = written(tmp_path / "new.yaml", a_pod("new").needs(cpu=1))
    words = "--copies", "3", "--like", "n1"
    told = answered("capacity", "--snapshot", cluster, "-f", file, *words)
    assert (told["copies"], told["nodes"]) == (1, [{"like": "n1", "count": 2}])


def test_a_daemon_set_of_a_copy_takes_room_on_nodes_that_are_added(tmp_path: Path) -> None:
    """One of four cores on each node: three members of the copy fit a node, beside it."""
    cluster = written(tmp_path / "c.yaml", node())
    members = [a_pod(f"new-{n}").needs(cpu=1) for n in range(7)]
    file = written(tmp_path / "new.yaml", a_daemon_set(), *members)
    words = "--copies", "1", "--like", "n1"
    told = answered("capacity", "--snapshot", cluster, "-f", file, *words)
    assert told["nodes"] == [{"like": "n1", "count": 2}]
