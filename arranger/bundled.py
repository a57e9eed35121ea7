"""Folders that come with Arranger: packed into the wheel, or beside the package in a checkout."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def bundled_folder(name: str) -> Path:
    """The folder ``crds`` or ``examples``, wherever Arranger is installed.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    package = Path(str(resources.files("arranger")))
    for folder in (package / "data" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"the folder {name} did not come with this installation of Arranger")


def bundled_definitions() -> frozenset[str]:
    """The names of the CustomResourceDefinitions that come with Arranger: those of the files.

    None where the installation is incomplete: they only help to say what a cluster lacks.
    """
    try:
        return frozenset(file.stem for file in bundled_folder("crds").glob("*.yaml"))
    except FileNotFoundError:
        return frozenset()
