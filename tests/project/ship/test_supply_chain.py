"""What is shipped can be told apart, made again and looked through."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from arranger import __version__
from tests.paths import REPO
from tests.project.ship.test_image import copy_as_docker_does, pip
from tests.project.ship.test_packaging import PROJECT, canonical, pinned

DIGEST = "sha256:" + "0123456789abcdef" * 4


def script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, REPO / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel_of(folder: Path, *, umask: int, mtime: int) -> Path:
    """Build as the Dockerfile does, from a copy with rights and times of its own."""
    before = os.umask(umask)
    try:
        source = folder / "src"
        source.mkdir(parents=True)
        copy_as_docker_does(source)
        for path in source.rglob("*"):
            os.utime(path, (mtime, mtime))
        # hatchling's own default, so that a build elsewhere is the same.
        pip(
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
            "-w",
            "dist",
            ".",
            cwd=source,
        )
    finally:
        os.umask(before)
    (wheel,) = (source / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("another-name")
    return wheel_of(one, umask=0o022, mtime=10**9), wheel_of(
        other, umask=0o077, mtime=1_600_000_000
    )


def test_two_builds_give_the_same_bytes(wheels: tuple[Path, Path]) -> None:
    one, other = wheels
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()


def test_the_wheel_says_what_is_shipped_with_it(wheels: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(wheels[0]) as archive:
        name = f"arranger-{__version__}.dist-info/sboms/arranger.cdx.json"
        document = json.loads(archive.read(name))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", document["serialNumber"])
    shipped = {each["name"]: each["version"] for each in document["components"]}
    assert shipped == pinned("requirements.lock")
    refs = [each["bom-ref"] for each in document["components"]]
    assert len(refs) == len(set(refs))
    assert all(each["purl"] == each["bom-ref"] for each in document["components"])

    needs = {each["ref"]: each["dependsOn"] for each in document["dependencies"]}
    ours = document["metadata"]["component"]["bom-ref"]
    assert needs.keys() == {ours, *refs}
    direct = {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in needs[ours]}
    assert direct == {canonical(each) for each in PROJECT["dependencies"]}
    # Whatever is shipped is there because of us.
    reached, left = set(), [ours]
    while left:
        ref = left.pop()
        if ref not in reached:
            reached.add(ref)
            left += needs[ref]
    assert reached == needs.keys()


def test_the_list_is_that_of_the_lock() -> None:
    hook = script("hatch_build.py")
    lock = (
        "a==1 \\\n    --hash=sha256:0\n    # via\n    #   arranger (pyproject.toml)\n    #   b[x]\n"
    )
    lock += "b[x]==2.0 \\\n    --hash=sha256:0\n    --hash=sha256:1\n"
    lock += "    # via arranger (pyproject.toml)\n"
    document = json.loads(hook.sbom(lock, "9"))
    assert document["dependencies"] == [
        {"ref": "pkg:pypi/arranger@9", "dependsOn": ["pkg:pypi/a@1", "pkg:pypi/b@2.0"]},
        {"ref": "pkg:pypi/a@1", "dependsOn": []},
        {"ref": "pkg:pypi/b@2.0", "dependsOn": ["pkg:pypi/a@1"]},
    ]
    assert hook.sbom(lock, "9") == hook.sbom(lock, "9") != hook.sbom(lock, "8")


def test_the_manifests_can_name_the_image_by_digest(tmp_path: Path) -> None:
    shutil.copytree(REPO / "manifests", tmp_path / "m")
    command = [sys.executable, REPO / ".ci" / "pin_images.py"]
    image = "ghcr.io/owner/arranger:1.2.3"
    done = subprocess.run([*command, tmp_path / "m", image, DIGEST], check=False)
    assert done.returncode == 0
    before = yaml.safe_load((REPO / "manifests/kustomization.yaml").read_text())
    after = yaml.safe_load((tmp_path / "m/kustomization.yaml").read_text())
    entry = {"name": "arranger", "newName": "ghcr.io/owner/arranger", "digest": DIGEST}
    assert after == {**before, "images": [entry]}


WRONG_DIGESTS = ["", "latest", "sha256:12", DIGEST.upper(), f"{DIGEST}\n"]


@pytest.mark.parametrize("digest", WRONG_DIGESTS)
def test_what_is_no_digest_is_refused(digest: str) -> None:
    text = (REPO / "manifests/kustomization.yaml").read_text()
    with pytest.raises(ValueError, match="is no digest"):
        script(".ci/pin_images.py").pinned(text, "a:1", digest)


IMAGES = {
    "by digest": (f"  image: a/b@{DIGEST}\n- image: 'c:1@{DIGEST}'\n", []),
    "by tag": (f"image: a@{DIGEST}\nimage: b:1\n", ["b:1"]),
    "by half a digest": ("image: a@sha256:12\n", ["a@sha256:12"]),
    "none": ("kind: Pod\n", ["(no image at all)"]),
}


@pytest.mark.parametrize("case", IMAGES.values(), ids=IMAGES.keys())
def test_images_without_a_digest_are_found(case: tuple[str, list[str]], tmp_path: Path) -> None:
    text, found = case
    pin = script(".ci/pin_images.py")
    assert pin.unpinned(text) == found
    (tmp_path / "f").write_text(text)
    assert pin.main(["--check", str(tmp_path / "f")]) == bool(found)


BASES = {
    "a try without a digest": ("0", "python:3.11-slim", True),
    "a release with one": ("1", f"python:3.11-slim@{DIGEST}", True),
    "a release without one": ("1", "python:3.11-slim", False),
    "a switch that is none": ("yes", "python:3.11-slim", False),
}


@pytest.mark.parametrize("case", BASES.values(), ids=BASES.keys())
def test_a_release_is_built_on_a_base_by_digest(case: tuple[str, str, bool]) -> None:
    switch, base, builds = case
    dockerfile = (REPO / "Dockerfile").read_text()
    check = re.search(r"^RUN (case .*?esac)$", dockerfile, re.MULTILINE | re.DOTALL)
    assert check is not None
    shell = check[1].replace("\\\n", "\n")
    environment = {"PINNED": switch, "PYTHON_IMAGE": base, "PATH": os.defpath}
    done = subprocess.run(["sh", "-c", shell], env=environment, check=False, capture_output=True)
    assert (done.returncode == 0) == builds
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${PYTHON_IMAGE}"}


def test_the_workflows_pin_and_audit() -> None:
    release = (REPO / ".github/workflows/image.yml").read_text()
    assert "--build-arg PINNED=1" in release
    assert "--provenance=mode=max --sbom=true" in release
    assert "pin_images.py --check" in release
    audit = (REPO / ".github/workflows/ci.yml").read_text()
    for lock in REPO.glob("requirements*.lock"):
        assert f"pip-audit --require-hashes --disable-pip -r {lock.name}\n" in audit
