"""``arranger why`` and ``arranger whatif``: what people see, from files and from a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from arranger.api.types.core import Node, Pod
from arranger.cli.main import main
from arranger.daemon.config.schema import Config
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.server import EmbeddedCluster
from arranger.shadow.inputs.listing import UnreadableError, list_objects
from arranger.shadow.inputs.objects import ClusterObjects
from arranger.shadow.shadow import Shadow
from tests.builders import Manifest, a_node, a_pod
from tests.queueing import a_queue_manifest
from tests.simulation.shadow.refusing import Refusing

JOB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "schedulerName": "arranger",
                "priorityClassName": "high",
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
                ],
            },
        },
    },
}


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A full node, one who waits, and a queue."""
    objects: Sequence[Manifest] = (
        a_node("n1").offers(cpu=4, pods=20).manifest(),
        a_pod("old").needs(cpu=3).on("n1").in_phase("Running").manifest(),
        a_pod("new").needs(cpu=2).in_queue("q").manifest(),
        a_queue_manifest("q", capability={"cpu": "3"}),
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        },
    )
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return file


def arranger(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200"})


def answered(*words: object) -> Any:
    """What a command prints for programs."""
    result = arranger(*words, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_why_prints_the_chain_and_what_helps(cluster: Path) -> None:
    shown = arranger("why", "new", "--snapshot", cluster).output
    for text in (
        "pod default/new: Waiting",
        "in queue q: first of 1 that wait",
        "queue q: cpu 0/3",
        "1  Insufficient cpu (NodeResourcesFit)",
        "n1 lacks cpu 1000m",
        "when pod default/old ends",
    ):
        assert text in shown


def test_why_has_every_field_of_an_answer_for_programs(cluster: Path) -> None:
    (answer,) = answered("why", "pod/new", "--snapshot", cluster)["answers"]
    assert answer["queue"]["limits"] == {"q": {"cpu": [0, 3000]}}
    assert answer["nearest"] == [["n1", "lacks cpu 1000m"]]
    assert answer["suggestions"][0]["nodes"] == {"default/new": "n1"}


def test_why_tries_nothing_if_it_is_told_not_to(cluster: Path) -> None:
    (answer,) = answered("why", "new", "--snapshot", cluster, "--no-suggestions")["answers"]
    assert answer["suggestions"] == []


#: Options → what becomes of pods: the part of the answer, and what it says.
CHANGES: dict[str, tuple[Sequence[str], str, Any]] = {
    "a node like the first": (["--add-nodes", "1xn1"], "placed", {"default/new": "n1-like-1"}),
    "a pod less": (["--delete", "pod/old"], "placed", {"default/new": "n1"}),
    "what is deleted is gone": (["--delete", "pod/old"], "gone", ["default/old"]),
    "a queue with less": (
        ["--add-nodes", "1xn1", "--queue", "q.capability=cpu=1"],
        "placed",
        {},
    ),
    "with a node its pods are gone": (["--delete", "node/n1"], "gone", ["default/old"]),
    "with a namespace all is gone that is in it": (
        ["--delete", "namespace/default"],
        "gone",
        ["default/new", "default/old"],
    ),
    "a node that takes no more": (["--cordon", "n1"], "placed", {}),
}


@pytest.mark.parametrize("case", CHANGES)
def test_whatif_tells_what_a_change_does(case: str, cluster: Path) -> None:
    options, part, expected = CHANGES[case]
    assert answered("whatif", "--snapshot", cluster, *options)[part] == expected


def test_whatif_makes_the_pods_of_a_workload_with_the_priority_of_its_class(
    cluster: Path, tmp_path: Path
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(JOB))
    told = answered("whatif", "--snapshot", cluster, "-f", file)
    assert len(told["placed"]) == 2
    assert set(told["evicted"]) == {"default/old"}


def test_whatif_takes_a_class_and_a_pod_of_it_from_one_file(cluster: Path, tmp_path: Path) -> None:
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 2000,
    }
    pod = a_pod("mine").needs(cpu=4).with_spec(priorityClassName="urgent").manifest()
    file = tmp_path / "both.yaml"
    file.write_text(yaml.safe_dump_all([urgent, pod]))
    told = answered("whatif", "--snapshot", cluster, "-n", "default", "-f", file)
    assert told["placed"] == {"default/mine": "n1"}


def test_capacity_counts_copies_of_a_workload_and_finds_nodes(
    cluster: Path, tmp_path: Path
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(JOB))
    told = answered(*("capacity", "--snapshot", cluster, "-f", file, "--copies", 3, "--like", "n1"))
    # Three would do for the copies, but what waits in the other queue has its turn, too.
    assert (told["copies"], told["nodes"]) == (0, [{"like": "n1", "count": 4}])
    shown = arranger("capacity", "--snapshot", cluster, "-f", file).output
    assert "fit now: 0" in shown
    assert "the next one does not" in shown


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_the_pods_of_a_node_that_goes_come_back_where_a_controller_makes_them(
    kind: str, tmp_path: Path
) -> None:
    running = a_pod("web-0").needs(cpu=1).on("n1").in_phase("Running")
    objects = [
        *(a_node(name).offers(cpu=4, pods=20).manifest() for name in ("n1", "n2")),
        running.owned_by(kind, "web").manifest(),
        a_pod("ended").needs(cpu=1).on("n1").in_phase("Succeeded").owned_by(kind, "web").manifest(),
        a_pod("lone").needs(cpu=1).on("n1").in_phase("Running").manifest(),
        a_pod("next").needs(cpu=1).on("n2").in_phase("Running").manifest(),
    ]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    told = answered("whatif", "--snapshot", file, "--delete", "node/n1")
    assert told["changes"] == ["without node n1"]
    assert told["gone"] == ["default/lone", "default/web-0"]
    again = "web-0" if kind == "StatefulSet" else "web-0-again"
    assert told["placed"] == {f"default/{again}": "n2"}
    assert told["evicted"] == {}


def test_capacity_refuses_nodes_that_are_not_there_even_if_enough_fit(tmp_path: Path) -> None:
    cluster, copy = tmp_path / "cluster.yaml", tmp_path / "copy.yaml"
    cluster.write_text(yaml.safe_dump(a_node("n1").offers(cpu=4, pods=20).manifest()))
    copy.write_text(yaml.safe_dump(a_pod("p").needs(cpu=1).manifest()))
    asked = ("capacity", "--snapshot", cluster, "-f", copy, "--copies", 2, "--like")
    assert answered(*asked, "n1")["nodes"] == [{"like": "n1", "count": 0}]
    result = arranger(*asked, "nope")
    assert result.exit_code != 0
    assert "there is no node nope" in result.output


def test_whatif_prints_every_part_and_that_nothing_changes(cluster: Path) -> None:
    shown = arranger("whatif", "--snapshot", cluster, "--delete", "pod/old").output
    assert "with these changes: without pod default/old" in shown
    assert "placed (1)" in shown
    assert "default/new  n1" in shown
    nothing = arranger("whatif", "--snapshot", cluster, "--cordon", "n1").output
    assert "nothing changes for any pod" in nothing
    assert "still waits (1)" in nothing


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["why", "nobody"], "there is no pod default/nobody"),
        (["why", "job/nobody"], "no pod is controlled by job default/nobody"),
        (["whatif", "--cordon", "nobody"], "there is no node nobody"),
        (["whatif", "--delete", "nobody"], "not KIND/NAME"),
        (["whatif", "--delete", "pod/nobody"], "there is no pod default/nobody"),
        (["whatif", "--delete", "node/nobody"], "there is no node nobody"),
        (["whatif", "--delete", "storageclasses/x"], "there is no storageclasses x"),
        (["whatif", "--delete", "namespace/empty"], "there is no namespace empty"),
        (["whatif", "--add-nodes", "many"], "not NxNODE"),
        (["whatif", "--add-nodes", "0xn1"], "between 1 and"),
        (["whatif", "--queue", "q"], "not QUEUE.FIELD=RESOURCE=AMOUNT"),
        (["whatif", "--queue", "nobody.capability=cpu=1"], "there is no queue nobody"),
        (["whatif", "--queue", "q.weight=cpu=1"], "one of capability, deserved and guarantee"),
        (["whatif", "--queue", "q.capability=cpu=many"], "queue q: capability"),
        (["whatif"], "give a change"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_answered_is_said_in_a_line(
    words: list[str], message: str, cluster: Path
) -> None:
    result = arranger(*words, "--snapshot", cluster)
    assert result.exit_code != 0
    assert message in result.output


# --- from a server --------------------------------------------------------------------------


PYTORCH_JOBS = "kubeflow.org/v1/pytorchjobs"
PYTORCH_DEFINITION: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "pytorchjobs.kubeflow.org"},
    "spec": {
        "group": "kubeflow.org",
        "scope": "Namespaced",
        "names": {"kind": "PyTorchJob", "plural": "pytorchjobs", "listKind": "PyTorchJobList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def read(
    *forbidden: str, more: Sequence[Manifest] = (), config: Config | None = None
) -> ClusterObjects:
    server = EmbeddedCluster()
    for definition in (*bundled_crds(), *more):
        server.create(definition)
    server.create(a_node("n1").offers(cpu=4).manifest())
    for n in range(3):
        server.create(a_pod(f"p{n}").needs(cpu=1).manifest())
    transport = Refusing(server, *(f"/api/v1/{each}" for each in forbidden))
    return asyncio.run(list_objects(transport, config or Config()))


def test_a_server_is_read_whole() -> None:
    objects = read()
    assert [pod.metadata.name for pod in objects.of(Pod)] == ["p0", "p1", "p2"]
    assert [node.metadata.name for node in objects.of(Node)] == ["n1"]
    assert objects.unread == []


def test_an_owner_that_counts_for_queues_and_makes_gangs_is_both() -> None:
    config = Config()
    config.queues.owner_resources.append(PYTORCH_JOBS)
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "mnist", "namespace": "default"},
        "spec": spec,
    }
    shadow = Shadow.of(read(more=[PYTORCH_DEFINITION, job], config=config), config)
    (owner,) = shadow.objects.of(f"/apis/{PYTORCH_JOBS}")
    assert json.loads(bytes(owner.spec)) == spec
    shadow.engine.check_consistent()


def test_what_may_not_be_read_is_named() -> None:
    assert read("services").unread == ["/api/v1/services: you may not"]


@pytest.mark.parametrize("collection", ["pods", "nodes"])
def test_without_pods_or_nodes_there_is_no_answer(collection: str) -> None:
    with pytest.raises(UnreadableError, match="you may not"):
        read(collection)
