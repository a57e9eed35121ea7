"""Attacks that still do harm, each with what it does; they are left out of the tests."""

from __future__ import annotations

import re
from typing import Final

from tests.hostile.attack import Attack

#: Expression for names of attacks → what they do.
UNMENDED: Final[dict[str, str]] = {
    r"(TYJob|Job|PodGroup|Gang|Queue|Command)\b.*(lists|objects|digits|1e308)": (
        "JSON that kopf cannot read makes the controllers deaf for its kind"
    ),
    r"wants 10,000|minimum is 10,000": ("others' jobs wait while the pods of a large one are made"),
    r"a bound pod requests?": (
        "more use of a node than it has counts against all gangs that state minResources"
    ),
    r"a node offers|a resized pod's status": (
        "the same: what a node cannot have counts in the cluster's total"
    ),
}


def unmended(attack: Attack) -> str | None:
    """What an attack does that is not held yet; None if it must be held."""
    return next((why for name, why in UNMENDED.items() if re.search(name, attack.name)), None)
