"""``arranger simulate`` of manifests: workloads, lists, kinds that it does not know."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from arranger.cli.main import main

Object = dict[str, Any]

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
}
POD_SPEC = {
    "schedulerName": "arranger",
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 1}}}],
}


def a_template(*, scheduler: str | None = "arranger", **annotations: str) -> Object:
    notes = {f"arranger.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec = {**POD_SPEC, "schedulerName": scheduler}
    return {"metadata": {"labels": {"app": "w"}, "annotations": notes}, "spec": spec}


def a_workload(kind: str, **spec: Any) -> Object:
    """A workload of that kind, named after it."""
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    given = {"template": a_template(), "selector": {"matchLabels": {"app": "w"}}, **spec}
    if kind == "Job":
        del given["selector"]
        given["template"]["spec"]["restartPolicy"] = "Never"
    meta = {"name": kind.lower()}
    return {"apiVersion": group, "kind": kind, "metadata": meta, "spec": given}


def simulate(folder: Path, *documents: object, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Exit status and output of the command for a file of these documents."""
    file = folder / "given.yaml"
    texts = (d if isinstance(d, str) else yaml.safe_dump(d) for d in documents)
    file.write_text("\n---\n".join(texts))
    result = CliRunner().invoke(main, ["simulate", "-f", str(file), *options])
    return result.exit_code, result.output


def outcome(folder: Path, *documents: object, options: tuple[str, ...] = ()) -> Object:
    code, output = simulate(folder, *documents, options=(*options, "-o", "json"))
    assert code == 0, output
    return dict(json.loads(output))


@pytest.mark.parametrize(
    ("workload", "pods"),
    [
        (a_workload("Deployment", replicas=3), ["deployment-*-*"] * 3),
        (a_workload("ReplicaSet", replicas=2), ["replicaset-*"] * 2),
        (a_workload("StatefulSet", replicas=2), ["statefulset-0", "statefulset-1"]),
        (a_workload("DaemonSet"), ["daemonset-*"]),
        (a_workload("Job", completions=2, parallelism=2), ["job-*"] * 2),
        (
            a_workload("Job", completions=2, parallelism=2, completionMode="Indexed"),
            ["job-0-*", "job-1-*"],
        ),
        (a_workload("Job", suspend=True), []),
    ],
    ids=lambda value: None if isinstance(value, list) else value["kind"],
)
def test_a_workload_has_pods_and_they_are_placed(
    tmp_path: Path, workload: Object, pods: list[str]
) -> None:
    found = outcome(tmp_path, NODE, workload)
    names = [p["pod"].removeprefix("default/") for p in found["placements"]]
    assert sorted(re.sub(r"-[0-9a-z]{5,}", "-*", name) for name in names) == pods
    assert found["pending"] == []
    assert found["end"] == (
        "ended: every pod has been placed" if pods else "ended: there were no pods"
    )


def test_a_job_runs_to_its_end_so_many_pods_at_a_time(tmp_path: Path) -> None:
    job = a_workload("Job", completions=3)
    job["spec"]["template"]["metadata"]["annotations"] = {"arranger.io/run-seconds": "100"}
    found = outcome(tmp_path, NODE, job)
    assert [p["phase"] for p in found["placements"]] == ["Succeeded"] * 3
    assert 300 <= found["virtualSeconds"] < 310


@pytest.mark.parametrize("mode", [None, "Immediate", "WaitForFirstConsumer"])
def test_a_stateful_set_with_claims_is_placed(tmp_path: Path, mode: str | None) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data"}, "spec": {**spec, "storageClassName": "fast"}}
    given = [NODE, a_workload("StatefulSet", replicas=2, volumeClaimTemplates=[claim])]
    if mode is not None:
        head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
        meta = {"metadata": {"name": "fast"}}
        given.append({**head, **meta, "provisioner": "p", "volumeBindingMode": mode})
    found = outcome(tmp_path, *given)
    assert [p["pod"] for p in found["placements"]] == [
        "default/statefulset-0",
        "default/statefulset-1",
    ]


def test_a_cron_job_starts_once_and_at_once(tmp_path: Path) -> None:
    job = a_workload("Job")["spec"]
    cron = a_workload("CronJob", schedule="0 0 * * *", jobTemplate={"spec": job})
    assert len(outcome(tmp_path, NODE, cron)["placements"]) == 1
    cron["spec"]["suspend"] = True
    assert outcome(tmp_path, NODE, cron)["placements"] == []


def test_for_a_given_time_a_cron_job_follows_its_schedule(tmp_path: Path) -> None:
    job = {"template": a_template(run_seconds="60")}
    job["template"]["spec"]["restartPolicy"] = "Never"
    template = {"spec": job}
    cron = a_workload("CronJob", schedule="0 */6 * * *", jobTemplate=template)
    found = outcome(tmp_path, NODE, cron, options=("--for", "23h"))
    bound = [each["at"] for each in found["timeline"] if each["what"] == "Bound"]
    assert [int(at // 3600) for at in bound] == [6, 12, 18]


def test_lists_of_lists_and_empty_documents(tmp_path: Path) -> None:
    inner = {"apiVersion": "v1", "kind": "List", "items": [a_workload("Deployment")]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [NODE, inner]}
    empty = {"apiVersion": "v1", "kind": "PodList", "items": []}
    assert len(outcome(tmp_path, "# nothing", outer, "", empty)["placements"]) == 1


def test_what_kubectl_get_prints_is_a_source(tmp_path: Path) -> None:
    head = {"uid": "u", "resourceVersion": "7", "creationTimestamp": "2020-01-01T00:00:00Z"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "gone"}
    node = {**NODE, "metadata": {"name": "n1", "managedFields": [], **head}}
    meta = {"name": "p", "ownerReferences": [{**owner, "controller": True}], **head}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": POD_SPEC, "status": {}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", **head}}
    assert len(outcome(tmp_path, namespace, node, pod)["placements"]) == 1


def test_pods_that_come_with_their_replica_set_are_its_own(tmp_path: Path) -> None:
    """As ``kubectl get deployments,replicasets,pods -o yaml`` prints them, owners and all."""
    head = {"uid": "u", "resourceVersion": "7", "creationTimestamp": "2020-01-01T00:00:00Z"}
    deployment = a_workload("Deployment", replicas=2)
    labels = {"app": "w", "pod-template-hash": "abc"}
    template = a_template()
    template["metadata"]["labels"] = labels
    replica_set = a_workload(
        "ReplicaSet", replicas=2, template=template, selector={"matchLabels": labels}
    )
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "deployment", "uid": "gone"}
    replica_set["metadata"] |= {
        **head,
        "labels": labels,
        "ownerReferences": [{**owner, "controller": True}],
        "annotations": {"deployment.kubernetes.io/revision": "3"},
    }
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"deployment-abc-{n}", "labels": labels, **head},
            "spec": {**POD_SPEC, "nodeName": "n1"},
        }
        for n in range(2)
    ]
    found = outcome(tmp_path, NODE, deployment, replica_set, *pods)
    names = [placed["pod"] for placed in found["placements"]]
    assert names == ["default/deployment-abc-0", "default/deployment-abc-1"]
    assert found["pending"] == []


def test_a_kind_that_means_nothing_here_is_told_in_a_line(tmp_path: Path) -> None:
    version = "autoscaling/v2"
    scalers = [
        {"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": name}}
        for name in ("a", "b")
    ]
    old = {"apiVersion": "extensions/v1beta1", "kind": "Deployment", "metadata": {"name": "d"}}
    code, output = simulate(tmp_path, NODE, *scalers, old)
    assert code == 0, output
    lines = output.splitlines()
    assert f"ignored: 2 HorizontalPodAutoscaler of {version}, which is not served here" in lines
    assert "ignored: 1 Deployment of extensions/v1beta1, which is not served here" in lines


def test_pods_of_other_schedulers_wait_unless_asked_for(tmp_path: Path) -> None:
    workload = a_workload("Deployment", template=a_template(scheduler=None))
    found = outcome(tmp_path, NODE, workload)
    (pod,) = found["pending"]
    assert pod["reason"] == "waits for default-scheduler"
    hint = "and 1 pod waits, 1 for other schedulers (--all-pods places them, too)"
    assert found["end"].endswith(hint)
    assert len(outcome(tmp_path, NODE, workload, options=("--all-pods",))["placements"]) == 1


def test_without_nodes_the_last_line_says_how_to_get_some(tmp_path: Path) -> None:
    code, output = simulate(tmp_path, a_workload("Deployment"))
    assert code == 0
    last = "ended: there are no nodes; kubectl get nodes -o yaml prints yours"
    assert output.splitlines()[-1] == last


def test_equal_seeds_give_equal_runs_of_workloads(tmp_path: Path) -> None:
    given = (NODE, a_workload("Deployment", replicas=3), a_workload("StatefulSet"))
    first, second = (outcome(tmp_path, *given, options=("--seed", "7")) for _ in range(2))
    assert first == second
