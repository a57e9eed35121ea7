"""Reservations that evict: who has to leave when a window opens, when, and what they are told."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

import msgspec
import pytest

from arranger.api.effects import (
    Ambiguous,
    AnnotatePod,
    Applied,
    DeletePod,
    Effect,
    PatchPodStatus,
    PublishEvent,
    Refused,
)
from arranger.api.types.core import Namespace
from arranger.api.types.reservation import Reservation
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import (
    EngineHarness,
    event_notes,
    of_kind,
    placements,
    small_profile,
)
from tests.unit.engine.reservations.test_reservations import reserved, when

SAVES, DEADLINE = "arranger.io/checkpoint-before-eviction", "arranger.io/eviction-deadline"
NOTICE = "arranger.io/EvictionNotice"


def evicting(name: str, start: float, end: float, *nodes: str, **spec: Any) -> Reservation:
    return reserved(name, start, end, *(nodes or ("n",)), evict=True, **spec)


def running(name: str = "p", *, saves: str | None = None, node: str = "n") -> PodBuilder:
    pod = a_pod(name).on(node).with_status(phase="Running", startTime=when(0))
    return pod if saves is None else pod.annotated({SAVES: saves})


def a_world(*objects: Any, now: float = 0.0, grace: int | None = None) -> EngineHarness:
    harness = EngineHarness(small_profile(), max_checkpoint_time=300, max_grace_period=grace)
    harness.now = now
    harness.observe(a_node("n"), a_node("m"), a_queue("q"), a_queue("other"))
    namespace = {"metadata": {"name": "default", "labels": {"team": "a"}}}
    show(harness, msgspec.convert(namespace, Namespace), *objects)
    harness.run()
    return harness


def show(harness: EngineHarness, *objects: Any) -> None:
    for each in objects:
        if isinstance(each, PodBuilder):
            harness.observe(each)
        else:
            harness.engine.handlers.on_object_updated(each, harness.now)
    harness.engine.check_consistent()


def left(effects: list[Effect]) -> list[str]:
    return [each.pod.name for each in of_kind(DeletePod, effects)]


def notices(effects: list[Effect]) -> list[tuple[str, str]]:
    """(pod, status) of each condition of a notice."""
    patches = of_kind(PatchPodStatus, effects)
    found = [(each.pod.name, each.condition) for each in patches]
    return [(name, c.status) for name, c in found if c is not None and c.type == NOTICE]


#: What is reserved, who runs there, and when the pod has to leave; None for never.
LEAVES: dict[str, tuple[list[Any], float | None]] = {
    "no reservation": ([running()], None),
    "one that does not evict": ([reserved("r", 100, 500, "n"), running()], None),
    "one that evicts": ([evicting("r", 100, 500), running()], 100),
    "one of another node": ([evicting("r", 100, 500, "m"), running()], None),
    "one that holds already": ([evicting("r", -10, 500), running()], 0),
    "one that has ended": ([evicting("r", -100, -10), running()], None),
    "an invalid one": ([evicting("r", 500, 100), running()], None),
    "the earlier of two": ([evicting("r", 200, 500), evicting("s", 100, 300), running()], 100),
    "its queue's": (
        [evicting("r", 100, 500, users={"queues": ["q"]}), running().in_queue("q")],
        None,
    ),
    "another queue's": (
        [evicting("r", 100, 500, users={"queues": ["q"]}), running().in_queue("other")],
        100,
    ),
    "its namespace's": (
        [
            evicting("r", 100, 500, users={"namespaceSelector": {"matchLabels": {"team": "a"}}}),
            running(),
        ],
        None,
    ),
    "its gang's": (
        [evicting("r", 100, 500, users={"gangs": ["default/g"]}), running().in_gang("g", 1)],
        None,
    ),
    "another gang's": (
        [evicting("r", 100, 500, users={"gangs": ["default/h"]}), running().in_gang("g", 1)],
        100,
    ),
    "its own, and one of others": (
        [
            evicting("r", 100, 500, users={"queues": ["q"]}),
            evicting("s", 200, 500),
            running().in_queue("q"),
        ],
        200,
    ),
    "a pod of another scheduler": (
        [evicting("r", 100, 500), running().for_scheduler("default-scheduler")],
        None,
    ),
    "a system-critical pod": ([evicting("r", 100, 500), running().with_priority(2 * 10**9)], None),
    "a pod of high priority": ([evicting("r", 100, 500), running().with_priority(10**9)], 100),
    "a pod of a DaemonSet": ([evicting("r", 100, 500), running().owned_by("DaemonSet", "d")], None),
    "a pod that its kubelet has made": (
        [evicting("r", 100, 500), running().annotated({"kubernetes.io/config.mirror": "x"})],
        None,
    ),
    "a pod that leaves already": ([evicting("r", 100, 500), running().deleting()], None),
    "a pod that has ended": ([evicting("r", 100, 500), running().in_phase("Succeeded")], None),
    "a pod that asks for time": ([evicting("r", 100, 500), running(saves="60s")], 100),
}


def test_a_pod_that_leaves_in_a_thousand_years_has_to_leave_now() -> None:
    forever = running().deleting("2970-01-01T00:00:00Z")
    harness = a_world(evicting("r", 100, 500), forever, grace=60)
    (delete,) = of_kind(DeletePod, harness.advance_to(100))
    assert (delete.pod.name, delete.grace_seconds) == ("p", 60)


@pytest.mark.parametrize(("given", "expected"), LEAVES.values(), ids=LEAVES.keys())
def test_when_a_pod_has_to_leave(given: list[Any], expected: float | None) -> None:
    harness = a_world(*given)
    if expected is None:
        assert left(harness.advance_to(1e7)) == []
        assert left(harness.effects) == []
        return
    if expected:
        assert left(harness.advance_to(expected - 0.5)) == []
        assert harness.engine.next_timer() == expected, "nothing but time wakes the engine"
        harness.advance_to(expected)
    assert left(harness.effects) == ["p"]
    assert left(harness.advance_to(1e7)) == [], "once is enough"


def test_it_is_told_why() -> None:
    harness = a_world(evicting("r", 100, 500), running())
    [delete] = of_kind(DeletePod, harness.advance_to(100))
    text = f"its node is reserved by Reservation r until {when(500)}"
    assert delete.condition is not None
    assert (delete.condition.type, delete.condition.reason, delete.condition.message) == (
        "DisruptionTarget",
        "NodeReserved",
        f"arranger: {text}",
    )
    about = [e for e in of_kind(PublishEvent, harness.effects) if e.regarding.name == "p"]
    assert event_notes(about) == [("NodeReserved", f"It has to leave: {text}")]


def test_who_asks_for_time_is_told_so_long_before() -> None:
    harness = a_world(evicting("r", 1000, 5000), running(saves="60s"), running("q", saves="1h"))
    assert notices(harness.advance_to(699)) == []
    assert notices(harness.advance_to(700)) == [("q", "True")], "300 s are the most"
    effects = harness.advance_to(940)
    assert notices(effects) == [("p", "True")]
    [note] = of_kind(AnnotatePod, effects)
    assert (note.pod.name, note.annotations) == ("p", {DEADLINE: when(1000)})
    assert left(harness.advance_to(999)) == []
    assert sorted(left(harness.advance_to(1000))) == ["p", "q"]
    assert len(notices(harness.effects)) == 2, "each is told once"


def noticed(pod: PodBuilder) -> PodBuilder:
    """A pod whose notice the server has."""
    told = {"type": NOTICE, "status": "True", "reason": "NodeReserved"}
    return pod.with_status(phase="Running", startTime=when(0), conditions=[told])


def test_a_notice_is_withdrawn_when_the_window_moves_away() -> None:
    harness = a_world(evicting("r", 1000, 5000), running(saves="60s"))
    assert notices(harness.advance_to(950)) == [("p", "True")]
    show(harness, evicting("r", 3000, 5000))
    assert notices(harness.advance_to(951)) == [("p", "False")]
    assert left(harness.advance_to(2939)) == []
    assert notices(harness.advance_to(2940)) == [("p", "True")]
    assert left(harness.advance_to(3000)) == ["p"]


def test_another_process_goes_on_where_one_has_ended() -> None:
    stays = noticed(running("stays", saves="60s", node="m"))
    goes = noticed(running("goes", saves="60s"))
    harness = a_world(evicting("r", 1000, 5000), goes, stays, now=950)
    assert notices(harness.effects) == [("stays", "False")], "the other has been told"
    assert left(harness.advance_to(1000)) == ["goes"]


def test_what_is_refused_is_tried_again_and_what_is_done_is_not() -> None:
    harness = a_world(evicting("r", 100, 5000), running())
    [delete] = of_kind(DeletePod, harness.advance_to(100))
    harness.settle(delete, Ambiguous("no answer"))
    assert left(harness.advance_to(200)) == []
    harness.settle(delete, Refused(500, "InternalError"))
    assert left(harness.advance_to(209)) == []
    [again] = of_kind(DeletePod, harness.advance_to(210))
    harness.settle(again, Applied())
    assert left(harness.advance_to(4000)) == []


def test_a_notice_that_is_refused_is_written_again() -> None:
    harness = a_world(evicting("r", 100, 5000), running(saves="60s"))
    [notice] = [
        each for each in of_kind(PatchPodStatus, harness.advance_to(40)) if each.pod.name == "p"
    ]
    harness.settle(notice, Refused(500, "InternalError"))
    assert notices(harness.advance_to(50)) == [("p", "True")]
    assert left(harness.advance_to(100)) == ["p"]


def test_a_pod_that_is_seen_on_the_node_only_in_the_window_has_to_leave() -> None:
    harness = a_world(evicting("r", 100, 5000))
    harness.advance_to(200)
    harness.observe(running())
    assert left(harness.run()) == ["p"]


def test_a_node_that_comes_to_be_reserved_is_emptied() -> None:
    spec = {"nodes": {"selector": {"matchLabels": {"rack": "a"}}}}
    harness = a_world(evicting("r", 0, 5000, **spec), running())
    assert left(harness.advance_to(50)) == []
    harness.observe(a_node("n").labelled(rack="a"))
    assert left(harness.run()) == ["p"]


def test_users_get_the_room_once_it_is_free() -> None:
    harness = EngineHarness(small_profile())
    harness.observe(a_node("n").offers(cpu=1), a_queue("q"), a_queue("other"))
    holder = running().needs(cpu=1).in_queue("other")
    show(harness, evicting("r", 100, 5000, users={"queues": ["q"]}), holder)
    harness.observe(a_pod("mine").needs(cpu=1).in_queue("q"))
    assert left(harness.advance_to(100)) == ["p"]
    harness.observe_deleted(holder)
    harness.observe(a_pod("theirs").needs(cpu=1).in_queue("other"))
    assert [name for name, _ in placements(harness.run())] == ["mine"]


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    harness = a_world(evicting("r", 100_000, 500_000))
    for n in range(300):
        pod = noticed(running(f"p{n}", saves="60s"))
        harness.observe(pod)
        harness.run()
        harness.observe_deleted(pod)
        harness.run()
    evictions = harness.engine._evictions
    assert (len(evictions._moments), len(evictions._unseen), len(evictions._told)) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(30))
def test_random_stories_end_as_a_plain_function_says(seed: int) -> None:
    """Pods come, go and change queues, Reservations come, go and are edited, nodes come and go, the
    process restarts: at each look exactly those leave whose node is reserved for others now."""
    rng = random.Random(seed)
    nodes = ["n", "m", "o"]
    stated: dict[str, Reservation] = {}
    pods: dict[str, tuple[str, str]] = {}  # queue, node
    there: set[str] = set(nodes)
    gone = 0

    def shown(name: str) -> PodBuilder:
        queue, node = pods[name]
        return running(name, node=node).in_queue(queue)

    def started(now: float) -> EngineHarness:
        fresh = EngineHarness(small_profile(), max_checkpoint_time=300)
        fresh.now = now
        fresh.observe(*(a_node(node) for node in sorted(there)), *map(a_queue, "abc"))
        show(fresh, *stated.values(), *map(shown, pods))
        return fresh

    harness = started(0.0)
    for step in range(60):
        harness.now += rng.choice([0, 1, 7, 30, 100])
        now = harness.now
        match rng.randrange(8):
            case 0 | 1 | 2:
                pods[f"p{step}"] = rng.choice("ab"), rng.choice(nodes)
                harness.observe(shown(f"p{step}"))
            case 3 if pods:
                name = rng.choice(sorted(pods))
                harness.observe_deleted(shown(name))
                del pods[name]
            case 4 | 5:
                start = now + rng.choice([-50, 0, 20, 150, 400])
                users = {"users": {"queues": ["a"]}} if rng.random() < 0.5 else {}
                chosen = rng.sample(nodes, rng.randint(1, 3))
                make = evicting if rng.random() < 0.8 else reserved
                each = make(f"r{rng.randrange(4)}", start, start + 120, *chosen, **users)
                stated[each.metadata.name] = each
                show(harness, each)
            case 6 if stated:
                each = stated.pop(rng.choice(sorted(stated)))
                harness.engine.handlers.on_object_deleted(each, now)
            case 7:
                harness = started(now)

        def must_leave(name: str, at: float = now) -> bool:
            queue, node = pods[name]
            return any(
                each.spec.evict
                and node in each.spec.nodes.names
                and queue not in each.spec.users.queues
                and _at(each.spec.window.start) <= at < _at(each.spec.window.end)
                for each in stated.values()
            )

        expected = sorted(filter(must_leave, pods))
        assert sorted(left(harness.run())) == expected, f"step {step}"
        harness.engine.check_consistent()
        gone += len(expected)
        for name in expected:
            harness.observe_deleted(shown(name))
            del pods[name]
    assert gone or seed, "in most stories somebody leaves"


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_partner_of_a_gang_that_is_a_user_is_none_before_and_after_it_is_placed() -> None:
    """Else it would be placed on the nodes, deleted there, made again, and so on."""
    harness = EngineHarness(default_profile())
    harness.observe(*(a_node(name).offers(cpu=1) for name in ("n", "o", "p")))
    show(harness, evicting("r", -10, 500, "n", "o", users={"gangs": ["default/g"]}))
    group = '["default/g", "default/h"]'
    pods = [a_pod(f"{gang}-0").needs(cpu=1).in_gang(gang, 1, groups=group) for gang in "gh"]
    harness.observe(*pods)
    placed = dict(placements(harness.run()))
    assert placed.keys() == {"g-0", "h-0"}
    assert placed["h-0"] == "p"
    running_now = {"phase": "Running", "startTime": when(0)}
    bound = [each.on(placed[f"{gang}-0"]) for gang, each in zip("gh", pods, strict=True)]
    harness.observe(*(each.with_status(**running_now) for each in bound))
    assert not left(harness.advance_to(1))


def test_a_notice_that_a_preemption_has_overwritten_and_withdrawn_is_given_again() -> None:
    harness = EngineHarness(default_profile(), max_checkpoint_time=300)
    harness.observe(a_node("n").offers(cpu=4))
    pod = running(saves="200s").needs(cpu=4)
    show(harness, evicting("r", 300, 900), pod)

    def until(end: int) -> list[str]:
        """What it has been told, of which it shows the last."""
        while harness.now < end:
            for effect in of_kind(PatchPodStatus, harness.advance_to(harness.now + 1)):
                if (said := effect.condition) is not None and said.type == NOTICE:
                    shown = {"type": NOTICE, "status": said.status, "reason": said.reason}
                    show(harness, pod.with_status(conditions=[shown]))
                    harness.settle(effect)
        told = (effect.condition for effect in of_kind(PatchPodStatus, harness.effects))
        return [f"{each.status} {each.reason}" for each in told if each and each.type == NOTICE]

    assert until(101) == ["True NodeReserved"]
    harness.observe(a_pod("high").needs(cpu=4).with_priority(10))
    assert until(104)[1:] == ["True PreemptionByScheduler"]
    harness.observe_deleted(a_pod("high"))
    assert until(130)[2:] == ["False PlaceNotNeeded", "True NodeReserved"]


def test_who_comes_to_be_in_the_way_in_the_window_leaves() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=8), a_queue("q"), a_queue("default"))
    part = {"names": ["n"], "perNode": {"cpu": "4"}}
    kept = evicting("r", 100, 5000, users={"queues": ["q"]}, nodes=part)
    show(harness, kept, running().needs(cpu=4))
    assert left(harness.advance_to(200)) == [], "it leaves the part that is reserved"
    harness.observe(running("other").needs(cpu=2).for_scheduler("another"))
    assert left(harness.run() + harness.advance_to(211)) == ["p"]
