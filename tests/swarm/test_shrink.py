"""A world that breaks a rule is cut down to what it takes, and becomes a case that can be read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arranger.cli.simulation.manifests import read_manifests
from arranger.cli.simulation.simulate import simulate
from arranger.daemon.config.schema import Config
from tests.builders import a_node, a_pod
from tests.swarm import case
from tests.swarm.case import manifests, write_case
from tests.swarm.judge import Violation
from tests.swarm.shrink import Shrinker, ddmin, sentence_of
from tests.swarm.world import Event, Fault, Object, World, load

RULE = "a pod is bound at most once"


def pod(name: str, **spec: object) -> Object:
    return a_pod(name).needs(cpu=1).with_spec(**spec).manifest()


def crowd(count: int) -> list[Object]:
    return [pod(f"other-{n}", priority=n) for n in range(count)]


def a_world() -> World:
    """A world of which little is to blame: see :func:`breaks`."""
    culprit = pod(
        "culprit", priority=7, nodeSelector={"zone": "a"}, terminationGracePeriodSeconds=5
    )
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    return World(
        seed=3,
        seconds=600.0,
        features=("gangs", "queues"),
        config={"gangs": {"waitTimeSeconds": 20}, "queues": {"preemptWithinQueue": True}},
        objects=(*crowd(9), a_node("n").offers(cpu=4).manifest(), *crowd(5)),
        events=(
            *(Event(at=n, does="create", object=each) for n, each in enumerate(crowd(12))),
            Event(at=20.137, does="create", object=culprit),
            *(Event(at=30 + n, does="delete", object=each) for n, each in enumerate(crowd(3))),
            Event(at=40.5, does="delete", object=node),
        ),
        faults=(
            Fault(at=1, does="kill", whom="one"),
            Fault(at=19.6, does="lose-answer", what="bindings", times=2),
            Fault(at=50, does="compact"),
        ),
    )


def breaks(world: World) -> list[str]:
    """Whether a pod of priority 7 comes to a node that goes, while answers to Bindings are lost."""
    there = [*world.objects, *(e.object for e in world.events if e.does == "create")]
    culprit = any(each.get("spec", {}).get("priority") == 7 for each in there)
    node = any(each["kind"] == "Node" for each in world.objects)
    gone = any(e.object["kind"] == "Node" for e in world.events if e.does == "delete")
    lost = any(fault.does == "lose-answer" for fault in world.faults)
    late = world.seconds > 40
    if not any(each["kind"] == "Pod" for each in there):
        return [RULE, "another rule"]  # it is no smaller world, but another
    return [RULE] if culprit and node and gone and lost and late else []


def test_a_world_is_cut_down_to_what_it_takes() -> None:
    shrinker = Shrinker(a_world(), RULE, breaks)
    small = shrinker.run()
    assert shrinker.minimal
    node, culprit = sorted(small.objects, key=lambda each: each["kind"])
    (gone,), (lost,) = small.events, small.faults
    assert (node["kind"], node.keys()) == ("Node", {"apiVersion", "kind", "metadata"})
    assert culprit["spec"] == {"priority": 7}
    assert culprit["metadata"].keys() == {"name", "namespace"}
    assert (gone.does, gone.at, gone.object["kind"]) == ("delete", 40.0, "Node")
    assert (lost.does, lost.at) == ("lose-answer", 20.0)
    assert (small.config, small.features) == ({}, ())
    assert small.seconds == 40.5


def test_a_world_is_as_small_as_the_tries_allow() -> None:
    shrinker = Shrinker(a_world(), RULE, breaks, tries=10)
    small = shrinker.run()
    assert (shrinker.minimal, shrinker.played) == (False, 10)
    assert RULE in breaks(small)
    assert len(small.events) < len(a_world().events)


def test_a_world_in_which_all_is_well_is_not_cut() -> None:
    with pytest.raises(ValueError, match="is not so that 'no such rule'"):
        Shrinker(a_world(), "no such rule", breaks).run()


#: (rule, text of a violation in one world, in a smaller one) → whether these are the same.
SENTENCES = {
    "names, times and counts differ": (
        "step 198 at 43 s: default/w13-ps-0 left in vain: default/w1 still waits",
        "step 7 at 2.25 s: default/w1-ps-0 left in vain: default/w13-x still waits",
        True,
    ),
    "so do lists": (
        "gang default/w1 keeps n1, n2 and n3, and nobody leaves",
        "gang default/w1 keeps n1, and nobody leaves",
        True,
    ),
    "and amounts": (
        "cpu is guaranteed to other queues: {'q1': 3, 'q2': 4} of 6",
        "cpu is guaranteed to other queues: {'q1': 3} of 2",
        True,
    ),
    "what is said differs": (
        "step 3 at 1 s: default/w1-0 was not told why it has to leave",
        "step 3 at 1 s: default/w1-0 left, but nobody waits who may have its place",
        False,
    ),
}


@pytest.mark.parametrize("case", SENTENCES.values(), ids=SENTENCES.keys())
def test_a_sentence_is_the_same_whomever_it_is_about(case: tuple[str, str, bool]) -> None:
    one, other, same = case
    said = [sentence_of(Violation("rule", text)) for text in (one, other)]
    assert (said[0] == said[1]) is same, said
    assert sentence_of(Violation("other rule", one)) != said[0]


# --- delta debugging ------------------------------------------------------------------------------


@given(st.integers(0, 40), st.data())
def test_what_is_needed_is_what_remains(size: int, data: st.DataObject) -> None:
    items = range(size)
    needed = data.draw(st.sets(st.sampled_from(items)) if size else st.just(set()))
    assert ddmin(items, lambda some: needed <= set(some)) == tuple(sorted(needed))


@given(st.lists(st.integers(0, 5), max_size=14), st.integers(1, 12))
def test_none_of_what_remains_can_be_left_out(items: list[int], modulus: int) -> None:
    def keep(some: Sequence[int]) -> bool:  # more may be worse, and fewer better
        return sum(some) % modulus == sum(items) % modulus

    kept = ddmin(items, keep)
    assert keep(kept)
    assert not any(keep((*kept[:n], *kept[n + 1 :])) for n in range(len(kept)))


# --- cases ----------------------------------------------------------------------------------------


def test_a_case_says_what_happens_and_is_the_world() -> None:
    world = Shrinker(a_world(), RULE, breaks).run()
    text = write_case(world, ["pod default/culprit was bound twice"])
    assert load(text) == world
    comments = [line[2:] for line in text.splitlines() if line.startswith("# ")]
    assert comments[:2] == ["What is wrong:", "  pod default/culprit was bound twice"]
    told = comments[comments.index("What happens:") + 1 :]
    assert told == [
        f"  at the start there are {', '.join(map(case.named, world.objects))}",
        "  20s: lose-answer: bindings (2 at most)",
        "  40s: Node n is deleted",
        f"  {world.seconds:g}s: nothing more happens, and the cluster comes to rest",
    ]


def test_a_case_that_may_have_too_much_in_it_says_so() -> None:
    text = write_case(a_world(), [RULE], minimal=False)
    assert "# Something may still be left out." in text
    assert load(text) == a_world()


#: What is told → what happens.
TOLD: dict[str, Event | Fault] = {
    "3s: Pod default/a is deleted, and takes 30s to go": Event(
        at=3, does="delete", object=a_pod("a").manifest(), grace=30
    ),
    "4.5s: the status of Node n is changed: {status: {allocatable: {cpu: '1'}}}": Event(
        at=4.5,
        does="patch",
        object=a_node("n").manifest(),
        change={"status": {"allocatable": {"cpu": "1"}}},
        part="status",
    ),
    "1s: kill: writes of one (the first 3 are spared, for 5s)": Fault(
        at=1, does="kill", whom="one", what="writes", skip=3, lasts=5
    ),
    "1s: reply: all (20% of them, status 503)": Fault(at=1, does="reply", chance=0.2, status=503),
    "2s: skew: all of two (by -20s, for 60s)": Fault(
        at=2, does="skew", whom="two", seconds=-20, lasts=60
    ),
}


@pytest.mark.parametrize("text", TOLD)
def test_it_is_told(text: str) -> None:
    happens = TOLD[text]
    key = "events" if isinstance(happens, Event) else "faults"
    world = World(seed=1, seconds=10, **{key: (happens,)})  # type: ignore[arg-type]
    assert text in list(case.story(world))


def test_a_world_without_faults_is_one_for_simulate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(seed=5, seconds=1, objects=(a_node("n").offers(cpu=1).manifest(), pod("a")))
    (tmp_path / "case.yaml").write_text(write_case(world, [RULE]))
    assert case.main(str(tmp_path / "case.yaml")) == 0
    (tmp_path / "manifests.yaml").write_text(capsys.readouterr().out)
    result = simulate(read_manifests([tmp_path / "manifests.yaml"]), Config(), seed=world.seed)
    assert result.placements == [{"pod": "default/a", "node": "n", "phase": "Running"}]


@pytest.mark.parametrize("more", [{"events": a_world().events}, {"faults": a_world().faults}])
def test_a_world_with_more_than_objects_is_none_for_simulate(
    more: dict[str, object], tmp_path: Path
) -> None:
    world = World(seed=5, seconds=1, **more)  # type: ignore[arg-type]
    assert manifests(world) is None
    (tmp_path / "case.yaml").write_text(write_case(world, [RULE]))
    assert case.main(str(tmp_path / "case.yaml")) == 1
