"""The CustomResourceDefinitions that come with Arranger, as objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from arranger.bundled import bundled_folder


def bundled_crds() -> Iterator[dict[str, Any]]:
    """Every CustomResourceDefinition that we ship, in the order of the files' names."""
    for file in sorted(bundled_folder("crds").glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))
