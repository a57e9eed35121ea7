"""What an API server sees, in order, and the state that each step meets.

A trace is a sequence of :class:`Step`; a :class:`World` folds it. Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tests.specification.vocabulary.manifests import (
    Amounts,
    Object,
    affinity_terms,
    asks,
    has_ended,
    is_leaving,
    labels_of,
    name_of,
    node_of,
    nominated_to,
    notes_of,
)

PODS, NODES, QUEUES = "/pods", "/nodes", "scheduling.volcano.sh/queues"
NAMESPACES, LEASES = "/namespaces", "coordination.k8s.io/leases"
CLAIMS, VOLUME_CLAIMS, VOLUMES = (
    "resource.k8s.io/resourceclaims",
    "/persistentvolumeclaims",
    "/persistentvolumes",
)

#: What statuses say of where pods may be.
_STATED = ("allocatable", "capacity", "allocation", "state")
#: Who has written what nobody's name is known of, and is none of our processes: users, kubelets.
SOMEBODY = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One write, as a watch of everything would show it.

    Attributes:
        version: the resourceVersion; steps come in its order.
        at: the time of the write, in seconds of any clock that goes forward.
        resource: ``group/plural``; of the core group ``/plural``.
        kind: what a watch calls it.
        before, after: the object; ``before`` is None when it is new, ``after`` of what is deleted
            is its last state.
        writer: the process that wrote, :data:`SOMEBODY` else; None where nobody has recorded it,
            as in a watch.
    """

    version: int
    at: float
    resource: str
    kind: Literal["ADDED", "MODIFIED", "DELETED"]
    before: Object | None
    after: Object
    writer: str | None = None

    @property
    def is_bind(self) -> bool:
        """Whether it gives a waiting pod a node."""
        return (
            self.resource == PODS
            and self.kind == "MODIFIED"
            and self.before is not None
            and bool(node_of(self.after))
            and not node_of(self.before)
        )

    @property
    def begins_to_leave(self) -> bool:
        """Whether it begins the deletion of a pod, or is all of it."""
        if self.resource != PODS or self.before is None or is_leaving(self.before):
            return False
        return self.kind == "DELETED" or is_leaving(self.after)


@dataclass(slots=True)
class World:
    """All objects as they are after the steps so far, and since when they are as they are.

    Attributes:
        objects: resource → name → object.
        pods_on: node → uid → pod that uses it.
        apart: uid → pod on a node that keeps others away by required anti-affinity.
        waiting: uid → pod that has no node, has not ended and is not being deleted.
        asked: uid → what a living pod asks for.
        changed: (resource, name) → when what a scheduler reads of it was changed, and by whom.
        created: the changes that were creations, under names that were not used before.
        promised: uid → since when a waiting pod is nominated to the node that it is nominated to.
        namespaces: namespace → its labels.
        gone: (resource, name) → when it was deleted, of the last thousand; the latest come last.
        named_first: uid → the queue that a pod named when it got its node.
        restored_at: when the server went back to a backup, if it did.
    """

    now: float = float("-inf")
    objects: dict[str, dict[str, Object]] = field(default_factory=dict)
    pods_on: dict[str, dict[str, Object]] = field(default_factory=dict)
    apart: dict[str, Object] = field(default_factory=dict)
    waiting: dict[str, Object] = field(default_factory=dict)
    asked: dict[str, Amounts] = field(default_factory=dict)
    changed: dict[tuple[str, str], tuple[float, str | None]] = field(default_factory=dict)
    created: set[tuple[str, str]] = field(default_factory=set)
    promised: dict[str, float] = field(default_factory=dict)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    gone: dict[tuple[str, str], float] = field(default_factory=dict)
    named_first: dict[str, str] = field(default_factory=dict)
    restored_at: float = float("-inf")

    def of(self, resource: str) -> Mapping[str, Object]:
        """The objects of a resource, by name."""
        return self.objects.get(resource, {})

    def get(self, resource: str, name: str) -> Object | None:
        """One object."""
        return self.of(resource).get(name)

    def placed(self) -> Iterator[Object]:
        """All pods that use a node."""
        for pods in self.pods_on.values():
            yield from pods.values()

    def was_gone_since(self, when: float, *resources: str) -> bool:
        """Whether anything of these resources was deleted since then, perhaps by a backup."""
        if self.restored_at >= when:
            return True
        for (resource, _), at in reversed(self.gone.items()):
            if at < when:
                return False
            if resource in resources:
                return True
        return False

    def is_as_created(self, resource: str, obj: Object) -> bool:
        """Whether it has not been changed since it was made, nor made anew under its name."""
        return (resource, name_of(obj)) in self.created

    def labels_of_namespace(self, name: str) -> Mapping[str, str]:
        """Its labels, with the one that every namespace has."""
        return {"kubernetes.io/metadata.name": name, **self.namespaces.get(name, {})}

    # --- folding -----------------------------------------------------------------------------

    def take(self, step: Step) -> None:
        """The step is done."""
        self.now = max(self.now, step.at)
        name, there = name_of(step.after), step.kind != "DELETED"
        key = step.resource, name
        if there:
            self.objects.setdefault(step.resource, {})[name] = step.after
        else:
            self.objects.get(step.resource, {}).pop(name, None)
            self.gone.pop(key, None)
            self.gone[key] = step.at
            if len(self.gone) > 1000:
                del self.gone[next(iter(self.gone))]
        if step.before is None or not there or _differ(step.before, step.after):
            self.changed[key] = step.at, step.writer
            self.created.discard(key)
            if step.before is None and key not in self.gone:
                self.created.add(key)
        if step.resource == PODS:
            self._take_pod(step, there=there)
        elif step.resource == NAMESPACES:
            self.namespaces.pop(name, None)
            self.namespaces.update({name: labels_of(step.after)} if there else {})
        if not there:
            del self.changed[key]

    def _take_pod(self, step: Step, *, there: bool) -> None:
        pod, uid = step.after, step.after["metadata"]["uid"]
        before, node = step.before, node_of(pod)
        if before is not None and node_of(before):
            self.pods_on.get(node_of(before), {}).pop(uid, None)
        self.waiting.pop(uid, None)
        self.apart.pop(uid, None)
        living = there and not has_ended(pod)
        if living and (uid not in self.asked or before is None or before["spec"] != pod["spec"]):
            self.asked[uid] = {**asks(pod), "pods": 1}
        if living and node:
            self.pods_on.setdefault(node, {})[uid] = pod
            if affinity_terms(pod, "podAntiAffinity"):
                self.apart[uid] = pod
        elif living and not is_leaving(pod):
            self.waiting[uid] = pod
        if not living:
            self.asked.pop(uid, None)
        if not (living and nominated_to(pod)):
            self.promised.pop(uid, None)
        elif before is None or nominated_to(before) != nominated_to(pod):
            self.promised[uid] = step.at


def _differ(before: Object | None, after: Object) -> bool:
    """Whether anything has changed that decides where pods may be."""
    if before is None:
        return True
    if before.get("spec") != after.get("spec") or before.get("data") != after.get("data"):
        return True
    if labels_of(before) != labels_of(after) or notes_of(before) != notes_of(after):
        return True
    was, now = before.get("status") or {}, after.get("status") or {}
    return was != now and any(was.get(key) != now.get(key) for key in _STATED)
