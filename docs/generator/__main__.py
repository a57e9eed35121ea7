"""``python -m docs.generator``: bring the reference pages up to date."""

from __future__ import annotations

from docs.generator.pages import REPO, write

for file in write():
    print(file.relative_to(REPO))  # noqa: T201 — the output of a command
