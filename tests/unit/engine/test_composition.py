"""Parts are handed what they need when they are made; nobody sets another's attributes later."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from arranger.cluster.cluster import Cluster
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.queue_state import QueueState
from arranger.engine.engine import Engine
from arranger.engine.pod.requeue import PodRequeuer
from arranger.engine.queue.backoff import SchedulingQueueConfig
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.order.job_shares import JobShares
from arranger.engine.queue.order.queue_order import FairShareOrder
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.status import Status
from arranger.gangs.registry import GangRegistry
from arranger.plugins import default_profile
from arranger.quota.ledger import QuotaLedger
from tests.builders import a_pod
from tests.paths import REPO

PACKAGE = REPO / "arranger"


def assigned_to_others(source: str) -> Iterator[int]:
    """The lines on which something is assigned to ``self.part.attribute``."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assign(targets=targets):
                pass
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                targets = [target]
            case _:
                continue
        flat = [each for t in targets for each in (t.elts if isinstance(t, ast.Tuple) else [t])]
        for target in flat:
            match target:
                case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"))):
                    yield node.lineno


def test_no_part_sets_attributes_of_another() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in assigned_to_others(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("self.part.attribute = 1", [1]),
        ("x = 1\nself.part.count += 1", [2]),
        ("self.a, self.part.b = 1, 2", [1]),
        ("self.part = part\nother.attribute = 1\nself.table[0] = 1", []),
    ],
)
def test_assignments_are_found(source: str, lines: list[int]) -> None:
    assert list(assigned_to_others(source)) == lines


class NoGangs:
    """Fails when it is asked anything."""

    def missing_requirement(self, entity: QueuedEntity) -> Status | None:
        raise AssertionError("the gate was asked about a lone pod")

    def entity_for(self, member: QueuedPod, now: float) -> QueuedEntity:
        raise AssertionError("the gangs were asked for the entity of a lone pod")

    def enqueue(self, entity: QueuedEntity, now: float) -> None:
        raise AssertionError("a lone pod was queued by the gangs")

    def on_node_lost(self, member: QueuedPod, now: float) -> None:
        raise AssertionError("the gangs were told of a lone pod's node")

    def on_pod_removed(self, member: QueuedPod, now: float) -> None:
        raise AssertionError("the gangs were told of a lone pod's end")


def test_lone_pods_do_not_pass_through_the_gangs() -> None:
    cluster = Cluster()
    order = FairShareOrder(QuotaLedger(cluster))
    shares, nominator = JobShares(cluster), Nominator(cluster)
    queue = SchedulingQueue(SchedulingQueueConfig(), NoGangs(), order, shares, nominator)
    requeuer = PodRequeuer(queue, GangRegistry(), NoGangs(), NoGangs())
    pod = QueuedPod(a_pod().info(), default_profile(), 0.0)
    entity = requeuer.entity_for(pod, 0.0)
    requeuer.enqueue(entity, 0.0)
    assert entity.state is QueueState.ACTIVE
    requeuer.requeue_with_backoff(pod, 1.0)
    assert pod.entity is entity
    assert entity.state is QueueState.BACKOFF
    requeuer.requeue_unschedulable(pod, "NodeResourcesFit", 2.0)
    assert entity.state is QueueState.UNSCHEDULABLE
    assert entity.rejected_by == {"NodeResourcesFit"}
    requeuer.remove(pod, 3.0)
    assert pod.entity is None
    assert not len(queue)


def test_each_engine_has_its_own_plugins_for_quotas() -> None:
    profile = default_profile()
    one, other = Engine(EngineSettings([profile])), Engine(EngineSettings([profile]))
    assert one.ledger is not other.ledger
    assert profile.by_name["CapacityCard"]._ledger is None, "the given profile is as it was"  # type: ignore[attr-defined]
