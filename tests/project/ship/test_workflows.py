"""What runs on a code host fits the repository: targets, files, versions and rights."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.paths import REPO

GITHUB = REPO / ".github"
FILES = sorted(path.relative_to(REPO).as_posix() for path in GITHUB.rglob("*.yml"))
WORKFLOWS = [file for file in FILES if "/workflows/" in file]
HOOKS = ".pre-commit-config.yaml"


def read(file: str) -> dict[str, Any]:
    parsed = yaml.safe_load((REPO / file).read_text())
    assert isinstance(parsed, dict), file
    return parsed


def steps(workflow: str) -> list[dict[str, Any]]:
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


def commands(workflow: str) -> Iterator[str]:
    """Every line that a workflow runs in a shell."""
    for step in steps(workflow):
        yield from (line.strip() for line in step.get("run", "").splitlines())


@pytest.fixture(scope="module")
def targets() -> set[str]:
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=REPO,
        check=True,
        capture_output=True,
        text=True,
    )
    return set(re.findall(r"^([a-z-]+) ", listed.stdout, re.MULTILINE))


@pytest.mark.parametrize("file", FILES)
def test_every_file_is_yaml(file: str) -> None:
    assert read(file)


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_workflows_call_only_targets_that_there_are(workflow: str, targets: set[str]) -> None:
    called = {line.split()[1] for line in commands(workflow) if line.startswith("make ")}
    assert called <= targets


def test_all_tests_are_run() -> None:
    assert ".ci/run" in commands(".github/workflows/ci.yml")
    assert "make coverage" in commands(".github/workflows/ci.yml")


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_workflows_name_only_files_that_are_there(workflow: str) -> None:
    text = (REPO / workflow).read_text()
    named = set(re.findall(r"(?<![\w/])((?:tests|examples|arranger|\.ci)/[\w./-]*\w)", text))
    assert named
    assert not [path for path in named if not (REPO / path).exists()]


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_actions_are_pinned_and_given_no_more_than_they_need(workflow: str) -> None:
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    assert not [action for action in used if not re.fullmatch(r"[\w/-]+@v\d+\.\d+\.\d+", action)]
    parsed = read(workflow)
    assert parsed["permissions"] == {"contents": "read"}
    writing = {name for name, job in parsed["jobs"].items() if "permissions" in job}
    # Only a tag is published, and only by the job that does nothing else.
    assert writing == ({"publish"} if workflow.endswith("/image.yml") else set())
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}


def test_the_pythons_we_claim_are_those_that_are_tested() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    claimed = [line.rpartition(" ")[2] for line in project["classifiers"]]
    text = (REPO / ".github/workflows/ci.yml").read_text()
    assert set(re.findall(r'"(3\.\d+)"', text)) == set(claimed)
    assert project["requires-python"] == f">={claimed[0]}"


def test_hooks_check_what_lint_checks() -> None:
    (local,) = read(HOOKS)["repos"]
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in local["hooks"]]
    recipe = (REPO / "Makefile").read_text().split("\nlint:")[1].split("\n\n")[0]
    linted = re.findall(r"\$\(BIN\)/([\w-]+(?: (?:check|format))?)", recipe)
    assert linted == [entry.replace(" --force-exclude", "") for entry in entries]
