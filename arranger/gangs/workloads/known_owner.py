"""What is kept of the owners of pods, and what they say of these."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from arranger.api.annotations import (
    CARD_NAME,
    CARD_REQUEST,
    GANG_BY_OWNER,
    GANG_MIN,
    POD_GROUP_MIN,
    PREEMPTABLE,
    SERVICE_TYPE,
)
from arranger.api.settings.gang_settings import SETTINGS_ANNOTATIONS
from arranger.api.settings.queue_annotations import declared_queue
from arranger.api.types.core import ObjectMeta, OwnerReference, Pod
from arranger.api.types.pod_groups import PodGroupSpec, WorkloadGroup
from arranger.api.types.workloads import Workload
from arranger.gangs.workloads.definitions import (
    GangDefinition,
    owner_scope,
    pod_scope,
    read_definition,
)
from arranger.gangs.workloads.expressions import Scope
from arranger.gangs.workloads.kinds import WorkloadKind
from arranger.gangs.workloads.paths import PathTree

#: Annotations of an owner that count for its gang.
_KEPT: Final = frozenset(
    {*SETTINGS_ANNOTATIONS, SERVICE_TYPE, PREEMPTABLE, CARD_NAME, CARD_REQUEST}
)
_MINIMUMS: Final = frozenset({GANG_MIN, POD_GROUP_MIN})
#: Those that count for a pod that is in no gang.
_ALONE: Final = (SERVICE_TYPE, PREEMPTABLE, CARD_NAME)
#: Letters of an owner's name in the name of its gang, which is that of an object.
_MAX_NAME: Final = 150


class OwnerKey(NamedTuple):
    """An owner by its name: of one name there is one at a time."""

    kind: WorkloadKind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class KnownOwner:
    """What is kept of an owner.

    Attributes:
        metadata: its uid, its age, and those of its annotations that count.
        queue: the one that its annotations or labels name.
        definition: what it says of its gangs; None where that differs among its pods.
        scope: what it is then read from, as far as anything is read of it.
        problems: what cannot be read of it, whatever the pod.
        alone: queue → what it says of those of its pods that are in no gang.
    """

    reference: OwnerReference
    metadata: ObjectMeta
    queue: str
    switched_off: bool
    definition: GangDefinition | None
    scope: Scope
    problems: tuple[str, ...]
    alone: dict[str, WorkloadGroup] = field(default_factory=dict, compare=False)

    def may_own(self, pod: ObjectMeta, uid: str) -> bool:
        """Whether it owns a pod that names it, by its ``uid`` if that is known.

        A pod that is older was of an earlier owner of that name.
        """
        if uid:
            return uid == self.reference.uid
        born, made = self.metadata.creation_timestamp, pod.creation_timestamp
        return born is None or made is None or made >= born

    @property
    def shape(self) -> tuple[object, ...] | None:
        """What decides which gang a pod is in; None where its pods decide that, too."""
        said = self.definition
        if said is None:
            return None
        roles = tuple(role for role, _ in said.roles) if said.per_role else ()
        return self.reference.uid, self.switched_off, said.is_gang, said.per_role, roles

    def definition_for(self, kind: WorkloadKind, pod: Pod) -> GangDefinition:
        """What it says of the gang of a pod."""
        if self.definition is not None:
            return self.definition
        return read_definition(kind, {**self.scope, **pod_scope(pod.metadata)})

    def keep_alone(self, before: KnownOwner) -> bool:
        """Whether it says of pods in no gang what it said before; then by the same objects."""
        if self.definition is None or before.definition is None:
            return False
        same = self._alone_by(self.definition) == before._alone_by(before.definition)
        if same:
            self.alone.update(before.alone)
        return same

    def settings_alone(self, namespace: str, definition: GangDefinition) -> WorkloadGroup | None:
        """What it says of a pod that is in no gang: its queue, and annotations; None for nothing.

        It is the same object for all of them, as pods are compared by it.
        """
        queue, said = self._alone_by(definition)
        if not queue and not said:
            return None
        if (known := self.alone.get(queue)) is None:
            owner = self.reference
            meta = ObjectMeta(name=owner.name, namespace=namespace, uid=owner.uid, annotations=said)
            known = WorkloadGroup(meta, PodGroupSpec(min_member=1, queue=queue), owner=owner)
            self.alone[queue] = known
        return known

    def _alone_by(self, definition: GangDefinition) -> tuple[str, dict[str, str]]:
        said = self.metadata.annotations
        return definition.queue or self.queue, {key: said[key] for key in _ALONE if said.get(key)}


def read_owner(kind: WorkloadKind, owner: Workload) -> KnownOwner:
    """What is kept of an owner; ``problems`` has what of it cannot be read."""
    meta, (scope, problems) = owner.metadata, owner_scope(kind, owner)
    said, differs = meta.annotations, kind.reads_pods
    kept = ObjectMeta(
        uid=meta.uid,
        creation_timestamp=meta.creation_timestamp,
        annotations={key: said[key] for key in _KEPT if key in said},
    )
    reference = OwnerReference(
        f"{kind.group}/{kind.versions[0]}".lstrip("/"), kind.kind, meta.name, meta.uid, True
    )
    return KnownOwner(
        reference,
        kept,
        queue=declared_queue(meta),
        switched_off=said.get(GANG_BY_OWNER) == "false",
        definition=None if differs else read_definition(kind, scope),
        scope=_tree_of(kind).part_of(scope) if differs else {},
        problems=problems,
    )


@lru_cache(maxsize=256)
def _tree_of(kind: WorkloadKind) -> PathTree:
    """What is read of an owner whose pods are read, too."""
    minimums = [("metadata", "annotations", key) for key in sorted(_MINIMUMS)]
    return PathTree([*kind.read_paths(), *minimums])


def owner_uid(kind: WorkloadKind, pod: ObjectMeta) -> str:
    """The uid of the owner, as far as the pod says it."""
    controller = pod.controller
    if controller is not None and controller.kind == kind.kind:
        return controller.uid
    return pod.labels.get(kind.uid_label, "")


def gang_name(key: OwnerKey, parts: list[str], uid: str) -> str:
    """The gang's name: one of its own for each owner that has ever had this name."""
    words = (key.kind.kind.lower(), key.name[:_MAX_NAME], *parts, uid[:8])
    return "-".join(word for word in words if word)


def group_by(gang: str, owner: KnownOwner, definition: GangDefinition) -> WorkloadGroup:
    """The PodGroup that nobody writes: what an owner says of a gang (``namespace/name``)."""
    namespace, _, name = gang.partition("/")
    meta, ignored = owner.metadata, _MINIMUMS if definition.per_role else frozenset()
    return WorkloadGroup(
        ObjectMeta(
            name=name,
            namespace=namespace,
            uid=meta.uid,
            creation_timestamp=meta.creation_timestamp,
            annotations={k: text for k, text in meta.annotations.items() if k not in ignored},
        ),
        PodGroupSpec(
            min_member=definition.minimum,
            min_task_member=dict(definition.roles),
            schedule_timeout_seconds=definition.wait_time,
            queue=definition.queue or owner.queue,
        ),
        owner=owner.reference,
    )
