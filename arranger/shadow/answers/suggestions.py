"""What would help something that waits: candidates, each tried in the shadow before it is named."""

from __future__ import annotations

import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

import numpy as np

from arranger.api.annotations import MAX_RUN_TIME, RESERVATION
from arranger.api.resource_requests import format_resource_list
from arranger.api.types.core import Pod
from arranger.api.types.queue import QUEUE_API_VERSION
from arranger.cluster.nodes.node_sizes import why_too_large
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.reservations.entry import shown_time
from arranger.explain.judgement import Judgement
from arranger.explain.lack import Lack, format_amount
from arranger.quota.min_resources import requested_minimum
from arranger.shadow.answers.ends import ends_by
from arranger.shadow.answers.labels import wanted_labels
from arranger.shadow.answers.missing_members import arrival, is_incomplete
from arranger.shadow.answers.why import Suggestion, WhyAnswers, blocking_member, why_never
from arranger.shadow.forecasts.added_nodes import add_nodes, first_node
from arranger.shadow.forecasts.branch import Branch
from arranger.shadow.forecasts.changes import (
    ChangeError,
    ClusterChange,
    annotate,
    cordon,
    create,
    label_node,
    leave,
    more_room,
    set_queue,
    untaint,
    without_gate,
    without_reservation,
)
from arranger.shadow.forecasts.comparison import PresentState
from arranger.shadow.forecasts.forecast import Driver, Forecast

#: Forecasts that one answer may take, and suggestions after which no more are tried.
MAX_TRIED: Final = 12
MAX_FOUND: Final = 4
#: Changes that are named of those that were not tried.
_NAMED: Final = 5
#: Nodes looked at, of those that lack least; and how many nodes may be added.
_NEAREST: Final = 3
#: Seconds after which no more changes are tried, for whatever is asked about at once; and where
#: whoever asks has more time.
QUICK_SECONDS: Final = 0.5
THOROUGH_SECONDS: Final = 20.0
#: Changes that are tried at a time, where there are so many cores.
_AT_ONCE: Final = 4
_ADDED: Final = (1, 2, 4, 8, 16, 32)

#: (sort of change, change)
Candidate = tuple[str, ClusterChange]


@dataclass(slots=True, eq=False)
class Suggester:
    """Tries changes on what a forecast leaves.

    Args:
        driver: has made the forecast, and is not changed any more.
        told: the forecast.
        seconds: after which no more changes are tried.
    """

    driver: Driver
    told: Forecast
    seconds: float = QUICK_SECONDS
    _clock: Callable[[], float] = time.monotonic
    _until: float = field(init=False)
    _teams: dict[str, Mapping[str, Sequence[str]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._until = self._clock() + self.seconds

    def suggest(
        self, entity: QueuedEntity, member: QueuedPod
    ) -> tuple[list[Suggestion], list[str]]:
        """(the first changes with which all members that wait are placed, others not tried)."""
        pods = sorted(each.pod.key for each in entity.members.values())
        found: dict[str, Suggestion] = {}
        tried = 0
        left: Iterator[Candidate] = self._candidates(entity, member)
        running: deque[tuple[Candidate, Branch[PresentState]]] = deque()
        try:
            while self._clock() < self._until and tried < MAX_TRIED and len(found) < MAX_FOUND:
                wanted = (each for each in left if each[0] not in found)
                for each in islice(wanted, _cores() - len(running)):
                    running.append((each, self._start(each[1])))
                if not running:
                    break
                (kind, change), branch = running[0]
                if kind not in found:
                    tried += 1
                    if (helped := self._judged(change, pods, branch)) is not None:
                        found[kind] = helped
                running.popleft()[1].close()
        except TimeoutError:
            pass
        finally:
            for _, branch in running:
                branch.close()
        if is_incomplete(entity, self.told.engine) and not found:
            with suppress(TimeoutError):
                return self._once_complete(entity, pods)
        if len(found) >= MAX_FOUND:
            return list(found.values()), []
        others = chain((each for each, _ in running), left)
        texts = (change.text for kind, change in others if kind not in found)
        return list(found.values()), list(islice(texts, _NAMED))

    def _start(self, change: ClusterChange) -> Branch[PresentState]:
        def attempt() -> PresentState:
            self.driver.change([change])
            return PresentState.of(self.driver.settle())

        seconds = max(self._until - self._clock(), 0.0)
        return Branch[PresentState].start(attempt, PresentState, seconds)

    def _judged(
        self, change: ClusterChange, pods: Sequence[str], branch: Branch[PresentState]
    ) -> Suggestion | None:
        """A change that has been tried, if it helps; one that the server would refuse does not.

        Raises:
            TimeoutError: that is not known in time.
        """
        try:
            after = branch.result()
        except ChangeError:
            return None
        nodes = {key: after.nodes[key] for key in pods if key in after.nodes}
        return (
            Suggestion(change.text, nodes, sorted(after.evicted))
            if len(nodes) == len(pods)
            else None
        )

    # --- candidates ------------------------------------------------------------------------

    def _candidates(self, entity: QueuedEntity, member: QueuedPod) -> Iterator[Candidate]:
        """The first of each sort, the mildest sort first; then the second of each, and so on."""
        sorts = deque(self._sorts(entity, member))
        while sorts:
            first = sorts.popleft()
            if (candidate := next(first, None)) is not None:
                yield candidate
                sorts.append(first)

    def _sorts(self, entity: QueuedEntity, member: QueuedPod) -> Iterator[Iterator[Candidate]]:
        engine, judged = self.told.engine, blocking_member(entity, member)
        verdict = Judgement.of(engine.cycle, judged)
        never = why_never(engine, entity, judged.pod)
        near = [each for each in verdict.nearest(_NEAREST) if not each.has_none]
        # A member that fits alone: all of them together do not.
        near += [
            Lack(node, dict(judged.pod.requests), set(), 0.0)
            for node in verdict.feasible[: _NEAREST - len(near)]
        ]
        # Those that would hold it empty: elsewhere no end helps, and no more nodes like that.
        fits = engine.cluster.table.replica_capacity(judged.pod, empty=True)
        large = [each for each in near if fits[engine.cluster.table.index[each.node]]]
        if not never:
            yield self._gates(entity)
            yield self._members(entity)
        if is_incomplete(entity, self.told.engine):
            return
        yield self._queues(entity)
        if not never:
            yield self._reservations(entity, judged)
            yield self._cordoned()
            yield self._kept_away(judged.pod.pod, verdict)
        yield self._room(entity, near)
        if not never:
            others = verdict.rejected_by("DynamicResources"), verdict.kept_in_part()
            near_enough = [*verdict.resolvable(), *chain.from_iterable(others)]
            yield self._ends([each.node for each in large] + near_enough[:_NEAREST])
        if not why_too_large(engine.cluster.table, judged.pod):
            yield self._nodes(large, verdict)
        yield self._first_node(entity)

    def _gates(self, entity: QueuedEntity) -> Iterator[Candidate]:
        for member in entity.members.values():
            for gate in member.pod.pod.spec.scheduling_gates:
                yield f"gate {gate.name}", without_gate(member.pod.key, gate.name)

    def _members(self, entity: QueuedEntity) -> Iterator[Candidate]:
        if (change := arrival(entity, self.told.engine)) is not None:
            yield "members", change

    def _once_complete(
        self, entity: QueuedEntity, pods: Sequence[str]
    ) -> tuple[list[Suggestion], list[str]]:
        """As :meth:`suggest`, of a gang whose members do not fit either once all have arrived.

        Raises:
            TimeoutError: that is not known in time.
        """
        if (change := arrival(entity, self.told.engine)) is None:
            return [], []

        def attempt() -> tuple[list[Suggestion], list[str]]:
            self.driver.change([change])
            told = self.driver.settle()
            waits = WhyAnswers(told).entity_of(pods[0])
            if waits is None or is_incomplete(waits, told.engine):
                return [], []
            complete = Suggester(self.driver, told, self._until - self._clock(), self._clock)
            found, others = complete.suggest(waits, waits.representative)
            return [
                Suggestion(
                    f"{change.text}, and then {each.change}",
                    {key: each.nodes[key] for key in pods if key in each.nodes},
                    sorted({*told.evicted, *each.evicted}),
                )
                for each in found
            ], [f"{change.text}, and then {each}" for each in others]

        kind = tuple[list[Suggestion], list[str]]
        seconds = max(self._until - self._clock(), 0.0)
        branch = Branch[tuple[list[Suggestion], list[str]]].start(attempt, kind, seconds)
        return branch.result()

    def _queues(self, entity: QueuedEntity) -> Iterator[Candidate]:
        """A higher limit of each queue that is short of something for it."""
        ledger = self.told.engine.ledger
        if not ledger.active:
            return
        stated = ledger.stated_queue(entity.representative.pod)
        if ledger.queue_quota(stated) is None:
            manifest = {
                "apiVersion": QUEUE_API_VERSION,
                "kind": "Queue",
                "metadata": {"name": stated},
                "spec": {},
            }
            yield "queue", create([manifest], f"queue {stated} created")
        wanted = _requests([entity])
        for name, least in self._least(entity).items():
            wanted[name] = max(wanted.get(name, 0), least)
        for quota in ledger.path_self_to_root(ledger.queue_name(entity.representative.pod)):
            for name, amount in wanted.items():
                limit = quota.capability.get(name)
                if limit is not None and quota.used[name] + amount > limit:
                    new = format_resource_list({name: quota.used[name] + amount})[name]
                    change = set_queue(quota.name, "capability", name, new)
                    yield f"queue {quota.name} {name}", change
        own = {each.name for each in ledger.path_self_to_root(stated)}
        for quota in ledger.queues.values():
            for name, amount in wanted.items():
                kept = quota.guarantee.get(name, 0) if quota.name not in own else 0
                if kept > quota.used[name]:
                    less = max(kept - amount, quota.used[name], 0)
                    new = format_resource_list({name: less})[name]
                    yield f"guarantee {name}", set_queue(quota.name, "guarantee", name, new)

    def _reservations(self, entity: QueuedEntity, judged: QueuedPod) -> Iterator[Candidate]:
        """Away from the nodes that it asks for; an end before a window opens; a window's end."""
        pods = sorted(each.pod.key for each in entity.members.values())
        if RESERVATION in judged.pod.pod.metadata.annotations:
            yield (
                "asked for",
                annotate(pods, RESERVATION, "", f"without the annotation {RESERVATION}"),
            )
        for name, window, opens_in in self.told.engine.reservations.kept_from(judged):
            theirs = f"with the pod among the users of Reservation {name}"
            if minutes := int(opens_in / 60):
                text = f"the annotation {MAX_RUN_TIME}: {minutes}m"
                yield "run time", annotate(pods, MAX_RUN_TIME, f"{minutes}m", text)
            if not opens_in:
                ends = f"when Reservation {name} ends, at {shown_time(window.end)}"
                theirs = f"{ends}, or with the pod among its users"
            yield "reservation", without_reservation(name, theirs)

    @staticmethod
    def _least(entity: QueuedEntity) -> Mapping[str, int]:
        """What the PodGroup of a gang wants at least."""
        group = entity.group
        wanted: Mapping[str, int] = {}
        for gang in group.gangs if group is not None else ():
            wanted = wanted or requested_minimum(gang.pod_group)
        return wanted

    def _cordoned(self) -> Iterator[Candidate]:
        table = self.told.engine.cluster.table
        rows = np.flatnonzero(table.unschedulable[: table.size] & table.alive[: table.size])
        for node in sorted(table.name(row) for row in rows.tolist()):
            yield "uncordon", cordon(node, back=True)

    def _kept_away(self, pod: Pod, verdict: Judgement) -> Iterator[Candidate]:
        """Nodes that the pod would have if their taints or labels were others."""
        for node in verdict.rejected_by("TaintToleration"):
            yield "taint", untaint(node)
        if labels := wanted_labels(pod):
            for node in verdict.rejected_by("NodeAffinity"):
                yield "label", label_node(node, labels)

    def _room(self, entity: QueuedEntity, near: Sequence[Lack]) -> Iterator[Candidate]:
        """What one pod lacks; what all of them ask for; the same and what those before it want."""
        queue = self.told.engine.queue
        rank = queue.sort_key(entity)
        ahead = [each for each in queue.entities() if queue.sort_key(each) < rank]
        members = _requests([entity])
        for lack in near:
            of_all = {name: members[name] for name in lack.missing if name in members}
            before = _requests(ahead)
            beside = {name: amount + before[name] for name, amount in of_all.items()}
            for amounts in (lack.missing, of_all, beside):
                told = ", ".join(format_amount(*each) for each in amounts.items())
                yield "room", more_room(lack.node, amounts, f"{told} more on node {lack.node}")

    def _ends(self, nodes: Sequence[str]) -> Iterator[Candidate]:
        """The ends of what runs there, the smallest first: of a workload as a whole."""
        cluster = self.told.engine.cluster
        for node in dict.fromkeys(nodes):
            here = {_team(pod.pod): pod.pod for pod in cluster.pods_on(node)}
            teams = {who: self._team_of(pod)[who] for who, pod in here.items()}
            for _, who in sorted((len(pods), who) for who, pods in teams.items())[:_NEAREST]:
                yield "end", leave(teams[who], who, self._end_of(teams[who]))

    def _end_of(self, keys: Sequence[str]) -> str:
        pods = [self.told.objects.get(Pod, key) for key in keys]
        return ends_by(self.told.engine, [pod for pod in pods if pod is not None])

    def _team_of(self, pod: Pod) -> Mapping[str, Sequence[str]]:
        """What a placed pod belongs to → the pods of that, and perhaps the same of others."""
        if not pod.metadata.owner_references:
            return {_team(pod): [pod.key]}
        return self._placed(pod.metadata.namespace)

    def _placed(self, namespace: str) -> Mapping[str, Sequence[str]]:
        """What the placed pods of a namespace belong to → the pods, of those that have owners."""
        if namespace not in self._teams:
            teams: dict[str, list[str]] = defaultdict(list)
            cluster = self.told.engine.cluster
            for uid in cluster.table.placed.by_namespace.get(namespace, ()):
                pod = cluster.pod(uid)
                if pod is not None and pod.pod.metadata.owner_references:
                    teams[_team(pod.pod)].append(pod.key)
            self._teams[namespace] = teams
        return self._teams[namespace]

    def _first_node(self, entity: QueuedEntity) -> Iterator[Candidate]:
        """Where there are none: one for all its members."""
        if len(self.told.engine.cluster):
            return
        amounts = {**_requests([entity]), "pods": len(entity.members)}
        told = ", ".join(format_amount(*each) for each in amounts.items())
        labels = wanted_labels(entity.representative.pod.pod)
        yield "nodes", first_node(labels, amounts, f"a node with {told}")

    def _nodes(self, near: Sequence[Lack], verdict: Judgement) -> Iterator[Candidate]:
        for node in [each.node for each in near[:1]] or verdict.resolvable()[:1]:
            for count in _ADDED:
                yield "nodes", add_nodes(count, node)


def _cores() -> int:
    return min(os.cpu_count() or 1, _AT_ONCE)


def _requests(entities: Sequence[QueuedEntity]) -> dict[str, int]:
    """What all their members ask for."""
    wanted: dict[str, int] = defaultdict(int)
    for entity in entities:
        for member in entity.members.values():
            for name, amount in member.pod.requests.items():
                wanted[name] += amount
    return wanted


def _team(pod: Pod) -> str:
    """What a pod belongs to, for people: its controller, else itself."""
    owner, meta = pod.metadata.controller, pod.metadata
    if owner is None:
        return f"pod {pod.key}"
    return f"{owner.kind} {meta.namespace}/{owner.name}"
