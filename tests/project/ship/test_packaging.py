"""What is shipped fits together: locks, image, Makefile, examples."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import import_module
from importlib.metadata import distributions

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import load_config
from tests.paths import REPO

PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
LOCKS = {
    "requirements.lock": PROJECT["dependencies"],
    "requirements-dev.lock": [
        *PROJECT["dependencies"],
        *PROJECT["optional-dependencies"]["dev"],
        *PROJECT["optional-dependencies"]["docs"],
        *PROJECT["optional-dependencies"]["tracing"],
    ],
    "requirements-tracing.lock": [
        *PROJECT["dependencies"],
        *PROJECT["optional-dependencies"]["tracing"],
    ],
}


def canonical(requirement: str) -> str:
    """The distribution a requirement names, as lock files spell it."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def pinned(lock: str) -> dict[str, str]:
    """Name to version of everything a lock file holds."""
    return {name: version for name, _, version in entries(lock)}


def entries(lock: str) -> list[tuple[str, str, str]]:
    """Name, extras (comma-separated, or empty) and version of everything a lock file holds."""
    entry = r"^([a-z0-9.-]+)(?:\[([a-z0-9,-]+)\])?==(\S+)"
    return re.findall(entry, (REPO / lock).read_text(), re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_dependency(lock: str) -> None:
    missing = {canonical(each) for each in LOCKS[lock]} - pinned(lock).keys()
    assert not missing, "run `make lock`"


def test_the_oldest_python_that_is_promised_takes_every_package() -> None:
    """`>=3.11` has 3.11.0 in it; Debian 12's is 3.11.2, and a package may ask for a later one."""
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    pins = pinned("requirements-dev.lock")
    asked = {
        each.name: each.metadata["Requires-Python"]
        for each in distributions()
        if canonical(each.name) in pins and each.metadata["Requires-Python"]
    }
    assert len(asked) > 40
    assert {name: of for name, of in asked.items() if oldest not in SpecifierSet(of)} == {}


def test_a_lock_names_the_extras_that_its_packages_ask_of_each_other() -> None:
    """To pip "a[x]" is not the "a" that is pinned: it would try the newest, which has no hash."""
    locked = {name: set(extras.split(",")) for name, extras, _ in entries("requirements-dev.lock")}
    demands = [
        (canonical(distribution.name), Requirement(each))
        for distribution in distributions()
        if canonical(distribution.name) in locked
        for each in distribution.requires or ()
    ]
    asked = [(by, each) for by, each in demands if each.extras and applies(each, locked[by])]
    assert [by for by, _ in asked] == ["pytest-cov"], "the lock is made without the tools' extras"
    assert [
        (by, str(each)) for by, each in asked if not each.extras <= locked[canonical(each.name)]
    ] == []


def applies(requirement: Requirement, extras: set[str]) -> bool:
    """Whether a package locked with those extras has the requirement."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def test_tests_run_on_the_versions_that_are_shipped() -> None:
    assert pinned("requirements.lock").items() <= pinned("requirements-dev.lock").items()


@pytest.mark.parametrize("lock", LOCKS)
def test_everything_locked_has_a_hash_and_comes_from_no_particular_place(lock: str) -> None:
    text = (REPO / lock).read_text()
    assert text.count("==") == len(re.findall(r"==\S+ \\\n +--hash=sha256:", text))
    assert not re.search(r"://|--index|--find-links|--trusted-host", text)


@pytest.mark.parametrize("command", PROJECT["scripts"])
def test_an_installed_command_exists(command: str) -> None:
    module, function = PROJECT["scripts"][command].split(":")
    assert callable(getattr(import_module(module), function))


def test_the_image_is_made_of_files_that_are_there_and_not_ignored() -> None:
    ignored = (REPO / ".dockerignore").read_text().split()
    copies = re.findall(r"^COPY (?!--from)(.*)$", (REPO / "Dockerfile").read_text(), re.MULTILINE)
    sources = [source for line in copies for source in line.split()[:-1]]
    assert "arranger" in sources
    for source in sources:
        assert (REPO / source).exists(), source
        assert source not in ignored


def test_the_image_runs_the_user_that_the_deployment_asks_for() -> None:
    user = re.search(r"^USER (\d+):(\d+)$", (REPO / "Dockerfile").read_text(), re.MULTILINE)
    documents = yaml.safe_load_all((REPO / "manifests" / "40-deployment.yaml").read_text())
    pod = next(d for d in documents if d["kind"] == "Deployment")["spec"]["template"]["spec"]
    context = pod["securityContext"]
    assert user is not None
    assert [int(part) for part in user.groups()] == [context["runAsUser"], context["runAsGroup"]]


@pytest.mark.parametrize(
    "target",
    [
        *["demo", "test", "lint", "format", "controlplane", "bench", "venv", "lock"],
        *["docs", "reference", "picture", "programs"],
    ],
)
def test_make_knows(target: str) -> None:
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=REPO,
        check=True,
        capture_output=True,
        text=True,
    )
    assert re.search(rf"^{target} ", listed.stdout, re.MULTILINE)


def test_continuous_integration_has_one_command_that_can_be_run() -> None:
    script = REPO / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert "make test" in script.read_text()


def test_the_example_configuration_is_accepted() -> None:
    profiles = build_profiles(load_config(REPO / "examples" / "config.yaml"))
    assert [profile.scheduler_name for profile in profiles] == ["arranger", "arranger-packing"]


def test_every_example_is_listed() -> None:
    listed = (REPO / "examples" / "README.md").read_text()
    entries = {path.name for path in (REPO / "examples").iterdir()} - {"README.md"}
    assert not [entry for entry in entries if f"`{entry}" not in listed]


def test_no_example_counts_evictions_as_failures_of_a_plain_job() -> None:
    files = (REPO / "examples").rglob("*.yaml")
    objects = [obj for file in files for obj in yaml.safe_load_all(file.read_text())]
    jobs = [obj for obj in objects if obj.get("apiVersion") == "batch/v1"]
    assert jobs
    for job in jobs:
        (rule,) = job["spec"]["podFailurePolicy"]["rules"]
        assert rule == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
        # The API server refuses the policy with any other.
        assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
