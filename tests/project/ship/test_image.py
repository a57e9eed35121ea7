"""The image, without a container engine: what its Dockerfile copies, built, installed and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from arranger import __version__
from tests.paths import REPO

DOCKERFILE = (REPO / "Dockerfile").read_text()


def ignored_patterns() -> list[str]:
    patterns = (REPO / ".dockerignore").read_text().split()
    # The two forms that `is_ignored` knows.
    assert [p for p in patterns if "/" in p.removeprefix("**/") or p.startswith(("!", "#"))] == []
    return patterns


def is_ignored(path: PurePosixPath) -> bool:
    """Whether ``docker build`` leaves a path of the checkout, or a folder it lies in, out."""
    return any(
        any(fnmatch(part, pattern[3:]) for part in path.parts)
        if pattern.startswith("**/")
        else fnmatch(path.parts[0], pattern)
        for pattern in ignored_patterns()
    )


def copied_sources() -> Iterator[tuple[str, str]]:
    """(source, destination) of every COPY from the checkout."""
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        *sources, destination = line.split()
        for source in sources:
            yield source, f"{destination}{source}" if destination.endswith("/") else destination


def copy_as_docker_does(target: Path) -> None:
    def left_out(folder: str, names: list[str]) -> list[str]:
        at = PurePosixPath(Path(folder).relative_to(REPO).as_posix())
        return [name for name in names if is_ignored(at / name)]

    for source, destination in copied_sources():
        assert not is_ignored(PurePosixPath(source)), f"{source} does not reach the build"
        if (REPO / source).is_dir():
            shutil.copytree(REPO / source, target / destination, ignore=left_out)
        else:
            shutil.copy(REPO / source, target / destination)


def pip(*args: str | Path, cwd: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, args)],
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def install_wheel(folder: Path) -> Path:
    """Build and install as the Dockerfile does; returns the folder of the commands."""
    source, environment = folder / "src", folder / "env"
    source.mkdir()
    copy_as_docker_does(source)
    build = ("--no-deps", "--no-build-isolation")
    assert f"pip wheel {' '.join(build)} --wheel-dir dist ." in DOCKERFILE
    pip("wheel", *build, "--no-index", "--wheel-dir", "dist", ".", cwd=source)
    venv.create(environment, with_pip=False)
    (wheel,) = (source / "dist").glob(f"arranger-{__version__}-*.whl")
    python = environment / "bin" / "python"
    pip("--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    # The dependencies of this environment, without its own Arranger: a .pth file's lines become
    # part of the path, but the .pth files there, which lead to the checkout, are not read.
    (site_packages,) = environment.glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return environment / "bin"


def files_of(folder: Path) -> set[str]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")
    return {file.relative_to(folder).as_posix() for file in files}


def test_the_image_can_be_built_and_runs_every_first_command_in_an_empty_folder(
    tmp_path: Path,
) -> None:
    commands = install_wheel(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {"PATH": os.defpath, "HOME": str(empty), "COLUMNS": "200"}

    def output_of(command: str, *args: str) -> str:
        process = subprocess.run(
            [commands / command, *args], cwd=empty, env=environment, capture_output=True, text=True
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    # The demo takes some fifteen seconds, nearly all of them idle: the others run beside it.
    with subprocess.Popen(
        [commands / "arranger", "demo"],
        cwd=empty,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        module = output_of("python", "-c", "import arranger; print(arranger.__file__, end='')")
        package = Path(module).parent
        assert package.is_relative_to(commands.parent)
        for folder in ("crds", "examples"):
            assert files_of(package / "data" / folder) == files_of(REPO / folder)

        assert output_of("arranger", "version").startswith(f"arranger {__version__} ")
        simulated = output_of("arranger", "simulate", "-f", "examples/demo", "-o", "json")
        placements = {p["pod"]: p["node"] for p in json.loads(simulated)["placements"]}
        assert placements["default/alarm"] == "edge-1"
        file = "examples/snapshot.yaml"
        explained = output_of("arranger", "explain", "--snapshot", file, "-o", "json")
        feasible = {v["pod"]: v["feasible"] for v in json.loads(explained)["verdicts"]}
        assert feasible["default/web"] == ["cpu-2"]

        shown, _ = demo.communicate(timeout=100)
    assert demo.returncode == 0, shown
    assert "default/alarm on node edge-1" in shown, shown
    assert list(empty.iterdir()) == []
