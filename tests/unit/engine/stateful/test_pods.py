"""Any order of events and outcomes, against a small model of the API server and its watch."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arranger.api.effects import Ambiguous, Applied, Bind, Effect, Refused
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod

POD_NAMES = st.sampled_from(["p0", "p1", "p2"])
NODE_NAMES = st.sampled_from(["n0", "n1"])
CPUS = st.integers(1, 4)
PICK = st.integers(0, 99)
#: Long enough for every back-off and for the five-minute flush.
AGES = 1000.0


@dataclass
class ServedPod:
    """A pod as the API server has it."""

    pod: PodBuilder
    uid: str
    cpu: int
    node: str = ""
    deleting: bool = False

    def builder(self) -> PodBuilder:
        pod = self.pod.deleting() if self.deleting else self.pod
        return pod.on(self.node) if self.node else pod


@dataclass
class Write:
    """A Binding on its way; ``done`` is what the server did with it, unknown to the engine."""

    bind: Bind
    done: Applied | Refused | None = None


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(EngineSettings([default_profile()]))
        self.engine.handlers.start(0.0)
        self.now = 0.0
        self.born = 0
        self.nodes: dict[str, tuple[int, bool]] = {}
        self.pods: dict[str, ServedPod] = {}
        self.deleted: list[str] = []  # names whose deletion the watch has still to show
        self.writes: list[Write] = []
        #: uid → (node, cpu) of what the engine has been told of or has decided.
        self.held: dict[str, tuple[str, int]] = {}

    # --- nodes -------------------------------------------------------------------------------

    @rule(name=NODE_NAMES, cpu=CPUS, cordoned=st.booleans())
    def node_is_set(self, name: str, cpu: int, cordoned: bool) -> None:
        node = a_node(name).offers(cpu=cpu)
        self.engine.handlers.on_node_updated(
            (node.cordoned() if cordoned else node).build(), self.now
        )
        self.nodes[name] = (cpu, cordoned)

    @precondition(lambda self: self.nodes)
    @rule(pick=PICK)
    def node_goes(self, pick: int) -> None:
        name = sorted(self.nodes)[pick % len(self.nodes)]
        self.engine.handlers.on_node_deleted(name, self.now)
        del self.nodes[name]

    # --- pods, on the server -----------------------------------------------------------------

    @rule(name=POD_NAMES, cpu=CPUS, priority=st.integers(0, 2))
    def pod_is_created_perhaps_in_place_of_another(
        self, name: str, cpu: int, priority: int
    ) -> None:
        self.born += 1
        uid = f"uid-{self.born}"
        pod = a_pod(name).with_uid(uid).needs(cpu=cpu).with_priority(priority)
        self.pods[name] = ServedPod(pod, uid, cpu)

    @precondition(lambda self: self.pods)
    @rule(pick=PICK)
    def pod_is_deleted(self, pick: int) -> None:
        name = self.pick_pod(pick)
        del self.pods[name]
        self.deleted.append(name)

    @precondition(lambda self: self.pods)
    @rule(pick=PICK)
    def pod_begins_to_be_deleted(self, pick: int) -> None:
        self.pods[self.pick_pod(pick)].deleting = True

    @precondition(lambda self: self.pods)
    @rule(pick=PICK, label=st.sampled_from("abc"))
    def pod_is_edited(self, pick: int, label: str) -> None:
        served = self.pods[self.pick_pod(pick)]
        served.pod = served.pod.labelled(team=label)

    @precondition(lambda self: self.pods)
    @rule(pick=PICK, node=NODE_NAMES)
    def another_scheduler_binds_it(self, pick: int, node: str) -> None:
        served = self.pods[self.pick_pod(pick)]
        served.node = served.node or node

    # --- what the engine learns --------------------------------------------------------------

    @precondition(lambda self: self.pods or self.deleted)
    @rule(pick=PICK)
    def the_watch_shows_a_pod(self, pick: int) -> None:
        names = sorted({*self.pods, *self.deleted})
        self.show(names[pick % len(names)])

    @precondition(lambda self: self.writes)
    @rule(pick=PICK)
    def the_server_takes_a_write(self, pick: int) -> None:
        self.take(self.writes[pick % len(self.writes)])

    @precondition(lambda self: self.writes)
    @rule(pick=PICK)
    def the_outcome_of_a_write_is_in_doubt(self, pick: int) -> None:
        self.engine.on_outcome(
            self.writes[pick % len(self.writes)].bind, Ambiguous("timeout"), self.now
        )

    @precondition(lambda self: any(write.done for write in self.writes))
    @rule(pick=PICK)
    def the_outcome_of_a_write_is_known(self, pick: int) -> None:
        done = [write for write in self.writes if write.done]
        self.report(done[pick % len(done)])

    @precondition(lambda self: any(not write.done for write in self.writes))
    @rule(pick=PICK, reason=st.sampled_from(["NotLeader", "Timeout"]))
    def a_write_is_never_sent(self, pick: int, reason: str) -> None:
        unsent = [write for write in self.writes if not write.done]
        write = unsent[pick % len(unsent)]
        write.done = Refused(0, reason)
        self.report(write)

    # --- time --------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0, 300.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.run_engine()

    @invariant()
    def the_engine_agrees_with_itself(self) -> None:
        self.engine.check_consistent()

    @invariant()
    def the_engine_holds_what_it_knows_of_and_no_more(self) -> None:
        cluster = self.engine.cluster
        # A nominated pod counts on its node while its victims terminate.
        assert len(cluster) == len(self.held) + len(self.engine._nominator)
        assert {uid: cluster.node_of(uid) for uid in self.held} == {
            uid: node for uid, (node, _) in self.held.items()
        }

    def teardown(self) -> None:
        """Nobody is forgotten, and nothing is left when all is gone."""
        self.catch_up()
        self.engine.handlers.on_node_updated(a_node("big").offers(cpu=100).build(), self.now)
        for _ in range(2):
            self.now += AGES
            self.run_engine()
            self.catch_up()
        unplaced = [p for p in self.pods.values() if not p.node and not p.deleting]
        assert not unplaced, "forgotten"
        for name in list(self.pods):
            del self.pods[name]
            self.deleted.append(name)
        self.catch_up()
        for node in [*self.nodes, "big"]:
            self.engine.handlers.on_node_deleted(node, self.now)
        assert self.engine.run(self.now) == []
        self.engine.check_consistent()
        assert self.engine.pods() == []
        assert len(self.engine.queue) == len(self.engine.cluster) == 0
        assert self.engine.next_timer() is None
        engine, cluster = self.engine, self.engine.cluster
        maps = (
            engine.handlers.pods.uids,
            engine._context.waiting_pods,
            [e for e, by, _ in engine._effects._pending.values() if by is engine._binding_cycle],
            list(engine.queue._unschedulable.entities()),
        )
        assert not any((*maps, engine.queue._gated, cluster.assumed, cluster._unknown_node_pods)), (
            "left over"
        )

    # --- inside ------------------------------------------------------------------------------

    def pick_pod(self, pick: int) -> str:
        return sorted(self.pods)[pick % len(self.pods)]

    def show(self, name: str) -> None:
        """Deliver a pod's present state, which may fold its deletion and rebirth into one."""
        before = self.engine.handlers.pods.uids.get(f"default/{name}")
        served = self.pods.get(name)
        self.deleted = [deleted for deleted in self.deleted if deleted != name]
        if before is not None and (served is None or served.uid != before):
            self.held.pop(before, None)
        if served is None:
            self.engine.handlers.on_pod_deleted(f"default/{name}", self.now)
            return
        if served.node:
            self.held[served.uid] = (served.node, served.cpu)
        self.engine.handlers.on_pod_updated(served.builder().build(), self.now)

    def take(self, write: Write) -> None:
        if write.done:
            return
        served = self.pods.get(write.bind.pod.name)
        if served is None or served.uid != write.bind.pod.uid:
            write.done = Refused(404, "NotFound", "no such pod")
        elif served.node or served.deleting:
            write.done = Refused(409, "Conflict", "bound or being deleted")
        else:
            served.node = write.bind.node
            write.done = Applied()

    def report(self, write: Write) -> None:
        assert write.done is not None
        uid = write.bind.pod.uid
        self.writes.remove(write)
        if isinstance(write.done, Refused) and uid in self.engine.cluster.assumed:
            del self.held[uid]
        self.engine.on_outcome(write.bind, write.done, self.now)

    def catch_up(self) -> None:
        """Everything under way ends and everything is seen."""
        for write in list(self.writes):
            self.take(write)
            self.report(write)
        for name in {*self.pods, *self.deleted}:
            self.show(name)

    def run_engine(self) -> None:
        effects: list[Effect] = self.engine.run(self.now)
        for bind in effects:
            if isinstance(bind, Bind):
                self.decided(bind)

    def decided(self, bind: Bind) -> None:
        uid = bind.pod.uid
        cpu = int(self.engine.cluster.pod(uid).requests["cpu"]) // 1000  # type: ignore[union-attr]
        assert uid not in {write.bind.pod.uid for write in self.writes}, "two writes for one pod"
        self.held[uid] = (bind.node, cpu)
        if bind.node in self.nodes:
            offered, cordoned = self.nodes[bind.node]
            assert not cordoned, f"{bind.node} is cordoned"
            used = sum(n for node, n in self.held.values() if node == bind.node)
            assert used <= offered, f"{bind.node} has {offered} and would hold {used}"
        self.writes.append(Write(bind))


TestLifeOfEverything = Life.TestCase
TestLifeOfEverything.settings = settings(
    max_examples=200, stateful_step_count=40, derandomize=True, deadline=None
)
