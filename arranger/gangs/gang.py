"""A gang: pods of which a minimum must run together (seeds 000 and 002)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from functools import reduce

from arranger.api.gang_membership import GangClaim, GangSettings, MatchPolicy, Mode, settings_of
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import AnyPodGroup


class Standing(Enum):
    """How far a member is; the API knows all of these but PLACED and, at first, LEAVING."""

    PENDING = "pending"
    PLACED = "placed"  # its Binding is on its way
    BOUND = "bound"
    LEAVING = "leaving"  # it has a node, and is being deleted or evicted
    SUCCEEDED = "succeeded"
    FAILED = "failed"


#: Of members whose node is theirs, as long as they are not to leave it.
_HAS_NODE = (Standing.PLACED, Standing.BOUND)


def standing_of(pod: Pod) -> Standing:
    """How far a pod is; one that ended without ever being bound counts as ended."""
    if pod.status.phase == "Succeeded":
        return Standing.SUCCEEDED
    if pod.status.phase == "Failed":
        return Standing.FAILED
    return Standing.BOUND if pod.spec.node_name else Standing.PENDING


class Gang:
    """One gang: what is said about it and where its members are.

    Attributes:
        name: ``namespace/name``.
        definition: its PodGroup, where there is one.
        settings: what all sources together say.
        satisfied: whether its minimum has been bound since its group last had no node but those
            of members that leave, which ``once-satisfied`` asks.
        begun_anew: whether it was satisfied, and has lost all its nodes since.
        ended: uids of the members that were leaving when it began anew, until they are gone.
        blocked: whether it ran out of time and its owner has not reacted yet.
        cycle: how often it has been tried.
        created: when its oldest part was created, in seconds since 1970; 0 when unknown.
        problems: what could not be read of its PodGroup.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.definition: AnyPodGroup | None = None
        self.settings = GangSettings()
        self.satisfied = False
        self.begun_anew = False
        self.ended: set[str] = set()
        self.blocked = False
        self.cycle = 0
        self.created = 0.0
        self.problems: list[str] = []
        self.claims: dict[str, GangClaim] = {}
        #: Kind of PodGroup that members name, None for any → of how many.
        self.kinds: Counter[type[AnyPodGroup] | None] = Counter()
        #: uid → how far; with the counts by bundle beside it.
        self._standing: dict[str, Standing] = {}
        #: uids that are to leave → how far they were.
        self._leaving: dict[str, Standing] = {}
        self._counts: Counter[tuple[str, Standing]] = Counter()
        self._totals: Counter[Standing] = Counter()
        #: Bundles without pods that ask for them, because these are gone → what they asked for.
        self._left_behind: dict[str, int] = {}
        #: Bundles that nobody asks for any more because pods were edited.
        self._disowned: set[str] = set()
        #: Distinct settings of the claims → of how many; what was edited last comes first.
        self._voices: dict[GangSettings, int] = {}
        self._from_definition = GangSettings()

    def __repr__(self) -> str:
        return f"Gang({self.name})"

    @property
    def empty(self) -> bool:
        """Whether nothing is left of it."""
        return not self.claims and self.definition is None

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
    def minima(self) -> Mapping[str, int]:
        """Bundle → how many of it must run."""
        return dict(self.settings.minima)

    @property
    def whole(self) -> int:
        """Members that must run, over all bundles."""
        return max(self.minimum, sum(n for _, n in self.settings.minima))

    @property
    def defined(self) -> bool:
        """Whether anybody has said how many members must run."""
        return self.settings.minimum is not None or bool(self.settings.minima)

    def define(self, definition: AnyPodGroup | None) -> bool:
        """The PodGroup has appeared, changed or gone; whether that changes anything."""
        before = self.settings
        self.definition = definition
        self.problems = []
        self._from_definition = GangSettings()
        if definition is not None:
            self._from_definition = settings_of(definition, self.problems)
            self._grow_older(definition.metadata.creation_timestamp)
        self._resolve()
        return before != self.settings

    def _resolve(self) -> None:
        left = GangSettings(minima=tuple(self._left_behind.items()))
        said = [*self._voices, self._from_definition, left]
        self.settings = reduce(lambda known, more: known.over(more), said, GangSettings())

    def _grow_older(self, created: object) -> None:
        when = created.timestamp() if hasattr(created, "timestamp") else 0.0
        if when and (not self.created or when < self.created):
            self.created = when

    # --- members ---------------------------------------------------------------------------

    def see(self, pod: Pod, claim: GangClaim, *, evicted: bool = False) -> bool:
        """A member was added or edited; whether that changes the gang's settings.

        ``evicted`` says that we are deleting it, which the pod need not tell yet.
        """
        uid, before = pod.metadata.uid, self.settings
        earlier = self.claims.get(uid)
        if earlier is not None and earlier.settings != claim.settings:
            self._unsay(earlier.settings)
            # Who edits means it: the newest word goes first.
            count = self._voices.pop(claim.settings, 0)
            self._voices = {claim.settings: count + 1, **self._voices}
            self._disown(earlier)
            self._resolve()
        elif earlier is None:
            known = claim.settings in self._voices
            self._voices[claim.settings] = self._voices.get(claim.settings, 0) + 1
            self._grow_older(pod.metadata.creation_timestamp)
            if not known:
                self._resolve()
        if earlier is not None:
            self.kinds[earlier.definition] -= 1
        self.kinds[claim.definition] += 1
        self.claims[uid] = claim
        standing, stood = standing_of(pod), self._leaving.get(uid, self._standing.get(uid))
        if standing is Standing.PENDING and stood in _HAS_NODE:
            standing = stood  # the watch lags behind
        leaves = evicted or pod.metadata.deletion_timestamp is not None
        self._move(uid, earlier or claim, standing, leaves=leaves)
        return self.settings != before

    def forget(self, uid: str, *, left: bool = False) -> bool:
        """A member is gone, or has ``left`` for another gang; whether that changes the settings.

        A gang begins and ends as a whole (seed 002), so that a bundle is asked for as long as there
        are members of any: the last pod of a parameter server may be deleted to be made anew.
        """
        claim, before = self.claims.pop(uid, None), self.settings
        if claim is None:
            return False
        self.kinds[claim.definition] -= 1
        standing = self._standing.pop(uid)
        self._leaving.pop(uid, None)
        self.ended.discard(uid)
        self._counts[claim.bundle, standing] -= 1
        self._totals[standing] -= 1
        if self._unsay(claim.settings):
            if left:
                self._disown(claim)
            else:
                self._left_behind |= claim.settings.minima
            self._resolve()
        return self.settings != before

    def remember(self, minima: Mapping[str, int]) -> bool:
        """Bundles that were asked for in an earlier life of ours; whether that is news."""
        before = self.settings
        known = {bundle: n for bundle, n in minima.items() if bundle not in self._disowned}
        self._left_behind = known | self._left_behind
        self._resolve()
        return self.settings != before

    def _disown(self, earlier: GangClaim) -> None:
        """A pod asks for something else than before: its owner has changed his mind."""
        asked = {bundle for voice in self._voices for bundle, _ in voice.minima}
        for bundle in dict(earlier.settings.minima).keys() - asked:
            self._left_behind.pop(bundle, None)
            self._disowned.add(bundle)

    def stand(self, uid: str, standing: Standing) -> None:
        """We have bound a member, are binding it or have failed to, ahead of the watch."""
        stood = self._leaving.get(uid, self._standing.get(uid))
        if stood in (Standing.PENDING, Standing.PLACED):
            self._move(uid, self.claims[uid], standing, leaves=uid in self._leaving)

    def leave(self, uid: str, *, leaves: bool = True) -> None:
        """We are evicting a member; or, without ``leaves``, have failed to, and it stays."""
        stood = self._leaving.get(uid, self._standing[uid])
        self._move(uid, self.claims[uid], stood, leaves=leaves)

    def end_round(self) -> None:
        """Its group has lost its last node: it is to be placed as a whole again."""
        self.satisfied, self.begun_anew = False, True
        self.ended = {uid for uid in self._standing if self.leaves(uid)}

    def leaves(self, uid: str) -> bool:
        """Whether a member has a node that it is about to lose."""
        return self._standing.get(uid) is Standing.LEAVING

    def counts(self, uid: str) -> bool:
        """Whether a member has a node that counts towards the minimum."""
        return self._standing.get(uid) in (Standing.PLACED, Standing.BOUND, Standing.SUCCEEDED)

    def count(self, standing: Standing, bundle: str | None = None) -> int:
        """Members that are so far, of one bundle or of all."""
        if bundle is not None:
            return self._counts[bundle, standing]
        return self._totals[standing]

    def _move(self, uid: str, before: GangClaim, standing: Standing, *, leaves: bool) -> None:
        self._leaving.pop(uid, None)
        if leaves:
            self._leaving[uid] = standing
            if standing in _HAS_NODE:
                standing = Standing.LEAVING
        known = self._standing.get(uid)
        if known is not None:
            self._counts[before.bundle, known] -= 1
            self._totals[known] -= 1
        self._totals[standing] += 1
        self._standing[uid] = standing
        self._counts[self.claims[uid].bundle, standing] += 1

    def _unsay(self, settings: GangSettings) -> bool:
        """One claim fewer says this; whether nobody says it any more."""
        self._voices[settings] -= 1
        if self._voices[settings]:
            return False
        del self._voices[settings]
        return True

    # --- what is lacking -------------------------------------------------------------------

    @property
    def free(self) -> bool:
        """Whether its members may be placed one by one from now on (seed 000, After Gang)."""
        match = self.settings.match or MatchPolicy.ONCE
        if match is MatchPolicy.ONCE:
            return self.satisfied
        return match is MatchPolicy.RUNNING and not self.lacking({})

    def lacking(self, have: Mapping[str, int]) -> dict[str | None, int]:
        """How many members the minimum still needs, given those placed now (by bundle).

        ``None`` stands for members of any bundle. Empty when the minimum is reached.
        """
        short: dict[str | None, int] = {}
        for bundle, least in self.settings.minima:
            missing = least - self._standing_count(bundle) - have.get(bundle, 0)
            if missing > 0:
                short[bundle] = missing
        missing = self.minimum - self._standing_count(None) - sum(have.values())
        if missing > 0:
            short[None] = missing
        return short

    def needs(self, bundle: str, have: Mapping[str, int]) -> bool:
        """Whether a member of the bundle would bring the gang closer to its minimum.

        While another bundle is short, only its members do: others could take its room.
        """
        short = self.lacking(have)
        return bundle in short or short.keys() == {None}

    def shortfall(self, have: Mapping[str, int]) -> int:
        """How many members the minimum still needs in all."""
        short = self.lacking(have)
        return max(short.pop(None, 0), sum(short.values()))

    def _standing_count(self, bundle: str | None) -> int:
        """Members with nodes that count; only-waiting counts none from earlier rounds."""
        placed = self.count(Standing.PLACED, bundle)
        if self.settings.match is MatchPolicy.WAITING and self.satisfied:
            return placed
        return placed + self.settled(bundle)

    def settled(self, bundle: str | None) -> int:
        """Members that are bound or have succeeded."""
        return self.count(Standing.BOUND, bundle) + self.count(Standing.SUCCEEDED, bundle)

    def breaks_without(self, leaving: int) -> bool:
        """Whether it would be short of its minimum if so many of its placed members left, or is
        to leave whole anyway.

        Bundles count together here: the surplus of one does not make up for another, so a gang
        with bundle minima has surplus only beyond all of them.
        """
        if not leaving or self.settings.leaves_whole:
            return bool(leaving)
        placed = self.count(Standing.PLACED) + self.count(Standing.BOUND)
        spare = placed + self.count(Standing.SUCCEEDED) - self.whole
        if self.settings.minima:
            spare = min(
                self.count(Standing.PLACED, bundle) + self.settled(bundle) - least
                for bundle, least in self.settings.minima
            )
        return leaving > max(spare, 0)

    @property
    def begun(self) -> bool:
        """Whether any member has ever had a node."""
        return any(self.count(at) for at in (Standing.BOUND, Standing.SUCCEEDED, Standing.FAILED))

    @property
    def has_nodes(self) -> bool:
        """Whether any member has a node that it keeps."""
        return any(self.count(at) for at in _HAS_NODE)

    @property
    def has_minimum(self) -> bool:
        """Whether the minimum is bound, by the word of the API."""
        enough = all(self.settled(bundle) >= least for bundle, least in self.settings.minima)
        return self.defined and enough and self.settled(None) >= self.minimum

    def check_consistent(self) -> None:
        """Check the counts against the members.

        Raises:
            AssertionError: they disagree.
        """
        counted = Counter((self.claims[uid].bundle, at) for uid, at in self._standing.items())
        assert counted == +self._counts, f"{self}: counts"
        assert Counter(self._standing.values()) == +self._totals, f"{self}: totals"
        assert self._standing.keys() == self.claims.keys(), f"{self}: standing"
        leaving = {uid for uid, at in self._standing.items() if at is Standing.LEAVING}
        assert leaving == {uid for uid, at in self._leaving.items() if at in _HAS_NODE}, (
            f"{self}: leaving"
        )
        assert self._leaving.keys() | self.ended <= self.claims.keys(), f"{self}: gone for good"
        assert sum(self._voices.values()) == len(self.claims), f"{self}: voices"
        kinds = Counter(claim.definition for claim in self.claims.values())
        assert kinds == +self.kinds, f"{self}: kinds"
