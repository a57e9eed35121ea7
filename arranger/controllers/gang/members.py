"""What the status of a gang is worked out from: its members, summed up."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from arranger.api.settings.gang_membership import GangMembership
from arranger.api.timestamps import second_time
from arranger.api.types.core import Pod
from arranger.gangs.gang_object import dialect_of
from arranger.gangs.member_state import MemberState, member_state

#: Owners of a pod that are looked at, and owners that a status names.
_MAX_OWNERS: Final = 4
_MAX_NAMES: Final = 100


@dataclass(frozen=True, slots=True)
class MemberSummary:
    """One pod of a gang.

    Attributes:
        nominated: whether it is pending with a node held for it.
        leaving: whether it is being deleted, and has not ended.
        first_attempt_at: when the scheduler first reported on it, RFC 3339; "" for not yet.
        owners: ``namespace/name`` of its owners.
        source: the dialect in which it says that it is a member.
        reason, message: why it is not placed, from its condition PodScheduled; "" while unknown.
    """

    bundle: str = ""
    state: MemberState = MemberState.PENDING
    running: bool = False
    nominated: bool = False
    leaving: bool = False
    first_attempt_at: str = ""
    owners: tuple[str, ...] = ()
    source: str = ""
    reason: str = ""
    message: str = ""


def summarize_member(pod: Pod, membership: GangMembership) -> MemberSummary:
    """What the status of its gang needs to know of a pod."""
    state = member_state(pod)
    pending = state is MemberState.PENDING
    scheduled = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    # The API server says of itself that a pod is gated; no scheduler has seen that pod.
    if scheduled is not None and scheduled.reason == "SchedulingGated":
        scheduled = None
    since = scheduled.last_transition_time if scheduled is not None else None
    refused = scheduled is not None and scheduled.status == "False" and pending
    own = pod.metadata.owner_references[:_MAX_OWNERS]
    owners = (f"{pod.metadata.namespace}/{owner.name}" for owner in own)
    return MemberSummary(
        bundle=membership.bundle,
        state=state,
        running=pod.status.phase == "Running",
        nominated=pending and bool(pod.status.nominated_node_name),
        leaving=pod.metadata.deletion_timestamp is not None and not pod.terminal,
        first_attempt_at=second_time(since) if since is not None else "",
        owners=tuple(owners),
        source=dialect_of(pod, membership),
        reason=scheduled.reason if scheduled is not None and refused else "",
        message=scheduled.message if scheduled is not None and refused else "",
    )


@dataclass(frozen=True, slots=True)
class MemberCounts:
    """Members of a gang, or of one of its bundles.

    Attributes:
        bound: those on a node, and those that have succeeded on one.
        placed: those and the pending ones that a node is held for.
        waiting: those that have no node and are to get one.
        kept: the bound ones but for those that are being deleted.
        kept_running: those of them that run.
    """

    members: int = 0
    placed: int = 0
    bound: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    waiting: int = 0
    kept: int = 0
    kept_running: int = 0

    @property
    def alive(self) -> int:
        """Members that have not failed."""
        return self.members - self.failed

    @property
    def started(self) -> int:
        """Members that run or have succeeded."""
        return self.running + self.succeeded

    @property
    def leaving(self) -> int:
        """Members that have a node and are being deleted."""
        return self.bound - self.kept

    @property
    def has_had_node(self) -> int:
        """Members on a node, and those that have ended."""
        return self.bound + self.failed


@dataclass(frozen=True, slots=True)
class GangSummary:
    """A gang's members summed up, and its minimums.

    Attributes:
        minimum: members that must be placed, whatever their bundles.
        minimums: bundle → members of it that must be placed.
        defined: whether a minimum was given anywhere.
        reason, message: of those that wait, the most frequent.
        first_attempt_at: when the scheduler first reported on one of them; "" for not yet.
        occupied_by: the first owners by the alphabet, joined by commas.
    """

    total: MemberCounts = MemberCounts()
    bundles: Mapping[str, MemberCounts] = field(default_factory=dict)
    minimum: int = 0
    minimums: Mapping[str, int] = field(default_factory=dict)
    defined: bool = True
    reason: str = ""
    message: str = ""
    first_attempt_at: str = ""
    occupied_by: str = ""
    source: str = ""

    @property
    def total_minimum(self) -> int:
        """Members that must be placed over all bundles; at least one."""
        return max(1, self.minimum, sum(self.minimums.values()))

    @property
    def complete(self) -> bool:
        """Whether every minimum is bound to nodes."""
        return self.defined and self.reaches_minimum(lambda counts: counts.bound)

    def reaches_minimum(self, number: Callable[[MemberCounts], int]) -> bool:
        """Whether ``number`` of the counts reaches every minimum."""
        return number(self.total) >= self.total_minimum and all(
            number(self.bundles.get(bundle, MemberCounts())) >= least
            for bundle, least in self.minimums.items()
        )


def summarize(
    members: Iterable[MemberSummary],
    *,
    minimum: int = 0,
    minimums: Mapping[str, int] | None = None,
    defined: bool = True,
) -> GangSummary:
    """Sum up the members of a gang."""
    members = list(members)
    by_bundle: dict[str, list[MemberSummary]] = {bundle: [] for bundle in minimums or {}}
    for member in members:
        by_bundle.setdefault(member.bundle, []).append(member)
    reasons = Counter((m.reason, m.message) for m in members if m.reason or m.message)
    # Of equally frequent ones the first by the alphabet, so that the text does not alternate.
    (reason, message), _ = max(sorted(reasons.items()), key=lambda t: t[1], default=(("", ""), 0))
    return GangSummary(
        total=_count(members),
        bundles={bundle: _count(by_bundle[bundle]) for bundle in sorted(by_bundle)},
        minimum=minimum,
        minimums=dict(minimums or {}),
        defined=defined,
        reason=reason,
        message=message,
        first_attempt_at=min(
            (member.first_attempt_at for member in members if member.first_attempt_at), default=""
        ),
        occupied_by=",".join(
            heapq.nsmallest(_MAX_NAMES, {owner for member in members for owner in member.owners})
        ),
        source=min((member.source for member in members), default=""),
    )


def _count(members: list[MemberSummary]) -> MemberCounts:
    by_state = Counter(member.state for member in members)
    bound = by_state[MemberState.BOUND] + by_state[MemberState.SUCCEEDED]
    leaving = Counter(member.state for member in members if member.leaving)
    return MemberCounts(
        members=len(members),
        placed=bound + sum(member.nominated for member in members),
        bound=bound,
        running=sum(member.running for member in members),
        succeeded=by_state[MemberState.SUCCEEDED],
        failed=by_state[MemberState.FAILED],
        waiting=by_state[MemberState.PENDING] - leaving[MemberState.PENDING],
        kept=bound - leaving[MemberState.BOUND],
        kept_running=sum(member.running and not member.leaving for member in members),
    )
