"""What is mutated, and the unit tests that judge it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Package:
    """Files that are mutated together.

    Attributes:
        sources: patterns of their paths; ``*`` stands for no folder.
        tests: files and folders of the tests that are to fail.
        slow: those of them that take too long for a survivor, which all tests are tried on.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    slow: tuple[str, ...] = ()


_SLOW_PODS: Final = ("tests/unit/engine/pod/test_equivalent_pods.py",)
_SLOW_QUEUES: Final = (
    "tests/unit/engine/queue/test_min_resources.py",
    "tests/unit/engine/queue/test_order.py",
)
_SLOW_GANGS: Final = (
    "tests/unit/engine/gang/test_cost.py",
    "tests/unit/engine/gang/test_workloads.py",
    "tests/unit/engine/gang/test_reservation_budget.py",
)

PACKAGES: Final[dict[str, Package]] = {
    "readers": Package(
        ("arranger/api/parsing/*.py", "arranger/api/quantity.py"),
        (
            "tests/unit/api/test_parsing.py",
            "tests/unit/api/test_bounds.py",
            "tests/unit/api/test_quantity.py",
            "tests/unit/api/test_nesting.py",
            "tests/unit/api/test_pieces.py",
            "tests/unit/api/test_protobuf.py",
            "tests/unit/api/test_protobuf_fields.py",
            "tests/unit/api/test_timestamps.py",
            "tests/unit/kube/watch/test_decoding_aside.py",
            "tests/unit/kube/watch/test_deep_items.py",
            "tests/unit/kube/watch/test_nulls.py",
            "tests/unit/kube/watch/test_undecodable.py",
        ),
    ),
    "phases": Package(
        ("arranger/engine/context/phases.py", "arranger/engine/context/entity.py"),
        (
            "tests/unit/engine/pod",
            "tests/unit/engine/queue",
            "tests/unit/engine/gang/test_gangs.py",
        ),
        _SLOW_PODS + _SLOW_QUEUES,
    ),
    "nominations": Package(
        ("arranger/engine/queue/nominator.py", "arranger/engine/pod/preemption_executor.py"),
        (
            "tests/unit/engine/pod",
            "tests/unit/engine/extenders",
            "tests/unit/engine/queue/test_nominator.py",
            "tests/unit/engine/queue/test_reclaim.py",
            "tests/unit/engine/reservations/test_evictions.py",
            "tests/unit/quota/test_eviction_protection.py",
            "tests/unit/engine/gang/test_nominations.py",
            "tests/unit/engine/gang/test_preemption.py",
            "tests/unit/engine/gang/test_evictions.py",
            "tests/unit/engine/gang/test_restarts.py",
        ),
        _SLOW_PODS,
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
        (
            "tests/unit/engine/pod",
            "tests/unit/engine/extenders",
            "tests/unit/engine/test_broken_plugins.py",
            "tests/unit/engine/gang/test_changes.py",
            "tests/unit/engine/gang/test_gangs.py",
            "tests/unit/kube/writes",
        ),
        _SLOW_PODS,
    ),
    "preemption": Package(
        ("arranger/preemption/*.py",),
        (
            "tests/unit/preemption",
            "tests/unit/engine/pod/test_gangs_as_victims.py",
            "tests/unit/engine/pod/test_preemption.py",
            "tests/unit/engine/pod/test_preemption_by_gangs.py",
            "tests/unit/engine/pod/test_unfinished_attempts.py",
            "tests/unit/engine/gang/test_departures.py",
            "tests/unit/engine/gang/test_preemption.py",
        ),
    ),
    "gangs": Package(
        ("arranger/gangs/*.py",),
        (
            "tests/unit/gangs",
            "tests/unit/engine/gang",
            "tests/unit/controllers/gang/test_status.py",
        ),
        _SLOW_GANGS,
    ),
    "workloads": Package(
        ("arranger/gangs/workloads/*.py",),
        (
            "tests/unit/gangs/workloads",
            "tests/unit/engine/gang/test_workloads.py",
        ),
    ),
    "quota": Package(
        ("arranger/quota/*.py", "arranger/quota/preemption/*.py"),
        ("tests/unit/quota", "tests/unit/engine/queue"),
        ("tests/unit/engine/queue/test_order.py",),
    ),
}
