"""All gangs, and the gang groups they form.

Several gangs, of several namespaces too, are placed together when each names the others (seed 000).
Both must say so: a gang cannot make another wait by naming it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from arranger.api.gang_membership import GangClaim
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import POD_GROUPS, AnyPodGroup, SavedGang
from arranger.gangs.gang import Gang, Standing
from arranger.gangs.group import GangGroup


class GangRegistry:
    """Gangs by name, kept current by pods and PodGroups.

    Methods that take events return the names of the gangs whose groups or settings have changed.
    """

    def __init__(self) -> None:
        self.gangs: dict[str, Gang] = {}
        #: Gangs that an earlier scheduler has seen satisfied; believed once a member has a node.
        self.recalled: set[str] = set()
        #: Gang → the bundles an earlier scheduler has known, and since when, until believed.
        self._recalled_minima: dict[str, tuple[Mapping[str, int], float]] = {}
        self._gang_of: dict[str, Gang] = {}
        #: Members that we evict, until they are gone.
        self._evicted: set[str] = set()
        self._definitions: dict[tuple[type[AnyPodGroup], str], AnyPodGroup] = {}
        self._groups: dict[str, GangGroup] = {}
        #: Gang → the gangs it names; and the other way round, existing or not.
        self._names: dict[str, tuple[str, ...]] = {}
        self._named_by: dict[str, set[str]] = {}

    def gang_of(self, uid: str) -> Gang | None:
        """The gang of a pod."""
        return self._gang_of.get(uid)

    def role_of(self, uid: str) -> tuple[str, str]:
        """The gang and the bundle of a pod that has one."""
        gang = self._gang_of[uid]
        return gang.name, gang.claims[uid].bundle

    def claim_of(self, uid: str) -> GangClaim:
        """What a pod that has a gang says about it."""
        return self._gang_of[uid].claims[uid]

    def definition_of(self, uid: str) -> AnyPodGroup | None:
        """The PodGroup that defines a pod's gang."""
        gang = self._gang_of.get(uid)
        return None if gang is None else gang.definition

    def group_of(self, gang: Gang) -> GangGroup:
        """The group a gang is placed with."""
        group = self._groups.get(gang.name)
        if group is None:
            group = self._form(gang)
            for member in group.gangs:
                self._groups[member.name] = group
        return group

    # --- events ----------------------------------------------------------------------------

    def pod_set(self, pod: Pod, claim: GangClaim | None) -> set[str]:
        """A pod was added or edited; ``claim`` is what it says about its gang."""
        uid = pod.metadata.uid
        known = self._gang_of.get(uid)
        changed: set[str] = set()
        if known is not None and (claim is None or claim.gang != known.name):
            changed |= {known.name} | self.pod_gone(uid, left=True)
        if claim is None:
            return changed
        gang = self._gang(claim.gang)
        if changed:
            changed.add(gang.name)  # it may hold a node, which counts for this gang from now on
        self._gang_of[uid] = gang
        before = gang.claims.get(uid)
        counted, was_free = gang.counts(uid), self.group_of(gang).free
        if pod.metadata.deletion_timestamp is not None:
            self._evicted.discard(uid)  # it is leaving whatever becomes of our eviction
        settings_changed = gang.see(pod, claim, evicted=uid in self._evicted)
        if self._redefine(gang) | self._believe_minima(gang):
            settings_changed = True
        if _reacted(before, claim) and gang.blocked:
            gang.blocked = False
            changed.add(gang.name)
        elif claim.timed_out and before is None and not gang.satisfied:
            gang.blocked = True
        if settings_changed:
            changed |= self._regroup(gang)
        changed |= self._check_satisfied(gang)
        if counted and not gang.counts(uid):
            changed |= self._begin_anew(gang)
        return changed | self._stirred(gang, was_free, gang.counts(uid) - counted)

    def evicted(self, uid: str) -> set[str]:
        """A pod is going to be deleted by us: its gang does not count on it any more."""
        gang = self._gang_of.get(uid)
        if gang is None:
            return set()
        counted, was_free = gang.counts(uid), self.group_of(gang).free
        self._evicted.add(uid)
        gang.leave(uid)
        changed = self._begin_anew(gang)
        return changed | self._stirred(gang, was_free, gang.counts(uid) - counted)

    def spared(self, uid: str) -> set[str]:
        """A pod could not be evicted; a gang that began anew because of it has never ended."""
        gang = self._gang_of.get(uid)
        if gang is None or uid not in self._evicted:
            return set()
        self._evicted.discard(uid)
        counted, was_free = gang.counts(uid), self.group_of(gang).free
        gang.leave(uid, leaves=False)
        changed = self._check_satisfied(gang)
        if uid in gang.ended and gang.counts(uid):
            for each in self.group_of(gang).gangs:
                each.satisfied = True
                changed.add(each.name)
        return changed | self._stirred(gang, was_free, gang.counts(uid) - counted)

    def pod_gone(self, uid: str, *, left: bool = False) -> set[str]:
        """A pod was deleted, or has ``left`` its gang."""
        if not left:
            self._evicted.discard(uid)
        gang = self._gang_of.pop(uid, None)
        if gang is None:
            return set()
        counted, was_free = gang.counts(uid), self.group_of(gang).free
        changed = self._regroup(gang) if gang.forget(uid, left=left) else set()
        if gang.claims and self._redefine(gang):
            changed |= self._regroup(gang)
        if not left:
            changed |= self._begin_anew(gang)
        changed |= self._stirred(gang, was_free, -counted)
        if gang.blocked and not any(claim.timed_out for claim in gang.claims.values()):
            gang.blocked = False
            changed.add(gang.name)
        if not gang.claims:
            changed |= self._drop(gang)
        return changed

    def changes_substance(self, definition: AnyPodGroup) -> bool:
        """Whether a PodGroup is new, or says something else than before beside its status."""
        before = self._definitions.get((type(definition), definition.name))
        return before is None or _substance(before) != _substance(definition)

    def definition_set(self, definition: AnyPodGroup) -> set[str]:
        """A PodGroup was added or edited."""
        key = type(definition), definition.name
        before = self._definitions.get(key)
        self._definitions[key] = definition
        gang = self.gangs.get(definition.name)
        if gang is None or self._definition_of(gang) is not definition:
            return set()
        changed = gang.define(definition)
        if before is not None and _substance(before) != _substance(definition) and gang.blocked:
            gang.blocked = False
            changed = True
        return self._regroup(gang) | self._check_satisfied(gang) if changed else set()

    def definition_gone(self, kind: type[AnyPodGroup], name: str) -> set[str]:
        """A PodGroup was deleted."""
        self._definitions.pop((kind, name), None)
        gang = self.gangs.get(name)
        if gang is None:
            self.forget_recalled(name)  # another of that name starts anew
            return set()
        if not self._redefine(gang):
            return set()
        return self._regroup(gang) | self._check_satisfied(gang)

    def bound(self, uid: str) -> set[str]:
        """Our Binding of a pod was taken."""
        gang = self._gang_of.get(uid)
        if gang is None:
            return set()
        counted, was_free = gang.counts(uid), self.group_of(gang).free
        gang.stand(uid, Standing.BOUND)
        changed = self._check_satisfied(gang)
        return changed | self._stirred(gang, was_free, gang.counts(uid) - counted)

    def recall(self, name: str) -> set[str]:
        """The gang has been satisfied in an earlier life of ours."""
        self.recalled.add(name)
        gang = self.gangs.get(name)
        return set() if gang is None else self._check_satisfied(gang)

    def all_seen(self) -> None:
        """Everything that was there at the start is known.

        Who has lost all nodes meanwhile has not had its minimum in the round that begins now.
        """
        for name in list(self.recalled):
            gang = self.gangs.get(name)
            if gang is None or self._is_over(gang):
                self.recalled.discard(name)

    def recall_bundles(self, saved: SavedGang) -> set[str]:
        """The gang's object tells which bundles it had in an earlier life of ours.

        Believed once a pod is seen that is as old as the object: where all are younger, it was
        written about another gang of the name.
        """
        if not (minima := saved.told_minima):
            return set()
        created = saved.metadata.creation_timestamp
        self._recalled_minima[saved.name] = minima, created.timestamp() if created else math.inf
        gang = self.gangs.get(saved.name)
        return set() if gang is None or not self._believe_minima(gang) else self._regroup(gang)

    def forget_recalled(self, name: str) -> None:
        """What was known of a gang from an earlier life does not hold any more."""
        self.recalled.discard(name)
        self._recalled_minima.pop(name, None)

    def placed(self, uid: str, standing: Standing = Standing.PLACED) -> set[str]:
        """Our Binding of a pod is on its way; or, with PENDING, has failed for good."""
        gang = self._gang_of.get(uid)
        if gang is None:
            return set()
        was_free = self.group_of(gang).free
        gang.stand(uid, standing)
        return self._stirred(gang, was_free, 0)

    def check_consistent(self) -> None:
        """Check gangs, groups and the maps between them.

        Raises:
            AssertionError: they disagree.
        """
        for name, gang in self.gangs.items():
            assert gang.name == name, f"{gang} is filed under {name}"
            assert gang.claims, f"{gang} is empty"
            gang.check_consistent()
        members = {uid: gang for gang in self.gangs.values() for uid in gang.claims}
        assert members == self._gang_of, "members and gangs"
        for name, group in self._groups.items():
            assert any(gang.name == name for gang in group.gangs), f"{name} is not in its group"
            assert all(self.gangs.get(g.name) is g for g in group.gangs), f"{name}: a ghost"

    # --- inside ----------------------------------------------------------------------------

    def _check_satisfied(self, gang: Gang) -> set[str]:
        """Note when a group has its minimum bound for the first time."""
        if gang.satisfied or not gang.begun:
            return set()
        group = self.group_of(gang)
        if gang.name in self.recalled:
            gang.satisfied = True
            return {member.name for member in group.gangs}
        if group.unanswered or not all(member.has_minimum for member in group.gangs):
            return set()
        for member in group.gangs:
            member.satisfied = True
        return {member.name for member in group.gangs}

    def _begin_anew(self, gang: Gang) -> set[str]:
        """A group that has lost its last node is placed as a whole again, as after a restart.

        Evicted as a whole and made anew by its owner, perhaps while its old pods terminate, it
        would else run in pieces.
        """
        if not gang.satisfied or not self._is_over(gang):
            return set()
        gangs = self.group_of(gang).gangs
        for each in gangs:
            each.end_round()
            self.recalled.discard(each.name)
        return {each.name for each in gangs}

    def _is_over(self, gang: Gang) -> bool:
        """Whether no member of the group keeps a node, nor have enough done their work."""
        gangs = self.group_of(gang).gangs
        return not any(g.has_nodes for g in gangs) and not all(g.has_minimum for g in gangs)

    def _believe_minima(self, gang: Gang) -> bool:
        minima, since = self._recalled_minima.get(gang.name, ({}, 0.0))
        if not minima or gang.created > since:
            return False
        del self._recalled_minima[gang.name]
        return gang.remember(minima)

    def _gang(self, name: str) -> Gang:
        gang = self.gangs.get(name)
        if gang is None:
            gang = self.gangs[name] = Gang(name)
            self._forget_groups({name, *self._named_by.get(name, ())})
        return gang

    def _stirred(self, gang: Gang, was_free: bool, more: int) -> set[str]:
        """So many more members have nodes: the gangs whose waiting members that concerns."""
        group = self.group_of(gang)
        if was_free == group.free and (group.free or not more):
            return set()
        if more > 0 and sum(len(g.claims) for g in group.gangs) < sum(g.whole for g in group.gangs):
            return set()  # it is still too early to try; a restart shows thousands one by one
        waits = any(one.count(Standing.PENDING) for one in group.gangs)
        return {one.name for one in group.gangs} if waits else set()

    def _definition_of(self, gang: Gang) -> AnyPodGroup | None:
        """Of the PodGroups of the gang's name the first that its members mean."""
        for kind in POD_GROUPS:
            found = self._definitions.get((kind, gang.name))
            if found is not None and (gang.kinds[kind] or gang.kinds[None]):
                return found
        return None

    def _redefine(self, gang: Gang) -> bool:
        """Take up the PodGroup that defines the gang now; whether that changes anything."""
        found = self._definition_of(gang)
        return found is not gang.definition and gang.define(found)

    def _drop(self, gang: Gang) -> set[str]:
        """The gang has lost its last pod; returns it and those that were grouped with it."""
        # A definition without pods waits in ``_definitions`` until the next pod takes it up.
        del self.gangs[gang.name]
        self.forget_recalled(gang.name)  # another of that name starts anew
        self._unname(gang)
        partners = {member.name for member in self._groups.get(gang.name, GangGroup(())).gangs}
        partners |= self._named_by.get(gang.name, set())
        self._forget_groups(partners | {gang.name})
        return partners | {gang.name}

    def _named(self, gang: Gang) -> None:
        """Note whom the gang names now."""
        now = gang.settings.groups or ()
        if now != self._names.get(gang.name, ()):
            self._unname(gang)
            self._names[gang.name] = now
            for name in now:
                self._named_by.setdefault(name, set()).add(gang.name)

    def _unname(self, gang: Gang) -> None:
        for name in self._names.pop(gang.name, ()):
            self._named_by[name].discard(gang.name)
            if not self._named_by[name]:
                del self._named_by[name]

    def _regroup(self, gang: Gang) -> set[str]:
        """The gang's settings have changed: form its group, and those it leaves or joins, anew."""
        concerned = {gang.name, *(gang.settings.groups or ()), *self._named_by.get(gang.name, ())}
        known = self._groups.get(gang.name)
        if known is not None:
            concerned |= {member.name for member in known.gangs}
        self._named(gang)
        self._forget_groups(concerned)
        return concerned & self.gangs.keys()

    def _forget_groups(self, names: Iterable[str]) -> None:
        for name in names:
            group = self._groups.pop(name, None)
            for member in group.gangs if group is not None else ():
                self._groups.pop(member.name, None)

    def _form(self, gang: Gang) -> GangGroup:
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


def _reacted(before: GangClaim | None, now: GangClaim) -> bool:
    """Whether the owner took the mark away that says the pod ran out of time."""
    return before is not None and before.timed_out and not now.timed_out


def _substance(definition: AnyPodGroup) -> tuple[object, ...]:
    """What of a PodGroup its owner edits."""
    return definition.spec, definition.metadata.annotations
