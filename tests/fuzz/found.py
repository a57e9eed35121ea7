"""What fuzzing has found, as inputs that did harm once: each is tried again by every run of tests.

A whole object is written as JSON of its kind; any other input as the bytes of its target.
"""

from __future__ import annotations

from typing import Any, Final

from arranger.api.types.pod_groups import SigsPodGroup, VolcanoPodGroup

Shown = tuple[type[Any], dict[str, Any]]

#: What happened → (target, input).
INPUTS: Final[dict[str, tuple[str, bytes]]] = {
    "a line with a byte that is no UTF-8 ended the watch": (
        "queues of a watch",
        b'{"type": "ADDED", "object": {"metadata": {"name": "a\xff"}}}',
    ),
}
#: What happened → kinds and objects that were shown one after the other.
OBJECTS: Final[dict[str, list[Shown]]] = {
    "a time without a zone could not be compared with others": [
        (kind, {"metadata": {"name": name, "namespace": "evil", "uid": name, **time}})
        for kind in (SigsPodGroup, VolcanoPodGroup)
        for name, time in (
            ("a", {"creationTimestamp": "2026-01-01T00:00:00"}),
            ("b", {"creationTimestamp": "2026-01-01T00:00:00Z"}),
        )
    ],
}
