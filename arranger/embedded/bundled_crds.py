"""The definitions that come with Arranger: ``crds/`` of a checkout, or the package's copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_PACKAGE = Path(__file__).parents[1]


def bundled_crds() -> Iterator[dict[str, Any]]:
    """Every CustomResourceDefinition that we ship, in the order of the files' names."""
    packed = _PACKAGE / "shipped" / "crds"
    folder = packed if packed.is_dir() else _PACKAGE.parent / "crds"
    for file in sorted(folder.glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))
