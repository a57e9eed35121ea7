"""What queues use, and what that leaves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest

from arranger.api.resource_requests import format_resource_list, parse_resource_list
from arranger.api.types.queue import Queue
from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_table import NodeTable
from arranger.quota.charging.charges import QuotaShortage
from arranger.quota.ledger import QuotaLedger
from arranger.quota.queue_spec import QueueQuota
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.queueing import CARD, GPU, gpu_node, training


class QuotaHarness:
    """A cluster and its ledger."""

    def __init__(self, *queues: object, cards_unlimit: bool = False) -> None:
        table = NodeTable()
        self.ledger = QuotaLedger(table, exempt_card_pods=cards_unlimit)
        self.cluster = Cluster(table, self.ledger)
        for queue in queues:
            self.ledger.set_queue(queue)  # type: ignore[arg-type]
        self.ledger.refresh(self.cluster)

    def place(self, *pods: PodBuilder, node: str = "n") -> None:
        for pod in pods:
            self.cluster.observe_pod(pod.on(node).info())

    def used(self, queue: str = "training") -> dict[str, int]:
        self.ledger.refresh(self.cluster)
        return dict(+self.ledger.queues[queue].used)

    def short(self, pod: PodBuilder, card: str = "") -> QuotaShortage | None:
        cards = {GPU: card} if card else {}
        info = pod.info()
        return self.ledger.shortage(info, self.ledger.charges_for(info, cards), cards)


def in_queue(queue: str, name: str = "p", **needs: int | str) -> PodBuilder:
    return a_pod(name).in_queue(queue).needs(**needs)


def tree() -> QuotaHarness:
    """``team`` over ``a`` and ``b``, and ``other`` beside it."""
    return QuotaHarness(
        a_queue("team", capability={"cpu": 4}),
        a_queue("a", parent="team", capability={"cpu": 3}),
        a_queue("b", parent="team"),
        a_queue("other"),
    )


def test_parents_are_charged_for_their_children() -> None:
    books = tree()
    books.place(in_queue("a", "p", cpu=1), in_queue("b", "q", cpu=2), in_queue("other", "r", cpu=3))
    used = {name: books.used(name).get("cpu", 0) for name in ("team", "a", "b", "other")}
    assert used == {"team": 3000, "a": 1000, "b": 2000, "other": 3000}
    books.cluster.remove_pod("uid-default-q")
    assert books.used("team")["cpu"] == 1000
    books.ledger.check_consistent(books.cluster)


SHORT: dict[str, tuple[PodBuilder, tuple[str, int] | None]] = {
    "within all": (in_queue("a", "x", cpu=2), None),
    "beyond one's own": (in_queue("a", "x", cpu=3), ("a", 3000)),
    "beyond the parent's": (in_queue("b", "x", cpu=4), ("team", 4000)),
    "beside them nothing is limited": (in_queue("other", "x", cpu=40), None),
    "what is not limited": (in_queue("a", "x", memory="1Ti"), None),
}


@pytest.mark.parametrize("case", SHORT.values(), ids=SHORT.keys())
def test_the_first_limit_from_below(case: tuple[PodBuilder, tuple[str, int] | None]) -> None:
    pod, expected = case
    books = tree()
    books.place(in_queue("a", "p", cpu=1))
    found = books.short(pod)
    assert (None if found is None else (found.queue, found.limit)) == expected


def test_a_circle_of_parents_is_gone_round_once() -> None:
    books = QuotaHarness(a_queue("a", parent="b"), a_queue("b", parent="a"))
    books.place(in_queue("a", "p", cpu=1))
    assert books.used("a") == books.used("b") == {"cpu": 1000}
    assert [state.name for state in books.ledger.path_self_to_root("a")] == ["a", "b"]


def test_a_parent_that_is_not_there_limits_nothing() -> None:
    books = QuotaHarness(a_queue("a", parent="gone"))
    books.place(in_queue("a", "p", cpu=1))
    assert books.used("a") == {"cpu": 1000}


def test_a_card_is_charged_beside_its_resource_and_by_the_node() -> None:
    books = QuotaHarness(a_queue("training", cards={"A": 2, "B": 2}))
    books.cluster.set_node(gpu_node("n", card="A").build())
    books.cluster.set_node(gpu_node("m", card="B").build())
    books.place(training("p", 1))
    books.place(training("q", 2), node="m")
    assert books.used() == {"cpu": 200, GPU: 3, "A": 1, "B": 2}
    assert books.short(training("r", 1), "A") is None
    found = books.short(training("r", 1), "B")
    assert found == QuotaShortage("training", "B", 1000, 3000, 2000)


def test_pods_that_come_before_their_node_are_charged_cards_when_it_comes() -> None:
    books = QuotaHarness(a_queue("training", cards={CARD: 8}))
    books.place(training("p", 2))
    assert CARD not in books.used()
    books.cluster.set_node(gpu_node().build())
    books.ledger.mark_stale()
    assert books.used()[CARD] == 2
    books.cluster.remove_node("n")
    books.ledger.mark_stale()
    assert CARD not in books.used()
    books.ledger.check_consistent(books.cluster)


def test_pods_go_on_using_their_cards_while_none_of_the_node_is_healthy() -> None:
    books = QuotaHarness(a_queue("training", cards={CARD: 3}))
    books.cluster.set_node(gpu_node(count=8).build())
    books.place(training("p", 2))
    books.cluster.set_node(gpu_node(count=0).build())
    books.ledger.mark_stale()
    assert books.used()[CARD] == 2
    assert books.short(training("q", 2), CARD) is not None
    books.ledger.check_consistent(books.cluster)


def test_queues_that_come_after_the_pods() -> None:
    books = QuotaHarness()
    books.cluster.set_node(gpu_node().build())
    books.place(training("p", 2))
    assert not books.ledger.active
    books.ledger.set_queue(a_queue("training"))
    assert books.used()[CARD] == 2
    books.ledger.remove_queue("training")
    books.ledger.mark_stale()
    books.ledger.refresh(books.cluster)
    assert books.ledger.charge_of("uid-default-p") is None
    books.ledger.check_consistent(books.cluster)


def test_an_edit_of_the_status_alone_changes_nothing() -> None:
    books = QuotaHarness(a_queue("training", state=""))
    books.place(training("p", 2))
    before = books.cluster.objects.version
    assert not books.ledger.set_queue(a_queue("training", state="Open"))
    assert books.used()["cpu"] == 100
    assert books.cluster.objects.version == before, "all verdicts would be void"
    assert books.ledger.set_queue(a_queue("training", state="Closed"))


def test_pods_whose_room_is_free_use_nothing_for_as_long() -> None:
    books = QuotaHarness(a_queue("team"), a_queue("training", parent="team", cards={CARD: 8}))
    books.cluster.set_node(gpu_node().build())
    pods = [training(f"p{n}", 2).on("n").info() for n in range(3)]
    for pod in pods:
        books.cluster.observe_pod(pod)
    with books.cluster.simulate_freed(pods, lambda pod: False) as room:
        assert books.used() == {}
        room.put_back(pods[0], "n")
        assert books.used("team")[CARD] == 2
        assert room.take_again(pods[0])
        assert books.used() == {}
        room.put_back(pods[1], "n")
    assert books.used()[CARD] == books.used("team")[CARD] == 6
    books.ledger.check_consistent(books.cluster)


def test_thinking_pods_away_gives_back_what_they_use_for_as_long() -> None:
    books = QuotaHarness(a_queue("team"), a_queue("training", parent="team", cards={CARD: 8}))
    books.cluster.set_node(gpu_node().build())
    pods = [training(f"p{n}", 2).on("n").info() for n in range(3)]
    for pod in pods:
        books.cluster.observe_pod(pod)
    with books.cluster.simulate_without(pods):
        assert books.used() == {}
        assert books.ledger.charge_of(pods[0].uid) is None
        books.cluster.simulate_add_pod(pods[0], "n")
        assert books.used("team")[CARD] == 2
        books.cluster.simulate_remove_pod(pods[0])
        books.ledger.mark_stale()
        assert books.used() == {}, "a recount meanwhile"
    assert books.used()[CARD] == books.used("team")[CARD] == 6
    books.ledger.check_consistent(books.cluster)


def test_of_many_pods_that_move_together_each_queue_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    books = QuotaHarness(a_queue("team"), a_queue("training", parent="team", cards={CARD: 800}))
    books.cluster.set_node(gpu_node().build())
    pods = [training(f"p{n}", 2).on("n").info() for n in range(100)]
    for pod in pods:
        books.cluster.observe_pod(pod)
    walked, path = list[str](), books.ledger.path_self_to_root

    def walking(name: str) -> Iterator[QueueQuota]:
        walked.append(name)
        return path(name)

    monkeypatch.setattr(books.ledger, "path_self_to_root", walking)
    with books.cluster.simulate_without(pods):
        assert books.used() == books.used("team") == {}
    with books.cluster.simulate_freed(pods, lambda pod: False):
        assert books.used() == books.used("team") == {}
    assert 0 < len(walked) <= 12
    assert books.used()[CARD] == books.used("team")[CARD] == 200
    books.ledger.check_consistent(books.cluster)


def test_who_comes_back_is_charged_anew_if_the_node_s_cards_have_changed_meanwhile() -> None:
    books = QuotaHarness(a_queue("team", cards={CARD: 8}))
    books.cluster.set_node(gpu_node().build())
    pod = in_queue("team", **{GPU: 2}).on("n").info()
    books.cluster.observe_pod(pod)
    assert books.used("team")[CARD] == 2
    with books.cluster.simulate_without([pod]):
        books.cluster.set_node(a_node("n").offers(cpu=64, **{GPU: 8}).build())
        assert books.used("team") == {}
    assert CARD not in books.used("team")
    assert books.used("team")[GPU] == 2
    books.ledger.check_consistent(books.cluster)


def test_what_is_left_and_what_a_pod_would_give_back() -> None:
    books = QuotaHarness(
        a_queue("team", capability={"cpu": 4}),
        a_queue("training", parent="team", cards={CARD: 8}),
    )
    books.cluster.set_node(gpu_node().build())
    books.place(training("p", 2))
    room = books.ledger.remaining_with(training("q", 3).info(), {GPU: CARD})
    assert room == {("training", CARD): 3, ("team", "cpu"): 3800}
    (pod,) = (pod for pod, _ in books.cluster.placed_pods())
    assert dict(books.ledger.released_by(pod)) == {
        ("training", "cpu"): 100,
        ("training", GPU): 2,
        ("training", CARD): 2,
        ("team", "cpu"): 100,
        ("team", GPU): 2,
        ("team", CARD): 2,
    }


@pytest.mark.parametrize(("unlimit", "expected"), [(False, "cpu"), (True, None)])
def test_pods_with_cards_may_be_free_of_limits_on_cpu(unlimit: bool, expected: str | None) -> None:
    queue = a_queue("training", cards={CARD: 8}, capability={"cpu": "50m"})
    books = QuotaHarness(queue, cards_unlimit=unlimit)
    found = books.short(training("p", 1), CARD)
    assert (None if found is None else found.resource) == expected
    without = books.short(in_queue("training", "p", cpu=1))
    assert without is not None


#: Queues, and why a pod of queue ``a`` gets no node.
NO_PODS: dict[str, tuple[list[Queue], str]] = {
    "open": ([a_queue("a")], ""),
    "not there": ([a_queue("b")], "Queue <a> does not exist"),
    "closed": ([a_queue("a", state="Closed")], "Queue <a> is not open"),
    "closing": ([a_queue("a", state="Closing")], "Queue <a> is not open"),
    "its parent is closed": (
        [a_queue("a", parent="b"), a_queue("b", state="Closed")],
        "Queue <b> is not open",
    ),
    "a part of another": ([a_queue("a", parent="b"), a_queue("b")], ""),
    "another is part of it": (
        [a_queue("a"), a_queue("b", parent="a")],
        "Queue <a> takes no pods: 1 other queue is part of it",
    ),
    "others are part of it": (
        [a_queue("a"), a_queue("b", parent="a"), a_queue("c", parent="a")],
        "Queue <a> takes no pods: 2 other queues are part of it",
    ),
    "it says that it is part of itself": ([a_queue("a", parent="a")], ""),
    "a part of the root, which was not made": ([a_queue("a", parent="root")], ""),
    "the root cannot be closed": ([a_queue("a"), a_queue("root", state="Closed")], ""),
}


@pytest.mark.parametrize(("queues", "expected"), NO_PODS.values(), ids=NO_PODS)
def test_which_queues_take_no_pods(queues: list[Queue], expected: str) -> None:
    assert QuotaHarness(*queues).ledger.why_no_pods("a") == expected


def test_the_root_takes_no_pods_whether_or_not_it_was_made() -> None:
    for queues in ([a_queue("a")], [a_queue("a"), a_queue("root")]):
        found = QuotaHarness(*queues).ledger.why_no_pods("root")
        assert found == "Queue <root> takes no pods: it is the root of all queues"


def test_the_default_queue_takes_pods_until_others_are_part_of_it() -> None:
    ledger = QuotaHarness(a_queue("a")).ledger
    assert ledger.why_no_pods("default") == ""
    ledger.set_queue(a_queue("a", parent="default"))
    assert "1 other queue" in ledger.why_no_pods("default")
    ledger.set_queue(a_queue("a", parent="default", weight=2))
    ledger.remove_queue("a")
    assert ledger.why_no_pods("default") == ""


def test_what_the_root_may_use_holds_for_all() -> None:
    books = QuotaHarness(a_queue("root", capability={"cpu": 1}), a_queue("a"))
    books.cluster.set_node(gpu_node().build())
    books.place(in_queue("default", "p", cpu=1))
    found = books.short(in_queue("a", "q", cpu=1))
    assert found is not None
    assert found.queue == "root"


@pytest.mark.parametrize(
    ("word", "status", "expected"),
    [("Closed", "Open", False), ("Open", "Closed", True), ("", "Closed", False), ("?", "", True)],
)
def test_the_user_s_word_counts_before_the_status(word: str, status: str, expected: bool) -> None:
    queue = a_queue("q", state=status)
    queue.metadata.annotations["arranger.io/queue-state"] = word
    assert QuotaHarness(queue).ledger.queues["q"].is_open is expected


def test_a_state_that_a_queue_has_because_of_its_parent_says_nothing() -> None:
    queue = a_queue("q", parent="team", state="Closed")
    queue.metadata.annotations["volcano.sh/closed-by-parent"] = "true"
    ledger = QuotaHarness(queue, a_queue("team", state="Closed")).ledger
    assert ledger.why_no_pods("q") == "Queue <team> is not open"
    ledger.set_queue(a_queue("team", state="Open"))
    assert ledger.why_no_pods("q") == ""


def test_pods_that_cannot_be_charged_are_news_once() -> None:
    books = QuotaHarness(a_queue("a"), a_queue("b"))
    #: None: it is charged.
    told = [("p", "a"), ("p", "a"), ("p", "b"), ("p", "b"), ("p", None), ("p", None), ("q", None)]
    versions = [books.ledger.version]
    for uid, queue in told:
        if queue is None:
            books.ledger.uncharged.end(uid)
        else:
            books.ledger.uncharged.set(uid, queue, "default")
        books.ledger.refresh(books.cluster)
        versions.append(books.ledger.version)
    news = [after > before for before, after in pairwise(versions)]
    assert news == [True, False, True, False, True, False, False]
    books.ledger.uncharged.set("p", "a", "default")
    books.ledger.uncharged.set("p", "a", "default")
    books.ledger.refresh(books.cluster)
    assert books.ledger.version > versions[-1], "also if it is said twice before anybody looks"


def test_how_many_of_several_kinds_have_room_is_told_by_the_smallest() -> None:
    books = QuotaHarness(a_queue("q", capability={"cpu": 10, "memory": "8Gi"}))
    large, small = in_queue("q", cpu=5, memory="1Gi").info(), in_queue("q", cpu=2).info()
    assert books.ledger.most_for([large]) == 2
    assert books.ledger.most_for([small]) == 5
    assert books.ledger.most_for([large, small]) == books.ledger.most_for([small, large]) == 5
    assert books.ledger.most_for([in_queue("other", cpu=5).info()]) == sys.maxsize
    assert books.ledger.most_for([small, in_queue("other", cpu=5).info()]) == sys.maxsize


def test_shares_are_of_what_is_due_or_else_of_the_limits_or_else_of_all_there_is() -> None:
    books = QuotaHarness(
        a_queue("due", deserved={"cpu": 4, "memory": "4Gi"}, capability={"cpu": 100}),
        a_queue("limits", cards={CARD: 8}, capability={"cpu": 2}),
        a_queue("none"),
    )
    books.cluster.set_node(a_node().offers(cpu=4, memory="20Gi").build())
    books.ledger.mark_stale()
    books.ledger.refresh(books.cluster)
    for queue in ("due", "limits", "none"):
        books.place(in_queue(queue, queue, cpu=1, memory="2Gi"))
    queues, total = books.ledger.queues, books.ledger.card_column.resource_totals()
    shares = {name: queues[name].dominant_share(total) for name in ("due", "limits", "none")}
    assert shares == {"due": 0.5, "limits": 0.5, "none": 0.25}


AMOUNTS = {
    "cpu": [("1", 1000), ("1500m", 1500), ("0", 0)],
    "memory": [("1Gi", 2**30), ("1536Mi", 3 * 2**29), ("5", 5), ("0", 0), ("2048Ti", 2**51)],
    GPU: [("8", 8)],
}


def test_amounts_are_written_as_they_are_read() -> None:
    for name, pairs in AMOUNTS.items():
        for text, number in pairs:
            assert format_resource_list({name: number}) == {name: text}
            assert parse_resource_list({name: text}) == {name: number}


@pytest.mark.parametrize(
    ("queues", "pod", "room"),
    [
        pytest.param(
            [a_queue("q", cards={CARD: 5})], training("p", 2).in_queue("q"), 2, id="cards"
        ),
        pytest.param([a_queue("q")], in_queue("q", cpu=1), sys.maxsize, id="no limit"),
        pytest.param(
            [a_queue("team", capability={"cpu": 7}), a_queue("q", parent="team")],
            in_queue("q", cpu=2),
            2,
            id="a limit above, of which one cpu is used",
        ),
        pytest.param(
            [a_queue("q", capability={"cpu": 9})], in_queue("q"), sys.maxsize, id="nothing"
        ),
    ],
)
def test_how_many_like_one_there_is_room_for(
    queues: list[Queue], pod: PodBuilder, room: int
) -> None:
    books = QuotaHarness(*queues)
    books.cluster.set_node(gpu_node("n").build())
    if len(queues) == 2:
        books.place(in_queue("q", "other", cpu=2))
    assert books.ledger.room_for(pod.info(), "n") == room


def test_a_pod_that_was_never_charged_gives_nothing_back() -> None:
    books = QuotaHarness(a_queue("q"))
    books.ledger.on_pod_moved(in_queue("q", cpu=1).info(), "n", -1)
    assert books.used("q") == {}


def test_pods_of_cards_are_asked_no_cpu_and_others_are() -> None:
    books = QuotaHarness(a_queue("q", capability={"cpu": 1, GPU: 1}), cards_unlimit=True)
    limits = {
        what: {each.resource for each in books.ledger.limits_for("q", demand)}
        for what, demand in (("cards", {GPU: 1, "cpu": 2}), ("cpu", {"cpu": 2}))
    }
    assert limits == {"cards": {GPU}, "cpu": {"cpu"}}
