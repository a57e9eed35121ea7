"""Steps that are all done, whatever one of them raises."""

from __future__ import annotations

from collections.abc import Callable


def do_all(*steps: Callable[[], object]) -> None:
    """Do each of some steps, in this order.

    Raises:
        Exception: what the first has raised that has raised anything, once all are done.
    """
    first: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first
