from __future__ import annotations

import yaml

from arranger.controllers.gang.cache import POD_GROUP_KINDS
from tests.paths import REPO

MANIFESTS = REPO / "manifests"


def _rights(file: str, role: str) -> set[tuple[str, str, str]]:
    """(group, resource, verb) that a cluster role grants."""
    documents = yaml.safe_load_all((MANIFESTS / file).read_text())
    (found,) = (
        d for d in documents if d["kind"] == "ClusterRole" and d["metadata"]["name"] == role
    )
    return {
        (group, resource, verb)
        for rule in found["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_controllers_can_write_what_they_have_to_and_nothing_else() -> None:
    rights = _rights("60-controllers-rbac.yaml", "arranger-controllers")
    writes = {right for right in rights if right[2] not in ("get", "list", "watch")}
    assert writes == {
        *(("arranger.io", "gangs", verb) for verb in ("create", "patch", "delete")),
        ("arranger.io", "gangs/status", "patch"),
        ("arranger.io", "tyjobs/status", "patch"),
        *((group, "podgroups/status", "patch") for group in POD_GROUP_KINDS),
        ("batch.volcano.sh", "jobs", "delete"),
        ("batch.volcano.sh", "jobs/status", "patch"),
        ("batch.volcano.sh", "jobs/finalizers", "update"),
        *(("scheduling.volcano.sh", "podgroups", v) for v in ("create", "patch", "delete")),
        *(("", "pods", verb) for verb in ("create", "patch", "delete")),
        *(("", kind, v) for kind in ("services", "configmaps") for v in ("create", "patch")),
        *(("networking.k8s.io", "networkpolicies", v) for v in ("create", "patch")),
        ("", "persistentvolumeclaims", "create"),
        ("scheduling.volcano.sh", "queues", "patch"),
        ("scheduling.volcano.sh", "queues/status", "patch"),
        ("bus.volcano.sh", "commands", "delete"),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
        *(("events.k8s.io", "events", verb) for verb in ("create", "patch")),
    }


def test_the_scheduler_can_read_every_dialect_and_mark_its_pods() -> None:
    rights = _rights("20-rbac.yaml", "arranger")
    resources = {("arranger.io", "gangs"), *((group, "podgroups") for group in POD_GROUP_KINDS)}
    for group, resource in resources:
        granted = {verb for g, r, verb in rights if (g, r) == (group, resource)}
        own = {"create", "patch", "delete"} if resource == "gangs" else set()
        assert granted == {"list", "watch"} | own, group
    assert ("", "pods", "patch") in rights


def test_everything_is_in_the_kustomization() -> None:
    listed = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    files = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(listed) == files
