"""What the pages show, as plain values."""

from __future__ import annotations

import pytest

from arranger.ui.history import History
from arranger.ui.views import nodes, overview, pods, queues, workloads
from arranger.ui.views.amounts import Share, several, shown
from tests.builders import PodBuilder
from tests.queueing import GPU
from tests.ui.park import a_member, a_node, a_park, a_pod, a_queue, in_job, in_queue
from tests.ui.rig import observed


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1.5"),
        ("cpu", 250, "0.25"),
        ("cpu", 64_000, "64"),
        ("cpu", 12_345_000, "12,345"),
        ("memory", 16 << 30, "16 GiB"),
        ("memory", 1 << 40, "1 TiB"),
        ("memory", 512 << 20, "512 MiB"),
        ("memory", 5, "5"),
        ("memory", 3000 << 40, "3,000 TiB"),
        (GPU, 12_000, "12,000"),
    ],
)
def test_amounts_are_written_as_people_read_them(resource: str, amount: int, text: str) -> None:
    assert shown(resource, amount) == text


def test_several_amounts_leave_out_those_that_are_none() -> None:
    assert several({GPU: 8, "cpu": 0, "memory": 1 << 30}) == "1 GiB memory, 8 nvidia.com/gpu"


@pytest.mark.parametrize(
    ("used", "total", "percent", "width", "level"),
    [
        (0, 8, 0, 0, "none"),
        (1, 8, 12, 12, "some"),
        (7, 8, 87, 87, "high"),
        (8, 8, 100, 100, "full"),
        (9, 8, 112, 100, "full"),
        (0, 0, 0, 0, "none"),
        (1, 0, 100, 100, "full"),
        (5, None, 0, 0, "some"),
    ],
)
def test_a_bar_is_as_long_as_what_is_used_and_never_longer_than_the_whole(
    used: int, total: int | None, percent: int, width: int, level: str
) -> None:
    share = Share("cpu", used, total)
    assert (share.percent, share.width, share.level) == (percent, width, level)


def test_the_overview_counts_nodes_pods_and_what_waits() -> None:
    view = overview.overview(observed(a_park(32, 90)))
    assert (view.nodes, view.ready, view.cordoned) == (32, 31, 2)
    assert dict(view.pods) == {"Waiting": 11, "Gated": 1, "Running": 90}
    assert (view.gangs_waiting, view.waiting) == (2, 4)
    assert [row.name for row in view.first].count("default/huge") == 1
    assert [share.name for share in view.shares] == [GPU, "cpu", "memory", "pods"]


def test_queues_make_a_tree_with_what_each_uses_of_its_limits() -> None:
    state = observed(
        [
            a_node("n", "z", "A100"),
            a_queue("team", capability={GPU: "6"}, deserved={GPU: "4"}),
            a_queue("part", "team", guarantee={"resource": {GPU: "2"}}),
            a_queue("first", priority=5, reclaimable=False),
            in_queue(a_pod("one", node="n", gpus=2), "part"),
            in_queue(a_pod("two", gpus=2), "part"),
        ]
    )
    tree = queues.queue_tree(state)
    assert [(queue.name, queue.facts) for queue in tree] == [
        ("first", ["priority 5", "not reclaimable"]),
        ("team", []),
    ]
    team = tree[1]
    assert [(each.name, each.depth, each.waiting) for each in team.walk()] == [
        ("team", 0, 0),
        ("part", 1, 1),
    ]
    (use,) = [each for each in team.uses if each.share.name == GPU]
    assert (use.share.text, use.deserved, use.guaranteed) == ("2 of 6", "4", "")
    (use,) = [each for each in team.children[0].uses if each.share.name == GPU]
    assert (use.share.total, use.guaranteed) == (None, "2")


def test_queues_whose_parents_form_a_circle_are_shown_once_each() -> None:
    state = observed([a_queue("a", "b"), a_queue("b", "a"), a_queue("own", "own")])
    names = [each.name for top in queues.queue_tree(state) for each in top.walk()]
    assert sorted(names) == ["a", "b", "own"]


@pytest.mark.parametrize("last", ["", "q1999"], ids=["a chain", "a ring"])
def test_thousands_of_queues_below_each_other_are_shown_once_each(last: str) -> None:
    state = observed([a_queue(f"q{n}", f"q{n - 1}" if n else last) for n in range(2000)])
    names = [each.name for top in queues.queue_tree(state) for each in top.walk()]
    assert len(names) == len(set(names)) == 2000


@pytest.mark.parametrize(
    ("placed", "waiting", "least", "phase", "missing"),
    [
        (4, 0, 4, "Running", 0),
        (0, 4, 4, "Waiting", 0),
        (0, 2, 4, "Waiting", 2),
        (4, 2, 4, "Growing", 0),
    ],
)
def test_a_gang_says_how_far_it_is(
    placed: int, waiting: int, least: int, phase: str, missing: int
) -> None:
    members = [a_member(f"p{n}", "g", least, node="n") for n in range(placed)]
    members += [a_member(f"w{n}", "g", least) for n in range(waiting)]
    state = observed([a_node("n", "z"), *members])
    (row,), count = workloads.gang_rows(state, "", 10)
    assert count == 1
    assert (row.name, row.phase, row.placed, row.pods, row.minimum, row.missing) == (
        "default/g",
        phase,
        placed,
        placed + waiting,
        least,
        missing,
    )


def test_lists_show_the_first_and_count_all() -> None:
    state = observed([a_node("n", "z"), *(a_pod(f"p{n:03d}") for n in range(30))])
    rows, count = pods.find_pods(state, "p0", "Waiting", 5)
    assert ([row.key for row in rows], count) == ([f"default/p00{n}" for n in range(5)], 30)
    waiting, count = workloads.waiting_rows(state, 5)
    assert (len(waiting), count) == (5, 30)


def test_jobs_are_what_controls_pods_and_those_that_wait_come_first() -> None:
    state = observed(
        [
            a_node("n", "z"),
            in_job(a_pod("a", node="n"), "one"),
            in_job(a_pod("b"), "two"),
            in_job(a_pod("c"), "two"),
        ]
    )
    rows, count = workloads.job_rows(state, "", 10)
    assert count == 2
    assert [(row.name, row.phase, row.placed, row.pods) for row in rows] == [
        ("default/two", "Waiting", 0, 2),
        ("default/one", "Running", 1, 1),
    ]


def test_nodes_are_grouped_by_domain_and_card_and_coloured_by_what_is_scarcest() -> None:
    state = observed(
        [
            a_node("a1", "a", "A100"),
            a_node("a2", "a"),
            a_node("b1", "b", "A100"),
            a_node("b2", "b", "H100"),
            a_pod("half", node="a1", gpus=4),
            a_pod("all", node="b2", gpus=8, cpu="1"),
        ]
    )
    grid = nodes.node_grid(state)
    assert grid.label == "topology.kubernetes.io/zone"
    assert [(each.domain, each.card, each.share.text) for each in grid.groups] == [
        ("a", "A100", "4 of 8"),
        ("a", "", "0 of 128"),
        ("b", "A100", "0 of 8"),
        ("b", "H100", "8 of 8"),
    ]
    steps = {cell.name: cell.step for group in grid.groups for cell in group.cells}
    assert steps == {"a1": 3, "a2": 0, "b1": 0, "b2": 5}


def test_more_nodes_than_can_be_drawn_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "MAX_CELLS", 5)
    grid = nodes.node_grid(observed([a_node(f"n{n}", "z") for n in range(8)]))
    assert (grid.nodes, grid.hidden, sum(len(each.cells) for each in grid.groups)) == (8, 3, 5)


def test_a_pod_that_asks_for_nonsense_is_shown_with_what_is_wrong() -> None:
    state = observed([a_node("n", "z"), a_pod("odd", cpu="1x")])
    (row,), _ = pods.find_pods(state, "odd", "", 5)
    assert row.requests.startswith("'1x' is not a quantity: ")


def test_the_rate_is_of_pods_that_got_a_node_in_the_last_minute() -> None:
    history = History()
    history.take(observed([a_node("n", "z")]), 0.0)
    assert history.rate() == ""
    history.take(observed([a_node("n", "z"), a_pod("a", node="n"), a_pod("b", node="n")]), 5.0)
    history.take(observed([a_node("n", "z"), a_pod("b", node="n"), a_pod("c", node="n")]), 10.0)
    assert history.rate() == "3 pods in the last 10 s"
    assert history.columns() == [[0.0, 5.0, 10.0], [0.0, 2.0, 2.0], [0.0, 0.0, 0.0]]


def test_of_a_pod_with_thousands_of_amounts_their_number_is_shown() -> None:
    pod = PodBuilder(a_pod("odd")).needs({f"x.com/{n}": 1 for n in range(1000)}).manifest()
    (row,), _ = pods.find_pods(observed([pod]), "odd", "", 5)
    assert row.requests == "1,002 amounts"


def test_of_a_queue_s_use_the_first_resources_are_shown_that_nobody_limits() -> None:
    pod = PodBuilder(a_pod("odd", node="n")).needs({f"x.com/{n:03d}": 1 for n in range(200)})
    state = observed(
        [
            a_node("n", "z"),
            a_queue("team", capability={"x.com/199": "5"}),
            in_queue(pod.manifest(), "team"),
        ]
    )
    (team,) = queues.queue_tree(state)
    names = [use.share.name for use in team.uses]
    assert names[:3] == ["cpu", "memory", "x.com/000"]
    assert (len(names), names[-1]) == (51, "x.com/199")
