"""What the pages have their readers type is something that they can type.

Those that need a cluster are typed in ``tests/controlplane/clients/test_documentation.py``, too.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from arranger.cli.main import main
from tests.paths import REPO, is_in_checkout

OUTSIDE = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")
PAGES = [REPO / name for name in OUTSIDE] + sorted((REPO / "docs").rglob("*.md"))
#: What of the checkout is named from its root.
FOLDERS = ("examples", "manifests", "crds", "tests", "docs")
#: Commands that go on until they are stopped, or take a cluster: those are only read.
SERVING = {"ui", "demo", "run", "controllers", "doctor", "queue"}

Command = tuple[str, str]


def _lines() -> Iterator[Command]:
    """(page, line) of every block that holds commands."""
    for page in PAGES:
        blocks = re.findall(
            r"^ *```(?:|sh|bash|console)\n(.*?)^ *```", page.read_text(), re.S | re.M
        )
        for block in blocks:
            for line in block.replace("\\\n", " ").splitlines():
                yield str(page.relative_to(REPO)), line.strip().removeprefix("$ ")


def _words(line: str) -> list[str]:
    """The words of a line, from our command on; without what its output is put into."""
    words = shlex.split(line, comments=True)
    if words[:2] == ["kubectl", "arranger"]:
        words = words[1:]
    return words[: words.index(">")] if ">" in words else words


LINES = list(dict.fromkeys(_lines()))
OURS = [
    (page, line)
    for page, line in LINES
    if re.match(r"(?:\.venv/bin/|kubectl )?arranger\b", line) and "[" not in line
]
#: How a command is used, with what may be left out in brackets.
SYNOPSES = [
    (str(page.relative_to(REPO)), text)
    for page in PAGES
    for text in re.findall(r"(?:`|^|\n)(arranger [a-z]+ [^`\n]*)", page.read_text())
    if "--" in text or re.search(r" -\w\b", text)
]
KUBECTL = [(page, line) for page, line in LINES if line.startswith("kubectl ")]
MODULES = sorted(
    {
        module
        for page in PAGES
        for module in re.findall(r"python3? -m ((?:tests|docs|arranger)[\w.]*\w)", page.read_text())
    }
)


#: What the guide asks about: a gang with its job and queue, GPU nodes, an old pod, a Deployment.
CLUSTER = """
apiVersion: v1
kind: List
items:
  - &node
    apiVersion: v1
    kind: Node
    metadata: {name: gpu-3}
    status: {capacity: &room {cpu: "4", memory: 8Gi, pods: "20"}, allocatable: *room}
  - {<<: *node, metadata: {name: gpu-4}}
  - {<<: *node, metadata: {name: gpu-7}}
  - {apiVersion: v1, kind: Namespace, metadata: {name: team-a}}
  - apiVersion: scheduling.volcano.sh/v1beta1
    kind: Queue
    metadata: {name: team-a}
    spec: {capability: {nvidia.com/gpu: "8"}}
  - apiVersion: v1
    kind: Pod
    metadata:
      name: mnist-0
      namespace: team-a
      annotations:
        gang.scheduling.koordinator.sh/name: mnist
        gang.scheduling.koordinator.sh/min-available: "1"
        scheduling.volcano.sh/queue-name: team-a
      ownerReferences:
        - {apiVersion: batch/v1, kind: Job, name: mnist, uid: u1, controller: true}
    spec: {schedulerName: arranger, containers: [{name: main, resources: {requests: {cpu: "2"}}}]}
  - apiVersion: v1
    kind: Pod
    metadata: {name: old-0, namespace: default}
    spec: {nodeName: gpu-3, containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
    status: {phase: Running}
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, namespace: default}
    spec:
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: web}]}
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a reader who has the checkout, a cluster in a file, and a job."""
    for folder in FOLDERS:
        (tmp_path / folder).symlink_to(REPO / folder)
    listed = yaml.safe_load(CLUSTER)
    nodes = [each for each in listed["items"] if each["kind"] == "Node"]
    (tmp_path / "cluster.json").write_text(json.dumps(listed))
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump_all(nodes))
    job = REPO / "examples" / "jobs" / "training.yaml"
    (tmp_path / "job.yaml").write_text(job.read_text())
    (tmp_path / "my-manifests").symlink_to(job.parent)
    kubeconfig = tmp_path / ".kube" / "config"
    kubeconfig.parent.mkdir()
    kubeconfig.write_text("{}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_commands() -> None:
    assert len(OURS) > 15
    assert len(SYNOPSES) > 20
    assert len(KUBECTL) > 30
    assert "tests.benchmarks.bench_answers" in MODULES


@pytest.mark.parametrize(("page", "line"), OURS)
def test_a_command_is_one_that_the_program_takes(page: str, line: str, desk: Path) -> None:
    words = [str(Path(word).expanduser()) if word[0] == "~" else word for word in _words(line)]
    if words[1:]:
        main.commands[words[1]].make_context(words[1], words[2:])


@pytest.mark.parametrize(("page", "line"), OURS)
def test_a_command_works_with_the_cluster_of_the_guide(page: str, line: str, desk: Path) -> None:
    words = _words(line)[1:]
    if not words or words[0] in SERVING:
        return
    if words[0] in ("why", "whatif", "capacity"):
        words += ["--snapshot", "cluster.json"]
    outcome = CliRunner().invoke(main, words, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output


@pytest.mark.parametrize(("page", "text"), SYNOPSES)
def test_every_option_that_is_named_is_one_of_the_command(page: str, text: str) -> None:
    name = text.split()[1]
    params = main.commands[name].params
    known = {opt for each in params if isinstance(each, click.Option) for opt in each.opts}
    named = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text.partition("#")[0]))
    assert named <= known | {"--help"}, f"{page}: {named - known}"


@pytest.mark.parametrize(("page", "line"), KUBECTL)
def test_a_file_of_the_checkout_that_kubectl_is_given_is_there(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)
    files = [after for word, after in pairwise(words) if word in ("-f", "-k")]
    ours = [file for file in files if file.split("/")[0] in FOLDERS]
    assert not [file for file in ours if not is_in_checkout(REPO / file)]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_that_is_to_be_run_is_there(module: str) -> None:
    found = find_spec(module)
    assert found is not None
    if found.submodule_search_locations is not None:
        assert find_spec(f"{module}.__main__") is not None
