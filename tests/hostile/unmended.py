"""Attacks that still do harm, each with what it does; they are left out of the tests."""

from __future__ import annotations

import re
from typing import Final

from tests.hostile.attack import Attack

#: Expression for names of attacks → what they do.
UNMENDED: Final[dict[str, str]] = {
    r"bound pod('s)? (comes to )?requests?|a node offers|a resized pod's status": (
        "more use of a node than it has counts against all gangs that state minResources"
    ),
    r"a pod requests 1?5,000 resources|selects devices by 27,000 turns": (
        "the loop is held until the lease is lost"
    ),
}


def unmended(attack: Attack) -> str | None:
    """What an attack does that is not held yet; None if it must be held."""
    return next((why for name, why in UNMENDED.items() if re.search(name, attack.name)), None)
