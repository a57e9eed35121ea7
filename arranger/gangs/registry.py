"""All gangs, and the gang groups they form.

Several gangs, of several namespaces too, are placed together when each names the others (seed 000).
Both must say so: a gang cannot make another wait by naming it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from arranger.api.gang_membership import GangMembership
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import POD_GROUPS, AnyPodGroup, GangObject
from arranger.gangs.gang import Gang, MemberState
from arranger.gangs.group import GangGroup


class GangRegistry:
    """Gangs by name, kept current by pods and PodGroups.

    Methods that take events return the names of the gangs whose groups or settings have changed.
    """

    def __init__(self) -> None:
        self.gangs: dict[str, Gang] = {}
        #: Gangs that an earlier scheduler has seen satisfied; believed once a member has a node.
        self.previously_satisfied: set[str] = set()
        #: Gang → the bundles an earlier scheduler has known, and since when, until believed.
        self._recorded_minimums: dict[str, tuple[Mapping[str, int], float]] = {}
        self._gang_by_uid: dict[str, Gang] = {}
        #: Members that we evict, until they are gone.
        self._evicting: set[str] = set()
        self._pod_groups: dict[tuple[type[AnyPodGroup], str], AnyPodGroup] = {}
        self._groups: dict[str, GangGroup] = {}
        #: Gang → the gangs it names; and the other way round, existing or not.
        self._partner_names: dict[str, tuple[str, ...]] = {}
        self._named_by: dict[str, set[str]] = {}

    def gang_of(self, uid: str) -> Gang | None:
        """The gang of a pod."""
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

    def group_of(self, gang: Gang) -> GangGroup:
        """The group a gang is placed with."""
        group = self._groups.get(gang.name)
        if group is None:
            group = self._form_group(gang)
            for member in group.gangs:
                self._groups[member.name] = group
        return group

    # --- events ----------------------------------------------------------------------------

    def on_pod_updated(self, pod: Pod, membership: GangMembership | None) -> set[str]:
        """A pod was added or edited; ``membership`` is what it says about its gang."""
        uid = pod.metadata.uid
        known = self._gang_by_uid.get(uid)
        changed: set[str] = set()
        if known is not None and (membership is None or membership.gang != known.name):
            changed |= {known.name} | self.on_pod_deleted(uid, moved=True)
        if membership is None:
            return changed
        gang = self._get_or_create(membership.gang)
        if changed:
            changed.add(gang.name)  # it may hold a node, which counts for this gang from now on
        self._gang_by_uid[uid] = gang
        before = gang.memberships.get(uid)
        counted, was_free = (
            gang.counts_towards_minimum(uid),
            self.group_of(gang).schedules_individually,
        )
        if pod.metadata.deletion_timestamp is not None:
            self._evicting.discard(uid)  # it is leaving whatever becomes of our eviction
        settings_changed = gang.update_member(pod, membership, evicting=uid in self._evicting)
        if self._resolve_pod_group(gang) | self._restore_minimums(gang):
            settings_changed = True
        if _mark_removed(before, membership) and gang.blocked:
            gang.blocked = False
            changed.add(gang.name)
        elif membership.timed_out and before is None and not gang.satisfied:
            gang.blocked = True
        if settings_changed:
            changed |= self._regroup(gang)
        changed |= self._check_satisfied(gang)
        if counted and not gang.counts_towards_minimum(uid):
            changed |= self._reset_if_over(gang)
        return changed | self._affected_gangs(
            gang, was_free, gang.counts_towards_minimum(uid) - counted
        )

    def mark_evicting(self, uid: str) -> set[str]:
        """A pod is going to be deleted by us: its gang does not count on it any more."""
        gang = self._gang_by_uid.get(uid)
        if gang is None:
            return set()
        counted, was_free = (
            gang.counts_towards_minimum(uid),
            self.group_of(gang).schedules_individually,
        )
        self._evicting.add(uid)
        gang.set_terminating(uid)
        changed = self._reset_if_over(gang)
        return changed | self._affected_gangs(
            gang, was_free, gang.counts_towards_minimum(uid) - counted
        )

    def mark_eviction_failed(self, uid: str) -> set[str]:
        """A pod could not be evicted; a gang that began anew because of it has never ended."""
        gang = self._gang_by_uid.get(uid)
        if gang is None or uid not in self._evicting:
            return set()
        self._evicting.discard(uid)
        counted, was_free = (
            gang.counts_towards_minimum(uid),
            self.group_of(gang).schedules_individually,
        )
        gang.set_terminating(uid, terminating=False)
        changed = self._check_satisfied(gang)
        if uid in gang.terminating_at_reset and gang.counts_towards_minimum(uid):
            for each in self.group_of(gang).gangs:
                each.satisfied = True
                changed.add(each.name)
        return changed | self._affected_gangs(
            gang, was_free, gang.counts_towards_minimum(uid) - counted
        )

    def on_pod_deleted(self, uid: str, *, moved: bool = False) -> set[str]:
        """A pod was deleted, or has ``moved`` its gang."""
        if not moved:
            self._evicting.discard(uid)
        gang = self._gang_by_uid.pop(uid, None)
        if gang is None:
            return set()
        counted, was_free = (
            gang.counts_towards_minimum(uid),
            self.group_of(gang).schedules_individually,
        )
        changed = self._regroup(gang) if gang.remove_member(uid, moved=moved) else set()
        if gang.memberships and self._resolve_pod_group(gang):
            changed |= self._regroup(gang)
        if not moved:
            changed |= self._reset_if_over(gang)
        changed |= self._affected_gangs(gang, was_free, -counted)
        if gang.blocked and not any(claim.timed_out for claim in gang.memberships.values()):
            gang.blocked = False
            changed.add(gang.name)
        if not gang.memberships:
            changed |= self._delete_gang(gang)
        return changed

    def changes_owner_fields(self, pod_group: AnyPodGroup) -> bool:
        """Whether a PodGroup is new, or says something else than before beside its status."""
        before = self._pod_groups.get((type(pod_group), pod_group.name))
        return before is None or _owner_fields(before) != _owner_fields(pod_group)

    def on_pod_group_updated(self, pod_group: AnyPodGroup) -> set[str]:
        """A PodGroup was added or edited."""
        key = type(pod_group), pod_group.name
        before = self._pod_groups.get(key)
        self._pod_groups[key] = pod_group
        gang = self.gangs.get(pod_group.name)
        if gang is None or self._find_pod_group(gang) is not pod_group:
            return set()
        changed = gang.set_pod_group(pod_group)
        if (
            before is not None
            and _owner_fields(before) != _owner_fields(pod_group)
            and gang.blocked
        ):
            gang.blocked = False
            changed = True
        return self._regroup(gang) | self._check_satisfied(gang) if changed else set()

    def on_pod_group_deleted(self, kind: type[AnyPodGroup], name: str) -> set[str]:
        """A PodGroup was deleted."""
        self._pod_groups.pop((kind, name), None)
        gang = self.gangs.get(name)
        if gang is None:
            self.forget_records(name)  # another of that name starts anew
            return set()
        if not self._resolve_pod_group(gang):
            return set()
        return self._regroup(gang) | self._check_satisfied(gang)

    def mark_bound(self, uid: str) -> set[str]:
        """Our Binding of a pod was taken."""
        gang = self._gang_by_uid.get(uid)
        if gang is None:
            return set()
        counted, was_free = (
            gang.counts_towards_minimum(uid),
            self.group_of(gang).schedules_individually,
        )
        gang.set_state(uid, MemberState.BOUND)
        changed = self._check_satisfied(gang)
        return changed | self._affected_gangs(
            gang, was_free, gang.counts_towards_minimum(uid) - counted
        )

    def mark_previously_satisfied(self, name: str) -> set[str]:
        """The gang has been satisfied in an earlier life of ours."""
        self.previously_satisfied.add(name)
        gang = self.gangs.get(name)
        return set() if gang is None else self._check_satisfied(gang)

    def initial_sync_done(self) -> None:
        """Everything that was there at the start is known.

        Who has lost all nodes meanwhile has not had its minimum in the round that begins now.
        """
        for name in list(self.previously_satisfied):
            gang = self.gangs.get(name)
            if gang is None or self._is_over(gang):
                self.previously_satisfied.discard(name)

    def restore_recorded_bundles(self, saved: GangObject) -> set[str]:
        """The gang's object tells which bundles it had in an earlier life of ours.

        Believed once a pod is seen that is as old as the object: where all are younger, it was
        written about another gang of the name.
        """
        if not (minima := saved.recorded_minimums):
            return set()
        created = saved.metadata.creation_timestamp
        self._recorded_minimums[saved.name] = minima, created.timestamp() if created else math.inf
        gang = self.gangs.get(saved.name)
        return set() if gang is None or not self._restore_minimums(gang) else self._regroup(gang)

    def forget_records(self, name: str) -> None:
        """What was known of a gang from an earlier life does not hold any more."""
        self.previously_satisfied.discard(name)
        self._recorded_minimums.pop(name, None)

    def set_binding(self, uid: str, state: MemberState = MemberState.BINDING) -> set[str]:
        """Our Binding of a pod is on its way; or, with PENDING, has failed for good."""
        gang = self._gang_by_uid.get(uid)
        if gang is None:
            return set()
        was_free = self.group_of(gang).schedules_individually
        gang.set_state(uid, state)
        return self._affected_gangs(gang, was_free, 0)

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
        for name, group in self._groups.items():
            assert any(gang.name == name for gang in group.gangs), f"{name} is not in its group"
            assert all(self.gangs.get(g.name) is g for g in group.gangs), f"{name}: a ghost"

    # --- inside ----------------------------------------------------------------------------

    def _check_satisfied(self, gang: Gang) -> set[str]:
        """Note when a group has its minimum bound for the first time."""
        if gang.satisfied or not gang.has_begun:
            return set()
        group = self.group_of(gang)
        if gang.name in self.previously_satisfied:
            gang.satisfied = True
            return {member.name for member in group.gangs}
        if group.missing_partners or not all(member.has_minimum for member in group.gangs):
            return set()
        for member in group.gangs:
            member.satisfied = True
        return {member.name for member in group.gangs}

    def _reset_if_over(self, gang: Gang) -> set[str]:
        """A group that has lost its last node is placed as a whole again, as after a restart.

        Evicted as a whole and made anew by its owner, perhaps while its old pods terminate, it
        would else run in pieces.
        """
        if not gang.satisfied or not self._is_over(gang):
            return set()
        gangs = self.group_of(gang).gangs
        for each in gangs:
            each.reset()
            self.previously_satisfied.discard(each.name)
        return {each.name for each in gangs}

    def _is_over(self, gang: Gang) -> bool:
        """Whether no member of the group keeps a node, nor have enough done their work."""
        gangs = self.group_of(gang).gangs
        return not any(g.has_nodes for g in gangs) and not all(g.has_minimum for g in gangs)

    def _restore_minimums(self, gang: Gang) -> bool:
        minima, since = self._recorded_minimums.get(gang.name, ({}, 0.0))
        if not minima or gang.created_at > since:
            return False
        del self._recorded_minimums[gang.name]
        return gang.restore_bundles(minima)

    def _get_or_create(self, name: str) -> Gang:
        gang = self.gangs.get(name)
        if gang is None:
            gang = self.gangs[name] = Gang(name)
            self._invalidate_groups({name, *self._named_by.get(name, ())})
        return gang

    def _affected_gangs(self, gang: Gang, was_free: bool, more: int) -> set[str]:
        """So many more members have nodes: the gangs whose waiting members that concerns."""
        group = self.group_of(gang)
        if was_free == group.schedules_individually and (group.schedules_individually or not more):
            return set()
        if more > 0 and sum(len(g.memberships) for g in group.gangs) < sum(
            g.total_minimum for g in group.gangs
        ):
            return set()  # it is still too early to try; a restart shows thousands one by one
        waits = any(one.count(MemberState.PENDING) for one in group.gangs)
        return {one.name for one in group.gangs} if waits else set()

    def _find_pod_group(self, gang: Gang) -> AnyPodGroup | None:
        """Of the PodGroups of the gang's name the first that its members mean."""
        for kind in POD_GROUPS:
            found = self._pod_groups.get((kind, gang.name))
            if found is not None and (gang.kinds[kind] or gang.kinds[None]):
                return found
        return None

    def _resolve_pod_group(self, gang: Gang) -> bool:
        """Take up the PodGroup that defines the gang now; whether that changes anything."""
        found = self._find_pod_group(gang)
        return found is not gang.pod_group and gang.set_pod_group(found)

    def _delete_gang(self, gang: Gang) -> set[str]:
        """The gang has lost its last pod; returns it and those that were grouped with it."""
        # A definition without pods waits in ``_definitions`` until the next pod takes it up.
        del self.gangs[gang.name]
        self.forget_records(gang.name)  # another of that name starts anew
        self._unindex_partners(gang)
        partners = {member.name for member in self._groups.get(gang.name, GangGroup(())).gangs}
        partners |= self._named_by.get(gang.name, set())
        self._invalidate_groups(partners | {gang.name})
        return partners | {gang.name}

    def _index_partners(self, gang: Gang) -> None:
        """Note whom the gang names now."""
        now = gang.settings.groups or ()
        if now != self._partner_names.get(gang.name, ()):
            self._unindex_partners(gang)
            self._partner_names[gang.name] = now
            for name in now:
                self._named_by.setdefault(name, set()).add(gang.name)

    def _unindex_partners(self, gang: Gang) -> None:
        for name in self._partner_names.pop(gang.name, ()):
            self._named_by[name].discard(gang.name)
            if not self._named_by[name]:
                del self._named_by[name]

    def _regroup(self, gang: Gang) -> set[str]:
        """The gang's settings have changed: form its group, and those it leaves or joins, anew."""
        concerned = {gang.name, *(gang.settings.groups or ()), *self._named_by.get(gang.name, ())}
        known = self._groups.get(gang.name)
        if known is not None:
            concerned |= {member.name for member in known.gangs}
        self._index_partners(gang)
        self._invalidate_groups(concerned)
        return concerned & self.gangs.keys()

    def _invalidate_groups(self, names: Iterable[str]) -> None:
        for name in names:
            group = self._groups.pop(name, None)
            for member in group.gangs if group is not None else ():
                self._groups.pop(member.name, None)

    def _form_group(self, gang: Gang) -> GangGroup:
        members: dict[str, Gang] = {}
        unanswered: set[str] = set()
        todo = [gang]
        while todo:
            one = todo.pop()
            if one.name in members:
                continue
            members[one.name] = one
            for name in one.settings.groups or ():
                other = self.gangs.get(name)
                if other is one:
                    continue
                if other is None or one.name not in (other.settings.groups or ()):
                    unanswered.add(name)
                else:
                    todo.append(other)
        gangs = tuple(members[name] for name in sorted(members))
        return GangGroup(gangs, tuple(sorted(unanswered)))


def _mark_removed(before: GangMembership | None, now: GangMembership) -> bool:
    """Whether the owner took the mark away that says the pod ran out of time."""
    return before is not None and before.timed_out and not now.timed_out


def _owner_fields(definition: AnyPodGroup) -> tuple[object, ...]:
    """What of a PodGroup its owner edits."""
    return definition.spec, definition.metadata.annotations
