"""What is kept of an object's metadata: a tenant's notes take no room in the scheduler.

Annotations that we know are kept up to a length that none of them needs; of others those that are
few and short, as a configured expression may read them. Of many owners the first are kept, and the
one that controls the object.
"""

from __future__ import annotations

from typing import Any, Final

from arranger.api import annotations as keys

#: Annotations that we read or write.
KNOWN: Final = frozenset(
    text for name, text in vars(keys).items() if name.isupper() and isinstance(text, str)
)
#: Characters of all annotations that we know; the last of them is cut where there are more.
MAX_KNOWN: Final = 16 * 1024
#: Other annotations, and characters of one.
MAX_OTHERS: Final = 32
MAX_OTHER: Final = 256
#: Owners, beside the one that controls the object.
MAX_OWNERS: Final = 8


def trim(obj: Any) -> None:
    """Take out of an object just decoded what nobody looks at."""
    meta = obj.metadata
    if meta.annotations:
        meta.annotations = _kept(meta.annotations)
    if len(meta.owner_references) > MAX_OWNERS:
        first, others = meta.owner_references[:MAX_OWNERS], meta.owner_references[MAX_OWNERS:]
        meta.owner_references = [*first, *(owner for owner in others if owner.controller)][
            : MAX_OWNERS + 1
        ]


def _kept(annotations: dict[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    left, others = MAX_KNOWN, MAX_OTHERS
    for key, text in annotations.items():
        if key in KNOWN:
            if left:
                kept[key] = text[:left]
                left -= min(left, len(text))
        elif others and len(text) <= MAX_OTHER:
            kept[key] = text
            others -= 1
    return kept
