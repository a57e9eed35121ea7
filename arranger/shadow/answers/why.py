"""Why a pod, a gang, a job or a queue waits: the chain of causes, and what would help.

The present is what a forecast leaves: everything that the scheduler would place at once is placed,
so what waits then waits for a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from arranger.api.types.core import Pod
from arranger.cluster.nodes.node_sizes import why_too_large
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.queue_state import QueueState
from arranger.engine.context.rejecters import KEPT, KEPT_ROOM
from arranger.engine.engine import Engine
from arranger.engine.pod.satisfiability import Satisfiability
from arranger.explain.judgement import Judgement
from arranger.framework.cluster_event import ActionType
from arranger.gangs.messages import arrival_summary
from arranger.shadow.answers.ends import ends_by
from arranger.shadow.answers.leaving import Leaving
from arranger.shadow.forecasts.forecast import TAKES_TOO_LONG, Forecast, why_waiting

#: Nodes, and entities that are before one, that an answer names.
_NAMED: Final = 5
#: What a queueing hint names → what that is for people.
_EVENTS: Final = (
    (ActionType.NODE_ADDED, "a node is added"),
    (ActionType.NODE_ALLOCATABLE, "a node has more to give"),
    (ActionType.NODE_LABELS, "the labels of a node change"),
    (ActionType.NODE_TAINTS, "a node loses a taint or is uncordoned"),
    (ActionType.POD_REMOVED, "a pod leaves its node"),
    (ActionType.POD_ADDED, "a pod is bound"),
    (ActionType.POD_LABELS, "the labels of a placed pod change"),
    (ActionType.POD_SCALED_DOWN, "a placed pod asks for less"),
    (ActionType.OWN_UPDATE, "the pod itself is edited"),
)


class Suggestion(msgspec.Struct, frozen=True):
    """A change that was tried in the shadow, and with which what waits is placed.

    Attributes:
        change: what would have to be done.
        nodes: pod → node, of the pods asked about.
        evicted: pods that would have to leave for it.
    """

    change: str
    nodes: dict[str, str]
    evicted: list[str]


class QueuePlace(msgspec.Struct, frozen=True):
    """Where something waits.

    Attributes:
        name: of the queue; "" where there are none.
        position: its place among all that wait there; 1 is tried next.
        waiting: how much waits there: lone pods and gangs.
        before: the first that are tried before it.
        limits: resource or card → (used, limit), of the queue and those that it is part of, by
            queue; cpu in thousandths, memory in bytes.
    """

    name: str
    position: int
    waiting: int
    before: list[str]
    limits: dict[str, dict[str, tuple[int, int]]]


class GangState(msgspec.Struct, frozen=True):
    """How far a gang is.

    Attributes:
        name: of the gang, or of the gangs of its group.
        arrived: in words, ``2 of 5 arrived``.
        missing: how many members the minimum still needs.
        blocked_by: the members that cannot be placed, one a class.
    """

    name: str
    arrived: str
    missing: int
    blocked_by: list[str]


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """Why one thing waits, as ``arranger why -o json`` prints it.

    Attributes:
        subject: what was asked about, ``pod default/x`` or ``gang default/y``.
        state: ``Running``, ``Ended``, ``Placeable`` (it goes to ``nodes`` when it is tried),
            ``Waiting``, ``Gated``, ``Terminating`` (it is being deleted), ``NotOurs`` (another
            scheduler's), or ``Idle`` of a queue in which nothing waits.
        reason: in one sentence, as the condition of its pods says.
        pods: which it is about.
        nodes: pod → the node it has, goes to, or holds while it waits for others of its gang.
        evicted: pods that leave for it, those that are being deleted already among them.
        queue: where it waits.
        gang: of one in a gang.
        node_reasons: (reason, nodes) of the pod that keeps it waiting, most frequent first.
        nearest: (node, what it lacks), the nearest first.
        preemption: why nobody can be evicted for it.
        never: why it can have no node as the cluster and its queues are, whatever ends; else "".
        wakes: what would have it tried again.
        suggestions: changes that were tried and help.
        not_tried: further changes that may help, for which there was no time.
    """

    subject: str
    state: str
    reason: str
    pods: list[str]
    nodes: dict[str, str] = {}
    evicted: list[str] = []
    queue: QueuePlace | None = None
    gang: GangState | None = None
    node_reasons: list[tuple[str, int]] = []
    nearest: list[tuple[str, str]] = []
    preemption: str = ""
    wakes: list[str] = []
    suggestions: list[Suggestion] = []
    not_tried: list[str] = []
    never: str = ""


@dataclass(slots=True, eq=False)
class WhyAnswers:
    """Answers questions about what a forecast shows."""

    _forecast: Forecast
    _leaving: Leaving = field(default_factory=Leaving)
    _members: dict[str, QueuedPod] = field(init=False)

    def __post_init__(self) -> None:
        self._members = {member.pod.key: member for member in self._forecast.engine.pods()}

    def pod(self, key: str) -> Answer:
        """About a pod, ``namespace/name``.

        Raises:
            LookupError: there is no such pod.
        """
        told = self._forecast
        pod = told.objects.get(Pod, key)
        subject = f"pod {key}"
        if (gone := self._leaving.pods.get(key)) is not None:
            nodes = {key: gone.spec.node_name} if gone.spec.node_name else {}
            return Answer(subject, "Terminating", self._leaving.text(gone), [key], nodes)
        if pod is None and key in told.evicted:
            return Answer(subject, "Running", _evicted_text(told, key), [key], evicted=[key])
        if pod is None:
            raise LookupError(f"there is no pod {key}")
        if (settled := self._settled(subject, pod)) is not None:
            return settled
        member = self._members.get(key)
        if member is None:
            return Answer(subject, "NotOurs", _not_ours(pod), [key])
        if member.entity is None:
            node = told.held.get(key, "")
            return Answer(
                subject, "Waiting", why_waiting(member), [key], {key: node} if node else {}
            )
        return self.entity(member.entity, member, subject)

    def waiting(self, keys: Sequence[str]) -> Iterator[Answer]:
        """About some pods: those that wait together once, and those that do not each."""
        seen: set[str] = set()
        for key in keys:
            member = self._members.get(key)
            entity = member.entity if member is not None else None
            if entity is None or member is None:
                yield self.pod(key)
            elif entity.key not in seen:
                seen.add(entity.key)
                named = entity.group
                subject = f"pod {key}" if named is None else named.display_name
                yield self.entity(entity, member, subject)

    def entity_of(self, key: str) -> QueuedEntity | None:
        """What a pod waits in; None for one that does not wait."""
        member = self._members.get(key)
        return member.entity if member is not None and key not in self._forecast.nodes else None

    def in_queue(self, name: str) -> Iterator[Answer]:
        """About all that waits in a queue, in the order in which it is tried.

        Raises:
            LookupError: there is no such queue, and nothing waits for it.
        """
        waiting = [each for each in self.entities() if self._queue_name(each) == name]
        ledger = self._forecast.engine.ledger
        if not waiting and ledger.queue_quota(name) is None:
            raise LookupError(f"there is no queue {name}")
        if not waiting:
            yield Answer(f"queue {name}", "Idle", "nothing waits in it", [])
        for entity in waiting:
            title = f"pod {_title(entity)}" if entity.group is None else f"gang {_title(entity)}"
            yield self.entity(entity, entity.representative, title)

    def entities(self) -> list[QueuedEntity]:
        """All that wait, in the order in which they are tried, queue by queue."""
        return sorted(
            self._forecast.engine.queue.entities(),
            key=lambda each: (self._queue_name(each), self._rank(each)),
        )

    def entity(self, entity: QueuedEntity, member: QueuedPod, subject: str) -> Answer:
        """About what waits as one: a lone pod, or the members of a gang group."""
        told = self._forecast
        pods = sorted(each.pod.key for each in entity.members.values())
        if (reason := why_waiting(member)) == TAKES_TOO_LONG:
            return Answer(subject, "Waiting", reason, pods, queue=self._place(entity))
        judged = blocking_member(entity, member)
        verdict = Judgement.of(told.engine.cycle, judged)
        gated = entity.state is QueueState.GATED
        return Answer(
            subject,
            "Gated" if gated else "Waiting",
            reason,
            pods,
            queue=self._place(entity),
            gang=self._gang(entity),
            node_reasons=[] if gated else verdict.reasons(),
            nearest=[
                (lack.node, lack.text().removeprefix(f"{lack.node} "))
                for lack in verdict.nearest(_NAMED)
            ],
            preemption=reason.partition("preemption: ")[2],
            wakes=_wakes(entity, judged),
            never=why_never(told.engine, entity, judged.pod),
        )

    # --- inside ----------------------------------------------------------------------------

    def _settled(self, subject: str, pod: Pod) -> Answer | None:
        """About a pod that does not wait, or will not when it is tried."""
        told, key = self._forecast, pod.key
        if pod.terminal:
            return Answer(subject, "Ended", f"it has ended: {pod.status.phase}", [key])
        if (node := told.nodes.get(key)) is not None:
            victims = {who for who, why in told.evicted.items() if why.taker == key}
            going = self._leaving.before(pod, node)
            once = _once(len(victims), len(going))
            reason = f"it goes to node {node} when it is tried{once}"
            left = sorted(victims.union(going))
            return Answer(subject, "Placeable", reason, [key], {key: node}, left)
        if pod.spec.node_name:
            end = ends_by(told.engine, [pod])
            until = f", until {end} at the latest" if end else ""
            reason = f"it runs on node {pod.spec.node_name}{until}"
            return Answer(subject, "Running", reason, [key], {key: pod.spec.node_name})
        return None

    def _queue_name(self, entity: QueuedEntity) -> str:
        ledger = self._forecast.engine.ledger
        return ledger.queue_name(entity.representative.pod) if ledger.active else ""

    def _rank(self, entity: QueuedEntity) -> tuple[object, ...]:
        return self._forecast.engine.queue.sort_key(entity)

    def _place(self, entity: QueuedEntity) -> QueuePlace:
        engine, name = self._forecast.engine, self._queue_name(entity)
        beside = [each for each in engine.queue.entities() if self._queue_name(each) == name]
        beside.sort(key=self._rank)
        at = beside.index(entity) if entity in beside else 0
        limits: dict[str, dict[str, tuple[int, int]]] = {}
        for quota in engine.ledger.path_self_to_root(name) if name else ():
            most = {**quota.capability, **(quota.card_quota or {})}
            if most:
                limits[quota.name] = {of: (quota.used[of], most[of]) for of in sorted(most)}
        before = [_title(each) for each in beside[:at][:_NAMED]]
        return QueuePlace(name, at + 1, max(len(beside), 1), before, limits)

    def _gang(self, entity: QueuedEntity) -> GangState | None:
        group = entity.group
        if group is None:
            return None
        # Those that hold nodes meanwhile, as a NonStrict gang has them, have come, too.
        arrived = self._forecast.engine.holds.arrived_counts(entity)
        missing = sum(gang.shortfall(arrived.get(gang.name, {})) for gang in group.gangs)
        blockers = [pod.key for pod in entity.blockers] if not group.spans_namespaces else []
        return GangState(group.name, arrival_summary(group, arrived), missing, blockers)


def why_never(engine: Engine, entity: QueuedEntity, judged: PodInfo) -> str:
    """Why it can have no node as the cluster and the queues are, whatever ends; "" if it may.

    Args:
        judged: its member that keeps it waiting.
    """
    if entity.group is None:
        table = engine.cluster.table
        return why_too_large(table, judged) if table.count else ""
    return entity.never or Satisfiability(engine.cluster, engine.ledger).why_never(entity)


def blocking_member(entity: QueuedEntity, member: QueuedPod) -> QueuedPod:
    """The member that could not be placed; ``member`` where none is known to be the cause."""
    blocker = next((pod for pod in entity.blockers if pod.uid in entity.members), None)
    return entity.members[blocker.uid] if blocker is not None else member


def _title(entity: QueuedEntity) -> str:
    return entity.group.name if entity.group is not None else entity.representative.pod.key


def _once(victims: int, going: int) -> str:
    """What has to happen first; who that is may be another tenant's, and is no part of it."""
    firsts = []
    if victims:
        firsts.append(f"{victims} {'pod has' if victims == 1 else 'pods have'} left for it")
    if going:
        pods = "pod that is being deleted there is" if going == 1 else ""
        firsts.append(f"{going} {pods or 'pods that are being deleted there are'} gone")
    return f", once {' and '.join(firsts)}" if firsts else ""


def _wakes(entity: QueuedEntity, member: QueuedPod) -> list[str]:
    """What the plugins that rejected it wait for."""
    actions, others = ActionType(0), False
    for plugin in member.profile.by_name.values():
        if plugin.name in entity.rejected_by:
            for hint in plugin.queueing_hints:
                actions |= hint.action_types
                others |= bool(hint.action_types & ActionType.OTHER)
    if KEPT_ROOM in entity.rejected_by:
        actions |= ActionType.CAPACITY_FREED
    found = [text for action, text in _EVENTS if actions & action]
    found += ["an object that it needs changes"] if others else []
    kept = not KEPT.isdisjoint(entity.rejected_by)
    return [*found, *(["nodes are not kept for others any more"] if kept else [])]


def _not_ours(pod: Pod) -> str:
    name = pod.spec.scheduler_name or "default-scheduler"
    return f"it is for another scheduler: spec.schedulerName is {name}"


def _evicted_text(told: Forecast, key: str) -> str:
    eviction = told.evicted[key]
    taker = f" for {eviction.taker or eviction.gang}" if eviction.taker or eviction.gang else ""
    return f"it has to leave node {eviction.node}{taker}"
