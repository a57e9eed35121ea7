"""What is shipped fits together: locks, image, Makefile; and the README says what is so."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TypeGuard, get_args

import pytest
import yaml
from pydantic import BaseModel

from arranger.cli.main import main
from arranger.daemon.config.schema import Config, build_profiles, load_config

REPO = Path(__file__).parents[3]
README = (REPO / "README.md").read_text()
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
LOCKS = {
    "requirements.lock": PROJECT["dependencies"],
    "requirements-dev.lock": [
        *PROJECT["dependencies"],
        *PROJECT["optional-dependencies"]["dev"],
    ],
}


def canonical(requirement: str) -> str:
    """The distribution a requirement names, as lock files spell it."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def pinned(lock: str) -> dict[str, str]:
    """Name to version of everything a lock file holds."""
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", (REPO / lock).read_text(), re.MULTILINE))


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


#: Sections of the configuration that the README tells in a section of their own.
TOLD_ELSEWHERE = {"extenders[]": "### Extenders"}


def field_paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The fields of the configuration file as the README spells them.

    The entries of a list within a list are told in words, where there are two fields to tell.
    """
    for field in model.model_fields.values():
        entries = [part for part in get_args(field.annotation) if _is_section(part)]
        section = entries[0] if entries else field.annotation
        path = f"{prefix}{field.alias}" + ("[]" if entries else "")
        if _is_section(section) and not (entries and prefix) and path not in TOLD_ELSEWHERE:
            yield from field_paths(section, f"{path}.")
        else:
            yield path


def _arguments(model: type[BaseModel] | None) -> set[str]:
    """A plugin's own arguments; every plugin's may name the type they are of."""
    fields = model.model_fields.values() if model else ()
    return {field.alias or "" for field in fields} - {"apiVersion", "kind"}


def _is_section(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_dependency(lock: str) -> None:
    missing = {canonical(each) for each in LOCKS[lock]} - pinned(lock).keys()
    assert not missing, "run `make lock`"


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
    "target", ["demo", "test", "lint", "format", "controlplane", "bench", "venv", "lock"]
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


# --- the README --------------------------------------------------------------------------------


def test_the_readme_has_the_fields_of_the_configuration_and_no_others() -> None:
    table = README.split("| field | default | meaning |")[1].split("\n\n")[0]
    first_cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    described = {field for cell in first_cells for field in re.findall(r"`([^`]+)`", cell)}
    assert described == set(field_paths(Config))


@pytest.mark.parametrize("path", TOLD_ELSEWHERE)
def test_the_readme_has_every_field_of_a_section_told_elsewhere(path: str) -> None:
    text = README.split(TOLD_ELSEWHERE[path])[1].split("\n## ")[0]
    (field,) = [f for f in Config.model_fields.values() if f"{f.alias}[]" == path]
    (section,) = [part for part in get_args(field.annotation) if _is_section(part)]
    fields = {each.alias or "" for each in section.model_fields.values()}
    assert not [name for name in fields if name not in text]


def test_the_readme_has_the_default_plugins_in_order_with_weights_and_arguments() -> None:
    (profile,) = build_profiles(Config())
    scoring = profile.plugins_at("score")
    expected = [
        (
            each.plugin.name,
            str(each.weight) if each.plugin in scoring else "–",
            _arguments(each.plugin.Args),
        )
        for each in profile.plugins
    ]
    rows = re.findall(r"^\| (\w+) \| (\d+|–) \| (.*) \|$", README, re.MULTILINE)
    assert expected == [
        (name, weight, set(re.findall(r"`(\w+)`", arguments))) for name, weight, arguments in rows
    ]


def test_the_readme_has_every_command_of_the_program() -> None:
    described = set(re.findall(r"^\| `arranger (\w+)", README, re.MULTILINE))
    assert described >= main.commands.keys()


def test_the_readmes_configuration_is_accepted(tmp_path: Path) -> None:
    for n, block in enumerate(code_blocks("yaml")):
        file = tmp_path / f"{n}.yaml"
        file.write_text(block)
        assert build_profiles(load_config(file))


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


def test_the_readmes_plugin_can_be_enabled(tmp_path: Path) -> None:
    (block,) = code_blocks("python")
    (tmp_path / "policy.py").write_text(block)
    file = tmp_path / "config.yaml"
    profile = {"plugins": {"enabled": [{"name": "AvoidSpot"}]}}
    file.write_text(yaml.safe_dump({"pluginFiles": ["policy.py"], "profiles": [profile]}))
    (built,) = build_profiles(load_config(file))
    assert "AvoidSpot" in {each.plugin.name for each in built.plugins}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_a_page_names_only_files_that_are_there(page: str) -> None:
    roots = "arranger|tests|docs|manifests|examples|crds"
    named = re.findall(rf"`((?:{roots})/[\w./-]+|[A-Z]+\.md)`", (REPO / page).read_text())
    assert named
    assert not [path for path in named if not (REPO / path).exists()]
