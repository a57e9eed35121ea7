"""Who leaves one after the other: as if all that leave were looked at anew each time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from arranger.cluster.pod_info import PodInfo
from arranger.engine.gang.links import GangDepartures, GangLinks
from arranger.framework.preemption import NO_LOSSES, PriorityPolicy
from arranger.gangs.registry import GangRegistry
from arranger.plugins import default_profile
from arranger.preemption.allowed_together import AllowedTogether
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness


class Gangs(PriorityPolicy):
    """Gangs have a say, and queues have none."""

    def __init__(self, links: GangLinks) -> None:
        self._links = links

    def group_of(self, pod: PodInfo) -> str | None:
        return self._links.group_of(pod)

    def expand_to_gang(self, victims: Sequence[PodInfo]) -> Sequence[PodInfo]:
        return self._links.expand_to_gang(victims)

    def departures(self) -> GangDepartures:
        return self._links.departures()


def random_pods(rng: random.Random) -> list[PodBuilder]:
    """Lone pods, gangs, gangs of two bundles, and a group of gangs."""
    pods = [a_pod(f"lone-{n}") for n in range(rng.randint(0, 2))]
    partners = '["default/g0", "default/g1"]'
    for number in range(rng.randint(1, 3)):
        name, size = f"g{number}", rng.randint(2, 6)
        least, bundles = rng.randint(1, size), rng.random() < 0.3
        for n in range(size):
            pod = a_pod(f"{name}-{n}")
            if bundles:
                pods.append(pod.in_bundle(name, f"b{n % 2}", max(1, least // 2)))
            else:
                more = {"groups": partners} if number < 2 and rng.random() < 0.8 else {}
                pods.append(pod.in_gang(name, least, **more))
    return [pod.on("n") for pod in pods]


def placed(pods: Sequence[PodBuilder]) -> tuple[Gangs, list[PodInfo]]:
    """All of them on a node."""
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=100, pods=5000), *pods)
    harness.start()
    harness.run()
    engine = harness.engine
    policy = Gangs(GangLinks(engine.registry, engine.cluster))
    return policy, sorted((pod for pod, _ in engine.cluster.placed_pods()), key=lambda p: p.key)


def chosen_by_looking_at_all(
    policy: Gangs, pods: Sequence[PodInfo], may_leave: Callable[[PodInfo], bool]
) -> list[PodInfo]:
    """One pod after the other, with all that it takes along."""
    chosen, together = list[PodInfo](), dict[str, PodInfo]()
    for pod in pods:
        mates = [each for each in chosen if policy.group_of(each) == policy.group_of(pod)]
        leaving = [pod]
        if policy.group_of(pod) is not None and pod.uid not in together:
            leaving = list(policy.expand_to_gang([*mates, pod]))
        if all(may_leave(each) for each in leaving if each.uid not in together):
            chosen.append(pod)
            together |= {each.uid: each for each in leaving}
    return chosen


@pytest.mark.parametrize("seed", range(300))
def test_as_many_are_chosen_as_by_looking_at_all_of_them(seed: int) -> None:
    rng = random.Random(seed)
    policy, pods = placed(random_pods(rng))
    rng.shuffle(pods)
    staying = {pod.uid for pod in pods if rng.random() < 0.15}
    allowed = AllowedTogether(policy, NO_LOSSES, lambda pod: pod.uid not in staying)
    for pod in pods:
        allowed.add(pod)
    expected = chosen_by_looking_at_all(policy, pods, lambda pod: pod.uid not in staying)
    assert [pod.key for pod in allowed.chosen] == [pod.key for pod in expected]


@pytest.mark.parametrize("spare", [True, False])
def test_the_cost_of_a_gang_grows_with_its_members(
    spare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at, gang_of = Counter[int](), GangRegistry.gang_of
    for size in (20, 160):
        policy, pods = placed(
            [a_pod(f"p{n}").in_gang("g", 1 if spare else size).on("n") for n in range(size)]
        )

        def counted(registry: GangRegistry, uid: str, size: int = size) -> object:
            looked_at[size] += 1
            return gang_of(registry, uid)

        monkeypatch.setattr(GangRegistry, "gang_of", counted)
        allowed = AllowedTogether(policy, NO_LOSSES, lambda pod: pod.pod.metadata.name != "p0")
        for pod in pods:
            allowed.add(pod)
        monkeypatch.undo()
        assert bool(allowed.chosen) == spare
    assert looked_at[160] <= 9 * looked_at[20]
