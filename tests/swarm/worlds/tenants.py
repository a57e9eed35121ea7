"""Other namespaces of a world: a second tenant, and one who means harm."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

import msgspec

from tests.builders import Manifest
from tests.hostile.attack import CULPRIT, Attack
from tests.hostile.tables import audit, tenancy
from tests.hostile.tables.generated import of_tenants

SECOND: Final = "second"
#: Bytes of what an attack creates: worlds are kept as text, and each write of them is judged.
_SMALL: Final = 8000
#: What controllers act on that are not ours, and that no attack is meant for.
_OF_OTHERS: Final = ("apps/v1", "batch/v1")
#: One of so many of the attacks by single fields, as these are most of them.
_PART: Final = 12


def namespaces(*names: str) -> list[Manifest]:
    """Namespaces to be created."""
    head = {"apiVersion": "v1", "kind": "Namespace"}
    return [{**head, "metadata": {"name": name}} for name in names]


def moved(manifests: Sequence[Manifest], namespace: str) -> list[Manifest]:
    """The same objects in another namespace than ``default``; names that they say follow them."""
    return [_renamed(manifest, namespace) for manifest in manifests]


def an_attack(rng: random.Random) -> Attack:
    """One of those of the hostile tests that tenants can do with few, small objects."""
    return rng.choice(_attacks())


@cache
def _attacks() -> Sequence[Attack]:
    return [each for each in _all_attacks() if _is_small(each)]


def _all_attacks() -> Iterator[Attack]:
    written = (audit.amounts, audit.annotations, audit.templates, audit.counts)
    return chain(*(make() for make in written), tenancy.groups(), of_tenants(_PART))


def _is_small(attack: Attack) -> bool:
    """Whether it is small, in one namespace, and the same after it was written and read."""
    made = [*attack.objects, *attack.edits]
    try:
        text = msgspec.json.encode(made)
        same = len(text) < _SMALL and msgspec.json.decode(text) == made
    except (RecursionError, TypeError, ValueError, OverflowError):
        return False
    return same and all(
        each["metadata"].get("namespace") == CULPRIT and each["apiVersion"] not in _OF_OTHERS
        for each in made
    )


def _renamed(value: Any, namespace: str, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _renamed(each, namespace, k) for k, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, namespace, key) for each in value]
    if not isinstance(value, str):
        return value
    return namespace if key == "namespace" else value.replace("default/", f"{namespace}/")
