"""What one attempt to place a gang group knows and has come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.rejecters import GANG
from arranger.engine.gang.placement.boards import Placements
from arranger.engine.pod.schedule_result import Infeasible, RowMask, Unschedulable
from arranger.gangs.gang import Gang, advances
from arranger.gangs.group import GangGroup


@dataclass(slots=True)
class GangScheduleResult:
    """What became of an attempt.

    Attributes:
        complete: whether the group has its minimum, with what it held before.
        placed: the members that have a node now.
        placeable: how many fit together, whether or not they have kept their nodes.
        blocker: the first required member that fits nowhere.
        message: why it does not fit, as for a pod on its own.
        error: what a plugin raised, "" when none did.
        rejected_by: the plugins whose events may change the result.
        blockers: one pod of each class that fits nowhere.
        events: (reason, text) of the plugins' events for the blocker.
        infeasible: the diagnosis of the blocker, if no node is feasible for it.
        bounded: whether there were too many ways to place the members to try them all.
    """

    complete: bool = False
    placed: Placements = field(default_factory=list)
    placeable: int = 0
    blocker: QueuedPod | None = None
    message: str = ""
    error: str = ""
    rejected_by: frozenset[str] = frozenset()
    blockers: tuple[PodInfo, ...] = ()
    events: tuple[tuple[str, str], ...] = ()
    infeasible: Infeasible | None = None
    bounded: bool = False


@dataclass(slots=True)
class GroupAttempt:
    """An attempt under way.

    Attributes:
        placed_counts: gang → bundle → members placed, those held from earlier attempts included.
        lacking: gang → what its minimum still needs beyond these, as of :meth:`look_again`.
        failed_classes: kind of pods to which the same nodes are open → one of its pods, and the
            plugins that rejected it.
        result: what is known so far.
        hopeful: whether it ends as soon as the group cannot be complete any more.
        hopeless: whether it has ended so.
    """

    gang_of: Mapping[str, Gang]
    placed_counts: dict[str, Counter[str]]
    row_mask: RowMask | None
    failed_classes: dict[Hashable, tuple[PodInfo, frozenset[str]]] = field(default_factory=dict)
    result: GangScheduleResult = field(default_factory=GangScheduleResult)
    hopeful: bool = False
    hopeless: bool = False
    lacking: dict[str, dict[str | None, int]] = field(default_factory=dict)

    @staticmethod
    def of(group: GangGroup, held: Iterable[str], row_mask: RowMask | None) -> GroupAttempt:
        """An attempt that begins; ``held`` are the uids of those that have nodes."""
        return GroupAttempt(group.gangs_by_uid(), group.count_by_bundle(held), row_mask)

    def keep(self, placed: Placements, members: Iterable[QueuedPod]) -> list[QueuedPod]:
        """These are placed, and the group is complete; returns the others of the members."""
        self.result = GangScheduleResult(complete=True, placed=placed)
        for member, _ in placed:
            gang = self.gang_of[member.uid]
            self.placed_counts[gang.name][gang.memberships[member.uid].bundle] += 1
        uids = {member.uid for member, _ in placed}
        return [member for member in members if member.uid not in uids]

    def look_again(self, group: GangGroup) -> None:
        """Find out what the gangs lack: it may be another in each step.

        Of a gang with thousands of bundles that cannot be asked for each of its members.
        """
        counts = self.placed_counts
        self.lacking = {gang.name: gang.missing_members(counts[gang.name]) for gang in group.gangs}

    def is_needed(self, gang: str, bundle: str) -> bool:
        """See :meth:`Gang.advances_minimum`."""
        return advances(bundle, self.lacking[gang])

    def count_placed(self, gang: str, bundle: str) -> None:
        """A member has got a node."""
        self.placed_counts[gang][bundle] += 1
        lacking = self.lacking[gang]
        for key in (bundle, None):
            if (count := lacking.pop(key, 0)) > 1:
                lacking[key] = count - 1

    def may_be_complete(self, group: GangGroup, untried: Iterable[QueuedPod]) -> bool:
        """Whether the group has what it needs if all of these get nodes."""
        hoped = {name: Counter(bundles) for name, bundles in self.placed_counts.items()}
        for member in untried:
            gang = self.gang_of[member.uid]
            hoped[gang.name][gang.memberships[member.uid].bundle] += 1
        return not group.lacks_members(hoped)

    def fail(self, member: QueuedPod, kind: Hashable, answer: Infeasible | Unschedulable) -> None:
        """A member fits nowhere, and so do the others of its kind."""
        if isinstance(answer, Unschedulable):
            message, rejected_by = answer.message, answer.rejected_by
        else:
            message = answer.diagnosis.message()
            rejected_by = answer.diagnosis.unschedulable_plugins() - {GANG}
            rejected_by |= answer.filters_about_others
            rejected_by |= answer.filters_about_objects(member.profile)
        self.failed_classes[kind] = member.pod, rejected_by
        result = self.result
        if result.blocker is None:
            result.blocker, result.message = member, message
            if isinstance(answer, Infeasible):
                result.events = tuple(answer.diagnosis.plugin_events())
                result.infeasible = answer
