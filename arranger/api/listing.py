"""Lists of names for people: no longer than a line has room for, and no other tenant's among them.

Whoever reads a pod's events and conditions can see what is in its namespace, and perhaps no more.
"""

from __future__ import annotations

from collections.abc import Sequence


def first_names(
    names: Sequence[str], most: int, separator: str = ", ", *, count: int | None = None
) -> str:
    """``a, b and 3 more``: at most so many names, and how many are left out.

    ``count``: how many there are, if those that have no room are not among the names.
    """
    left_out = (len(names) if count is None else count) - most
    return separator.join(names[:most]) + (f" and {left_out} more" if left_out > 0 else "")


def namespace_of(key: str) -> str:
    """The namespace of ``namespace/name``."""
    return key.partition("/")[0]


def names_within(names: Sequence[str], count: int, others: int, most: int, kind: str) -> str:
    """``a, b and 3 more, and 2 pods of other namespaces``: the names that may be said there.

    Args:
        names: the first of those that may be said, as many as there is room for.
        count: how many may be said.
        others: how many may not.
        kind: what they are, in the singular.
    """
    if not others:
        return first_names(names, most, count=count)
    rest = f"{others} {kind}{'s' if others > 1 else ''} of other namespaces"
    return f"{first_names(names, most, count=count)}, and {rest}" if count else rest
