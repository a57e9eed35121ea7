"""All reference pages, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from docs.generator import (
    annotation_keys,
    answers,
    commands,
    configuration,
    crds,
    events,
    metrics,
    plugins,
)

REPO: Final = Path(__file__).resolve().parents[2]
REFERENCE: Final = REPO / "docs" / "reference"

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "annotations": annotation_keys.page,
    "answers": answers.page,
    "commands": commands.page,
    "configuration": configuration.page,
    "crds": crds.page,
    "events": events.page,
    "metrics": metrics.page,
    "plugins": plugins.page,
}


def write() -> list[Path]:
    """Write every page that has changed; returns those."""
    written = []
    for name, page in PAGES.items():
        file, text = REFERENCE / f"{name}.md", page()
        if not file.exists() or file.read_text() != text:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            written.append(file)
    return written
