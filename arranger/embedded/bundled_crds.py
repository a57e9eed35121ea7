"""The CustomResourceDefinitions that come with Arranger, as objects."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from arranger.bundled import bundled_folder


def bundled_crds() -> Iterator[dict[str, Any]]:
    """Every CustomResourceDefinition that we ship, in the order of the files' names."""
    definitions: list[dict[str, Any]] = pickle.loads(_read())
    yield from definitions


@cache
def _read() -> bytes:
    """All of them, from which each caller has copies of its own: reading YAML takes long."""
    files = sorted(bundled_folder("crds").glob("*.yaml"))
    texts = (file.read_text(encoding="utf-8") for file in files)
    return pickle.dumps([each for text in texts for each in yaml.safe_load_all(text)])
