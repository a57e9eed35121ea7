"""A gang: pods of which a minimum must run together.

See ``docs/design/gang-scheduling.md`` and ``docs/design/bundles.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from arranger.api.settings.gang_membership import GangMembership
from arranger.api.settings.gang_settings import (
    NO_SETTINGS,
    MatchPolicy,
    Mode,
    pod_group_settings,
)
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import AnyPodGroup
from arranger.gangs.member_state import MemberState, member_state
from arranger.gangs.merged_settings import MergedSettings
from arranger.gangs.planned_start import PlannedStart

#: States of members that have a node and keep it.
_HAS_NODE = (MemberState.BINDING, MemberState.BOUND)
_COUNTED = (*_HAS_NODE, MemberState.SUCCEEDED)
_BEGUN = (MemberState.BOUND, MemberState.SUCCEEDED, MemberState.FAILED)


class Gang:
    """One gang: its settings, and the state of each member.

    Attributes:
        name: ``namespace/name``.
        pod_group: its PodGroup, where there is one.
        settings: the settings of all sources, merged.
        total_minimum: members that must run, of all bundles together.
        satisfied: whether its minimum has been bound since the last reset (``once-satisfied``), or,
            where it needs nobody, it has been tried.
        terminating_at_reset: uids of members that were terminating then, until they are gone.
        blocked: whether it timed out and its owner has not reacted yet.
        scheduling_cycle: how many attempts to place it there have been.
        planned_start: when it starts by the plan; None while it is not planned.
        created_at: of its oldest pod or its PodGroup, in seconds since 1970; 0 when unknown.
        problems: the invalid values of its PodGroup.
        told: what its PodGroup's owner was told last: uid of the PodGroup, and text.
        memberships: uid → what the pod says about the gang.
        pod_group_types: type of PodGroup that members name, None for any → how many name it.
        member_owners: owner that defines the gang, as members say → how many say so.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.pod_group: AnyPodGroup | None = None
        self.settings = NO_SETTINGS
        self.total_minimum = 0
        self.satisfied = False
        self.terminating_at_reset: set[str] = set()
        self.blocked = False
        self.scheduling_cycle = 0
        self.planned_start: PlannedStart | None = None
        self.created_at = 0.0
        self.problems: list[str] = []
        self.told: tuple[str, str] = ("", "")
        self.memberships: dict[str, GangMembership] = {}
        self.pod_group_types: Counter[type[AnyPodGroup] | None] = Counter()
        self.member_owners: dict[str, int] = {}
        self._states: dict[str, MemberState] = {}
        #: uid of a pod that is being deleted or evicted → its state if it were not.
        self._terminating: dict[str, MemberState] = {}
        #: How many members are in a state, by bundle and in all.
        self._bundle_counts: Counter[tuple[str, MemberState]] = Counter()
        self._state_counts: Counter[MemberState] = Counter()
        self._merged = MergedSettings()

    def __repr__(self) -> str:
        return f"Gang({self.name})"

    # --- settings --------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """Strict by default."""
        return self.settings.mode or Mode.STRICT

    @property
    def minimum(self) -> int:
        """Members that must run together, whatever their bundles."""
        return self.settings.minimum or 0

    @property
    def bundle_minimums(self) -> Mapping[str, int]:
        """Bundle → how many of its members must run."""
        return dict(self.settings.bundle_minimums)

    @property
    def is_defined(self) -> bool:
        """Whether any source sets a minimum."""
        return self.settings.minimum is not None or bool(self.settings.bundle_minimums)

    @property
    def owner(self) -> str:
        """What its pods name as the owner that defines it; "" where something else does."""
        return next((each.owner for each in self.memberships.values() if each.owner), "")

    @property
    def needs_nobody(self) -> bool:
        """Whether its minimum is none, as by the basic policy of Kubernetes' PodGroup."""
        return self.is_defined and not self.total_minimum

    def set_pod_group(self, pod_group: AnyPodGroup | None) -> bool:
        """The PodGroup has appeared, changed or gone; returns whether that changes settings."""
        self.pod_group = pod_group
        self.problems = []
        stated = NO_SETTINGS
        if pod_group is not None:
            stated = pod_group_settings(pod_group, self.problems)
            self._update_created(pod_group.metadata.creation_timestamp)
        self._merged.set_pod_group(stated)
        return self._take_settings()

    def _take_settings(self) -> bool:
        """What all sources say counts from now on; whether that is something else than before."""
        before, self.settings = self.settings, self._merged.settings
        if before is self.settings:
            return False
        self.total_minimum = max(self.minimum, self._merged.bundle_total)
        return before != self.settings

    def _update_created(self, created: object) -> None:
        when = created.timestamp() if hasattr(created, "timestamp") else 0.0
        if when and (not self.created_at or when < self.created_at):
            self.created_at = when

    # --- members ---------------------------------------------------------------------------

    def update_member(self, pod: Pod, membership: GangMembership, *, evicting: bool) -> bool:
        """A member was added or edited; returns whether that changes the gang's settings.

        ``evicting``: we are deleting it, which the pod as observed need not show yet.
        """
        uid = pod.metadata.uid
        earlier = self.memberships.get(uid)
        if earlier is None:
            self._update_created(pod.metadata.creation_timestamp)
            self._merged.add_member(membership.settings)
        elif earlier is not membership and earlier.settings != membership.settings:
            # The latest edit takes precedence over what the other members say.
            self._merged.edit_member(earlier.settings, membership.settings)
        changed = self._take_settings()
        if earlier is not membership:
            if earlier is not None:
                self._count_membership(earlier, -1)
            self._count_membership(membership, 1)
            self.memberships[uid] = membership
        state, state_before = member_state(pod), self._terminating.get(uid, self._states.get(uid))
        if state is MemberState.PENDING and state_before in _HAS_NODE:
            state = state_before  # the watch has not seen our Binding yet
        terminating = evicting or pod.metadata.deletion_timestamp is not None
        self._set_member_state(uid, earlier or membership, state, terminating=terminating)
        return changed

    def shows(self, pod: Pod, membership: GangMembership | None) -> bool:
        """Whether a pod that runs or waits is known as it is, so that nothing changes by it."""
        uid = pod.metadata.uid
        if self.memberships.get(uid) is not membership or uid in self._terminating:
            return False
        if pod.terminal or pod.metadata.deletion_timestamp is not None:
            return False
        return self._states[uid] is member_state(pod)

    def remove_member(self, uid: str, *, moved: bool = False) -> bool:
        """A member is gone, or has ``moved`` to another gang; returns whether settings change.

        A gang starts and ends as a whole, so that the minimum of a bundle holds as long as the gang
        has any pods: the last pod of a parameter server may be deleted to be created again.
        """
        membership = self.memberships.pop(uid, None)
        if membership is None:
            return False
        self._count_membership(membership, -1)
        state = self._states.pop(uid)
        self._terminating.pop(uid, None)
        self.terminating_at_reset.discard(uid)
        self._bundle_counts[membership.bundle, state] -= 1
        self._state_counts[state] -= 1
        self._merged.drop_member(membership.settings, moved=moved)
        return self._take_settings()

    def _count_membership(self, membership: GangMembership, by: int) -> None:
        self.pod_group_types[membership.pod_group_type] += by
        if owner := membership.owner:
            count = self.member_owners.pop(owner, 0) + by
            if count:
                self.member_owners[owner] = count

    def restore_bundles(self, minimums: Mapping[str, int]) -> bool:
        """Bundles that were known before a restart; returns whether that changes settings."""
        self._merged.restore_bundles(minimums)
        return self._take_settings()

    def set_state(self, uid: str, state: MemberState) -> None:
        """We have bound a member, are binding it, or have failed to; the watch shows it later."""
        state_before = self._terminating.get(uid, self._states.get(uid))
        if state_before in (MemberState.PENDING, MemberState.BINDING):
            terminating = uid in self._terminating
            self._set_member_state(uid, self.memberships[uid], state, terminating=terminating)

    def set_terminating(self, uid: str, *, terminating: bool = True) -> None:
        """We are evicting a member, or (``terminating=False``) have failed to, and it stays."""
        state_before = self._terminating.get(uid, self._states[uid])
        self._set_member_state(uid, self.memberships[uid], state_before, terminating=terminating)

    def reset(self) -> None:
        """Its group has lost its last node: it must be placed as a whole again."""
        self.satisfied = False
        self.terminating_at_reset = {uid for uid in self._states if self.is_terminating(uid)}

    def is_terminating(self, uid: str) -> bool:
        """Whether a member has a node that it is about to lose."""
        return self._states.get(uid) is MemberState.TERMINATING

    def is_binding(self, uid: str) -> bool:
        """Whether a member's Binding is on its way, and it is to keep its node."""
        return self._states.get(uid) is MemberState.BINDING

    def counts_towards_minimum(self, uid: str) -> bool:
        """Whether a member has a node that counts towards the minimum."""
        return self._states.get(uid) in _COUNTED

    def count(self, state: MemberState, bundle: str | None = None) -> int:
        """Members in this state, of one bundle or of all."""
        if bundle is None:
            return self._state_counts.get(state, 0)
        return self._bundle_counts.get((bundle, state), 0)

    def _set_member_state(
        self, uid: str, before: GangMembership, state: MemberState, *, terminating: bool
    ) -> None:
        self._terminating.pop(uid, None)
        if terminating:
            self._terminating[uid] = state
            if state in _HAS_NODE:
                state = MemberState.TERMINATING
        known = self._states.get(uid)
        if known is state and before is self.memberships[uid]:
            return
        if known is not None:
            self._bundle_counts[before.bundle, known] -= 1
            self._state_counts[known] -= 1
        self._state_counts[state] += 1
        self._states[uid] = state
        self._bundle_counts[self.memberships[uid].bundle, state] += 1

    # --- the minimum -----------------------------------------------------------------------

    @property
    def schedules_individually(self) -> bool:
        """Whether its members are placed one by one now, as its match policy says."""
        match = self.settings.match_policy
        if match is None or match is MatchPolicy.ONCE_SATISFIED or self.needs_nobody:
            return self.satisfied
        running = match is MatchPolicy.WAITING_AND_RUNNING and self.is_defined
        return running and not self.missing_members({})

    @property
    def lacks_pods(self) -> bool:
        """Whether it has fewer pods than its minimum, whatever becomes of them."""
        return len(self.memberships) < self.total_minimum

    @property
    def has_all_pods(self) -> bool:
        """Whether it has the pods of its minimum, those of each bundle too; counts all members."""
        if self.lacks_pods:
            return False
        counts = Counter(member.bundle for member in self.memberships.values())
        return all(counts[bundle] >= least for bundle, least in self.settings.bundle_minimums)

    def missing_members(self, have: Mapping[str, int]) -> dict[str | None, int]:
        """Bundle → how many members the minimum still needs beyond ``have``, the placed ones.

        The key ``None`` stands for members of any bundle. Empty when the minimum is reached.
        """
        missing: dict[str | None, int] = {}
        counted = self._counted_members(None)
        for bundle, minimum in self.settings.bundle_minimums:
            count = minimum - have.get(bundle, 0)
            if counted and count > 0:
                count -= self._counted_members(bundle)
            if count > 0:
                missing[bundle] = count
        count = self.minimum - counted - sum(have.values())
        if count > 0:
            missing[None] = count
        return missing

    def advances_minimum(self, bundle: str, have: Mapping[str, int]) -> bool:
        """Whether a member of the bundle would bring the gang closer to its minimum.

        While another bundle lacks members, only those do: others could take their nodes.
        """
        if not self.settings.bundle_minimums:
            return self.minimum > self._counted_members(None) + sum(have.values())
        return advances(bundle, self.missing_members(have))

    def shortfall(self, have: Mapping[str, int]) -> int:
        """How many members the minimum still needs in all."""
        missing = self.missing_members(have)
        return max(missing.pop(None, 0), sum(missing.values()))

    def _counted_members(self, bundle: str | None) -> int:
        """Members that count towards the minimum; for only-waiting, once satisfied, none bound."""
        binding = self.count(MemberState.BINDING, bundle)
        if self.settings.match_policy is MatchPolicy.ONLY_WAITING and self.satisfied:
            return binding
        return binding + self.settled_count(bundle)

    def settled_count(self, bundle: str | None) -> int:
        """Members that are bound or have succeeded."""
        return self.count(MemberState.BOUND, bundle) + self.count(MemberState.SUCCEEDED, bundle)

    def breaks_if_evicted(self, evicted: Mapping[str, int]) -> bool:
        """Whether it would be below its minimum without ``evicted``: bundle → how many of it.

        Always so for a gang whose members are evicted only together, and for one that is below
        already.
        """
        lost = sum(evicted.values())
        if not lost or self.settings.evict_together:
            return bool(lost)
        if self._with_node(None) - lost < self.minimum:
            return True
        minimums = self.settings.bundle_minimums
        return any(self._with_node(b) - evicted.get(b, 0) < minimum for b, minimum in minimums)

    def _with_node(self, bundle: str | None) -> int:
        """Members that have a node and keep it, or have succeeded."""
        return self.count(MemberState.BINDING, bundle) + self.settled_count(bundle)

    @property
    def has_begun(self) -> bool:
        """Whether any member has ever had a node."""
        return any(self.count(state) for state in _BEGUN)

    @property
    def has_nodes(self) -> bool:
        """Whether any member has a node that it keeps."""
        return any(self.count(state) for state in _HAS_NODE)

    @property
    def has_succeeded(self) -> bool:
        """Whether any member has succeeded."""
        return self.count(MemberState.SUCCEEDED) > 0

    @property
    def has_minimum(self) -> bool:
        """Whether the minimum is bound or has succeeded."""
        # Of thousands of bundles each is asked about only where there are enough for all of them.
        if self.settled_count(None) < self.total_minimum or not self.is_defined:
            return False
        bundles = self.settings.bundle_minimums
        return all(self.settled_count(bundle) >= minimum for bundle, minimum in bundles)

    def check_consistent(self) -> None:
        """Check the counts against the members.

        Raises:
            AssertionError: they disagree.
        """
        counted = Counter((self.memberships[uid].bundle, at) for uid, at in self._states.items())
        assert counted == +self._bundle_counts, f"{self}: counts"
        assert Counter(self._states.values()) == +self._state_counts, f"{self}: totals"
        assert self._states.keys() == self.memberships.keys(), f"{self}: states"
        terminating = {uid for uid, at in self._states.items() if at is MemberState.TERMINATING}
        with_node = {uid for uid, at in self._terminating.items() if at in _HAS_NODE}
        assert terminating == with_node, f"{self}: terminating"
        known = self._terminating.keys() | self.terminating_at_reset
        assert known <= self.memberships.keys(), f"{self}: members that are gone"
        self._merged.check_consistent(each.settings for each in self.memberships.values())
        types = Counter(each.pod_group_type for each in self.memberships.values())
        assert types == +self.pod_group_types, f"{self}: types of PodGroups"
        owners = Counter(each.owner for each in self.memberships.values() if each.owner)
        assert owners == self.member_owners, f"{self}: owners"


def advances(bundle: str, missing: Mapping[str | None, int]) -> bool:
    """Whether a member of a bundle is among those that a gang lacks: see ``missing_members``."""
    return bundle in missing or missing.keys() == {None}
