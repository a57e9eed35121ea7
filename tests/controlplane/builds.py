"""Where ``make`` puts what it builds for tests: a folder for each state of the sources."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

PROGRAMS: Final = Path(__file__).parent / "programs"


def build_folder(name: str, sources: Iterable[Path]) -> Path:
    """Where a program is that was built from the sources as they are."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    cache = Path(os.environ.get("ARRANGER_CACHE") or Path.home() / ".cache/arranger")
    return cache / f"{name}-{digest[:16]}"


def is_built(name: str) -> bool:
    """Whether a program of others is there as ``make`` builds it."""
    return _path(name).exists()


def published(name: str) -> Path:
    """A program of others that ``make`` builds as they publish it; skips the test without it."""
    if not is_built(name):
        pytest.skip(f"there is no {name}: run `make {name}` (needs Go)")
    return _path(name)


def _path(name: str) -> Path:
    return build_folder(name, sorted((PROGRAMS / name).iterdir())) / name
