"""Folders that tests read."""

from __future__ import annotations

import os
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]

#: The openb trace of GPU clusters: too large for the repository, and the only thing outside it that
#: a test reads. ``ARRANGER_SHARED`` names another folder than the one beside the checkout.
TRACES = Path(os.environ.get("ARRANGER_SHARED") or REPO.parent / "shared") / "traces"


def is_in_checkout(path: Path) -> bool:
    """Whether a fresh clone has it, too: git keeps files, and no folder without one."""
    return path.is_file() or any(each.is_file() for each in path.rglob("*"))
