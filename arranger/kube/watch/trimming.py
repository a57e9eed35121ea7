"""What is kept of an object's metadata: a tenant's notes take no room in the scheduler.

Annotations that we know are kept up to a length that none of them needs; of others those that are
few and short, as a configured expression may read them. Of many owners the first are kept, and the
one that controls the object. Labels and selectors that are large are packed.
"""

from __future__ import annotations

from typing import Any, Final

from arranger.api import annotations as keys
from arranger.api.types.core import Container, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.packed import MANY, pack_parts, pack_selector, packed_labels
from arranger.api.types.pod_groups import PodGroup
from arranger.api.types.storage import PersistentVolumeClaim
from arranger.api.types.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

#: Annotations that we read or write.
KNOWN: Final = frozenset(
    text for name, text in vars(keys).items() if name.isupper() and isinstance(text, str)
)
#: Kinds with a selector that whoever makes them chooses.
_SELECTING: Final = frozenset(
    {
        PersistentVolumeClaim,
        PodDisruptionBudget,
        ReplicaSet,
        ReplicationController,
        Service,
        StatefulSet,
    }
)
#: Characters of all annotations that we know; the longest of them are cut where there are more.
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
    if len(meta.labels) > MANY or type(obj) in _SELECTING:
        pack(obj)


def pack(obj: Any) -> None:
    """Pack the labels of an object and its selector, where they are larger than anybody needs."""
    meta = obj.metadata
    if len(meta.labels) > MANY:
        meta.labels = packed_labels(meta.labels)
    if type(obj) in _SELECTING and obj.spec.selector is not None:
        pack_selector(obj.spec)


def pack_large(obj: Any) -> None:
    """Pack what else of a large object that a tenant may write takes much more room than text."""
    if isinstance(obj, Pod | PodGroup):
        pack_parts(obj.spec, unpacked_kinds=(Container,))
        pack_parts(obj.status)


def _kept(annotations: dict[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    known, others = 0, MAX_OTHERS
    for key, text in annotations.items():
        if key in KNOWN:
            kept[key] = text
            known += len(text)
        elif others and len(text) <= MAX_OTHER:
            kept[key] = text
            others -= 1
    if known > MAX_KNOWN:
        _cut_known(kept)
    return kept


def _cut_known(kept: dict[str, str]) -> None:
    """What is short says the same whatever else is said."""
    left = MAX_KNOWN
    for key in sorted(KNOWN.intersection(kept), key=lambda each: (len(kept[each]), each)):
        if left:
            kept[key] = kept[key][:left]
            left -= len(kept[key])
        else:
            del kept[key]
