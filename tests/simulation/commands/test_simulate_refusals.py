"""What ``arranger simulate`` says of input that it cannot use: a line with file and document."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from arranger.cli.main import main
from tests.simulation.commands.test_simulate_workloads import NODE, POD_SPEC, a_workload, simulate

Object = dict[str, Any]

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": POD_SPEC}


def changed(obj: Object, path: str, value: object) -> Object:
    """A copy with another value at a path of dots."""
    copied = copy.deepcopy(obj)
    *way, last = path.split(".")
    place: Any = copied
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    place[last] = value
    return copied


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("a: [", "while parsing a flow node"),
        ("a: b: c", "mapping values are not allowed in this context"),
        ("&a [*a]", "nested too deeply"),
        ("just: text", "not a Kubernetes object: it has no kind"),
        ("[1, 2]", "not a Kubernetes object: it has no kind"),
        ("kind: [Pod]", "not a Kubernetes object: it has no kind"),
        ({"kind": "Pod", "metadata": {}}, "Pod: apiVersion: not a string"),
        ({"kind": "Pod", "apiVersion": "v1"}, "Pod: metadata: not a map"),
        ({"kind": "List", "items": {"a": 1}}, "items: not a list"),
        (changed(POD, "metadata.name", ""), "metadata.name: Required value"),
        (changed(POD, "metadata.labels", ["a"]), "cannot unmarshal"),
        (changed(POD, "metadata.annotations", {"a": 1}), "cannot unmarshal"),
        (changed(POD, "spec.containers", []), "spec.containers: Required value"),
        (changed(POD, "spec.containers", "c"), "cannot unmarshal"),
        (changed(POD, "spec.priorityClassName", "none"), "no PriorityClass with name none"),
        (a_workload("Deployment", replicas=-1), "spec.replicas: Invalid value: -1"),
        (a_workload("Deployment", replicas="three"), "replicas"),
        (a_workload("Deployment", template=None), "spec.template.spec: Required value"),
        (a_workload("Deployment", selector=None), "spec.selector: Required value"),
        (
            a_workload("Deployment", selector={"matchLabels": {"app": "other"}}),
            "`selector` does not match template `labels`",
        ),
        (
            changed(a_workload("Job"), "spec.template.spec.restartPolicy", "Always"),
            'valid values: "OnFailure", "Never"',
        ),
        (a_workload("Job", completionMode="Indexed"), "spec.completions: Required value"),
        (
            changed(a_workload("StatefulSet"), "spec.template.spec.containers", []),
            "spec.template: Pod",
        ),
        (a_workload("CronJob"), "spec.jobTemplate: Required value"),
        ({**a_workload("DaemonSet"), "spec": None}, "spec: Required value"),
    ],
)
def test_bad_input_is_a_line_with_file_and_document(
    tmp_path: Path, document: object, says: str
) -> None:
    code, output = simulate(tmp_path, NODE, document)
    assert code == 1
    (line,) = output.splitlines()
    assert line.startswith("Error: ")
    assert "given.yaml, document 2" in line
    assert says in line


def test_the_place_in_a_list_is_told(tmp_path: Path) -> None:
    code, output = simulate(tmp_path, {"kind": "List", "items": [NODE, changed(POD, "kind", 1)]})
    assert code == 1
    assert "given.yaml, document 1[1]: not a Kubernetes object" in output


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_bytes(b"\xff\xfe\x00")
    result = CliRunner().invoke(main, ["simulate", "-f", str(tmp_path)])
    assert result.exit_code == 1
    assert result.output.strip().endswith("odd.yaml: not text in UTF-8")


ODD: list[Any] = [
    None,
    0,
    -1,
    1.5,
    True,
    "",
    "x",
    [],
    ["x"],
    {},
    {"x": "y"},
    [None],
    [{}],
    "9" * 30,
]
GIVEN = [
    NODE,
    POD,
    *(a_workload(kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job")),
]


def _paths(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(p for key, each in inside for p in _paths(each, (*path, key)))]


@pytest.mark.parametrize("seed", range(80))
def test_whatever_is_changed_in_a_manifest_it_is_simulated_or_refused_in_a_line(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    document: Any = copy.deepcopy(rng.choice(GIVEN))
    *way, last = rng.choice([p for p in _paths(document) if p])
    place = document
    for step in way:
        place = place[step]
    place[last] = rng.choice(ODD)
    code, output = simulate(tmp_path, NODE if document["kind"] != "Node" else POD, document)
    described = f"{yaml.safe_dump(document)}\n{output}"
    assert code in (0, 1), described
    if code:
        assert len(output.splitlines()) == 1, described
        assert "given.yaml, document 2" in output, described
    else:
        assert output.splitlines()[-1].startswith(("ended: ", "stopped ")), described
