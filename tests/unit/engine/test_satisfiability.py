"""What can never be placed as the cluster is: who is told so, in which words, and when no more.

The property compares with brute force: what is said to be impossible is impossible on empty nodes.
"""

from __future__ import annotations

import random
from itertools import product

import pytest

from arranger.api.types.queue import Queue
from arranger.api.unsatisfiable import is_unsatisfiable
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, a_queue
from tests.queueing import CARD, GPU, gpu_node
from tests.unit.engine.harness import EngineHarness, conditions

ZONE = "topology.kubernetes.io/zone"
Object = NodeBuilder | PodBuilder | Queue


def of_job(pod: PodBuilder) -> PodBuilder:
    """A pod of a TYJob, in a gang or not."""
    return pod.annotated({"arranger.io/job-priority": "5"})


def gang(size: int, least: int | None = None, *, cpu: int = 1, **more: str) -> list[PodBuilder]:
    least = size if least is None else least
    return [of_job(a_pod(f"g-{n}").needs(cpu=cpu).in_gang("g", least, **more)) for n in range(size)]


def zoned(pods: list[PodBuilder]) -> list[PodBuilder]:
    return [pod.annotated({"arranger.io/topology": f"required={ZONE}"}) for pod in pods]


SMALL = [a_node("n1").offers(cpu=4, memory="8Gi"), a_node("n2").offers(cpu=4, memory="8Gi")]
ZONES = [a_node(f"{z}-{n}").offers(cpu=2).in_zone(z) for z in ("a", "b") for n in range(2)]
#: Sentence → what there is, what the pods are told first ("" for nothing of the kind).
CASES: dict[str, tuple[list[Object], str]] = {
    "a pod of a job that is larger than every node": (
        [*SMALL, of_job(a_pod("p").needs(cpu=64))],
        "pod default/p asks for cpu 64, and the largest node has cpu 4",
    ),
    "a pod that no job has made: kube-scheduler's text": (
        [*SMALL, a_pod("p").needs(cpu=64)],
        "",
    ),
    "a resource that no node has": (
        [*SMALL, of_job(a_pod("p").needs({GPU: 4}, cpu=1))],
        f"pod default/p asks for {GPU} 4, and the largest node has {GPU} 0",
    ),
    "one node has the CPU and another the memory": (
        [
            a_node("n1").offers(cpu=8, memory="1Gi"),
            a_node("n2").offers(cpu=1, memory="64Gi"),
            of_job(a_pod("p").needs(cpu=8, memory="64Gi")),
        ],
        "no node has together what pod default/p asks for: cpu 8, memory 64Gi",
    ),
    "a node is full": (
        [a_node("n1").offers(cpu=4), a_pod("other").needs(cpu=4).on("n1"), *gang(1, cpu=4)],
        "",
    ),
    "there are no nodes: an autoscaler may bring them": (gang(2), ""),
    "a member of a gang that is larger than every node": (
        [*SMALL, *gang(2, cpu=8)],
        "pod default/g-0 asks for cpu 8, and the largest node has cpu 4",
    ),
    "of two sizes the minimum needs only the smaller": (
        [a_node("n1").offers(cpu=1), *gang(3, 2), a_pod("g-9").needs(cpu=8).in_gang("g", 2)],
        "all nodes together have room for 1 of the 2 pods of gang default/g that must run",
    ),
    "too many members for all nodes": (
        [*SMALL, *gang(3, cpu=3)],
        "all nodes together have room for 2 of the 3 pods of gang default/g that must run",
    ),
    "more than all nodes have in all": (
        [*SMALL, *gang(2, 3, cpu=2), a_pod("g-9").needs(cpu=1, memory="16Gi").in_gang("g", 3)],
        "pod default/g-9 asks for memory 16Gi, and the largest node has memory 8Gi",
    ),
    "mixed sizes whose sum is too large": (
        [
            a_node("n1").offers(cpu=4),
            *(a_pod(f"g-{n}").needs(cpu=1 + 2 * n).in_gang("g", 2) for n in range(2)),
            a_pod("other").needs(cpu=1).on("n1"),
        ],
        "",
    ),
    "mixed sizes whose sum is larger than all nodes": (
        [
            a_node("n1").offers(cpu=4),
            *(a_pod(f"g-{n}").needs(cpu=2 + n).in_gang("g", 2) for n in range(2)),
        ],
        "2 pods of gang default/g ask for cpu 5 at least, and all nodes together have cpu 4",
    ),
    "larger than every domain": (
        [*ZONES, *zoned(gang(5))],
        f"no domain of {ZONE} has room for more than 4 of the 5 pods of gang default/g that must "
        "run",
    ),
    "as large as a domain that is in use": (
        [
            *ZONES,
            a_pod("other").needs(cpu=1).on("a-0"),
            a_pod("third").needs(cpu=1).on("b-0"),
            *zoned(gang(4)),
        ],
        "",
    ),
    "larger than its queue": (
        [*SMALL, a_queue("q", capability={"cpu": 2}), *(p.in_queue("q") for p in gang(3))],
        "3 pods of gang default/g ask for cpu 3, and queue q may use cpu 2",
    ),
    "larger than a queue above its own": (
        [
            *SMALL,
            a_queue("top", capability={"cpu": 2}),
            a_queue("q", parent="top"),
            of_job(a_pod("p").needs(cpu=3).in_queue("q")),
        ],
        "pod default/p asks for cpu 3, and queue top may use cpu 2",
    ),
    "more cards than its queue may use": (
        [
            gpu_node(count=8),
            a_queue("q", cards={CARD: 2}),
            of_job(a_pod("p").needs({GPU: 4}, cpu=1).in_queue("q")),
        ],
        "pod default/p asks for 4 cards, and queue q may use 2",
    ),
    "a queue that is full": (
        [
            *SMALL,
            a_queue("q", capability={"cpu": 3}),
            a_pod("other").needs(cpu=2).in_queue("q").on("n1"),
            *(p.in_queue("q") for p in gang(2)),
        ],
        "",
    ),
}


@pytest.fixture
def harness() -> EngineHarness:
    return EngineHarness(default_profile())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_can_never_be_placed_is_said_at_once(
    case: tuple[list[Object], str], harness: EngineHarness
) -> None:
    objects, why = case
    harness.observe(*objects)
    told = set(conditions(harness.run()))
    assert told or not why
    for reason, message in told:
        assert reason == "Unschedulable", "autoscalers look for it"
        if why:
            assert message.startswith(f"Unsatisfiable: {why}. "), message
        else:
            assert not is_unsatisfiable(message), message


def test_a_larger_node_clears_it_even_if_it_is_full(harness: EngineHarness) -> None:
    harness.observe(*SMALL, *gang(1, cpu=8))
    harness.run()
    harness.now = 20
    harness.observe(a_pod("other").needs(cpu=8).on("n3"), a_node("n3").offers(cpu=8))
    ((_, message),) = set(conditions(harness.run()))
    assert message.startswith("0/3 nodes are available: 3 Insufficient cpu.")


def test_a_larger_limit_clears_it(harness: EngineHarness) -> None:
    full = a_pod("other").needs(cpu=4).in_queue("q").on("n1")
    queue = a_queue("q", capability={"cpu": 4})
    harness.observe(*SMALL, queue, full, *(p.in_queue("q") for p in gang(5)))
    ((_, message),) = set(conditions(harness.run()))
    assert is_unsatisfiable(message)
    harness.now = 20
    harness.observe(a_queue("q", capability={"cpu": 8}))
    ((_, message),) = set(conditions(harness.run()))
    assert not is_unsatisfiable(message)


@pytest.mark.parametrize("seed", range(150))
def test_only_the_impossible_is_said_to_be_impossible(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
    wants = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    least = rng.randint(1, len(wants))
    harness = EngineHarness(default_profile())
    harness.observe(*(a_node(f"n{n}").offers(cpu=cpu) for n, cpu in enumerate(sizes)))
    busy = [a_pod(f"b{n}").needs(cpu=cpu).on(f"n{n}") for n, cpu in enumerate(sizes)]
    harness.observe(*rng.sample(busy, rng.randint(0, len(busy))))
    pods = [
        of_job(a_pod(f"g-{n}").needs(cpu=cpu).in_gang("g", least)) for n, cpu in enumerate(wants)
    ]
    harness.observe(*pods)
    told = [message for _, message in conditions(harness.run())]
    if any(map(is_unsatisfiable, told)):
        assert not _fits(wants, least, sizes), (wants, least, sizes, told)


def _fits(wants: list[int], least: int, sizes: list[int]) -> bool:
    """Whether some choice of ``least`` pods fits on the empty nodes; -1 leaves a pod out."""
    for places in product(range(-1, len(sizes)), repeat=len(wants)):
        loads = [0] * len(sizes)
        for cpu, place in zip(wants, places, strict=True):
            if place >= 0:
                loads[place] += cpu
        placed = sum(place >= 0 for place in places)
        if placed >= least and all(load <= size for load, size in zip(loads, sizes, strict=True)):
            return True
    return False
