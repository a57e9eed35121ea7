"""What fuzzing has found, as inputs that did harm once: each is tried again by every run of tests.

A whole object is written as JSON of its kind; any other input as the bytes of its target.
"""

from __future__ import annotations

from typing import Any, Final

Shown = tuple[type[Any], dict[str, Any]]

#: What happened → (target, input).
INPUTS: Final[dict[str, tuple[str, bytes]]] = {
    "a library's message repeated a value with control codes": (
        "selectors",
        b'{"matchExpressions": [{"key": "a", "operator": 5, "values": ["\\u001b[2J"]}]}',
    ),
}
#: What happened → kinds and objects that were shown one after the other.
OBJECTS: Final[dict[str, list[Shown]]] = {}
