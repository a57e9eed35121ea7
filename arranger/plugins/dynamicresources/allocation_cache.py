"""Which nodes have devices for claims, kept for the next pod with equal claims.

Most pods with claims are replicas: their claims are made from one template. So a search is
repeated only on nodes whose devices have been added, removed, taken or released since.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import msgspec
import numpy as np

from arranger.api.types.resource_claims import DeviceClass, ResourceClaim
from arranger.cluster import Cluster, IntArray, NodeView, RowChange
from arranger.cluster.attempt_work import AskAgainError
from arranger.plugins.dynamicresources.allocator import (
    MAX_LOOKS,
    MAX_STEPS,
    ChosenDevice,
    SearchLimitError,
    search,
)
from arranger.plugins.dynamicresources.cel_selectors import CompiledSelectors
from arranger.plugins.dynamicresources.effort import (
    MAX_EFFORT,
    MAX_EFFORT_OF_STEP,
    MICROSECONDS,
    NODE,
    Effort,
    EffortSpentError,
)
from arranger.plugins.dynamicresources.pools import pools_for
from arranger.plugins.dynamicresources.requests import (
    AllocationError,
    DeviceSelection,
    preference_points,
)

NOT_ENOUGH: Final = "cannot allocate all claims"
#: In place of a reason, for nodes that another attempt looks at.
NOT_LOOKED_AT: Final = "devices have not been looked at yet"
#: Reasons that are told apart, and characters of one.
_MAX_REASONS: Final = 64
_MAX_REASON: Final = 1024
#: Cache entries kept.
_MAX_ENTRIES: Final = 16
#: After so many searches for equal claims that hit their limit, others get a shorter one.
_MAX_EXHAUSTED_SEARCHES: Final = 4
_SHORT_SEARCH_STEPS: Final = 50
_SHORT_SEARCH_LOOKS: Final = 200
#: Attempts that are spent on one node alone, some sixteen seconds of a core, and after so many such
#: searches. Upstream stops after ten seconds.
_MAX_ATTEMPTS: Final = 200
_SHORT_ATTEMPTS: Final = 2
TAKES_TOO_LONG: Final = "gave up looking for devices: that takes too long"
#: Claims of which it is known what stands for their request.
MAX_DIGESTS: Final = 4096
#: States of the devices of one node of which it is kept what was found there.
_MAX_STATES: Final = 16
#: Rows whose results are handed on in one unit of an attempt's work.
_ROWS_PER_UNIT: Final = 50
#: Devices found whose points are added up in one unit of effort.
_POINTS_PER_UNIT: Final = 4
#: Units of a look at what is kept.
_LOOKING_UP: Final = 1
#: In place of a reason's index: devices were found; nobody has looked yet.
_FOUND: Final = -1
_UNKNOWN: Final = -2

_encode: Final = msgspec.json.Encoder().encode


class UnfinishedSearchError(AskAgainError):
    """Not all nodes could be looked at in one attempt."""


@dataclass(slots=True)
class _CacheEntry:
    """The results for equal claims.

    Attributes:
        claims: keys of the claims that were searched for; the reasons name them.
        versions: of nodes, devices, classes and shared devices when the results were current.
        reasons: reason → its index.
        kind_of: row → index into ``reasons``, -1 where devices were found, -2 where nobody looked.
        points: row → points for the alternatives that were found there.
        found: row → the devices for each claim.
        kept: row → state of the devices there → what was found: members of a gang are taken off and
            put back, or tried with other victims, and the devices are as they were.
        exhausted_searches: how many searches hit their limit.
        attempts: (row, how many whole attempts in a row have not come to an end there).
    """

    claims: list[str]
    versions: tuple[int, int, int, int] = (-1, -1, -1, -1)
    reasons: dict[str, int] = field(default_factory=dict)
    kind_of: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    points: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    found: dict[int, list[list[ChosenDevice]]] = field(default_factory=dict)
    kept: dict[int, dict[Hashable, list[list[ChosenDevice]] | str]] = field(default_factory=dict)
    exhausted_searches: int = 0
    attempts: tuple[int, int] = (-1, 0)

    def takes_too_long(self, row: int) -> bool:
        """A whole attempt has not come to an end on a row; whether that was the last one there."""
        last, so_far = self.attempts
        self.attempts = row, so_far + 1 if row == last else 1
        impatient = self.exhausted_searches >= _MAX_EXHAUSTED_SEARCHES
        if self.attempts[1] < (_SHORT_ATTEMPTS if impatient else _MAX_ATTEMPTS):
            return False
        self.attempts = -1, 0
        self.count_search(exhausted=True)
        return True

    def count_search(self, *, exhausted: bool) -> None:
        """A search has failed; whether it hit its limit."""
        self.exhausted_searches += exhausted


class AllocationQuery:
    """Claims that are to be allocated together, on some node of a cluster as it is now."""

    def __init__(
        self,
        cluster: Cluster,
        claims: Sequence[ResourceClaim],
        entry: _CacheEntry,
        selectors: CompiledSelectors,
    ) -> None:
        self._cluster = cluster
        self._selectors = selectors
        self._claims = claims
        self._entry = entry
        self._points = [preference_points(claim) for claim in claims]

    def devices_on(self, row: int) -> list[list[ChosenDevice]] | str:
        """The devices for each claim, or why the claims cannot be allocated there."""
        reasons, (kind,) = self.check(NodeView(self._cluster.table, slice(row, row + 1)))
        return self._entry.found[row] if kind == _FOUND else reasons[kind]

    def check(self, nodes: NodeView) -> tuple[list[str], IntArray]:
        """Reasons, and for each entry of the view the index of its reason; -1 for devices.

        With so much to do that it would keep other pods waiting, only some nodes are looked at, and
        the others when the pod is tried again. What goes on in another step looks at all of them,
        in smaller parts.

        Raises:
            UnfinishedSearchError: not all nodes have been looked at, and no devices been found yet.
        """
        entry = self._entry
        self._refresh()
        rows = nodes.row_numbers()
        kinds = entry.kind_of[rows]
        work = self._cluster.work
        units = MAX_EFFORT_OF_STEP if work.is_limited else MAX_EFFORT
        selection = DeviceSelection(self._selectors, Effort(units))
        left = rows[(kinds == _UNKNOWN) & nodes.alive].tolist()
        for row in left:
            try:
                found = self._look(row, selection)
            except EffortSpentError:
                if row != left[0] or not entry.takes_too_long(row):
                    break
                found = self._keep(row, self._state_of(row), TAKES_TOO_LONG)
            if isinstance(found, str):
                entry.kind_of[row] = self._number_of(found)
            else:
                entry.found[row], entry.kind_of[row] = found, _FOUND
                entry.points[row] = self._points_of(found, selection.effort)
        effort = MICROSECONDS * (units - selection.effort.left)
        work.count(effort + len(rows) // _ROWS_PER_UNIT)
        reasons = [self._reworded(reason) for reason in entry.reasons]
        kinds = entry.kind_of[rows]
        unknown = (kinds == _UNKNOWN) & nodes.alive
        if unknown.any() and (work.is_limited or not (kinds == _FOUND).any()):
            raise UnfinishedSearchError(
                f"no devices found yet: {np.count_nonzero(unknown)} nodes are looked at in later "
                "attempts"
            )
        index: IntArray = np.where(unknown, len(reasons), np.maximum(kinds, _FOUND))
        return [*reasons, NOT_LOOKED_AT], index

    def points_on(self, nodes: NodeView) -> IntArray:
        """For each entry of the view the points for the alternatives that were found there."""
        self._refresh()
        rows = nodes.row_numbers()
        return np.where(self._entry.kind_of[rows] == _FOUND, self._entry.points[rows], 0)

    def _points_of(self, found: list[list[ChosenDevice]], effort: Effort) -> int:
        effort.count(sum(map(len, found)) // _POINTS_PER_UNIT)
        return sum(
            points.get(name, 0)
            for points, chosen in zip(self._points, found, strict=True)
            for name in {wanted.name for wanted, _ in chosen}
        )

    def _number_of(self, reason: str) -> int:
        """The index of a reason; of very many only the first are told apart."""
        reasons = self._entry.reasons
        if reason not in reasons and len(reasons) >= _MAX_REASONS:
            reason = NOT_ENOUGH
        return reasons.setdefault(reason, len(reasons))

    def _look(self, row: int, selection: DeviceSelection) -> list[list[ChosenDevice]] | str:
        """What is found on a row; searched for unless the devices have been in this state before.

        Raises:
            EffortSpentError: it has not been found out; ask again.
        """
        selection.effort.spend(_LOOKING_UP)
        state = self._state_of(row)
        if (found := self._entry.kept.get(row, {}).get(state)) is None:
            selection.effort.count(NODE)
            found = self._keep(row, state, self._search(row, selection))
        return found

    def _state_of(self, row: int) -> Hashable:
        return self._cluster.devices.state_at(self._cluster.table.name(row))

    def _keep(
        self, row: int, state: Hashable, found: list[list[ChosenDevice]] | str
    ) -> list[list[ChosenDevice]] | str:
        kept = self._entry.kept.setdefault(row, {})
        if len(kept) >= _MAX_STATES:
            kept.clear()
        kept[state] = found
        return found

    def _search(self, row: int, selection: DeviceSelection) -> list[list[ChosenDevice]] | str:
        devices, objects = self._cluster.devices, self._cluster.objects
        pools = pools_for(self._cluster.table.node(row), devices)
        if not pools and any(claim.spec.devices.requests for claim in self._claims):
            return NOT_ENOUGH
        impatient = self._entry.exhausted_searches >= _MAX_EXHAUSTED_SEARCHES
        try:
            found = search(
                self._claims,
                pools,
                lambda name: objects.get(DeviceClass, "", name),
                devices.claim_tracker.is_taken,
                selection,
                max_steps=_SHORT_SEARCH_STEPS if impatient else MAX_STEPS,
                max_looks=_SHORT_SEARCH_LOOKS if impatient else MAX_LOOKS,
            )
        except AllocationError as error:
            self._entry.count_search(exhausted=isinstance(error, SearchLimitError))
            text = str(error)[:_MAX_REASON]
            for theirs, claim in zip(self._entry.claims, self._claims, strict=True):
                text = text.replace(f"claim {claim.key}", f"claim {theirs}")
            return text
        if found.chosen is not None:
            return found.chosen
        if found.unsupported:
            return f"{NOT_ENOUGH}; not supported yet: {', '.join(found.unsupported)}"
        return NOT_ENOUGH

    def _reworded(self, reason: str) -> str:
        """A reason that names the claims of the cache entry, about these claims."""
        for theirs, claim in zip(self._entry.claims, self._claims, strict=True):
            reason = reason.replace(f"claim {theirs}", f"claim {claim.key}")
        return reason

    def _refresh(self) -> None:
        entry, table, devices = self._entry, self._cluster.table, self._cluster.devices
        shared = devices.classes_version, devices.shared_version
        versions = table.version, devices.version, *shared
        if entry.versions == versions:
            return
        nodes, taken, *before = entry.versions
        entry.versions = versions
        rows = table.changed_since(nodes)
        homes = devices.changed_since(taken)
        if rows is None or homes is None or tuple(before) != shared:
            entry.kind_of = np.full(table.size, _UNKNOWN, dtype=np.int64)
            entry.points = np.zeros(table.size, dtype=np.int64)
            entry.found.clear()
            if rows is None or tuple(before) != shared:
                entry.kept.clear()
                entry.exhausted_searches = 0
            return
        if len(entry.kind_of) < table.size:
            more = np.full(table.size - len(entry.kind_of), _UNKNOWN, dtype=np.int64)
            entry.kind_of = np.concatenate([entry.kind_of, more])
            entry.points = np.concatenate([entry.points, np.zeros_like(more)])
        changed = {row for change, row in rows if change is RowChange.NODE}
        for row in changed:
            entry.kept.pop(row, None)
        changed |= {table.index[home] for home in homes if home in table.index}
        for row in changed:
            entry.kind_of[row] = _UNKNOWN
            entry.found.pop(row, None)


class AllocationCache:
    """The results of one cluster for the claims queried last."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._entries: OrderedDict[bytes, _CacheEntry] = OrderedDict()
        self._selectors = CompiledSelectors()
        #: (uid, version) of a claim → what stands for all that it asks for.
        self._digests: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def query(self, cluster: Cluster, claims: Sequence[ResourceClaim]) -> AllocationQuery:
        """The query for these claims."""
        if cluster is not self._cluster:
            self._cluster, self._entries = cluster, OrderedDict()
        key = b"".join(map(self._digest, claims))
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _CacheEntry([claim.key for claim in claims])
            if len(self._entries) > _MAX_ENTRIES:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return AllocationQuery(cluster, claims, entry, self._selectors)

    def _digest(self, claim: ResourceClaim) -> bytes:
        """Equal for claims that ask for the same; a claim may be a megabyte."""
        key = claim.metadata.uid, claim.metadata.resource_version
        if (digest := self._digests.get(key)) is None:
            digest = self._digests[key] = blake2b(_encode(claim.spec)).digest()
            if len(self._digests) > MAX_DIGESTS:
                self._digests.popitem(last=False)
        return digest
