"""The manifests of the cockpit in a cluster: rights to read, and a command that is understood."""

from __future__ import annotations

from typing import Any

import click
import pytest
import yaml

from arranger import __version__
from arranger.cli.commands.ui import ui
from arranger.ui.security import GUARDED_PATH
from tests.paths import REPO
from tests.rights import rights_of_rules

FOLDER = REPO / "manifests" / "ui"
FILES = sorted(FOLDER.glob("*.yaml"))
OBJECTS: list[dict[str, Any]] = [
    each for file in FILES for each in yaml.safe_load_all(file.read_text())
]


def of(kind: str, name: str = "arranger-ui") -> dict[str, Any]:
    (found,) = [e for e in OBJECTS if e["kind"] == kind and e["metadata"]["name"] == name]
    return found


def test_every_file_is_listed_by_the_kustomization_which_names_the_image_of_this_version() -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert set(listed["resources"]) == {file.name for file in FILES} - {"kustomization.yaml"}
    assert listed["images"] == [{"name": "arranger", "newName": "arranger", "newTag": __version__}]
    (container,) = of("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"arranger:{__version__}"


def test_beside_what_a_viewer_reads_it_only_asks_who_looks() -> None:
    assert rights_of_rules(of("ClusterRole")["rules"]) == {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    assert of("ClusterRoleBinding", "arranger-ui-viewer")["roleRef"]["name"] == "arranger-viewer"


def test_who_looks_needs_the_right_that_the_pages_ask_for() -> None:
    rules = of("ClusterRole", "arranger-ui-user")["rules"]
    assert rules == [{"nonResourceURLs": [GUARDED_PATH], "verbs": ["get"]}]


def test_the_command_is_one_that_is_understood_and_listens_where_the_service_leads() -> None:
    pod = of("Deployment")["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    program, *args = container["args"]
    assert program == "ui"
    config = args.index("--config")
    del args[config : config + 2]  # a file of the image's pod
    with click.Context(ui) as context:
        ui.parse_args(context, args)
    (port,) = container["ports"]
    assert context.params["port"] == port["containerPort"]
    assert context.params["bind_address"] == "0.0.0.0"
    (served,) = of("Service")["spec"]["ports"]
    assert served["targetPort"] == port["name"]
    assert of("Service")["spec"]["selector"] == pod["metadata"]["labels"]
    (rule,) = of("NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": port["containerPort"]}]


@pytest.mark.parametrize("kind", ["pod", "container"])
def test_the_pod_is_admitted_where_the_restricted_standard_is_enforced(kind: str) -> None:
    spec = of("Deployment")["spec"]["template"]["spec"]
    if kind == "pod":
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    else:
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
