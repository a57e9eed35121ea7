"""What users apply is what the code needs: rights, names, ports and configuration agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from arranger import __version__
from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import Config, load_config
from arranger.daemon.informers import COLLECTION_PATHS
from tests.paths import REPO

MANIFESTS = REPO / "manifests"

Object = dict[str, Any]
Right = tuple[str, str, str]


def objects() -> dict[tuple[str, str], Object]:
    """Every object of the manifests by kind and name."""
    kustomization = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    found: dict[tuple[str, str], Object] = {}
    for file in kustomization["resources"]:
        for document in yaml.safe_load_all((MANIFESTS / file).read_text()):
            key = (document["kind"], document["metadata"]["name"])
            assert key not in found, f"{key} twice"
            found[key] = document
    return found


OBJECTS = objects()
DEPLOYMENT = OBJECTS["Deployment", "arranger"]
POD = DEPLOYMENT["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]


def rights(kind: str, name: str) -> set[Right]:
    """Group, resource and verb of everything a role allows on objects of any name."""
    return {
        (group, resource, verb)
        for rule in OBJECTS[kind, name]["rules"]
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def config_file(folder: Path) -> Path:
    file = folder / "config.yaml"
    file.write_text(OBJECTS["ConfigMap", "arranger"]["data"]["config.yaml"])
    return file


def lookup_rights() -> set[Right]:
    """What the daemon's reflectors need: taken from the paths they read."""
    found = set()
    owners = (f"/apis/{resource}" for resource in Config().queues.owner_resources)
    workloads = (path for kind in Config().workload_kinds() for path in kind.paths)
    for path in (*COLLECTION_PATHS.values(), *owners, *workloads):
        parts = path.strip("/").split("/")
        group = parts[1] if parts[0] == "apis" else ""
        found |= {(group, parts[-1], verb) for verb in ("list", "watch")}
    return found


WRITES: set[Right] = {
    ("", "pods/binding", "create"),
    ("", "pods/status", "patch"),
    ("", "pods", "delete"),
    ("", "pods", "patch"),
    ("", "persistentvolumes", "patch"),
    ("", "persistentvolumeclaims", "patch"),
    *(("arranger.io", "gangs", verb) for verb in ("create", "patch", "delete")),
    ("arranger.io", "gangs/status", "patch"),
    ("arranger.io", "reservations/status", "patch"),
    ("resource.k8s.io", "resourceclaims", "patch"),
    ("resource.k8s.io", "resourceclaims", "update"),
    ("resource.k8s.io", "resourceclaims/status", "patch"),
    ("resource.k8s.io", "resourceclaims/binding", "patch"),
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
}
#: Who asks for /metrics, and whether they may.
REVIEWS: set[Right] = {
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
}
#: An ambiguous Binding is settled by reading the pod, and claims are written as they are.
READS_OF_ONE: set[Right] = {("", "pods", "get"), ("resource.k8s.io", "resourceclaims", "get")}


def test_every_file_is_listed_by_the_kustomization() -> None:
    listed = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    assert listed == sorted(file.name for file in MANIFESTS.glob("[0-9]*.yaml"))


def test_the_scheduler_may_do_across_the_cluster_what_it_does_and_nothing_else() -> None:
    expected = lookup_rights() | WRITES | READS_OF_ONE | REVIEWS
    assert rights("ClusterRole", "arranger") == expected
    assert rights("ClusterRole", "arranger-controllers") >= REVIEWS


def test_only_the_lease_that_replicas_compete_for_may_be_changed(tmp_path: Path) -> None:
    lease = load_config(config_file(tmp_path)).leader_election
    role = OBJECTS["Role", "arranger-lease"]
    assert role["metadata"]["namespace"] == lease.resource_namespace
    # A name cannot restrict create: the object has none yet.
    assert rights("Role", "arranger-lease") == {("coordination.k8s.io", "leases", "create")}
    named = [rule for rule in role["rules"] if "resourceNames" in rule]
    assert [(rule["resourceNames"], sorted(rule["verbs"])) for rule in named] == [
        ([lease.resource_name], ["get", "update"])
    ]


@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
def test_no_role_has_a_wildcard(kind: str) -> None:
    rules = [rule for (k, _), role in OBJECTS.items() if k == kind for rule in role["rules"]]
    assert rules
    assert not [rule for rule in rules for values in rule.values() if "*" in "".join(values)]


@pytest.mark.parametrize(
    ("binding", "role"),
    [("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")],
)
def test_rights_go_to_the_service_account_of_the_deployment(binding: str, role: str) -> None:
    accounts = {
        o["spec"]["template"]["spec"]["serviceAccountName"]: o["metadata"]["namespace"]
        for (kind, _), o in OBJECTS.items()
        if kind == "Deployment"
    }
    bindings = [o for (kind, _), o in OBJECTS.items() if kind == binding]
    assert bindings
    for each in bindings:
        assert (role, each["roleRef"]["name"]) in OBJECTS
        (subject,) = each["subjects"]
        assert subject["kind"] == "ServiceAccount"
        assert subject["namespace"] == accounts[subject["name"]]


def test_bindings_have_a_priority_level_of_their_own() -> None:
    spec = OBJECTS["FlowSchema", "arranger"]["spec"]
    subjects = [subject for rule in spec["rules"] for subject in rule["subjects"]]
    namespace = DEPLOYMENT["metadata"]["namespace"]
    assert [s["serviceAccount"] for s in subjects] == [
        {"name": POD["serviceAccountName"], "namespace": namespace}
    ]


def test_the_configuration_is_one_the_daemon_starts_with(tmp_path: Path) -> None:
    config = load_config(config_file(tmp_path))
    assert [profile.scheduler_name for profile in build_profiles(config)] == ["arranger"]
    # The container reads the file where the volume of that ConfigMap puts it.
    volume = POD["volumes"][0]
    assert volume["configMap"]["name"] == "arranger"
    mount = next(m for m in CONTAINER["volumeMounts"] if m["name"] == volume["name"])
    assert CONTAINER["args"] == ["run", "--config", f"{mount['mountPath']}/config.yaml"]


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe"])
@pytest.mark.parametrize("name", ["arranger", "arranger-controllers"])
def test_probes_ask_the_port_that_is_listened_on(name: str, probe: str, tmp_path: Path) -> None:
    (container,) = OBJECTS["Deployment", name]["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    request = container[probe]["httpGet"]
    assert request["path"] in ("/livez", "/readyz")
    assert request["scheme"] == "HTTPS"
    given = [arg for arg in container["args"] if arg.startswith("--secure-port=")]
    served = given or [f"--secure-port={load_config(config_file(tmp_path)).server.port}"]
    assert [f"--secure-port={ports[request['port']]}"] == served


def test_the_pod_is_admitted_where_the_restricted_standard_is_enforced() -> None:
    pod, container = POD["securityContext"], CONTAINER["securityContext"]
    assert pod["runAsNonRoot"]
    assert pod["runAsUser"] == 65532
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["allowPrivilegeEscalation"] is False
    assert container["readOnlyRootFilesystem"] is True
    assert container["capabilities"] == {"drop": ["ALL"]}
    namespace = OBJECTS["Namespace", DEPLOYMENT["metadata"]["namespace"]]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_scheduler_does_not_wait_for_itself() -> None:
    ours = load_config(None).profiles[0].scheduler_name
    assert POD["schedulerName"] != ours


@pytest.mark.parametrize("name", ["arranger", "arranger-controllers"])
def test_we_go_before_tenants_by_a_class_that_we_do_not_bring(name: str) -> None:
    pod = OBJECTS["Deployment", name]["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert not [key for key in OBJECTS if key[0] == "PriorityClass"]
    [scope] = OBJECTS["ResourceQuota", "arranger-critical"]["spec"]["scopeSelector"][
        "matchExpressions"
    ]
    assert scope["values"] == [pod["priorityClassName"]]


@pytest.mark.parametrize("name", ["arranger", "arranger-controllers"])
def test_only_what_serves_metrics_can_be_reached(name: str) -> None:
    template = OBJECTS["Deployment", name]["spec"]["template"]
    policy = OBJECTS["NetworkPolicy", name]
    assert policy["metadata"]["namespace"] == DEPLOYMENT["metadata"]["namespace"]
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= (
        template["metadata"]["labels"].items()
    )
    [rule] = policy["spec"]["ingress"]
    [container] = template["spec"]["containers"]
    assert [p["port"] for p in rule["ports"]] == [p["containerPort"] for p in container["ports"]]
    assert rule["from"], "an empty list would let everybody in"


def test_our_service_accounts_are_those_that_the_policies_of_our_writes_name() -> None:
    conditions = [
        condition["expression"]
        for (kind, name), policy in OBJECTS.items()
        if kind == "ValidatingAdmissionPolicy" and "own-" in name
        for condition in policy["spec"]["matchConditions"]
    ]
    named = {text.partition("== ")[2].strip("'") for text in conditions}
    accounts = [key[1] for key in OBJECTS if key[0] == "ServiceAccount"]
    namespace = DEPLOYMENT["metadata"]["namespace"]
    assert named == {f"system:serviceaccount:{namespace}:{account}" for account in accounts}
    for (kind, name), policy in OBJECTS.items():
        if kind == "ValidatingAdmissionPolicy" and "own-" in name:
            assert policy["spec"]["failurePolicy"] == "Fail", name


def test_selectors_find_the_pods_and_the_image_is_this_version() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    budget = OBJECTS["PodDisruptionBudget", "arranger"]["spec"]
    for selector in (DEPLOYMENT["spec"]["selector"], budget["selector"]):
        assert selector["matchLabels"].items() <= labels.items()
    assert budget["minAvailable"] < DEPLOYMENT["spec"]["replicas"]
    assert CONTAINER["image"] == f"arranger:{__version__}"
