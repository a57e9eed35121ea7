"""Which pods are gangs because of what owns them, kept current by pods, owners and what is served.

A pod names its owner before the owner is known: until that is read the pod is in a gang that is
not defined yet, and waits. Pods of a kind that the server does not serve are in no gang, once the
server has said so after they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from arranger.api.annotations import GANG_BY_OWNER
from arranger.api.settings.gang_membership import GangMembership, owned_membership
from arranger.api.types.core import ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus
from arranger.api.types.pod_groups import WorkloadGroup
from arranger.api.types.workloads import Workload
from arranger.gangs.workloads.definitions import pod_scope
from arranger.gangs.workloads.kinds import WorkloadKind
from arranger.gangs.workloads.known_owner import (
    KnownOwner,
    OwnerKey,
    gang_name,
    group_by,
    owner_uid,
    read_owner,
)


class WorkloadIndex:
    """The pods that are owned by the listed kinds, and their owners.

    Args:
        kinds: those that are listed.
        reworded: is told of pods that are in no gang (their namespace, and uids), when their owner
            says otherwise of them, so that they may be of another queue.
    """

    def __init__(
        self,
        kinds: Iterable[WorkloadKind] = (),
        *,
        reworded: Callable[[str, Iterable[str]], object] = lambda _namespace, _uids: None,
    ) -> None:
        self.kinds: tuple[WorkloadKind, ...] = tuple(kinds)
        self._reworded = reworded
        #: (API group, kind) of a pod's controller → the kind, where it is listed itself.
        self._direct = {(kind.group, kind.kind): kind for kind in self.kinds}
        self._direct_kinds = {kind.kind for kind in self.kinds}
        #: Kind of a pod's controller → those that may own it by a label.
        self._through: dict[str, list[WorkloadKind]] = {}
        for kind in self.kinds:
            for controller in kind.through:
                self._through.setdefault(controller, []).append(kind)
        self._owners: dict[OwnerKey, KnownOwner] = {}
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
        #: uid → what its owner says of a pod that is in no gang.
        self._alone: dict[str, WorkloadGroup] = {}
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
        is_new, alone = uid not in self._pods, self._alone.get(uid)
        membership = self._take_up(pod, listed=listed)
        if not is_new and self._alone.get(uid) != alone:
            self._reworded(pod.metadata.namespace, (uid,))
        return membership

    def _take_up(self, pod: Pod, *, listed: bool) -> GangMembership | None:
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
        if membership is None and group is not None:
            self._alone[uid] = group
        else:
            self._alone.pop(uid, None)
        return membership

    def forget_pod(self, uid: str, *, moved: bool = False) -> None:
        """A pod is gone; or it is in a gang of its own word (``moved``)."""
        if (pod := self._pods.pop(uid, None)) is None:
            return
        if self._alone.pop(uid, None) is not None and moved:
            self._reworded(pod.metadata.namespace, (uid,))
        owner = self._owner_of_pod.pop(uid)
        self._confirmed.discard(uid)
        del self._pods_of_owner[owner][uid]
        if not self._pods_of_owner[owner]:
            del self._pods_of_owner[owner]
        self._set_gang(uid, "", None)

    def group_of(self, gang: str) -> WorkloadGroup | None:
        """What the owner says of a gang; None while it is not known."""
        return self._groups.get(gang)

    def settings_of(self, uid: str) -> WorkloadGroup | None:
        """What the owner says of a pod that is in no gang; None for nothing, or a pod of a gang."""
        return self._alone.get(uid)

    def pod(self, uid: str) -> Pod | None:
        """A pod that a listed kind owns."""
        return self._pods.get(uid)

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
        before, known = self._owners.get(key), read_owner(kind, owner)
        if before == known:
            return []
        self._owners[key] = known
        if before is None or known.shape is None or before.shape != known.shape:
            return self.pods_of(key)
        # Most often only numbers have changed, as with each pod of a Job that ends: one of each
        # gang will do, and of the pods that are in none those of which it says otherwise.
        says_same = known.keep_alone(before)
        uids = self._pods_of_owner.get(key, ())
        one_each = {self._gang_of_pod.get(uid) or ("" if says_same else uid): uid for uid in uids}
        one_each.pop("", None)
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
        assert self._alone.keys() <= self._pods.keys() - self._gang_of_pod.keys(), "alone in a gang"

    # --- inside ----------------------------------------------------------------------------

    def _find_owner(self, pod: Pod, *, confirmed: bool) -> OwnerKey | None:
        """The owner of a listed kind; one of a kind that is not served, if there is no other."""
        meta = pod.metadata
        controller = meta.controller
        if controller is None:
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
        """A pod's membership, and what the owner says of its gang, or of the pod if it has none."""
        kind, meta = key.kind, pod.metadata
        if kind in self._absent and meta.uid in self._confirmed:
            return None, None
        scope, uid = pod_scope(meta), owner_uid(kind, meta)
        switched_off = meta.annotations.get(GANG_BY_OWNER) == "false"
        alone = switched_off or (kind.alone is not None and kind.alone.holds(scope))
        role = kind.role.name(scope).lower() if kind.role is not None else ""
        title, parts = f"{kind.kind} {key.name}", [expr.name(scope) for expr in kind.gang]
        owner = self._owners.get(key)
        if owner is None or not owner.may_own(meta, uid):
            name = "" if alone else gang_name(key, parts, uid)
            return (owned_membership(pod, name, role, title) if name else None), None
        definition = owner.definition_for(kind, pod)
        if alone or owner.switched_off or not definition.is_gang:
            return None, owner.settings_alone(meta.namespace, definition)
        if definition.per_role:
            minimum = dict(definition.roles).get(role, 0)
            if not minimum:
                return None, owner.settings_alone(meta.namespace, definition)
            parts.append(role)
            definition = replace(definition, minimum=minimum, roles=())
        name = gang_name(key, parts, owner.reference.uid)
        membership = owned_membership(pod, name, role, title)
        return membership, group_by(membership.gang, owner, definition)

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


def _without_spec(pod: Pod) -> Pod:
    """What is kept of a pod that has ended."""
    return Pod(pod.metadata, PodSpec(node_name=pod.spec.node_name), PodStatus(pod.status.phase))
