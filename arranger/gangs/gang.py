"""A gang: pods of which a minimum must run together (seeds 000 and 002)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from functools import reduce

from arranger.api.gang_membership import (
    GangMembership,
    GangSettings,
    MatchPolicy,
    Mode,
    pod_group_settings,
)
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import AnyPodGroup


class MemberState(Enum):
    """How far a member is; the API knows all of these but PLACED and, at first, LEAVING."""

    PENDING = "pending"
    BINDING = "placed"  # its Binding is on its way
    BOUND = "bound"
    TERMINATING = "leaving"  # it has a node, and is being deleted or evicted
    SUCCEEDED = "succeeded"
    FAILED = "failed"


#: Of members whose node is theirs, as long as they are not to leave it.
_HAS_NODE = (MemberState.BINDING, MemberState.BOUND)


def member_state(pod: Pod) -> MemberState:
    """How far a pod is; one that ended without ever being bound counts as ended."""
    if pod.status.phase == "Succeeded":
        return MemberState.SUCCEEDED
    if pod.status.phase == "Failed":
        return MemberState.FAILED
    return MemberState.BOUND if pod.spec.node_name else MemberState.PENDING


class Gang:
    """One gang: what is said about it and where its members are.

    Attributes:
        name: ``namespace/name``.
        pod_group: its PodGroup, where there is one.
        settings: what all sources together say.
        satisfied: whether its minimum has been bound since its group last had no node but those
            of members that leave, which ``once-satisfied`` asks.
        was_reset: whether it was satisfied, and has lost all its nodes since.
        terminating_at_reset: uids of the members that were leaving when it began anew, until they
            are gone.
        blocked: whether it ran out of time and its owner has not reacted yet.
        scheduling_cycle: how often it has been tried.
        created_at: when its oldest part was created, in seconds since 1970; 0 when unknown.
        problems: what could not be read of its PodGroup.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.pod_group: AnyPodGroup | None = None
        self.settings = GangSettings()
        self.satisfied = False
        self.was_reset = False
        self.terminating_at_reset: set[str] = set()
        self.blocked = False
        self.scheduling_cycle = 0
        self.created_at = 0.0
        self.problems: list[str] = []
        self.memberships: dict[str, GangMembership] = {}
        #: Kind of PodGroup that members name, None for any → of how many.
        self.kinds: Counter[type[AnyPodGroup] | None] = Counter()
        #: uid → how far; with the counts by bundle beside it.
        self._states: dict[str, MemberState] = {}
        #: uids that are to leave → how far they were.
        self._terminating: dict[str, MemberState] = {}
        self._bundle_counts: Counter[tuple[str, MemberState]] = Counter()
        self._state_counts: Counter[MemberState] = Counter()
        #: Bundles without pods that ask for them, because these are gone → what they asked for.
        self._retained_bundles: dict[str, int] = {}
        #: Bundles that nobody asks for any more because pods were edited.
        self._retracted_bundles: set[str] = set()
        #: Distinct settings of the claims → of how many; what was edited last comes first.
        self._settings_counts: dict[GangSettings, int] = {}
        self._from_pod_group = GangSettings()

    def __repr__(self) -> str:
        return f"Gang({self.name})"

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of it."""
        return not self.memberships and self.pod_group is None

    # --- settings --------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """Strict unless it says otherwise."""
        return self.settings.mode or Mode.STRICT

    @property
    def minimum(self) -> int:
        """Members that must run together, whatever their bundles."""
        return self.settings.minimum or 0

    @property
    def bundle_minimums(self) -> Mapping[str, int]:
        """Bundle → how many of it must run."""
        return dict(self.settings.bundle_minimums)

    @property
    def total_minimum(self) -> int:
        """Members that must run, over all bundles."""
        return max(self.minimum, sum(n for _, n in self.settings.bundle_minimums))

    @property
    def is_defined(self) -> bool:
        """Whether anybody has said how many members must run."""
        return self.settings.minimum is not None or bool(self.settings.bundle_minimums)

    def set_pod_group(self, pod_group: AnyPodGroup | None) -> bool:
        """The PodGroup has appeared, changed or gone; whether that changes anything."""
        before = self.settings
        self.pod_group = pod_group
        self.problems = []
        self._from_pod_group = GangSettings()
        if pod_group is not None:
            self._from_pod_group = pod_group_settings(pod_group, self.problems)
            self._update_created(pod_group.metadata.creation_timestamp)
        self._resolve_settings()
        return before != self.settings

    def _resolve_settings(self) -> None:
        left = GangSettings(bundle_minimums=tuple(self._retained_bundles.items()))
        said = [*self._settings_counts, self._from_pod_group, left]
        self.settings = reduce(lambda known, more: known.with_fallback(more), said, GangSettings())

    def _update_created(self, created: object) -> None:
        when = created.timestamp() if hasattr(created, "timestamp") else 0.0
        if when and (not self.created_at or when < self.created_at):
            self.created_at = when

    # --- members ---------------------------------------------------------------------------

    def update_member(
        self, pod: Pod, membership: GangMembership, *, evicting: bool = False
    ) -> bool:
        """A member was added or edited; whether that changes the gang's settings.

        ``evicting`` says that we are deleting it, which the pod need not tell yet.
        """
        uid, before = pod.metadata.uid, self.settings
        earlier = self.memberships.get(uid)
        if earlier is not None and earlier.settings != membership.settings:
            self._drop_settings(earlier.settings)
            # Who edits means it: the newest word goes first.
            count = self._settings_counts.pop(membership.settings, 0)
            self._settings_counts = {membership.settings: count + 1, **self._settings_counts}
            self._retract_bundles(earlier)
            self._resolve_settings()
        elif earlier is None:
            known = membership.settings in self._settings_counts
            self._settings_counts[membership.settings] = (
                self._settings_counts.get(membership.settings, 0) + 1
            )
            self._update_created(pod.metadata.creation_timestamp)
            if not known:
                self._resolve_settings()
        if earlier is not None:
            self.kinds[earlier.pod_group_type] -= 1
        self.kinds[membership.pod_group_type] += 1
        self.memberships[uid] = membership
        state, state_before = member_state(pod), self._terminating.get(uid, self._states.get(uid))
        if state is MemberState.PENDING and state_before in _HAS_NODE:
            state = state_before  # the watch lags behind
        terminating = evicting or pod.metadata.deletion_timestamp is not None
        self._set_member_state(uid, earlier or membership, state, terminating=terminating)
        return self.settings != before

    def remove_member(self, uid: str, *, moved: bool = False) -> bool:
        """A member is gone, or has ``moved`` for another gang; whether that changes the settings.

        A gang begins and ends as a whole (seed 002), so that a bundle is asked for as long as there
        are members of any: the last pod of a parameter server may be deleted to be made anew.
        """
        membership, before = self.memberships.pop(uid, None), self.settings
        if membership is None:
            return False
        self.kinds[membership.pod_group_type] -= 1
        state = self._states.pop(uid)
        self._terminating.pop(uid, None)
        self.terminating_at_reset.discard(uid)
        self._bundle_counts[membership.bundle, state] -= 1
        self._state_counts[state] -= 1
        if self._drop_settings(membership.settings):
            if moved:
                self._retract_bundles(membership)
            else:
                self._retained_bundles |= membership.settings.bundle_minimums
            self._resolve_settings()
        return self.settings != before

    def restore_bundles(self, minimums: Mapping[str, int]) -> bool:
        """Bundles that were asked for in an earlier life of ours; whether that is news."""
        before = self.settings
        known = {
            bundle: n for bundle, n in minimums.items() if bundle not in self._retracted_bundles
        }
        self._retained_bundles = known | self._retained_bundles
        self._resolve_settings()
        return self.settings != before

    def _retract_bundles(self, earlier: GangMembership) -> None:
        """A pod asks for something else than before: its owner has changed his mind."""
        asked = {bundle for voice in self._settings_counts for bundle, _ in voice.bundle_minimums}
        for bundle in dict(earlier.settings.bundle_minimums).keys() - asked:
            self._retained_bundles.pop(bundle, None)
            self._retracted_bundles.add(bundle)

    def set_state(self, uid: str, state: MemberState) -> None:
        """We have bound a member, are binding it or have failed to, ahead of the watch."""
        state_before = self._terminating.get(uid, self._states.get(uid))
        if state_before in (MemberState.PENDING, MemberState.BINDING):
            self._set_member_state(
                uid, self.memberships[uid], state, terminating=uid in self._terminating
            )

    def set_terminating(self, uid: str, *, terminating: bool = True) -> None:
        """We are evicting a member; or, without ``terminating``, have failed to, and it stays."""
        state_before = self._terminating.get(uid, self._states[uid])
        self._set_member_state(uid, self.memberships[uid], state_before, terminating=terminating)

    def reset(self) -> None:
        """Its group has lost its last node: it is to be placed as a whole again."""
        self.satisfied, self.was_reset = False, True
        self.terminating_at_reset = {uid for uid in self._states if self.is_terminating(uid)}

    def is_terminating(self, uid: str) -> bool:
        """Whether a member has a node that it is about to lose."""
        return self._states.get(uid) is MemberState.TERMINATING

    def counts_towards_minimum(self, uid: str) -> bool:
        """Whether a member has a node that counts towards the minimum."""
        return self._states.get(uid) in (
            MemberState.BINDING,
            MemberState.BOUND,
            MemberState.SUCCEEDED,
        )

    def count(self, state: MemberState, bundle: str | None = None) -> int:
        """Members that are so far, of one bundle or of all."""
        if bundle is not None:
            return self._bundle_counts[bundle, state]
        return self._state_counts[state]

    def _set_member_state(
        self, uid: str, before: GangMembership, state: MemberState, *, terminating: bool
    ) -> None:
        self._terminating.pop(uid, None)
        if terminating:
            self._terminating[uid] = state
            if state in _HAS_NODE:
                state = MemberState.TERMINATING
        known = self._states.get(uid)
        if known is not None:
            self._bundle_counts[before.bundle, known] -= 1
            self._state_counts[known] -= 1
        self._state_counts[state] += 1
        self._states[uid] = state
        self._bundle_counts[self.memberships[uid].bundle, state] += 1

    def _drop_settings(self, settings: GangSettings) -> bool:
        """One claim fewer says this; whether nobody says it any more."""
        self._settings_counts[settings] -= 1
        if self._settings_counts[settings]:
            return False
        del self._settings_counts[settings]
        return True

    # --- what is lacking -------------------------------------------------------------------

    @property
    def schedules_individually(self) -> bool:
        """Whether its members may be placed one by one from now on (seed 000, After Gang)."""
        match = self.settings.match_policy or MatchPolicy.ONCE_SATISFIED
        if match is MatchPolicy.ONCE_SATISFIED:
            return self.satisfied
        return match is MatchPolicy.WAITING_AND_RUNNING and not self.missing_members({})

    def missing_members(self, have: Mapping[str, int]) -> dict[str | None, int]:
        """How many members the minimum still needs, given those placed now (by bundle).

        ``None`` stands for members of any bundle. Empty when the minimum is reached.
        """
        short: dict[str | None, int] = {}
        for bundle, least in self.settings.bundle_minimums:
            missing = least - self._counted_members(bundle) - have.get(bundle, 0)
            if missing > 0:
                short[bundle] = missing
        missing = self.minimum - self._counted_members(None) - sum(have.values())
        if missing > 0:
            short[None] = missing
        return short

    def advances_minimum(self, bundle: str, have: Mapping[str, int]) -> bool:
        """Whether a member of the bundle would bring the gang closer to its minimum.

        While another bundle is short, only its members do: others could take its room.
        """
        short = self.missing_members(have)
        return bundle in short or short.keys() == {None}

    def shortfall(self, have: Mapping[str, int]) -> int:
        """How many members the minimum still needs in all."""
        short = self.missing_members(have)
        return max(short.pop(None, 0), sum(short.values()))

    def _counted_members(self, bundle: str | None) -> int:
        """Members with nodes that count; only-waiting counts none from earlier rounds."""
        placed = self.count(MemberState.BINDING, bundle)
        if self.settings.match_policy is MatchPolicy.ONLY_WAITING and self.satisfied:
            return placed
        return placed + self.settled_count(bundle)

    def settled_count(self, bundle: str | None) -> int:
        """Members that are bound or have succeeded."""
        return self.count(MemberState.BOUND, bundle) + self.count(MemberState.SUCCEEDED, bundle)

    def breaks_if_evicted(self, evicted: int) -> bool:
        """Whether it would be short of its minimum if so many of its placed members left, or is
        to leave whole anyway.

        Bundles count together here: the surplus of one does not make up for another, so a gang
        with bundle minima has surplus only beyond all of them.
        """
        if not evicted or self.settings.evict_together:
            return bool(evicted)
        placed = self.count(MemberState.BINDING) + self.count(MemberState.BOUND)
        surplus = placed + self.count(MemberState.SUCCEEDED) - self.total_minimum
        if self.settings.bundle_minimums:
            surplus = min(
                self.count(MemberState.BINDING, bundle) + self.settled_count(bundle) - least
                for bundle, least in self.settings.bundle_minimums
            )
        return evicted > max(surplus, 0)

    @property
    def has_begun(self) -> bool:
        """Whether any member has ever had a node."""
        return any(
            self.count(at) for at in (MemberState.BOUND, MemberState.SUCCEEDED, MemberState.FAILED)
        )

    @property
    def has_nodes(self) -> bool:
        """Whether any member has a node that it keeps."""
        return any(self.count(at) for at in _HAS_NODE)

    @property
    def has_minimum(self) -> bool:
        """Whether the minimum is bound, by the word of the API."""
        enough = all(
            self.settled_count(bundle) >= least for bundle, least in self.settings.bundle_minimums
        )
        return self.is_defined and enough and self.settled_count(None) >= self.minimum

    def check_consistent(self) -> None:
        """Check the counts against the members.

        Raises:
            AssertionError: they disagree.
        """
        counted = Counter((self.memberships[uid].bundle, at) for uid, at in self._states.items())
        assert counted == +self._bundle_counts, f"{self}: counts"
        assert Counter(self._states.values()) == +self._state_counts, f"{self}: totals"
        assert self._states.keys() == self.memberships.keys(), f"{self}: standing"
        leaving = {uid for uid, at in self._states.items() if at is MemberState.TERMINATING}
        assert leaving == {uid for uid, at in self._terminating.items() if at in _HAS_NODE}, (
            f"{self}: leaving"
        )
        assert self._terminating.keys() | self.terminating_at_reset <= self.memberships.keys(), (
            f"{self}: gone for good"
        )
        assert sum(self._settings_counts.values()) == len(self.memberships), f"{self}: voices"
        pod_group_types = Counter(claim.pod_group_type for claim in self.memberships.values())
        assert pod_group_types == +self.kinds, f"{self}: kinds"
