"""Gangs of all dialects in any order of events and outcomes, against a small API server."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arranger.api.effects import (
    Ambiguous,
    AnnotatePod,
    Applied,
    Bind,
    DeletePod,
    Effect,
    ObjectKey,
    Refused,
)
from arranger.api.types.pod_groups import AnyPodGroup
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins.queueing.scheduling_gates import SchedulingGates
from tests.builders import PodBuilder, PodGroupBuilder, a_node, a_pod, a_pod_group
from tests.unit.engine.gang_server import GangServer, GangWrite
from tests.unit.engine.harness import CONFLICT, small_profile
from tests.unit.engine.stateful.gang_checks import (
    check_capacity,
    check_gangs,
    check_nothing_is_left,
    could_be_placed,
    is_bound,
)
from tests.unit.engine.stateful.gang_model import (
    BOTH,
    DEFINED,
    EVENTS,
    GANG_SETTINGS,
    KINDS,
    NAMED,
    NAMES,
    NODES,
    PICK,
    PLUGIN_ANSWERS,
    TIMEOUT_ANNOTATIONS,
    GangSettings,
    PendingBinding,
    ServerPod,
    UnreliablePlugin,
    gang_object,
    with_gang_settings,
)


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.moody = UnreliablePlugin()
        self.policy = GangPolicy()
        self.now = 0.0
        self.born = 0
        self.nodes: dict[str, int] = {}
        self.pods: dict[str, ServerPod] = {}
        self.groups: dict[tuple[str, type[AnyPodGroup]], PodGroupBuilder] = {}
        self.deleted: list[str] = []
        self.writes: list[PendingBinding] = []
        #: Pods whose Binding the engine knows to have been taken.
        self.bound_by_us: set[str] = set()
        #: Name → uid of the pods that the engine has been shown as succeeded.
        self.succeeded: dict[str, str] = {}
        self.gang_server = GangServer()
        self.begin()

    def begin(self) -> None:
        profile = small_profile(SchedulingGates(), self.moody)
        self.engine = Engine(EngineSettings([profile], gang_policy=self.policy))

    @initialize(
        on_timeout=st.sampled_from(["Block", "Retry"]),
        on_partial_bind=st.sampled_from(["Complete", "Complete", "Delete", "Hold"]),
        starvation_after=st.sampled_from([20.0, 600.0]),
    )
    def policy_is_chosen(self, **policy: Any) -> None:
        self.policy = GangPolicy(wait_time=60.0, **policy)
        self.begin()
        self.engine.handlers.start(self.now)
        self.node_is_set_or_goes("n0", 3)
        self.node_is_set_or_goes("n1", 2)

    # --- what there is -----------------------------------------------------------------------

    @rule(name=NODES, cpu=st.integers(0, 5))
    def node_is_set_or_goes(self, name: str, cpu: int) -> None:
        if cpu:
            node = a_node(name).offers(cpu=cpu).labelled(zone="z0" if name == "n0" else "z1")
            self.engine.handlers.on_node_updated(node.build(), self.now)
            self.nodes[name] = cpu
        elif name in self.nodes:
            self.engine.handlers.on_node_deleted(name, self.now)
            del self.nodes[name]

    @rule(
        kind=st.sampled_from(KINDS), claim=GANG_SETTINGS, goes=st.sampled_from([False, False, True])
    )
    def pod_group_is_set_or_goes(
        self, kind: type[AnyPodGroup], claim: GangSettings, goes: bool
    ) -> None:
        group = a_pod_group(claim.gang, least=claim.least).annotated(claim.annotations)
        known = self.groups.pop((claim.gang, kind), None)
        if not goes:
            self.groups[claim.gang, kind] = group
            self.define(claim.gang, kind)
        elif known is not None:
            self.engine.handlers.on_pod_group_deleted(group.build(kind), self.now)

    @rule(
        claim=GANG_SETTINGS,
        names=NAMED,
        more=st.sampled_from([-1, 0, 0, 1]),
        seen=st.sampled_from(["not yet", "shown", "tried", "tried"]),
    )
    def pods_are_created_perhaps_in_place_of_others(
        self, claim: GangSettings, names: list[str], more: int, seen: str
    ) -> None:
        claim = replace(claim, least=max(len(names) + more, 0))
        if claim.dialect in DEFINED and seen == "tried":
            self.pod_group_is_set_or_goes(DEFINED[claim.dialect], claim, goes=False)
        for name in names:
            self.create(name, claim)
            if seen != "not yet":
                self.show(name)
        if seen == "tried":
            self.run_engine()

    @rule(claim=GANG_SETTINGS, names=NAMED)
    def a_group_is_created(self, claim: GangSettings, names: list[str]) -> None:
        """Two gangs that name each other, each with all the members that it needs."""
        both = replace(claim, dialect="annotations", partners=BOTH, gated=False)
        for gang, part in (("a", names[:2]), ("b", [*names[2:], "p7"])):
            for name in part:
                self.create(name, replace(both, gang=gang, least=len(part)))
                self.show(name)
        self.run_engine()

    @precondition(lambda self: self.pods)
    @rule(pick=PICK, what=st.sampled_from(EVENTS), claim=GANG_SETTINGS, seen=st.booleans())
    def something_happens_to_a_pod(
        self, pick: int, what: str, claim: GangSettings, seen: bool
    ) -> None:
        name = sorted(self.pods)[pick % len(self.pods)]
        served = self.pods[name]
        if what in ("edited", "freed"):
            self.show(name)  # nobody takes a mark away before it has been seen
        match what:
            case "deleted":
                self.delete(name)
            case "deleting":
                served.deleting = True
            case "edited":
                served.pod = with_gang_settings(served.pod, claim)
            case "freed":
                self.free(served)
            case "Succeeded" | "Failed" if served.node:
                served.phase = what
            case "bound by another":
                served.node = served.node or f"n{pick % 3}"
        if seen:
            self.show(name)

    @rule(at=st.sampled_from(PLUGIN_ANSWERS), mask=st.sampled_from(range(256)))
    def the_plugin_changes_its_mind(self, at: tuple[str, str], mask: int) -> None:
        point, mood = at
        names = [name for n, name in enumerate(NAMES) if mask >> n & 1]
        self.moody.moods[point] = dict.fromkeys(names, mood)

    # --- what the engine learns --------------------------------------------------------------

    @rule()
    def the_watch_shows_everything(self) -> None:
        for name in sorted({*self.pods, *self.deleted}):
            self.show(name)

    @precondition(lambda self: self.writes)
    @rule(pick=PICK, what=st.sampled_from(["taken", "in doubt", "known", "refused"]))
    def something_happens_to_a_write(self, pick: int, what: str) -> None:
        write = self.writes[pick % len(self.writes)]
        match what:
            case "taken":
                self.take(write)
            case "in doubt":
                self.engine.on_outcome(write.bind, Ambiguous("timeout"), self.now)
            case "known" if write.done:
                self.report(write)
            case "refused" if not write.done:
                write.done = CONFLICT if pick % 2 else Refused(0, "NotLeader", "")
                self.report(write)

    @rule()
    def all_writes_are_taken(self) -> None:
        for write in list(self.writes):
            self.take(write)
            self.report(write)

    @rule(seed=st.integers(0, 9))
    def the_scheduler_starts_anew(self, seed: int) -> None:
        """The lists come in any order, and what was under way is lost."""
        for write in self.writes[seed % 3 :]:
            self.take(write)
        self.writes = []
        self.begin()
        self.deleted, self.succeeded = [], {}
        shows: list[Callable[[], object]] = [
            *(partial(self.node_is_set_or_goes, name, cpu) for name, cpu in self.nodes.items()),
            *(partial(self.show, name) for name in self.pods),
            *(partial(self.define, *key) for key in self.groups),
            *(partial(self.recall, gang) for gang in self.gang_server.objects),
        ]
        random.Random(seed).shuffle(shows)
        for show in shows:
            show()
        self.engine.handlers.start(self.now)

    # --- time --------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.0, 1.0, 3.0, 10.0, 60.0, 300.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.run_engine()

    @rule()
    def the_engine_runs(self) -> None:
        self.run_engine()

    @invariant()
    def the_engine_agrees_with_itself(self) -> None:
        self.engine.check_consistent()

    def teardown(self) -> None:
        """Who can be placed is placed, and nothing is left when all is gone."""
        self.moody.moods.clear()
        self.nodes["n9"] = 1000
        self.engine.handlers.on_node_updated(a_node("n9").offers(cpu=1000).build(), self.now)
        for _ in range(3):
            self.catch_up()
            for served in self.pods.values():
                self.free(served)
            self.catch_up()
            for seconds in (0.0, 1.0, 10.0, 20.0, 400.0):
                self.now += seconds
                self.run_engine()
                self.catch_up()
        self.engine.check_consistent()
        there = {p.uid for p in self.pods.values() if not (p.deleting or p.phase == "Failed")}
        succeeded = set(self.succeeded.values())
        forgotten = {
            name: self.engine.registry.gang_of(served.uid)
            for name, served in self.pods.items()
            if not (served.node or served.deleting)
            and could_be_placed(self.engine, served, there | succeeded)
        }
        assert not forgotten, "forgotten"
        for name in list(self.pods):
            self.delete(name)
        for (_, kind), group in self.groups.items():
            self.engine.handlers.on_pod_group_deleted(group.build(kind), self.now)
        self.catch_up()
        for node in self.nodes:
            self.engine.handlers.on_node_deleted(node, self.now)
        self.run_engine()
        for _ in range(1000):
            if (due := self.engine.next_timer()) is None:
                break
            self.now = max(self.now, due)
            self.run_engine()
        assert not self.gang_server.objects
        assert self.engine.run(self.now) == []
        self.engine.check_consistent()
        assert self.engine.next_timer() is None
        check_nothing_is_left(self.engine)

    # --- inside ------------------------------------------------------------------------------

    def create(self, name: str, claim: GangSettings) -> None:
        self.born += 1
        uid = f"uid-{self.born}"
        pod = with_gang_settings(a_pod(name).with_uid(uid).needs(cpu=claim.cpu), claim)
        self.pods[name] = ServerPod(pod.gated("x") if claim.gated else pod, uid)

    def of(self, ref: ObjectKey) -> ServerPod | None:
        served = self.pods.get(ref.name)
        return served if served is not None and served.uid == ref.uid else None

    def delete(self, name: str) -> None:
        del self.pods[name]
        self.deleted.append(name)

    def free(self, served: ServerPod) -> None:
        manifest = served.pod.manifest()
        spec, notes = manifest["spec"], manifest["metadata"]["annotations"]
        if "schedulingGates" in spec or notes.keys() & set(TIMEOUT_ANNOTATIONS):
            spec.pop("schedulingGates", None)
            for mark in TIMEOUT_ANNOTATIONS:
                notes.pop(mark, None)
            served.pod = PodBuilder(manifest)

    def show(self, name: str) -> None:
        """Deliver a pod's present state, which may fold its deletion and rebirth into one."""
        self.deleted = [deleted for deleted in self.deleted if deleted != name]
        served = self.pods.get(name)
        self.succeeded.pop(name, None)
        if served is not None and served.phase == "Succeeded":
            self.succeeded[name] = served.uid
        if served is None:
            self.engine.handlers.on_pod_deleted(f"default/{name}", self.now)
        else:
            self.engine.handlers.on_pod_updated(served.build(), self.now)

    def define(self, gang: str, kind: type[AnyPodGroup]) -> None:
        self.engine.handlers.on_pod_group_updated(self.groups[gang, kind].build(kind), self.now)

    def recall(self, gang: str) -> None:
        self.engine.handlers.on_gang_updated(self.gang_server.get(gang), self.now)

    def take(self, write: PendingBinding) -> None:
        if write.done:
            return
        served = self.of(write.bind.pod)
        if served is None:
            write.done = Refused(404, "NotFound", "no such pod")
        elif served.node or served.deleting:
            write.done = CONFLICT
        else:
            served.node = write.bind.node
            write.done = Applied()

    def report(self, write: PendingBinding) -> None:
        assert write.done is not None
        self.writes.remove(write)
        if isinstance(write.done, Applied):
            self.bound_by_us.add(write.bind.pod.uid)
        self.engine.on_outcome(write.bind, write.done, self.now)

    def catch_up(self) -> None:
        """Everything under way ends and everything is seen."""
        self.all_writes_are_taken()
        self.the_watch_shows_everything()

    def run_engine(self) -> None:
        cluster = self.engine.cluster
        assumed = set(cluster.assumed)
        bound = {uid for uid in cluster._node_of if is_bound(self.engine, uid)}
        effects: list[Effect] = []
        while not effects or self.engine.ready:
            effects += self.engine.run(self.now)
            if not effects:
                break
        for effect in effects:
            self.perform(effect)
        calm = not self.moody.moods.get("pre_bind")
        check_capacity(self.engine, cluster.assumed - assumed, self.nodes)
        check_gangs(self.engine, bound, set(self.succeeded.values()), calm=calm)

    def perform(self, effect: Effect) -> None:
        if isinstance(effect, GangWrite):
            name, outcome = self.gang_server.apply(effect)
            before = self.gang_server.objects.get(name)
            self.engine.on_outcome(effect, outcome, self.now)
            if before is not None:
                self.recall(name)
            else:
                self.engine.handlers.on_gang_deleted(gang_object(name, {}), self.now)
        elif isinstance(effect, Bind):
            uid = effect.pod.uid
            assert uid not in {write.bind.pod.uid for write in self.writes}, "two writes at once"
            assert uid not in self.bound_by_us, "bound twice"
            self.writes.append(PendingBinding(effect))
        elif isinstance(effect, AnnotatePod | DeletePod) and (served := self.of(effect.pod)):
            if isinstance(effect, DeletePod):
                self.delete(effect.pod.name)
                return
            said = {key: text for key, text in effect.annotations.items() if text is not None}
            manifest = served.pod.annotated(said).manifest()
            for key in effect.annotations.keys() - said.keys():
                manifest["metadata"]["annotations"].pop(key, None)
            served.pod = PodBuilder(manifest)


TestLifeOfGangs = Life.TestCase
TestLifeOfGangs.settings = settings(
    max_examples=60, stateful_step_count=40, derandomize=True, deadline=None
)
