"""The scheduler's core: events in, effects out.

The engine never awaits, opens nothing and reads no clock: whoever drives it passes ``now`` (any
clock that does not run backwards, in seconds), carries the effects out, and reports what became
of them with :meth:`Engine.settle`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from arranger.api.effects import (
    Ambiguous,
    Applied,
    Bind,
    Effect,
    Outcome,
    Refused,
)
from arranger.api.objects import Node, Pod
from arranger.api.quantity import QuantityError
from arranger.cluster.cluster import Cluster
from arranger.cluster.objects import StoredObject
from arranger.cluster.pod_info import PodInfo
from arranger.engine import reports
from arranger.engine.changes import node_change, placed_pod_change, waiting_pod_change
from arranger.engine.cycle import (
    Broken,
    Cycle,
    Decision,
    Held,
    Placed,
    Unplaced,
    refused_node,
    unreserve_plugins,
)
from arranger.engine.entity import Entity, Part
from arranger.engine.phases import HOLDING, Phase
from arranger.engine.queue import QueueSettings, SchedulingQueue
from arranger.framework.failures import PluginFailureError, failure, running
from arranger.framework.profile import Profile
from arranger.framework.status import Code, Status
from arranger.framework.wakeup import ClusterEvent, EventKind

log = logging.getLogger(__name__)

#: Refusals that say nothing about the pod, or that it is not ours to speak about any more.
_SAYS_NOTHING = frozenset({"NotLeader", "Stopped", "NotFound", "Replaced", "AlreadyBound"})


@dataclass(slots=True)
class Stats:
    """What has happened since they were last taken; the driver turns them into metrics.

    Attributes:
        attempts: (profile, ``scheduled`` | ``unschedulable`` | ``error``) → how often.
        waits: seconds from queued to bound, one per bound pod.
        tries: attempts it took, one per bound pod.
    """

    attempts: Counter[tuple[str, str]] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    tries: list[int] = field(default_factory=list)


class Engine:
    """Owns all state and decides.

    Attributes:
        cluster: nodes and placed pods.
        queue: what is not placed.
    """

    def __init__(
        self, profiles: Sequence[Profile], *, settings: QueueSettings | None = None
    ) -> None:
        self.cluster = Cluster()
        self.queue = SchedulingQueue(settings or QueueSettings())
        self.stats = Stats()
        self._profiles: Mapping[str, Profile] = {p.scheduler_name: p for p in profiles}
        self._cycle = Cycle(self.cluster)
        #: Every pod that is ours and not gone, by uid.
        self._entities: dict[str, Entity] = {}
        self._uid_of: dict[str, str] = {}
        self._waiting: dict[str, Entity] = {}
        self._ask_waiting_again = False
        #: Effects that must be applied before a Binding, by identity.
        self._prerequisites: dict[int, Entity] = {}
        self._outbox: list[Effect] = []

    # --- events: nodes ---------------------------------------------------------------------

    def node_set(self, node: Node, now: float) -> None:
        """A node appeared or was edited."""
        try:
            before = self.cluster.set_node(node)
        except QuantityError as error:
            # Its last good state stays; a node never seen in a good state stays unknown.
            log.warning("node %s ignored: allocatable: %s", node.metadata.name, error)
            return
        event = node_change(before, node)
        if event is not None:
            self._happened(event, now)

    def node_gone(self, name: str, now: float) -> None:
        """A node was deleted."""
        before = self.cluster.remove_node(name)
        if before is not None:
            self._happened(ClusterEvent(EventKind.NODE_REMOVED, node_before=before), now)

    # --- events: what plugins look up ------------------------------------------------------

    def object_set(self, stored: StoredObject, now: float) -> None:
        """A namespace, service or controller appeared or was edited."""
        before = self.cluster.objects.set(stored)
        if before is None or before != stored:
            self._happened(ClusterEvent(EventKind.OTHER, resource=type(stored).__name__), now)

    def object_gone(self, stored: StoredObject, now: float) -> None:
        """A namespace, service or controller was deleted."""
        self.cluster.objects.remove(stored)
        self._happened(ClusterEvent(EventKind.OTHER, resource=type(stored).__name__), now)

    # --- events: pods ----------------------------------------------------------------------

    def pod_set(self, pod: Pod, now: float) -> None:
        """A pod appeared or was edited."""
        meta = pod.metadata
        earlier = self._uid_of.get(pod.key)
        if earlier is not None and earlier != meta.uid:
            # Deleted and recreated under one name, and the watch folded that into one event.
            self.pod_gone(pod.key, now)
        self._uid_of[pod.key] = meta.uid
        if pod.terminal:
            self._ended(meta.uid, now)
            return
        try:
            info = PodInfo(pod)
        except QuantityError as error:
            log.warning("pod %s ignored: resources: %s", pod.key, error)
            return
        if pod.spec.node_name:
            self._observed_on_node(info, now)
        elif pod.spec.scheduler_name in self._profiles:
            self._observed_pending(info, now)

    def pod_gone(self, key: str, now: float) -> None:
        """A pod (``namespace/name``) was deleted."""
        uid = self._uid_of.pop(key, None)
        if uid is not None:
            self._ended(uid, now)

    def _observed_on_node(self, info: PodInfo, now: float) -> None:
        before = self.cluster.pod(info.uid)
        reserved = self.cluster.node_of(info.uid)
        entity = self._entities.get(info.uid)
        if entity is not None and not self._is_ours_to_settle(entity, info):
            self._drop(entity)
        self.cluster.observe(info)
        if before is not None and reserved != info.pod.spec.node_name:
            # Somebody else bound it elsewhere: what we had reserved is free again.
            self._happened(ClusterEvent(EventKind.POD_REMOVED, pod=before.pod), now)
            before = None
        event = placed_pod_change(before, info)
        if event is not None:
            self._happened(event, now)

    def _is_ours_to_settle(self, entity: Entity, info: PodInfo) -> bool:
        """Whether the pod is where we are binding it, so that the outcome will end the story."""
        return (
            entity.phase in (Phase.BINDING, Phase.UNKNOWN)
            and entity.node == info.pod.spec.node_name
        )

    def _observed_pending(self, info: PodInfo, now: float) -> None:
        entity = self._entities.get(info.uid)
        if info.pod.metadata.deletion_timestamp is not None:
            if entity is not None and entity.phase in (Phase.QUEUED, Phase.WAITING):
                self._ended(info.uid, now)
            elif entity is not None:
                entity.newest = info
            return
        if entity is None:
            if info.uid in self.cluster:
                return  # bound by an earlier life of ours or by others; this event is older
            entity = Entity(info, self._profiles[info.pod.spec.scheduler_name], now)
            self._entities[info.uid] = entity
            self.queue.add(entity, now)
            return
        change = waiting_pod_change(entity.pod, info)
        if entity.phase is Phase.QUEUED and entity.uid in self.queue and change is not None:
            self.queue.updated(entity, info, change, now)
        elif entity.phase is Phase.QUEUED:
            entity.pod = info
        else:
            entity.newest = info

    def _ended(self, uid: str, now: float) -> None:
        entity = self._entities.get(uid)
        if entity is not None:
            self._drop(entity)
        freed = self.cluster.remove(uid)
        if freed is not None:
            self._happened(ClusterEvent(EventKind.POD_REMOVED, pod=freed.pod), now)

    def _drop(self, entity: Entity) -> None:
        """Forget an entity that is not ours to place any more; its reservation stays counted."""
        if entity.phase is Phase.QUEUED:
            self.queue.remove(entity)
        self._waiting.pop(entity.uid, None)
        if entity.phase in HOLDING:
            unreserve_plugins(entity)
        self._prerequisites = {n: e for n, e in self._prerequisites.items() if e is not entity}
        entity.move(Phase.GONE)
        del self._entities[entity.uid]

    def _happened(self, event: ClusterEvent, now: float) -> None:
        self._ask_waiting_again = True
        self.queue.happened(event, now)

    # --- deciding --------------------------------------------------------------------------

    def run(self, now: float, *, limit: int = 256) -> list[Effect]:
        """Try at most ``limit`` entities; returns what is to be done about them and others.

        Call again at once while :attr:`ready`, and at :meth:`next_timer` at the latest.
        """
        self.queue.advance(now)
        self._run_waiting(now)
        for _ in range(limit):
            entity = self.queue.pop()
            if entity is None:
                break
            self._attempt(entity, now)
        effects, self._outbox = self._outbox, []
        return effects

    @property
    def ready(self) -> bool:
        """Whether :meth:`run` has something to do now."""
        asking = self._ask_waiting_again and bool(self._waiting)
        return asking or self.queue.ready or bool(self._outbox)

    def next_timer(self) -> float | None:
        """When something will be due without any event."""
        timers = [entity.deadline for entity in self._waiting.values()]
        queued = self.queue.next_timer()
        if queued is not None:
            timers.append(queued)
        return min(timers, default=None)

    def take_stats(self) -> Stats:
        """The statistics since the last call."""
        stats, self.stats = self.stats, Stats()
        return stats

    def _attempt(self, entity: Entity, now: float) -> None:
        entity.attempts += 1
        entity.last_attempt = now
        decision: Decision = Broken(entity.broken) if entity.broken else self._cycle.decide(entity)
        match decision:
            case Placed(held=held):
                entity.move(Phase.RESERVED)
                self._count(entity, "scheduled")
                if held is not None:
                    entity.move(Phase.WAITING)
                    entity.held_by, entity.held_for = held.plugin, held.timeout
                    entity.deadline = now + held.timeout
                    self._waiting[entity.uid] = entity
                else:
                    self._go_bind(entity, now)
            case Unplaced():
                self._count(entity, "unschedulable")
                self._outbox += decision.effects
                nominated = decision.nominated or None
                self._outbox += reports.failed(
                    entity, reports.UNSCHEDULABLE, decision.message, nominated
                )
                self.queue.rest(entity, decision.rejected_by, now)
            case Broken(message=message):
                log.error("pod %s: %s", entity.pod.key, message)
                self._count(entity, "error")
                self._outbox += reports.failed(entity, reports.SCHEDULER_ERROR, message)
                self.queue.retry(entity, now)

    def _run_waiting(self, now: float) -> None:
        overdue = [e for e in self._waiting.values() if e.deadline <= now]
        for entity in overdue:
            waited = f"{entity.held_for:g}s at plugin {entity.held_by}"
            reason = f"rejected due to timeout after waiting {waited}"
            self._reject(entity, Status(Code.UNSCHEDULABLE, (reason,), entity.held_by), now)
        if not self._ask_waiting_again:
            return
        self._ask_waiting_again = False
        for entity in list(self._waiting.values()):
            try:
                answer = self._cycle.permit(entity)
            except PluginFailureError as error:
                self._roll_back(entity, str(error), now)
                continue
            if isinstance(answer, Status):
                self._reject(entity, answer, now)
            elif not isinstance(answer, Held):
                del self._waiting[entity.uid]
                self._go_bind(entity, now)

    def _go_bind(self, entity: Entity, now: float) -> None:
        """Start writing: what PreBind wants first, then the Binding."""
        entity.move(Phase.BINDING)
        try:
            refusal = self._prepare(entity)
        except PluginFailureError as error:
            self._roll_back(entity, str(error), now)
            return
        if refusal is not None:
            self._reject(entity, refusal, now)
        elif not entity.awaiting:
            self._post_binding(entity, now)

    def _prepare(self, entity: Entity) -> Status | None:
        """Send off what PreBind wants done; returns its refusal if it refuses."""
        for plugin in entity.profile.at("pre_bind"):
            with running(plugin, "PreBind"):
                answer = plugin.pre_bind(entity.state, entity.pod, entity.node)
                if isinstance(answer, Status):
                    if answer.rejected:
                        return Status(answer.code, answer.reasons, plugin.name)
                    continue
                for effect in answer or ():
                    entity.awaiting.add(id(effect))
                    self._prerequisites[id(effect)] = entity
                    self._outbox.append(effect)
        return None

    def _post_binding(self, entity: Entity, now: float) -> None:
        if entity.node not in self.cluster.table.index:
            # The API server would take the Binding: it does not look whether the node exists.
            self._roll_back(entity, f'node "{entity.node}" not found', now)
            return
        try:
            for plugin in entity.profile.at("bind"):
                with running(plugin, "Bind"):
                    entity.binding = plugin.bind(entity.state, entity.pod, entity.node)
                if entity.binding is not None:
                    self._outbox.append(entity.binding)
                    return
        except PluginFailureError as error:
            self._roll_back(entity, str(error), now)
            return
        self._roll_back(entity, "no Bind plugin took the pod", now)

    # --- outcomes --------------------------------------------------------------------------

    def settle(self, effect: Effect, outcome: Outcome, now: float) -> None:
        """What became of an effect; :class:`Ambiguous` will be followed by a definite outcome."""
        if isinstance(effect, Bind):
            entity = self._entities.get(effect.pod.uid)
            if entity is not None and entity.binding is effect:
                self._settle_binding(entity, outcome, now)
        elif id(effect) in self._prerequisites:
            self._settle_prerequisite(effect, outcome, now)

    def awaits(self, effect: Effect) -> bool:
        """Whether something waits for the outcome of ``effect``."""
        return isinstance(effect, Bind) or id(effect) in self._prerequisites

    def _settle_binding(self, entity: Entity, outcome: Outcome, now: float) -> None:
        match outcome:
            case Applied():
                entity.move(Phase.BOUND)
                self._outbox.append(reports.scheduled(entity))
                self.stats.waits.append(now - entity.queued_at)
                self.stats.tries.append(entity.attempts)
                for plugin in entity.profile.at("post_bind"):
                    try:
                        plugin.post_bind(entity.state, entity.pod, entity.node)
                    except Exception as error:
                        log.error("pod %s: %s", entity.pod.key, failure(plugin, "PostBind", error))
                # From here on the API owns the pod. The assumption stays until the watch shows
                # it, and a pending state of this uid can only be an old one.
                del self._entities[entity.uid]
                self._happened(ClusterEvent(EventKind.POD_ADDED, pod=entity.pod.pod), now)
            case Ambiguous():
                if entity.phase is Phase.BINDING:
                    entity.move(Phase.UNKNOWN)
            case Refused():
                self._roll_back(entity, f"binding rejected: {outcome.message}", now, outcome)

    def _settle_prerequisite(self, effect: Effect, outcome: Outcome, now: float) -> None:
        entity = self._prerequisites[id(effect)]
        if isinstance(outcome, Ambiguous):
            return
        del self._prerequisites[id(effect)]
        entity.awaiting.discard(id(effect))
        if isinstance(outcome, Refused):
            self._roll_back(entity, f"preparing to bind: {outcome.message}", now, outcome)
        elif not entity.awaiting:
            self._post_binding(entity, now)

    def _roll_back(
        self, entity: Entity, message: str, now: float, refused: Refused | None = None
    ) -> None:
        """What was begun failed for good: free the node, tell, and try again after a back-off."""
        if entity.uid not in self.cluster.assumed:
            # The watch has shown the pod on the node: it is bound, whoever did it.
            self._drop(entity)
            return
        log.error("pod %s: %s", entity.pod.key, message)
        self._count(entity, "error")
        self._release(entity, now)
        if entity.phase is Phase.QUEUED:
            if refused is None or refused.reason not in _SAYS_NOTHING:
                self._outbox += reports.failed(entity, reports.SCHEDULER_ERROR, message)
            self.queue.retry(entity, now)

    def _reject(self, entity: Entity, refusal: Status, now: float) -> None:
        """A plugin took back what the cycle had granted: rest until its events."""
        self._count(entity, "unschedulable")
        self._release(entity, now)
        self._outbox += reports.failed(entity, reports.UNSCHEDULABLE, refused_node(refusal))
        self.queue.rest(entity, frozenset({refusal.plugin}), now)

    def _release(self, entity: Entity, now: float) -> None:
        """Take the reservation back; the entity is to be queued, or gone if being deleted."""
        held = entity.pod.pod
        self._waiting.pop(entity.uid, None)
        self._prerequisites = {n: e for n, e in self._prerequisites.items() if e is not entity}
        self._cycle.unreserve(entity)
        # Before the entity is queued: its own leaving must not wake it.
        self._happened(ClusterEvent(EventKind.POD_REMOVED, pod=held), now)
        if entity.newest is not None and entity.newest.pod.metadata.deletion_timestamp is not None:
            entity.move(Phase.GONE)
            del self._entities[entity.uid]
            return
        entity.move(Phase.QUEUED)
        if entity.newest is not None:
            entity.update(entity.newest)

    def _count(self, entity: Entity, result: str) -> None:
        self.stats.attempts[entity.profile.scheduler_name, result] += 1

    # --- for people and tests --------------------------------------------------------------

    def entities(self) -> list[Entity]:
        """Every pod of ours that is not bound or gone."""
        return list(self._entities.values())

    def check_consistent(self) -> None:
        """Check every invariant of the core.

        Raises:
            AssertionError: one is broken.
        """
        self.cluster.check_consistent()
        self.queue.check_consistent()
        for uid, entity in self._entities.items():
            assert entity.uid == uid, f"{entity} is filed under {uid}"
            assert (entity.phase is Phase.QUEUED) == (uid in self.queue), f"{entity}: queue"
            assert (entity.phase in HOLDING) == (uid in self.cluster), f"{entity}: reservation"
            assert (entity.phase is Phase.WAITING) == (uid in self._waiting), f"{entity}: waiting"
            assert entity.part is Part.OUT or entity.phase is Phase.QUEUED, f"{entity}: part"
        assert len(self.queue) <= len(self._entities), "the queue holds strangers"
        assert set(self._prerequisites.values()) <= set(self._entities.values()), "prerequisites"
