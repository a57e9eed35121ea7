"""Which PodGroups are let in, by the cards they will want."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
import pytest

from arranger.api.effects import Effect, PublishEvent
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.queue import Queue
from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_table import NodeTable
from arranger.plugins import default_profile
from arranger.quota.admission import Admission
from arranger.quota.ledger import QuotaLedger
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_queue
from tests.queueing import CARD, GPU, gpu_node, training
from tests.unit.engine.harness import EngineHarness, of_kind, placements

REQUEST = "volcano.sh/card.request"
IN_A = {"scheduling.k8s.io/group-name": "a"}


def a_group(name: str, request: object = None, queue: str = "training") -> VolcanoPodGroup:
    text = request if isinstance(request, str) else json.dumps(request)
    notes = {} if request is None else {REQUEST: text}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": notes}
    spec = {"queue": queue, "minMember": 1}
    return msgspec.convert({"metadata": meta, "spec": spec}, VolcanoPodGroup)


def an_admission(
    *queues: Queue, over_commit: float = 1.0, running: Sequence[PodBuilder] = ()
) -> Admission:
    table = NodeTable()
    ledger = QuotaLedger(table)
    cluster = Cluster(table, ledger)
    cluster.set_node(gpu_node().build())
    for queue in queues:
        ledger.set_queue(queue)
    for pod in running:
        cluster.observe_pod(pod.on("n").info())
    ledger.refresh(cluster)
    return Admission(ledger, over_commit, timeout=300)


def let_in(admission: Admission, *groups: VolcanoPodGroup) -> list[str]:
    """The names of those that are let in one after the other."""
    return [group.metadata.name for group in groups if not admission.admit([group], tuple, 0.0)]


FOUR = {CARD: 4}

#: Over-commit, what runs, the groups in turn, and who is let in.
ADMITTED: dict[str, tuple[float, list[PodBuilder], list[VolcanoPodGroup], list[str]]] = {
    "as many as the quota": (
        1.0,
        [],
        [a_group("a", FOUR), a_group("b", FOUR), a_group("c", FOUR)],
        ["a", "b"],
    ),
    "beside what runs": (1.0, [training("t", 4)], [a_group("a", FOUR), a_group("b", FOUR)], ["a"]),
    "more when it is over-committed": (
        1.5,
        [],
        [a_group(name, FOUR) for name in "abcd"],
        ["a", "b", "c"],
    ),
    "a smaller one behind one that is too large": (
        1.0,
        [],
        [a_group("a", {CARD: 9}), a_group("b", FOUR)],
        ["b"],
    ),
    "who says nothing": (1.0, [training("t", 8)], [a_group("a")], ["a"]),
    "what cannot be read": (1.0, [training("t", 8)], [a_group("a", "lots")], ["a"]),
    "cards without a quota": (1.0, [], [a_group("a", {"H200": 1})], []),
    "any of several cards": (1.0, [training("t", 8)], [a_group("a", {f"{CARD}|B": 2})], ["a"]),
    "not more than all of them": (1.0, [training("t", 8)], [a_group("a", {f"{CARD}|B": 3})], []),
    "either card, behind who asks for one of them": (
        1.0,
        [],
        [a_group("a", {CARD: 8}), a_group("b", {f"{CARD}|B": 10}), a_group("c", {f"B|{CARD}": 2})],
        ["a", "c"],
    ),
    "one card, behind who asks for either": (
        1.0,
        [],
        [a_group("a", {f"{CARD}|B": 10}), a_group("b", {CARD: 8}), a_group("c", {"B": 2})],
        ["a"],
    ),
    "one card, where either leaves it": (
        1.0,
        [],
        [a_group("a", {f"{CARD}|B": 2}), a_group("b", {CARD: 8}), a_group("c", {"B": 1})],
        ["a", "b"],
    ),
    "of one group, one card and either": (
        1.0,
        [],
        [a_group("a", {CARD: 8, f"{CARD}|B": 3}), a_group("b", {CARD: 8, f"{CARD}|B": 2})],
        ["b"],
    ),
    "another queue's quota": (1.0, [training("t", 8)], [a_group("a", FOUR, queue="free")], ["a"]),
    "a queue that is not there": (1.0, [], [a_group("a", FOUR, queue="gone")], ["a"]),
}


@pytest.mark.parametrize("case", ADMITTED.values(), ids=ADMITTED.keys())
def test_who_is_let_in(
    case: tuple[float, list[PodBuilder], list[VolcanoPodGroup], list[str]],
) -> None:
    over_commit, running, groups, expected = case
    quota = {CARD: 8, "B": 2}
    queues = [a_queue("training", cards=quota), a_queue("free")]
    admission = an_admission(*queues, over_commit=over_commit, running=running)
    assert let_in(admission, *groups) == expected


def test_without_queues_everybody() -> None:
    assert let_in(an_admission(), a_group("a", {CARD: 99})) == ["a"]


def test_groups_that_are_placed_together_are_let_in_together() -> None:
    admission = an_admission(a_queue("training", cards={CARD: 8}))
    assert admission.admit([a_group("a", {CARD: 5}), a_group("b", {CARD: 5})], tuple, 0.0)
    assert let_in(admission, a_group("c", {CARD: 8})) == ["c"], "nothing is held for them"


def test_what_waits_in_one_child_counts_in_the_other_s_parent() -> None:
    admission = an_admission(
        a_queue("team", cards={CARD: 6}),
        a_queue("training", parent="team", cards={CARD: 8}),
        a_queue("b", parent="team", cards={CARD: 8}),
    )
    assert let_in(admission, a_group("a", FOUR), a_group("b", FOUR, queue="b")) == ["a"]


def test_who_is_placed_or_gone_makes_room_for_another() -> None:
    admission = an_admission(a_queue("training", cards={CARD: 4}))
    assert (
        let_in(admission, a_group("a", FOUR), a_group("a", FOUR), a_group("b", FOUR)) == ["a"] * 2
    )
    assert admission.release("default/a")
    assert not admission.release("default/a")
    assert let_in(admission, a_group("b", FOUR)) == ["b"]


def test_its_owner_is_told_once_why() -> None:
    admission = an_admission(a_queue("training", cards={CARD: 3}))
    for _ in range(3):
        admission.admit([a_group("a", {CARD: 5})], tuple, 0.0)
        admission.admit([a_group("b", "many")], tuple, 0.0)
    told = [(word.group.key, word.reason, word.text) for word in admission.take_events()]
    assert told == [
        (
            "default/a",
            "InsufficientScalarQuota",
            f"Queue <training> has insufficient <{CARD}> quota: requested <5000>, "
            "total would be <5000>, but capability is <3000>",
        ),
        (
            "default/b",
            "GetTaskRequestResourceFailed",
            "Get request resource failed, Queue <training>, "
            f"error: <{REQUEST}: 'many' is not JSON>",
        ),
    ]
    assert not admission.take_events()


# --- in the engine -------------------------------------------------------------------------------


@pytest.fixture
def harness() -> EngineHarness:
    harness = EngineHarness(default_profile(), queues=QuotaConfig())
    harness.observe(gpu_node(), a_queue("training", cards={CARD: 4}))
    return harness


def member(gang: str, cards: int = 4) -> PodBuilder:
    pod = training(f"{gang}-0", cards)
    return pod.annotated({"scheduling.k8s.io/group-name": gang})


def arrive(harness: EngineHarness, *gangs: str, cards: int = 4) -> None:
    for gang in gangs:
        harness.engine.handlers.on_pod_group_updated(a_group(gang, {CARD: cards}), harness.now)
        harness.observe(member(gang, cards))


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


def test_a_group_that_was_not_let_in_is_when_the_other_is_gone(harness: EngineHarness) -> None:
    arrive(harness, "a", "b")
    effects = harness.run()
    assert bound(effects) == {"a-0"}
    harness.settle_all(effects)
    told = [
        (e.regarding.kind, e.regarding.name)
        for e in of_kind(PublishEvent, harness.effects)
        if e.reason == "InsufficientScalarQuota"
    ]
    assert told == [("PodGroup", "b")]
    harness.observe_deleted(member("a"))
    assert bound(harness.advance_to(5)) == {"b-0"}


def test_or_when_the_quota_is_raised(harness: EngineHarness) -> None:
    arrive(harness, "a", "b")
    harness.settle_all(harness.run())
    harness.observe(a_queue("training", cards={CARD: 8}))
    assert bound(harness.advance_to(5)) == {"b-0"}


def test_or_when_the_other_gives_up_waiting(harness: EngineHarness) -> None:
    # It will never fit, for no node has as many.
    harness.observe(a_queue("training", cards={CARD: 16}))
    arrive(harness, "a", cards=16)
    arrive(harness, "b", cards=4)
    assert bound(harness.run()) == set()
    harness.observe_deleted(member("a", 16))
    assert bound(harness.advance_to(5)) == {"b-0"}


def test_or_when_the_others_pods_have_not_been_there_for_long(harness: EngineHarness) -> None:
    harness.observe(a_queue("training", cards={CARD: 16}))
    pods = [training(f"a-{n}", 8).annotated(IN_A) for n in range(2)]
    pair = a_group("a", {CARD: 16})
    pair.spec.min_member = 2
    harness.engine.handlers.on_pod_group_updated(pair, harness.now)
    harness.observe(*pods)
    arrive(harness, "b")
    assert bound(harness.run()) == set()
    assert bound(harness.advance_to(300)) == set(), "those that have their pods keep their claims"
    harness.now = 450
    harness.observe_deleted(pods[0])
    harness.run()
    assert bound(harness.advance_to(599)) == set()
    assert harness.engine.next_timer() == 600
    assert bound(harness.advance_to(600)) == {"b-0"}
    told = [e for e in of_kind(PublishEvent, harness.effects) if e.reason == "CardRequestTimedOut"]
    assert [(e.regarding.kind, e.regarding.name, e.note) for e in told] == [
        (
            "PodGroup",
            "a",
            f"Queue <training> keeps no more 16 <{CARD}> for it: for 300s its pods have not been "
            "there",
        )
    ]
    # When they come after all, it is asked again.
    harness.settle_all(harness.effects)
    harness.now = 700
    harness.observe(training("a-2", 8).annotated(IN_A))
    (refusal,) = [e for e in of_kind(PublishEvent, harness.run()) if e.regarding.kind == "PodGroup"]
    assert refusal.reason == "InsufficientScalarQuota"


def test_pods_that_are_counted_by_role_must_be_there_as_well(harness: EngineHarness) -> None:
    harness.observe(a_queue("training", cards={CARD: 16}))
    notes = {**IN_A, "volcano.sh/task-spec": "w"}
    pods = [training(f"a-{n}", 8).annotated(notes) for n in range(2)]
    pair = a_group("a", {CARD: 16})
    pair.spec.min_member, pair.spec.min_task_member = 0, {"w": 2}
    harness.engine.handlers.on_pod_group_updated(pair, harness.now)
    harness.observe(*pods)
    arrive(harness, "b")
    assert bound(harness.run()) == set()
    assert bound(harness.advance_to(300)) == set(), "those that have their pods keep their claims"
    harness.observe_deleted(pods[0])
    harness.observe(training("a-x", 8).annotated({**IN_A, "volcano.sh/task-spec": "x"}))
    harness.run()
    assert bound(harness.advance_to(599)) == set()
    assert bound(harness.advance_to(600)) == {"b-0"}


def test_a_group_that_has_run_is_not_asked_again_when_it_replaces_a_pod(
    harness: EngineHarness,
) -> None:
    arrive(harness, "a")
    harness.settle_all(harness.run())
    again = training("a-1", 0).annotated({"scheduling.k8s.io/group-name": "a"})
    harness.observe(again)
    assert bound(harness.run()) == {"a-1"}
    assert harness.engine.ledger.queues["training"].used[GPU] == 4


def test_who_does_not_come_in_time_is_told_and_nothing_is_kept_for_it() -> None:
    admission = an_admission(a_queue("training", cards={CARD: 8}))
    one = a_group("a", {CARD: 8})
    assert let_in(admission, one) == ["a"]
    admission.take_events()
    assert not admission.expire(299.0, lambda _: False)
    assert (admission.next_expiry(), let_in(admission, a_group("b", FOUR))) == (300.0, [])
    admission.take_events()
    assert admission.expire(300.0, lambda _: False)
    assert not admission.expire(301.0, lambda _: False)
    (told,) = admission.take_events()
    assert (told.group, told.reason) == (one, "CardRequestTimedOut")
    assert let_in(admission, a_group("b", FOUR)) == ["b"]


def test_nothing_is_kept_in_a_queue_that_its_namespace_may_not_use_any_more() -> None:
    admission = an_admission(a_queue("training", cards={CARD: 8}), a_queue("free", cards={CARD: 8}))
    assert let_in(admission, a_group("a", {CARD: 8}), a_group("f", FOUR, queue="free")) == [
        "a",
        "f",
    ]
    nobody = {"matchLabels": {"team": "nobody"}}
    admission._ledger.set_queue(a_queue("training", cards={CARD: 8}, namespaceSelector=nobody))
    admission.withdraw_unentitled()
    admission._ledger.set_queue(a_queue("training", cards={CARD: 8}))
    assert let_in(admission, a_group("b", FOUR)) == ["b"]
    assert let_in(admission, a_group("g", {CARD: 8}, queue="free")) == [], "f's claim stands"


def begun(admission: Admission, group: VolcanoPodGroup) -> None:
    """A PodGroup of which the pod ``g-0`` has got its cards already is let in."""
    uid = training("g-0").info().uid
    admission._members_of = lambda key: [uid] if key == group.key else []
    assert let_in(admission, group) == [group.metadata.name]


def test_who_asks_for_cards_that_the_queue_has_not_keeps_nobody_out() -> None:
    queue = a_queue("training", cards={CARD: 8, "B": 8})
    admission = an_admission(queue, running=[training("g-0", 1)])
    begun(admission, a_group("g", {CARD: 1, "H200": 100}))
    assert let_in(admission, a_group("x", {"B": 1})) == ["x"]


def test_what_waits_in_vain_for_one_card_takes_nothing_of_another() -> None:
    queue = a_queue("training", cards={CARD: 8, "B": 8})
    admission = an_admission(queue, running=[training("g-0", 1), training("h", 7)])
    begun(admission, a_group("g", {CARD: 8}))
    assert let_in(admission, a_group("x", {f"{CARD}|B": 2}), a_group("y", {"B": 7})) == ["x"]
