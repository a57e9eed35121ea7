"""Which job comes first: by its priority, or by its dominant share (docs/design/tyjob.md)."""

from __future__ import annotations

import pytest

from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.plugins import DEFAULT_PLUGINS
from arranger.plugins.queueing.priority_sort import PrioritySort, PrioritySortArgs
from tests.builders import PodBuilder, a_node
from tests.builders import a_pod as plain
from tests.unit.engine.harness import EngineHarness, placements


def profile(policy: str) -> Profile:
    args = PrioritySortArgs.model_validate({"jobQueuePolicy": policy})
    plugins = [
        PluginWeight(PrioritySort(args) if plugin is PrioritySort else plugin(), weight)
        for plugin, weight in DEFAULT_PLUGINS
    ]
    return Profile("arranger", plugins)


def job(name: str, *sizes: tuple[float, float], **notes: str) -> list[PodBuilder]:
    """A gang whose members ask for (cpu, GB of memory)."""
    keys = {f"arranger.io/{key.replace('_', '-')}": text for key, text in notes.items()}
    return [
        plain(f"{name}-{n}")
        .of_tyjob(name)
        .needs(cpu=cpu, memory=f"{memory}G")
        .in_gang(name, len(sizes))
        .annotated(keys)
        for n, (cpu, memory) in enumerate(sizes)
    ]


def pod(*, name: str, cpu: int) -> PodBuilder:
    return plain(f"{name}-0").needs(cpu=cpu)


#: The seed's vector: of 10 CPU and 20 GB the first asks for 0.4 at most, the second for 0.5.
SMALL = ((1, 4), (1, 4))
LARGE = ((2, 2), (3, 2))

ORDER: dict[str, tuple[str, list[list[PodBuilder]], list[str]]] = {
    "DRF: the smaller dominant share first": (
        "DRF",
        [job("a", *LARGE, job_priority="5"), job("b", *SMALL, job_priority="5")],
        ["b", "a"],
    ),
    "shares count among jobs of one priority": (
        "DRF",
        [job("a", *SMALL, job_priority="1"), job("b", *LARGE, job_priority="9")],
        ["b", "a"],
    ),
    "who has no job priority counts as a job of 5": (
        "Priority",
        [
            job("a", *SMALL, job_priority="4"),
            [pod(name="b", cpu=1)],
            job("c", *SMALL, job_priority="5"),
            job("d", *SMALL, job_priority="6"),
        ],
        ["d", "b", "c", "a"],
    ),
    "jobs by share take each other's turns, and nobody else's": (
        "Priority",
        [
            job("a", *LARGE, job_queue_policy="DRF"),
            [pod(name="b", cpu=1)],
            job("c", *SMALL, job_queue_policy="DRF"),
        ],
        ["c", "b", "a"],
    ),
    "Priority: the job of higher priority first": (
        "Priority",
        [job("a", *SMALL, job_priority="1"), job("b", *LARGE, job_priority="9")],
        ["b", "a"],
    ),
    "a job may choose for itself": (
        "Priority",
        [job("a", *LARGE, job_queue_policy="DRF"), job("b", *SMALL, job_queue_policy="DRF")],
        ["b", "a"],
    ),
    "the pods' own priority goes before": (
        "DRF",
        [
            job("a", *SMALL, job_priority="1"),
            [pod.with_priority(5) for pod in job("b", *LARGE, job_priority="1")],
        ],
        ["b", "a"],
    ),
    "what is no number is no priority": (
        "Priority",
        [job("a", *SMALL, job_priority="1"), job("b", *SMALL, job_priority="high")],
        ["b", "a"],
    ),
    "without a word from the job it is first come, first served": (
        "DRF",
        [job("a", *LARGE), job("b", *SMALL)],
        ["a", "b"],
    ),
}


@pytest.mark.parametrize("case", ORDER.values(), ids=ORDER.keys())
def test_who_comes_first(case: tuple[str, list[list[PodBuilder]], list[str]]) -> None:
    policy, jobs, expected = case
    harness = EngineHarness(profile(policy))
    harness.observe(a_node("n").offers(cpu=20, memory="40G"))
    for pods in jobs:
        harness.observe(*pods)
    order = [name.split("-")[0] for name, _ in placements(harness.run())]
    assert list(dict.fromkeys(order)) == expected
