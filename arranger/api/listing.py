"""Lists of names for people: no longer than a line has room for, and no other tenant's among them.

Whoever reads a pod's events and conditions can see what is in its namespace, and perhaps no more.
"""

from __future__ import annotations

from collections.abc import Sequence


def first_names(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """``a, b and 3 more``: at most so many names, and how many are left out."""
    left_out = len(names) - most
    return separator.join(names[:most]) + (f" and {left_out} more" if left_out > 0 else "")


def namespace_of(key: str) -> str:
    """The namespace of ``namespace/name``."""
    return key.partition("/")[0]


def names_within(namespace: str, keys: Sequence[str], most: int, kind: str) -> str:
    """``a, b and 3 more, and 2 pods of other namespaces``: the names that may be said there.

    Args:
        keys: ``namespace/name`` of each.
        kind: what they are, in the singular.
    """
    known = [key for key in keys if namespace_of(key) == namespace]
    others = len(keys) - len(known)
    if not others:
        return first_names(known, most)
    rest = f"{others} {kind}{'s' if others > 1 else ''} of other namespaces"
    return f"{first_names(known, most)}, and {rest}" if known else rest
