"""One scheduling cycle: judge the nodes for a pod, and reserve the best."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray
from arranger.cluster.pod_info import PodInfo
from arranger.engine.pod.extender_result import Counsel
from arranger.engine.pod.node_reservation import Reservation
from arranger.engine.pod.schedule_result import (
    Broken,
    Decision,
    Held,
    NoRoom,
    Placed,
    Unplaced,
    Within,
    refused_node,
)
from arranger.engine.pod.second_filter_pass import MORE_IS_LESS, second_pass
from arranger.engine.queue.nominator import Nominations
from arranger.engine.queued_pod import Member
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.interface import Wait
from arranger.framework.runtime.dry_run import (
    Allows,
    Company,
    MayTake,
    Quota,
    Spared,
    Weight,
    WhatIf,
    alone,
    outranks,
    priority,
)
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.plugin_errors import PluginFailureError, running
from arranger.framework.runtime.post_filter import run_post_filter
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import CycleState, Status

log = logging.getLogger(__name__)

#: Evaluations kept; each holds a few arrays as long as the node table.
_KEPT_CLASSES = 64


def unreserve_plugins(member: Member) -> None:
    """Tell the Reserve plugins, last first, that the pod gives its node up."""
    for plugin in reversed(member.profile.at("reserve")):
        try:
            plugin.unreserve(member.state, member.pod, member.node)
        except Exception:
            # The reservation ends all the same, and the others must hear of it.
            log.exception("pod %s: running Unreserve plugin %r", member.pod.key, plugin.name)


def _all_of(bounds: list[Within]) -> BoolArray | None:
    if not bounds:
        return None
    rows = bounds[0].rows
    for bound in bounds[1:]:
        rows = rows & bound.rows
    return rows


class Cycle:
    """Runs pods through the extension points up to Permit."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.nominations = Nominations(cluster)
        #: Who must leave together; the engine's gangs say so.
        self.company: Company = tuple
        self.in_gang: Callable[[PodInfo], bool] = alone
        #: Who may take whose place, and who goes first; the engine's queues say so.
        self.may_take: MayTake = outranks
        self.weight: Weight = priority
        self.allows: Allows = bool
        self.quota: Quota | None = None
        self.spared: Spared | None = None
        #: The engine's clock at its present run.
        self.now = 0.0
        #: Nodes kept for a starving gang.
        self.reservation: Reservation | None = None
        #: Whether extenders choose among the options of preemption for a pod.
        self.others_choose: Callable[[PodInfo], bool] = lambda pod: False  # noqa: ARG005
        self._counsels: Mapping[Hashable, Counsel] = {}
        self._on_paper = False
        self._evaluations: OrderedDict[tuple[str, Hashable], Evaluation] = OrderedDict()

    # --- extenders -------------------------------------------------------------------------

    def shortlist(self, member: Member) -> tuple[str, ...]:
        """The nodes that the pod could be placed on now; none when a plugin raises.

        Placing the pod will then raise as well, and its owner is told.
        """
        with self._aside(member):
            try:
                evaluation = self.evaluate(member.profile, member.pod, member.sign)
            except Exception:
                return ()
            rows = _all_of(self._bounds(member, None, evaluation))
            feasible = evaluation.feasible if rows is None else evaluation.feasible & rows
            return tuple(self._cluster.table.name(row) for row in np.flatnonzero(feasible).tolist())

    def fits_without(self, member: Member, row: int, victims: Iterable[PodInfo]) -> bool:
        """Whether the pod would fit on a node if the victims were gone, wherever they are."""
        with self._aside(member), self._cluster.without(victims):
            try:
                evaluation = Evaluation(member.profile, self._cluster, member.pod, scoring=False)
            except PluginFailureError:
                return False
            return bool(evaluation.feasible[row])

    @contextmanager
    def counselled(self, counsels: Mapping[Hashable, Counsel]) -> Iterator[None]:
        """Let extenders have their say about pods of these kinds inside."""
        self._counsels = counsels
        try:
            yield
        finally:
            self._counsels = {}

    @contextmanager
    def on_paper(self) -> Iterator[None]:
        """Place pods in thought inside: rows that extenders were not asked about will do, too."""
        self._on_paper = True
        try:
            yield
        finally:
            self._on_paper = False

    # --- deciding --------------------------------------------------------------------------

    def decide(self, member: Member) -> Decision:
        """Place a lone pod on the best feasible node, or say why it cannot be placed.

        When :class:`Placed` is returned the node is assumed in the cluster and every Reserve
        plugin has agreed; otherwise nothing is held.
        """
        if not self.nominations:
            return self._decide(member)
        # Also while victims are sought: a pod that only has a promise can be no victim, and the
        # room that the pod has been promised itself is not taken.
        with self._aside(member):
            return self._decide(member)

    def _aside(self, member: Member) -> AbstractContextManager[None]:
        plain = self.quota is None or not self.quota.active
        return self.nominations.aside_for(member, self.may_take, by_priority=plain)

    def _decide(self, member: Member) -> Decision:
        decision = self._place(member, None)
        if not isinstance(decision, NoRoom):
            return decision
        try:
            return self._make_room(member, decision)
        except PluginFailureError as failure:
            return Broken(str(failure))

    def place(self, member: Member, within: Within | None = None) -> Decision | NoRoom:
        """Place a pod on the best feasible node, of the rows ``within`` if given.

        Makes no room: PostFilter is left to the caller, who may have more pods to place.
        """
        if not self.nominations:
            return self._place(member, within)
        with self._aside(member):
            return self._place(member, within)

    def _place(self, member: Member, within: Within | None) -> Decision | NoRoom:
        try:
            evaluation = self.evaluate(member.profile, member.pod, member.sign)
            bounds = self._bounds(member, within, evaluation)
            counsel = self._counsels.get(member.kind) if self._counsels else None
            row = self._choose(member, evaluation, bounds, counsel)
            if row < 0:
                return NoRoom(evaluation, self._diagnose(evaluation, bounds, counsel))
            return self._reserve(member, evaluation.state, self._cluster.table.name(row))
        except PluginFailureError as failure:
            return Broken(str(failure))
        except Exception as error:
            # Vectorised plugins run inside the evaluation; whichever raised, the pod must not
            # be lost and the others must go on.
            return Broken(f"{type(error).__name__}: {error}")

    def evaluate(self, profile: Profile, pod: PodInfo, sign: Hashable | None) -> Evaluation:
        """The evaluation of the pod's class, brought up to date."""
        if sign is None:
            return Evaluation(profile, self._cluster, pod)
        key = (profile.scheduler_name, sign)
        evaluation = self._evaluations.get(key)
        if evaluation is None:
            evaluation = self._evaluations[key] = Evaluation(profile, self._cluster, pod)
            if len(self._evaluations) > _KEPT_CLASSES:
                self._evaluations.popitem(last=False)
            return evaluation
        self._evaluations.move_to_end(key)
        try:
            evaluation.refresh()
        except Exception:
            # Half-refreshed answers must not be trusted by the next pod of the class.
            del self._evaluations[key]
            raise
        return evaluation

    def unreserve(self, member: Member) -> None:
        """Give the pod's reservation up, plugins first, in reverse order."""
        unreserve_plugins(member)
        self._cluster.remove(member.uid)
        member.node = ""
        member.state = CycleState()
        member.awaiting.clear()
        member.binding = None

    # --- inside ----------------------------------------------------------------------------

    def _choose(
        self,
        member: Member,
        evaluation: Evaluation,
        bounds: list[Within],
        counsel: Counsel | None,
    ) -> int:
        """The best row; the one it has been promised, if that is feasible now."""
        rows = _all_of(bounds)
        if counsel is not None:
            agreed = ~counsel.refused if self._on_paper else counsel.allowed
            rows = agreed if rows is None else rows & agreed
        promised = self._cluster.table.index.get(self.nominations.node_of(member.uid))
        if promised is not None and evaluation.refusal is None:
            allowed = rows is None or bool(rows[promised])
            if allowed and evaluation.feasible[promised]:
                return promised
        if counsel is not None and rows is not None and not self._on_paper:
            return counsel.best(evaluation.feasible & rows, evaluation.ranked)
        return evaluation.best(rows)

    def _bounds(
        self, member: Member, within: Within | None, evaluation: Evaluation
    ) -> list[Within]:
        """What leaves only some rows to choose from."""
        bounds = [] if within is None else [within]
        lost = second_pass(self._cluster, self.nominations, member, evaluation)
        bounds += [] if lost is None else [Within(*lost)]
        kept = self.reservation
        if kept is not None and kept.keeps_out(member, self.now):
            bounds.append(Within(kept.open_rows(self._cluster), kept.rejection))
        return bounds

    def _diagnose(
        self, evaluation: Evaluation, bounds: list[Within], counsel: Counsel | None
    ) -> Diagnosis:
        """Why no row is left, those that are out of bounds included."""
        diagnosis = evaluation.diagnosis()
        if diagnosis.refusal is None:
            for bound in bounds:
                alive = self._cluster.table.alive[: len(diagnosis.kind_of)]
                outside = alive & (diagnosis.kind_of < 0) & ~bound.rows
                diagnosis.kind_of = np.where(outside, len(diagnosis.kinds), diagnosis.kind_of)
                diagnosis.kinds = [*diagnosis.kinds, bound.otherwise]
            if counsel is not None:
                alive = self._cluster.table.alive[: len(diagnosis.kind_of)]
                counsel.explain(diagnosis, alive & (diagnosis.kind_of < 0))
        return diagnosis

    def _make_room(self, member: Member, found: NoRoom) -> Unplaced:
        diagnosis = found.diagnosis
        alike = found.evaluation.reads_pods <= MORE_IS_LESS  # with promised pods and without
        what_if = WhatIf(
            member.profile,
            self._cluster,
            member.pod,
            found.evaluation,
            nominated=self.nominations.node_of(member.uid),
            leaving=self.nominations.leaving,
            company=self.company,
            in_gang=self.in_gang,
            may_take=self.may_take,
            weight=self.weight,
            allows=self.allows,
            quota=self.quota,
            spared=self.spared,
            others_choose=self.others_choose(member.pod),
            promised=() if alike else self.nominations.counted(),
        )
        answer = run_post_filter(what_if, diagnosis)
        diagnosis.post_filter = answer.message()
        return Unplaced(
            diagnosis.message(),
            diagnosis.plugins(),
            answer.nominated,
            answer.victims,
            tuple(diagnosis.events()),
            answer.options,
        )

    def take_back(self, member: Member, found: NoRoom) -> None:
        """Let plugins undo what an earlier placement of a pod has left, now that none fits it."""
        state, diagnosis = found.evaluation.state, found.diagnosis
        for plugin in member.profile.at("take_back"):
            try:
                plugin.take_back(state, member.pod, diagnosis)
            except Exception:
                # The others must not suffer; it will be asked again.
                log.exception("pod %s: running TakeBack plugin %r", member.pod.key, plugin.name)

    def _reserve(self, member: Member, state: CycleState, node: str) -> Decision:
        self._cluster.assume(member.pod, node)
        member.node = node
        # The class goes on using its state; what Reserve and Permit note is this pod's own.
        member.state = CycleState(state)
        try:
            answer = self._ask(member)
        except Exception:
            self.unreserve(member)
            raise
        if isinstance(answer, Status):
            self.unreserve(member)
            return Unplaced(refused_node(answer), frozenset({answer.plugin}))
        return Placed(node, answer)

    def _ask(self, member: Member) -> Status | Held | None:
        """Reserve and Permit: the first refusal, the shortest wait, or ``None`` to go ahead."""
        for plugin in member.profile.at("reserve"):
            with running(plugin, "Reserve"):
                answer = plugin.reserve(member.state, member.pod, member.node)
                if answer is not None and answer.rejected:
                    return Status(answer.code, answer.reasons, plugin.name)
        return self.permit(member)

    def permit(self, member: Member) -> Status | Held | None:
        """Ask the Permit plugins: the first refusal, the shortest wait, or ``None`` to go ahead.

        Raises:
            PluginFailureError: one of them raised.
        """
        held: Held | None = None
        for plugin in member.profile.at("permit"):
            with running(plugin, "Permit"):
                answer = plugin.permit(member.state, member.pod, member.node)
                if isinstance(answer, Wait):
                    if held is None or answer.timeout < held.timeout:
                        held = Held(plugin.name, float(answer.timeout))
                elif answer is not None and answer.rejected:
                    return Status(answer.code, answer.reasons, plugin.name)
        return held
