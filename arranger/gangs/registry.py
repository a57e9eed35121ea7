"""All gangs, kept current by pods, PodGroups and Gang objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from arranger.api.listing import namespace_of
from arranger.api.settings.gang_membership import GangMembership
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import AnyPodGroup, GangObject, WorkloadGroup
from arranger.gangs.gang import Gang
from arranger.gangs.gang_object import believed_until
from arranger.gangs.group import GangGroup
from arranger.gangs.group_index import GroupIndex
from arranger.gangs.member_state import MemberState
from arranger.gangs.pod_group_index import PodGroupIndex

#: Told the namespace of a gang, and the uids of pods of it.
Regrouped = Callable[[str, Iterable[str]], None]


class _Progress(NamedTuple):
    """Whether a pod counts towards the minimum, and whether its group is placed one by one."""

    counted: bool
    individually: bool


class GangRegistry:
    """Gangs by name, kept current by pods and PodGroups.

    Methods that take events return the names of the gangs whose waiting members they concern: their
    settings or their group have changed, or the minimum is nearer or farther.

    Attributes:
        gangs: every gang that has pods.
        previously_satisfied: gangs that a scheduler before us has seen satisfied; taken for granted
            once a member is seen to have a node.
    """

    def __init__(self, regrouped: Regrouped = lambda _namespace, _pods: None) -> None:
        """``regrouped`` is told of pods that have been seen before and whose PodGroup is another
        now, or says otherwise."""
        self._regrouped = regrouped
        self.gangs: dict[str, Gang] = {}
        self.previously_satisfied: set[str] = set()
        #: Gang → bundle minimums that its Gang object records, and when that was created.
        self._recorded_minimums: dict[str, tuple[Mapping[str, int], float]] = {}
        self._gang_by_uid: dict[str, Gang] = {}
        #: uids of members that we are evicting, until they are gone.
        self._evicting: set[str] = set()
        self._pod_groups = PodGroupIndex()
        self._groups = GroupIndex(self.gangs)

    def gang_of(self, uid: str) -> Gang | None:
        """The gang of a pod, None for a pod on its own."""
        return self._gang_by_uid.get(uid)

    def gang_and_bundle_of(self, uid: str) -> tuple[str, str]:
        """The gang and the bundle of a pod that has one."""
        gang = self._gang_by_uid[uid]
        return gang.name, gang.memberships[uid].bundle

    def membership_of(self, uid: str) -> GangMembership:
        """What a pod that has a gang says about it."""
        return self._gang_by_uid[uid].memberships[uid]

    def pod_group_of(self, uid: str) -> AnyPodGroup | None:
        """The PodGroup that defines a pod's gang."""
        gang = self._gang_by_uid.get(uid)
        return None if gang is None else gang.pod_group

    def pod_group(self, kind: type[AnyPodGroup], name: str) -> AnyPodGroup | None:
        """The PodGroup of that kind and name (``namespace/name``)."""
        return self._pod_groups.get(kind, name)

    def members_of(self, name: str) -> Iterable[str]:
        """The uids of a gang's pods; none, if there is no such gang."""
        gang = self.gangs.get(name)
        return () if gang is None else gang.memberships

    def group_of(self, gang: Gang) -> GangGroup:
        """The group a gang is placed with."""
        return self._groups.group_of(gang)

    # --- events ----------------------------------------------------------------------------

    def on_pod_updated(self, pod: Pod, membership: GangMembership | None) -> set[str]:
        """A pod was added or edited; ``membership`` is what it says about its gang."""
        uid = pod.metadata.uid
        known = self._gang_by_uid.get(uid)
        if known is not None and known.shows(pod, membership):
            return self._check_satisfied(known)  # most edits are about other things
        changed: set[str] = set()
        if known is not None and (membership is None or membership.gang != known.name):
            changed |= {known.name} | self.on_pod_deleted(uid, moved=True)
            self._regrouped(namespace_of(known.name), (uid,))
        if membership is None:
            return changed
        gang = self._get_or_create(membership.gang)
        if changed:
            changed.add(gang.name)  # the pod may have a node, which now counts for this gang
        self._gang_by_uid[uid] = gang
        earlier = gang.memberships.get(uid)
        before = self._progress_of(gang, uid)
        if pod.metadata.deletion_timestamp is not None:
            self._evicting.discard(uid)  # it goes whether or not our eviction succeeds
        settings_changed = gang.update_member(pod, membership, evicting=uid in self._evicting)
        only = earlier is None and len(gang.memberships) == 1
        if self._resolve_pod_group(gang, tell=not only) | self._restore_minimums(gang):
            settings_changed = True
        if gang.blocked and earlier is not None and earlier.timed_out and not membership.timed_out:
            # The owner has removed the annotation that says that the gang timed out.
            gang.blocked = False
            changed.add(gang.name)
        elif membership.timed_out and earlier is None and not gang.satisfied:
            gang.blocked = True
        if settings_changed:
            changed |= self._groups.on_settings_changed(gang)
        changed |= self._check_satisfied(gang)
        lost = before.counted and not gang.counts_towards_minimum(uid)
        if pod.terminal or lost or settings_changed:
            changed |= self._reset_if_over(gang)  # one that succeeds counts on, without a node
        return changed | self._affected_gangs(gang, uid, before)

    def mark_evicting(self, uid: str) -> set[str]:
        """We are deleting a pod: it does not count towards its gang's minimum any more."""
        gang = self._gang_by_uid.get(uid)
        if gang is None:
            return set()
        before = self._progress_of(gang, uid)
        self._evicting.add(uid)
        gang.set_terminating(uid)
        return self._reset_if_over(gang) | self._affected_gangs(gang, uid, before)

    def mark_eviction_failed(self, uid: str) -> set[str]:
        """A pod could not be evicted; a reset of its group that was due to that is undone."""
        gang = self._gang_by_uid.get(uid)
        if gang is None or uid not in self._evicting:
            return set()
        self._evicting.discard(uid)
        before = self._progress_of(gang, uid)
        gang.set_terminating(uid, terminating=False)
        changed = self._check_satisfied(gang)
        if uid in gang.terminating_at_reset and gang.counts_towards_minimum(uid):
            changed |= self.group_of(gang).mark_satisfied()
        return changed | self._affected_gangs(gang, uid, before)

    def on_pod_deleted(self, uid: str, *, moved: bool = False) -> set[str]:
        """A pod was deleted, or has ``moved`` to another gang."""
        if not moved:
            self._evicting.discard(uid)
        gang = self._gang_by_uid.get(uid)
        if gang is None:
            return set()
        before = self._progress_of(gang, uid)
        del self._gang_by_uid[uid]
        changed: set[str] = set()
        if gang.remove_member(uid, moved=moved):
            changed = self._groups.on_settings_changed(gang)
        if gang.memberships and self._resolve_pod_group(gang):
            changed |= self._groups.on_settings_changed(gang)
        changed |= self._reset_if_over(gang) | self._affected_gangs(gang, uid, before)
        if gang.blocked and not any(each.timed_out for each in gang.memberships.values()):
            gang.blocked = False
            changed.add(gang.name)
        if not gang.memberships:
            changed |= self._delete_gang(gang)
        return changed

    def changes_owner_fields(self, pod_group: AnyPodGroup) -> bool:
        """Whether a PodGroup is new, or differs from before in more than its status."""
        return self._pod_groups.changes_owner_fields(pod_group)

    def knows(self, pod_group: AnyPodGroup) -> bool:
        """Whether a PodGroup was there before."""
        return self.pod_group(type(pod_group), pod_group.key) is not None

    def workload_group(self, name: str) -> WorkloadGroup | None:
        """What an owner says of a gang."""
        found = self.pod_group(WorkloadGroup, name)
        return found if isinstance(found, WorkloadGroup) else None

    def on_pod_group_updated(self, pod_group: AnyPodGroup) -> set[str]:
        """A PodGroup was added or edited."""
        new_rules = self._pod_groups.changes_rules(pod_group)
        edited = self.knows(pod_group) and self.changes_owner_fields(pod_group)
        self._pod_groups.set(pod_group)
        gang = self.gangs.get(pod_group.key)
        if gang is None or self._pod_groups.find(gang) is not pod_group:
            return set()
        if new_rules:
            self._regrouped(namespace_of(gang.name), gang.memberships)
        changed = gang.set_pod_group(pod_group)
        if edited and gang.blocked:
            gang.blocked, changed = False, True
        return self._on_settings_changed(gang) if changed else set()

    def on_pod_group_deleted(self, kind: type[AnyPodGroup], name: str) -> set[str]:
        """A PodGroup was deleted."""
        self._pod_groups.remove(kind, name)
        gang = self.gangs.get(name)
        if gang is None:
            self.forget_records(name)  # they are not about a later gang of that name
            return set()
        return self._on_settings_changed(gang) if self._resolve_pod_group(gang) else set()

    def mark_bound(self, uid: str) -> set[str]:
        """The API server has accepted our Binding of a pod."""
        gang = self._gang_by_uid.get(uid)
        if gang is None:
            return set()
        before = None if gang.is_binding(uid) else self._progress_of(gang, uid)
        gang.set_state(uid, MemberState.BOUND)
        changed = self._check_satisfied(gang)  # one that was binding counts as it did before
        return changed if before is None else changed | self._affected_gangs(gang, uid, before)

    def mark_tried(self, group: GangGroup) -> set[str]:
        """A group has been tried and lacks nobody, although perhaps no member has a node.

        Where its gangs have their minimums without those that wait, these are placed one by one
        from now on, unless they must be in one domain.
        """
        one_domain = group.topology is not None and group.topology.required
        new = [gang for gang in group.gangs if not gang.satisfied]
        if not new or one_domain or not all(gang.has_minimum for gang in new):
            return set()
        return group.mark_satisfied()

    def mark_previously_satisfied(self, name: str) -> set[str]:
        """A scheduler before us has seen the gang satisfied."""
        self.previously_satisfied.add(name)
        gang = self.gangs.get(name)
        return set() if gang is None else self._check_satisfied(gang)

    def initial_sync_done(self) -> set[str]:
        """All objects that existed at the start have been seen.

        A gang that lost all its nodes while no scheduler ran must be placed as a whole again,
        unless another of its group has nodes.
        """
        changed: set[str] = set()
        for gang in list(self.gangs.values()):
            changed |= self._reset_if_over(gang)
        for name in list(self.previously_satisfied):
            known = self.gangs.get(name)
            if known is None or self._is_over(known):
                self.previously_satisfied.discard(name)
            elif not known.satisfied:
                known.satisfied = True
                changed |= self.group_of(known).gang_names
        return changed

    def restore_recorded_bundles(self, saved: GangObject, *, edited: bool = False) -> set[str]:
        """A Gang object records which bundles the gang had before a restart.

        They are used once a pod is seen that is as old as the object: where all pods are younger,
        it is about an earlier gang of that name. ``edited``: others have put them there while we
        watch.
        """
        if not (minimums := saved.recorded_minimums):
            return set()
        gang, doubted = self.gangs.get(saved.key), saved.key in self._recorded_minimums
        moment = believed_until(gang, saved, edited=edited, doubted=doubted)
        if moment is None:
            return set()
        self._recorded_minimums[saved.key] = minimums, moment
        if gang is None or not self._restore_minimums(gang):
            return set()
        return self._on_settings_changed(gang) if edited else self._groups.on_settings_changed(gang)

    def forget_records(self, name: str) -> None:
        """What a Gang object recorded about a gang of that name does not hold any more."""
        self.previously_satisfied.discard(name)
        self._recorded_minimums.pop(name, None)

    def mark_binding(self, uids: Iterable[str]) -> None:
        """Our Bindings of these pods are on their way: the minimum is no nearer, they may fail."""
        for uid in uids:
            if (gang := self._gang_by_uid.get(uid)) is not None:
                gang.set_state(uid, MemberState.BINDING)

    def mark_binding_failed(self, uid: str) -> set[str]:
        """Our Binding of a pod has failed for good."""
        gang = self._gang_by_uid.get(uid)
        if gang is None:
            return set()
        group = self.group_of(gang)
        individually = group.schedules_individually
        gang.set_state(uid, MemberState.PENDING)
        changed = self._reset_if_over(gang)  # it may have been the last one with a node
        unchanged = group.schedules_individually == individually
        return changed if unchanged else changed | group.waiting_names

    def check_consistent(self) -> None:
        """Check gangs, groups and the maps between them.

        Raises:
            AssertionError: they disagree.
        """
        for name, gang in self.gangs.items():
            assert gang.name == name, f"{gang} is filed under {name}"
            assert gang.memberships, f"{gang} is empty"
            gang.check_consistent()
        members = {uid: gang for gang in self.gangs.values() for uid in gang.memberships}
        assert members == self._gang_by_uid, "members and gangs"
        self._groups.check_consistent()

    # --- inside ----------------------------------------------------------------------------

    def _on_settings_changed(self, gang: Gang) -> set[str]:
        """A PodGroup was edited or deleted: its gang may need fewer now, or more."""
        changed = self._groups.on_settings_changed(gang) | self._check_satisfied(gang)
        return changed | self._reset_if_over(gang)

    def _check_satisfied(self, gang: Gang) -> set[str]:
        """Mark a group as satisfied when its minimum is bound for the first time."""
        previously = gang.name in self.previously_satisfied
        if gang.satisfied or not (previously or gang.has_minimum) or not gang.has_begun:
            return set()
        group = self.group_of(gang)
        if previously:
            gang.satisfied = True
            return group.gang_names
        if group.missing_partners or not all(member.has_minimum for member in group.gangs):
            return set()
        return group.mark_satisfied()

    def _reset_if_over(self, gang: Gang) -> set[str]:
        """Reset a group that has lost its last node, so that it is placed as a whole again.

        Otherwise the pods that its owner creates after all were evicted, perhaps while the old ones
        still terminate, would be placed one by one.
        """
        group = self.group_of(gang)
        if not any(each.satisfied for each in group.gangs) or not self._is_over(gang):
            return set()
        for each in group.gangs:
            each.reset()
            self.previously_satisfied.discard(each.name)
        return group.gang_names

    def _is_over(self, gang: Gang) -> bool:
        """Whether no member of the group keeps a node, and fewer than the minimum succeeded.

        A gang whose PodGroup is gone has ended well if any of its pods has: a Job that is finished
        deletes its PodGroup.
        """
        gangs = self.group_of(gang).gangs
        if any(each.has_nodes for each in gangs):
            return False
        return not all(g.has_minimum or (not g.is_defined and g.has_succeeded) for g in gangs)

    def _restore_minimums(self, gang: Gang) -> bool:
        recorded = self._recorded_minimums.get(gang.name)
        if recorded is None or gang.created_at > recorded[1]:
            return False
        del self._recorded_minimums[gang.name]
        return gang.restore_bundles(recorded[0])

    def _get_or_create(self, name: str) -> Gang:
        gang = self.gangs.get(name)
        if gang is None:
            gang = self.gangs[name] = Gang(name)
            self._groups.on_gang_created(name)
        return gang

    def _progress_of(self, gang: Gang, uid: str) -> _Progress:
        individually = self.group_of(gang).schedules_individually
        return _Progress(gang.counts_towards_minimum(uid), individually)

    def _affected_gangs(self, gang: Gang, uid: str, before: _Progress) -> set[str]:
        """The gangs with waiting members that an event about one member concerns."""
        group, counted = self.group_of(gang), gang.counts_towards_minimum(uid)
        individually = group.schedules_individually
        if individually == before.individually and (individually or counted == before.counted):
            return set()
        if counted < before.counted and not any(each.has_nodes for each in group.gangs):
            return group.gang_names  # nobody waits any more for what is bound of it
        seen = sum(len(each.memberships) for each in group.gangs)
        if counted > before.counted and seen < sum(each.total_minimum for each in group.gangs):
            return set()  # too early to try; after a restart thousands are seen one by one
        return group.waiting_names

    def _resolve_pod_group(self, gang: Gang, *, tell: bool = True) -> bool:
        """Use the PodGroup that defines the gang now; returns whether that changes settings."""
        found = self._pod_groups.find(gang)
        if found is gang.pod_group:
            return False
        if tell:
            self._regrouped(namespace_of(gang.name), gang.memberships)
        return gang.set_pod_group(found)

    def _delete_gang(self, gang: Gang) -> set[str]:
        """The gang has lost its last pod; returns it and the gangs that were grouped with it."""
        # Its PodGroup stays in ``_pod_groups`` for later pods.
        del self.gangs[gang.name]
        self.forget_records(gang.name)  # they are not about a later gang of that name
        return self._groups.on_gang_deleted(gang)
