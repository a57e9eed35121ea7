"""Lists of names for people, no longer than a line has room for."""

from __future__ import annotations

from collections.abc import Sequence


def first_names(names: Sequence[str], most: int) -> str:
    """``a, b and 3 more``: at most so many names, and how many are left out."""
    left_out = len(names) - most
    return ", ".join(names[:most]) + (f" and {left_out} more" if left_out > 0 else "")
