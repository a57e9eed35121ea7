"""What is mutated, and the unit tests that judge it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Package:
    """Files that are mutated together.

    Attributes:
        sources: patterns of their paths.
        tests: files and folders of the tests that are to fail.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]


PACKAGES: Final[dict[str, Package]] = {
    "readers": Package(
        ("arranger/api/parsing/*.py", "arranger/api/quantity.py"),
        (
            "tests/unit/api/test_parsing.py",
            "tests/unit/api/test_bounds.py",
            "tests/unit/api/test_quantity.py",
        ),
    ),
    "phases": Package(
        ("arranger/engine/phases.py", "arranger/engine/entity.py"),
        ("tests/unit/engine/pod", "tests/unit/engine/queue"),
    ),
    "nominations": Package(
        (
            "arranger/engine/queue/nominator.py",
            "arranger/engine/pod/preemption_executor.py",
        ),
        (
            "tests/unit/engine/pod/test_nominations.py",
            "tests/unit/engine/pod/test_preemption.py",
            "tests/unit/engine/gang/test_nominations.py",
        ),
    ),
    "binding": Package(
        (
            "arranger/engine/pod/binding_cycle.py",
            "arranger/engine/pod/node_release.py",
            "arranger/engine/pod/requeue.py",
            "arranger/engine/pod/waiting_pods.py",
            "arranger/kube/writes/binding.py",
            "arranger/kube/writes/call.py",
        ),
        ("tests/unit/engine/pod", "tests/unit/kube/writes"),
    ),
    "preemption": Package(
        ("arranger/preemption/*.py",),
        ("tests/unit/preemption", "tests/unit/engine/pod/test_preemption.py"),
    ),
    "gangs": Package(
        ("arranger/gangs/*.py",),
        ("tests/unit/gangs", "tests/unit/engine/gang/test_gangs.py"),
    ),
    "quota": Package(
        ("arranger/quota/*.py",),
        ("tests/unit/quota", "tests/unit/engine/queue/test_queues.py"),
    ),
}
