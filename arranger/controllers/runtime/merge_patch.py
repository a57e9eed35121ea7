"""The difference of two objects as a merge patch (RFC 7386)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(current: Mapping[str, Any], desired: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that gives the fields of ``desired`` their values; empty where they have them.

    Fields that ``desired`` does not name stay as they are, and those that are None there are
    removed. A map is made exactly as desired, entry by entry; a list is replaced as a whole.
    """
    patch: dict[str, Any] = {}
    for name, value in desired.items():
        known = current.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            if inner := merge_patch(known, {**dict.fromkeys(known), **value}):
                patch[name] = inner
        elif value != known:
            patch[name] = value
    return patch
