"""``arranger whatif`` and ``why`` by what owns pods, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from arranger.cli.main import main
from tests.builders import Manifest, PodBuilder, a_node, a_pod
from tests.queueing import a_queue_manifest


def arranger(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200"})


def answered(*words: object) -> Any:
    result = arranger(*words, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def written(path: Path, *objects: Manifest) -> Path:
    path.write_text(yaml.safe_dump_all(objects))
    return path


def owner(version: str, kind: str, name: str, *, of: Sequence[str] = (), **notes: str) -> Manifest:
    """An owner of pods; ``of``: version, kind and name of its own owner."""
    meta: Manifest = {"name": name, "namespace": "default", "uid": f"uid-{kind}-{name}"}
    if of:
        above = {"apiVersion": of[0], "kind": of[1], "name": of[2], "controller": True}
        meta["ownerReferences"] = [{**above, "uid": f"uid-{of[1]}-{of[2]}"}]
    if notes:
        meta["annotations"] = {key.replace("_", "-"): text for key, text in notes.items()}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": {"template": {}}}


def controlled(pod: PodBuilder, version: str, kind: str, name: str) -> Manifest:
    made = pod.manifest()
    reference = {"apiVersion": version, "kind": kind, "name": name, "controller": True}
    made["metadata"]["ownerReferences"] = [{**reference, "uid": f"uid-{kind}-{name}"}]
    return made


def running(name: str, cpu: int = 1) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).on("n1").in_phase("Running")


HIGH: Manifest = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}
NODE = a_node("n1").offers(cpu=4, pods=20).manifest()
#: (what controls the pod, what stands above it): each by version, kind and name.
CHAINS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "deployment/web": (("apps/v1", "ReplicaSet", "web-1"), ("apps/v1", "Deployment", "web")),
    "deploy/web": (("apps/v1", "ReplicaSet", "web-1"), ("apps/v1", "Deployment", "web")),
    "deployments.apps/web": (
        ("apps/v1", "ReplicaSet", "web-1"),
        ("apps/v1", "Deployment", "web"),
    ),
    "cronjob/web": (("batch/v1", "Job", "web-1"), ("batch/v1", "CronJob", "web")),
    "replicaset/web-1": (("apps/v1", "ReplicaSet", "web-1"), ()),
    "statefulset/web": (("apps/v1", "StatefulSet", "web"), ()),
    "daemonset/web": (("apps/v1", "DaemonSet", "web"), ()),
    "job/web": (("batch/v1", "Job", "web"), ()),
    "tyjob/web": (("arranger.io/v1alpha1", "TYJob", "web"), ()),
    "pytorchjob/web": (("kubeflow.org/v1", "PyTorchJob", "web"), ()),
    "other/web": (("example.com/v1", "Other", "web"), ()),
}


@pytest.mark.parametrize("what", CHAINS)
def test_the_pods_of_any_owner_are_answered_for_and_go_with_it(what: str, tmp_path: Path) -> None:
    control, above = CHAINS[what]
    objects = [NODE, controlled(running("web-0"), *control), owner(*control, of=above)]
    objects += [owner(*above)] if above else []
    objects += [controlled(running("else-0"), *control[:2], "else")]
    cluster = written(tmp_path / "cluster.yaml", *objects)
    told = answered("why", what, "--snapshot", cluster)["answers"]
    assert [each["subject"] for each in told] == ["pod default/web-0"]
    told = answered("whatif", "--snapshot", cluster, "--delete", what)
    assert told["gone"] == ["default/web-0"]
    assert (told["placed"], told["replaced"]) == ({}, {})
    assert told["stillWaiting"] == {}


def test_an_owner_without_pods_can_go_and_has_nothing_to_say(tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", NODE, owner("apps/v1", "Deployment", "web"))
    assert answered("whatif", "--snapshot", cluster, "--delete", "deployment/web")["gone"] == []
    result = arranger("why", "deployment/web", "--snapshot", cluster)
    assert (result.exit_code, "deployment default/web has no pods" in result.output) == (1, True)


@pytest.mark.parametrize("room", [False, True], ids=["and waits", "and is placed"])
def test_an_evicted_pod_of_a_controller_comes_back(room: bool, tmp_path: Path) -> None:
    old = controlled(running("web-abc", cpu=4), "apps/v1", "ReplicaSet", "web")
    objects = [NODE, HIGH, old, owner("apps/v1", "ReplicaSet", "web")]
    if room:
        late = a_node("n2").offers(cpu=4, pods=20).tainted("slow").manifest()
        old["spec"]["tolerations"] = [{"operator": "Exists"}]
        objects.append(late)
    cluster = written(tmp_path / "cluster.yaml", *objects)
    new = written(
        tmp_path / "new.yaml",
        a_pod("new").needs(cpu=4).with_spec(priorityClassName="high").manifest(),
    )
    told = answered("whatif", "--snapshot", cluster, "-f", new)
    assert told["replaced"] == {"default/web-abc": "default/web-abc-again"}
    part = told["placed"] if room else told["waiting"]
    assert "default/web-abc-again" in part
    shown = arranger("whatif", "--snapshot", cluster, "-f", new).output
    where = "on node n2" if room else "which waits"
    assert f"comes back as web-abc-again, {where}" in shown


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("q.capability=cpu=3", "deserved cannot be more than capability of cpu"),
        ("q.deserved=cpu=9", "deserved cannot be more than capability of cpu"),
        ("q.deserved=cpu=1", "guarantee cannot be more than deserved of cpu"),
        ("q.guarantee=cpu=5", "guarantee cannot be more than deserved of cpu"),
        ("q.capability=memory=1", ""),
        ("q.capability=cpu=4", ""),
    ],
)
def test_a_queue_that_the_server_would_refuse_is_refused(
    change: str, why: str, tmp_path: Path
) -> None:
    amounts = {"capability": {"cpu": "8"}, "deserved": {"cpu": "4"}}
    queue = a_queue_manifest("q", **amounts, guarantee={"resource": {"cpu": "2"}})
    cluster = written(tmp_path / "cluster.yaml", NODE, queue)
    result = arranger("whatif", "--snapshot", cluster, "--queue", change)
    assert why in result.output
    assert bool(result.exit_code) is bool(why), result.output


@pytest.mark.parametrize("said", [False, True], ids=["undated", "dated by its author"])
def test_a_pod_of_a_file_is_younger_than_those_that_wait(said: bool, tmp_path: Path) -> None:
    """The server says when it is created: now, and after whatever waits already."""
    there = a_pod("zz-waits").needs(cpu=4).manifest()
    there["metadata"]["creationTimestamp"] = "2026-06-01T00:00:00Z"
    cluster = written(tmp_path / "cluster.yaml", NODE, there)
    mine = a_pod("mine").needs(cpu=4).manifest()
    if said:
        mine["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    told = answered("whatif", "--snapshot", cluster, "-f", written(tmp_path / "new.yaml", mine))
    assert list(told["waiting"]) == ["default/mine"]
    assert not told["moved"]


@pytest.mark.parametrize("by", ["snapshot", "-f"])
def test_annotations_of_what_owns_pods_count(by: str, tmp_path: Path) -> None:
    notes = {"volcano.sh/card.name": "H900"}
    above = ("apps/v1", "Deployment", "web")
    replica_set = ("apps/v1", "ReplicaSet", "web-1")
    owners = [owner(*above, **notes), owner(*replica_set, of=above)]
    asked = a_pod("web-0").needs({"nvidia.com/gpu": 1}, cpu=1).in_queue("q")
    pod = controlled(asked, *replica_set)
    cluster = [NODE, a_queue_manifest("q", cards={"H100": 1})]
    if by == "snapshot":
        file = written(tmp_path / "cluster.yaml", *cluster, *owners, pod)
        (answer,) = answered("why", "web-0", "--snapshot", file)["answers"]
        reason = answer["reason"]
    else:
        file = written(tmp_path / "cluster.yaml", *cluster)
        meta = {"labels": {"app": "web"}, "annotations": pod["metadata"]["annotations"]}
        template = {"metadata": meta, "spec": pod["spec"]}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        made = written(tmp_path / "new.yaml", {**owners[0], "spec": spec})
        (reason,) = answered("whatif", "--snapshot", file, "-f", made)["waiting"].values()
    assert "no resource name found for card <H900>" in reason


def test_a_namespace_that_is_not_there_is_refused(tmp_path: Path) -> None:
    def space(name: str) -> Manifest:
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}

    cluster = written(tmp_path / "cluster.yaml", NODE, space("team"))
    pod = a_pod("new").needs(cpu=1).manifest()
    pod["metadata"].pop("namespace")
    new = written(tmp_path / "new.yaml", pod)
    for command in ("whatif", "capacity"):
        assert arranger(command, "--snapshot", cluster, "-f", new).exit_code == 0
        assert arranger(command, "--snapshot", cluster, "-f", new, "-n", "team").exit_code == 0
        result = arranger(command, "--snapshot", cluster, "-f", new, "-n", "taem")
        assert (result.exit_code, result.output) == (1, "Error: there is no namespace taem\n")
    both = written(tmp_path / "both.yaml", space("taem"), pod)
    told = answered("whatif", "--snapshot", cluster, "-f", both, "-n", "taem")
    assert told["placed"] == {"taem/new": "n1"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["whatif", "--delete", "nobody"], "not KIND/NAME"),
        (["whatif", "--delete", "pod/"], "not KIND/NAME"),
        (["whatif", "--delete", "/x"], "not KIND/NAME"),
        (["whatif", "--add-nodes", "many"], "not NxNODE"),
        (["whatif", "--add-nodes", "0xn1"], "between 1 and"),
        (["whatif", "--add-nodes", "999999xn1"], "between 1 and"),
        (["whatif", "--queue", "q"], "not QUEUE.FIELD=RESOURCE=AMOUNT"),
        (["whatif", "--queue", "q.weight=cpu=1"], "one of capability, deserved and guarantee"),
        (["whatif", "--queue", "q.capability=cpu=many"], "queue q: capability"),
        (["whatif", "--queue", "q.guarantee=cpu=1e30"], "more than can be counted"),
        (["whatif", "--queue", "q.deserved=cpu=-1"], "less than nothing"),
        (["whatif"], "give a change"),
        (["why", "pod/"], "neither NAME nor KIND/NAME"),
        (["why", ""], "neither NAME nor KIND/NAME"),
        (["capacity"], "give what is to be placed"),
        (["capacity", "-f", ".", "--copies", "3"], "go together"),
        (["simulate"], "give manifests"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_malformed_options_end_with_2_before_anything_is_read(
    words: list[str], message: str
) -> None:
    result = arranger(*words)
    assert (result.exit_code, message in result.output) == (2, True), result.output
