"""Paths that people give on the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from arranger.bundled import bundled_folder


class InputPath(click.Path):
    """A path that must exist, given to the command as a :class:`~pathlib.Path`.

    ``examples/…`` that is not in the current folder is looked up among the examples that come with
    Arranger, so that the commands of the documentation work wherever it is installed.
    """

    def __init__(self, *, dir_okay: bool = True) -> None:
        super().__init__(exists=True, dir_okay=dir_okay, path_type=Path)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """Check the path; click calls this."""
        path = Path(value)
        if path.parts[:1] == ("examples",) and not path.exists():
            example = bundled_folder("examples").joinpath(*path.parts[1:])
            value = example if example.exists() else value
        return super().convert(value, param, ctx)
