"""What people call kinds on a command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The short names of kubectl → singular.
_SHORT: Final[Mapping[str, str]] = {
    "cj": "cronjob",
    "deploy": "deployment",
    "ds": "daemonset",
    "no": "node",
    "ns": "namespace",
    "pc": "priorityclass",
    "pdb": "poddisruptionbudget",
    "pg": "podgroup",
    "po": "pod",
    "pv": "persistentvolume",
    "pvc": "persistentvolumeclaim",
    "q": "queue",
    "rc": "replicationcontroller",
    "rs": "replicaset",
    "sc": "storageclass",
    "sts": "statefulset",
}


def singular(word: str) -> str:
    """A word for a kind without its group and plural: ``deployments.apps`` is ``deployment``."""
    bare = word.lower().partition(".")[0]
    bare = _SHORT.get(bare, bare)
    if bare.endswith("sses"):
        return bare.removesuffix("es")
    return bare if bare.endswith("ss") else bare.removesuffix("s")


def names_kind(word: str, kind: str) -> bool:
    """Whether a word of kubectl names a kind: its singular, plural or short name."""
    return singular(word) == singular(kind)
