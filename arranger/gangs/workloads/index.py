"""Which pods are gangs because of what owns them, kept current by pods, owners and what is served.

A pod names its owner before the owner is known: until that is read the pod is in a gang that is
not defined yet, and waits. Pods of a kind that the server does not serve are in no gang, once the
server has said so after they came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
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
from arranger.api.settings.gang_membership import GangMembership, owned_membership
from arranger.api.settings.gang_settings import SETTINGS_ANNOTATIONS
from arranger.api.settings.queue_annotations import declared_queue
from arranger.api.types.core import ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus
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

#: Annotations of an owner that count for its gang.
_KEPT: Final = frozenset(
    {*SETTINGS_ANNOTATIONS, SERVICE_TYPE, PREEMPTABLE, CARD_NAME, CARD_REQUEST}
)
_MINIMUMS: Final = frozenset({GANG_MIN, POD_GROUP_MIN})
#: Letters of an owner's name in the name of its gang, which is that of an object.
_MAX_NAME: Final = 150


class OwnerKey(NamedTuple):
    """An owner by its name: of one name there is one at a time."""

    kind: WorkloadKind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class _KnownOwner:
    """What is kept of an owner.

    Attributes:
        metadata: its uid, its age, and those of its annotations that count.
        queue: the one that its annotations or labels name.
        definition: what it says of its gangs; None where that differs among its pods.
        scope: what it is then read from.
        problems: what cannot be read of it, whatever the pod.
    """

    reference: OwnerReference
    metadata: ObjectMeta
    queue: str
    switched_off: bool
    definition: GangDefinition | None
    scope: Scope
    problems: tuple[str, ...]

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


class WorkloadIndex:
    """The pods that are owned by the listed kinds, and their owners.

    Args:
        kinds: those that are listed.
    """

    def __init__(self, kinds: Iterable[WorkloadKind] = ()) -> None:
        self.kinds: tuple[WorkloadKind, ...] = tuple(kinds)
        #: (API group, kind) of a pod's controller → the kind, where it is listed itself.
        self._direct = {(kind.group, kind.kind): kind for kind in self.kinds}
        self._direct_kinds = {kind.kind for kind in self.kinds}
        #: Kind of a pod's controller → those that may own it by a label.
        self._through: dict[str, list[WorkloadKind]] = {}
        for kind in self.kinds:
            for controller in kind.through:
                self._through.setdefault(controller, []).append(kind)
        self._owners: dict[OwnerKey, _KnownOwner] = {}
        #: Kinds that the server did not serve when it was last asked.
        self._absent: set[WorkloadKind] = set()
        #: Pods of absent kinds that came before it was asked.
        self._confirmed: set[str] = set()
        #: uid → the pod, of those that a listed kind owns.
        self._pods: dict[str, Pod] = {}
        self._owner_of_pod: dict[str, OwnerKey] = {}
        self._pods_of_owner: dict[OwnerKey, dict[str, None]] = {}
        #: Gang → what its owner says of it, and the pods that are in it.
        self._groups: dict[str, WorkloadGroup] = {}
        self._members: dict[str, dict[str, None]] = {}
        self._gang_of_pod: dict[str, str] = {}
        #: Gangs that have lost their last pod or their owner, for :meth:`take_undefined`.
        self._undefined: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._pods) + len(self._groups) + len(self._members) + len(self._confirmed)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    # --- pods ------------------------------------------------------------------------------

    def concerns(self, meta: ObjectMeta) -> bool:
        """Whether a listed kind may own a pod, or has owned it; for most pods this is all."""
        for owner in meta.owner_references:
            if owner.controller:
                if owner.kind in self._direct_kinds:
                    return True
                for kind in self._through.get(owner.kind, ()):
                    if kind.label in meta.labels:
                        return True
        return meta.uid in self._pods

    def membership_of(self, pod: Pod, *, listed: bool = False) -> GangMembership | None:
        """The gang that a pod is in because of its owner; the pod is remembered if it has one.

        ``listed``: it was there before we asked what is served.
        """
        uid = pod.metadata.uid
        found = self._find_owner(pod, confirmed=listed or uid in self._confirmed)
        known = self._owner_of_pod.get(uid)
        if known is not None and known != found:
            listed = listed or uid in self._confirmed
            self.forget_pod(uid)
        if found is None:
            return None
        if listed:
            self._confirmed.add(uid)
        self._pods[uid] = _without_spec(pod) if pod.terminal else pod
        self._owner_of_pod[uid] = found
        self._pods_of_owner.setdefault(found, {})[uid] = None
        membership, group = self._read(pod, found)
        self._set_gang(uid, membership.gang if membership is not None else "", group)
        return membership

    def forget_pod(self, uid: str) -> None:
        """A pod is gone, or is in a gang of its own word."""
        if self._pods.pop(uid, None) is None:
            return
        owner = self._owner_of_pod.pop(uid)
        self._confirmed.discard(uid)
        del self._pods_of_owner[owner][uid]
        if not self._pods_of_owner[owner]:
            del self._pods_of_owner[owner]
        self._set_gang(uid, "", None)

    def group_of(self, gang: str) -> WorkloadGroup | None:
        """What the owner says of a gang; None while it is not known."""
        return self._groups.get(gang)

    def pods_of(self, key: OwnerKey) -> list[Pod]:
        """The pods of an owner, known or not."""
        return [self._pods[uid] for uid in self._pods_of_owner.get(key, ())]

    def queue_of(self, pod: Pod) -> str | None:
        """The queue that a pod's owner names, "" for none; None where no owner is known."""
        key = self._find_owner(pod, confirmed=pod.metadata.uid in self._confirmed)
        owner = None if key is None else self._owners.get(key)
        if key is None or owner is None:
            return None
        return owner.definition_for(key.kind, pod).queue or owner.queue

    def take_undefined(self) -> list[str]:
        """The gangs that nothing is said of any more, each told once."""
        if not self._undefined:
            return []
        names, self._undefined = self._undefined, {}
        return [name for name in names if name not in self._groups]

    # --- owners and kinds: each returns the pods that are to be looked at again -------------

    def set_owner(self, kind: WorkloadKind, owner: Workload) -> list[Pod]:
        """An owner appeared or was edited."""
        meta = owner.metadata
        key = OwnerKey(kind, meta.namespace, meta.name)
        before, known = self._owners.get(key), _read_owner(kind, owner)
        if before == known:
            return []
        self._owners[key] = known
        if before is None or known.shape is None or before.shape != known.shape:
            return self.pods_of(key)
        # Only numbers have changed, as with each pod of a Job that ends: one of each gang will do.
        uids = self._pods_of_owner.get(key, ())
        one_each = {self._gang_of_pod[uid]: uid for uid in uids if uid in self._gang_of_pod}
        return [self._pods[uid] for uid in one_each.values()]

    def remove_owner(self, kind: WorkloadKind, owner: Workload) -> list[Pod]:
        """An owner was deleted."""
        key = OwnerKey(kind, owner.metadata.namespace, owner.metadata.name)
        known = self._owners.get(key)
        if known is None or known.reference.uid != owner.metadata.uid:
            return []
        del self._owners[key]
        return self.pods_of(key)

    def set_served(self, kind: WorkloadKind, *, served: bool) -> list[Pod]:
        """The server has said whether it serves a kind."""
        changed = served == (kind in self._absent)
        (self._absent.discard if served else self._absent.add)(kind)
        concerned = [key for key in self._pods_of_owner if key.kind == kind]
        pods = [pod for key in concerned for pod in self.pods_of(key)]
        uids = {pod.metadata.uid for pod in pods}
        fresh = uids - self._confirmed
        if served:
            self._confirmed -= uids
        else:
            self._confirmed |= uids
        return pods if changed or (not served and fresh) else []

    def problems_of(self, uid: str) -> tuple[OwnerReference, str, tuple[str, ...]] | None:
        """The owner of a pod, its namespace, and what of it cannot be used."""
        key = self._owner_of_pod.get(uid)
        owner = None if key is None else self._owners.get(key)
        if key is None or owner is None:
            return None
        definition = owner.definition_for(key.kind, self._pods[uid])
        return owner.reference, key.namespace, (*owner.problems, *definition.problems)

    def check_consistent(self) -> None:
        """Check the maps against each other.

        Raises:
            AssertionError: they disagree.
        """
        assert self._pods.keys() == self._owner_of_pod.keys(), "pods and their owners"
        by_owner = {uid: key for key, uids in self._pods_of_owner.items() for uid in uids}
        assert by_owner == self._owner_of_pod, "owners and their pods"
        by_gang = {uid: gang for gang, uids in self._members.items() for uid in uids}
        assert by_gang == self._gang_of_pod, "gangs and their pods"
        assert all(self._members.values()), "a gang without pods"
        assert self._groups.keys() <= self._members.keys(), "a definition without a gang"
        assert self._gang_of_pod.keys() | self._confirmed <= self._pods.keys(), "a pod that is gone"

    # --- inside ----------------------------------------------------------------------------

    def _find_owner(self, pod: Pod, *, confirmed: bool) -> OwnerKey | None:
        """The owner of a listed kind; one of a kind that is not served, if there is no other."""
        meta = pod.metadata
        controller = meta.controller
        if controller is None or meta.annotations.get(GANG_BY_OWNER) == "false":
            return None
        found = [
            OwnerKey(kind, meta.namespace, name)
            for kind in self._through.get(controller.kind, ())
            if (name := meta.labels.get(kind.label))
        ]
        group, slash, _ = controller.api_version.partition("/")
        direct = self._direct.get((group if slash else "", controller.kind))
        if direct is not None:
            found.append(OwnerKey(direct, meta.namespace, controller.name))
        read = (key for key in found if not (confirmed and key.kind in self._absent))
        return next(read, found[0] if found else None)

    def _read(self, pod: Pod, key: OwnerKey) -> tuple[GangMembership | None, WorkloadGroup | None]:
        """A pod's membership, and what the owner says of its gang."""
        kind, meta = key.kind, pod.metadata
        if kind in self._absent and meta.uid in self._confirmed:
            return None, None
        scope = pod_scope(meta)
        if kind.alone is not None and kind.alone.holds(scope):
            return None, None
        role = kind.role.name(scope).lower() if kind.role is not None else ""
        title, parts = f"{kind.kind} {key.name}", [expr.name(scope) for expr in kind.gang]
        uid = _owner_uid(kind, meta)
        owner = self._owners.get(key)
        if owner is None or not owner.may_own(meta, uid):
            return owned_membership(pod, _gang_name(key, parts, uid), role, title), None
        definition = owner.definition_for(kind, pod)
        if owner.switched_off or not definition.is_gang:
            return None, None
        if definition.per_role:
            minimum = dict(definition.roles).get(role, 0)
            if not minimum:
                return None, None
            parts.append(role)
            definition = replace(definition, minimum=minimum, roles=())
        name = _gang_name(key, parts, owner.reference.uid)
        membership = owned_membership(pod, name, role, title)
        return membership, _group(membership.gang, owner, definition)

    def _set_gang(self, uid: str, gang: str, group: WorkloadGroup | None) -> None:
        before = self._gang_of_pod.get(uid, "")
        if before and before != gang:
            del self._gang_of_pod[uid]
            del self._members[before][uid]
            if not self._members[before]:
                del self._members[before]
                self._drop_group(before)
        if gang:
            self._gang_of_pod[uid] = gang
            self._members.setdefault(gang, {})[uid] = None
            if group is None:
                self._drop_group(gang)
            else:
                self._groups[gang] = group

    def _drop_group(self, gang: str) -> None:
        if self._groups.pop(gang, None) is not None:
            self._undefined[gang] = None


def _read_owner(kind: WorkloadKind, owner: Workload) -> _KnownOwner:
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
    return _KnownOwner(
        reference,
        kept,
        queue=declared_queue(meta),
        switched_off=said.get(GANG_BY_OWNER) == "false",
        definition=None if differs else read_definition(kind, scope),
        scope=scope if differs else {},
        problems=problems,
    )


def _owner_uid(kind: WorkloadKind, pod: ObjectMeta) -> str:
    """The uid of the owner, as far as the pod says it."""
    controller = pod.controller
    if controller is not None and controller.kind == kind.kind:
        return controller.uid
    return pod.labels.get(kind.uid_label, "")


def _gang_name(key: OwnerKey, parts: list[str], uid: str) -> str:
    """The gang's name: one of its own for each owner that has ever had this name."""
    words = (key.kind.kind.lower(), key.name[:_MAX_NAME], *parts, uid[:8])
    return "-".join(word for word in words if word)


def _group(gang: str, owner: _KnownOwner, definition: GangDefinition) -> WorkloadGroup:
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


def _without_spec(pod: Pod) -> Pod:
    """What is kept of a pod that has ended."""
    return Pod(pod.metadata, PodSpec(node_name=pod.spec.node_name), PodStatus(pod.status.phase))
