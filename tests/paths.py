"""Folders that tests read."""

from __future__ import annotations

import os
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]

#: The openb trace of GPU clusters: too large for the repository, and the only thing outside it that
#: a test reads. ``ARRANGER_SHARED`` names another folder than the one beside the checkout.
TRACES = Path(os.environ.get("ARRANGER_SHARED") or REPO.parent / "shared") / "traces"
