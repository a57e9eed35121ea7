"""Which objects a workload controls: those that its selector matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from arranger.api.selectors import Selector
from arranger.api.types.core import LabelSelector
from arranger.embedded import Object
from arranger.embedded.workloads.plan import controller_reference, is_deleted


def claimed(
    workload: Object, owned: Sequence[Object], orphans: Sequence[Object]
) -> tuple[list[Object], list[tuple[Object, Object]]]:
    """What it controls after it has taken in orphans and let go of strangers, and the changes."""
    kept, changes = [], []
    for obj in owned:
        if matches(workload, obj) or is_deleted(obj):
            kept.append(obj)
            continue
        others = [*_other_owners(obj, workload["metadata"]["uid"])]
        changes.append((obj, {"metadata": {"ownerReferences": others}}))
    if not is_deleted(workload):
        for obj in orphans:
            if matches(workload, obj) and not is_deleted(obj):
                owners = [*(obj["metadata"].get("ownerReferences") or ())]
                owners.append(controller_reference(workload))
                changes.append((obj, {"metadata": {"ownerReferences": owners}}))
                kept.append(obj)
    return kept, changes


def controllers_of(obj: Object) -> list[Object]:
    """The references to what controls an object, which is one at most where all is well."""
    return [o for o in obj["metadata"].get("ownerReferences") or () if o.get("controller")]


def matches(workload: Object, obj: Object) -> bool:
    """Whether its selector matches the labels of an object; without a good one nothing does."""
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    spec = workload.get("spec")
    selector = spec.get("selector") if isinstance(spec, dict) else None
    if not selector or not isinstance(selector, dict):
        return False
    if workload["kind"] == "ReplicationController":
        return bool(selector.items() <= labels.items())
    if not selector.get("matchExpressions"):
        wanted = selector.get("matchLabels")
        return bool(wanted) and isinstance(wanted, dict) and wanted.items() <= labels.items()
    try:
        return Selector(msgspec.convert(selector, LabelSelector)).matches(dict(labels))
    except msgspec.ValidationError:
        return False


def _other_owners(obj: Object, uid: str) -> Iterator[Object]:
    return (o for o in obj["metadata"].get("ownerReferences") or () if o["uid"] != uid)
