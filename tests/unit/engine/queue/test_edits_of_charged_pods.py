"""What a tenant edits is charged anew, and nobody else's pods are looked at for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from arranger.api.types.core import ObjectMeta
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.workloads import Owner
from arranger.cluster.pod_info import PodInfo
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.plugins import default_profile
from arranger.quota.charging.charges import Charge
from arranger.quota.ledger import QuotaLedger
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group, a_queue
from tests.unit.engine.harness import EngineHarness

PREEMPTABLE = "volcano.sh/preemptable"
GROUP = "scheduling.k8s.io/group-name"
MINE = a_pod("mine").needs(cpu=1).on("n0").annotated({GROUP: "g"}).owned_by("ReplicaSet", "rs")


class World:
    """Pods of others on nodes, and one of a tenant."""

    def __init__(self, others: int) -> None:
        self.harness = EngineHarness(default_profile(), queues=QuotaConfig())
        self.harness.observe(*(a_queue(name) for name in ("default", "a", "b", "c")))
        self.harness.observe(a_node("n0").offers(cpu=1000, pods=1000))
        self.observe(MINE, *(of_another(n).on("n0") for n in range(others)))
        self.harness.run()

    def observe(self, *pods: PodBuilder) -> None:
        for pod in pods:
            self.harness.engine.handlers.on_pod_updated(pod.build(), self.harness.now)

    def group(self, *, there: bool = True, **spec: Any) -> None:
        manifest = a_pod_group("g", minMember=1, **spec).manifest()
        made = msgspec.convert(manifest, VolcanoPodGroup)
        handlers = self.harness.engine.handlers
        act = handlers.on_pod_group_updated if there else handlers.on_pod_group_deleted
        act(made, self.harness.now)

    def owner(self, *, there: bool = True, says: str = "") -> None:
        uid = MINE.build().metadata.owner_references[0].uid
        said = {PREEMPTABLE: says} if says else {}
        made = Owner(ObjectMeta(name="rs", namespace="default", uid=uid, annotations=said))
        handlers = self.harness.engine.owner_handlers
        (handlers.on_updated if there else handlers.on_deleted)(made, self.harness.now)

    @property
    def charge(self) -> tuple[str, bool]:
        """The queue that the tenant's pod is charged to, and whether it may be evicted."""
        self.harness.engine.run(self.harness.now)
        charge = self.harness.engine.ledger.charge_of(MINE.build().metadata.uid)
        assert charge is not None
        self.harness.engine.check_consistent()
        return charge.queue, charge.preemptable


def of_another(number: int) -> PodBuilder:
    return a_pod(f"p{number}").in_namespace("other").needs(cpu=1)


#: What is edited one after the other, and what the pod is charged then.
EDITS: dict[str, list[tuple[Callable[[World], None], tuple[str, bool]]]] = {
    "its annotations": [
        (lambda w: w.observe(MINE.annotated({PREEMPTABLE: "false"})), ("default", False)),
        (lambda w: w.observe(MINE.in_queue("a")), ("a", True)),
        (lambda w: w.observe(MINE), ("default", True)),
    ],
    "its PodGroup": [
        (lambda w: w.group(queue="a"), ("a", True)),
        (lambda w: w.group(queue="b"), ("b", True)),
        (lambda w: w.group(there=False), ("default", True)),
    ],
    "its owner": [
        (lambda w: w.owner(), ("default", True)),
        (lambda w: w.owner(says="false"), ("default", False)),
        (lambda w: w.owner(says="true"), ("default", True)),
        (lambda w: w.owner(says="false"), ("default", False)),
        (lambda w: w.owner(there=False), ("default", True)),
    ],
    "its gang": [
        (lambda w: w.group(queue="a"), ("a", True)),
        (lambda w: w.observe(MINE.annotated({GROUP: "other"})), ("default", True)),
        (lambda w: w.observe(MINE), ("a", True)),
        (lambda w: w.observe(MINE.annotated({GROUP: ""})), ("default", True)),
    ],
}


@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
def test_who_edits_what_is_said_of_one_pod_has_that_pod_charged_anew_and_no_other(
    edits: list[tuple[Callable[[World], None], tuple[str, bool]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, charged = World(40), list[str]()
    charge = QuotaLedger.charge

    def counted(self: QuotaLedger, pod: PodInfo, *more: Any) -> Charge:
        charged.append(pod.pod.metadata.name)
        return charge(self, pod, *more)

    for edit, after in edits:
        with monkeypatch.context() as patched:
            patched.setattr(QuotaLedger, "charge", counted)
            edit(world)
            world.harness.engine.run(world.harness.now)
        assert set(charged) <= {"mine"}
        assert world.charge == after


def test_when_an_owner_goes_waiting_pods_of_others_are_not_updated_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, updated = World(0), list[str]()
    world.owner(says="false")
    waiting = a_pod("waits").needs(cpu=2000)
    world.observe(
        waiting.owned_by("ReplicaSet", "rs"),
        of_another(1).needs(cpu=2000).owned_by("ReplicaSet", "rs"),
        of_another(2).needs(cpu=2000).owned_by("ReplicaSet", "theirs"),
    )
    world.harness.run()
    update = SchedulingQueue.update

    def noted(self: SchedulingQueue, entity: Any, member: Any, *more: Any) -> None:
        updated.append(member.pod.pod.metadata.name)
        update(self, entity, member, *more)

    monkeypatch.setattr(SchedulingQueue, "update", noted)
    world.owner(there=False)
    world.harness.run()
    assert updated == ["waits"]
