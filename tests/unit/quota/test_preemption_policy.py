"""Who gives way to whom."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.queue import Queue
from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_table import NodeTable
from arranger.quota.ledger import QuotaLedger
from arranger.quota.preemption.policy import QueuePreemptionPolicy, QuotaConfig
from arranger.quota.preemption.reclaim import DeservedReclaim
from tests.builders import PodBuilder, a_pod, a_queue
from tests.queueing import inference, training

OWNERS = {"ReplicaSet": "inference", "Job": "training"}


def a_policy(*queues: Queue, **rules: Any) -> tuple[QueuePreemptionPolicy, QuotaLedger, Cluster]:
    table = NodeTable()
    ledger = QuotaLedger(table, service_by_owner=OWNERS)
    cluster = Cluster(table, ledger)
    for queue in queues or (a_queue("inference"), a_queue("training")):
        ledger.set_queue(queue)
    ledger.refresh(cluster)
    return (
        QueuePreemptionPolicy(ledger, QuotaConfig(service_type_by_owner=OWNERS, **rules)),
        ledger,
        cluster,
    )


def owned(pod: PodBuilder, kind: str) -> PodBuilder:
    """Of no service by its own word."""
    copy = pod.manifest()
    copy["metadata"]["annotations"].pop("volcano.sh/service.type", None)
    return PodBuilder(copy).owned_by(kind, "o")


#: Queues (both, plainly, if none are named), taker, victim, and whether it may take.
MAY: dict[str, tuple[list[Queue], PodBuilder, PodBuilder, bool]] = {
    "inference from lower training": ([], inference("i"), training("t"), True),
    "not from equal training": ([], inference("i", 1, 20000), training("t", 1, 20000), False),
    "without any priorities from training": ([], inference("i", 1, 0), training("t", 1, 0), True),
    "but not inside a queue": ([], training("t", 1, 0), training("u", 1, 0), False),
    "not from higher training": ([], inference("i", 1, 20000), training("t", 1, 60000), False),
    "inference not from inference of another queue": (
        [],
        inference("i"),
        inference("j", 1, 0).in_queue("training"),
        False,
    ),
    "training from nobody of another queue": ([], training("t", 1, 90000), inference("i"), False),
    "training not from training of another queue": (
        [],
        training("t", 1, 90000),
        training("u").in_queue("inference"),
        False,
    ),
    "inside a queue by priority alone": ([], training("t", 1, 60000), training("u"), True),
    "inside a queue also who tells no type": (
        [],
        a_pod("a").with_priority(1).in_queue("training"),
        a_pod("b").in_queue("training"),
        True,
    ),
    "inside a queue not by equals": ([], training("t"), training("u"), False),
    "the type by the owner": (
        [],
        owned(inference("i"), "ReplicaSet"),
        owned(training("t"), "Job"),
        True,
    ),
    "an owner that says nothing": ([], owned(inference("i"), "Thing"), training("t"), False),
    "nor a victim's": ([], inference("i"), owned(training("t"), "Thing"), False),
    "no owner at all": ([], inference("i"), a_pod("t").in_queue("training"), False),
    "a type in other letters": ([], inference("i").serving("Inference"), training("t"), False),
    "a type that is none": ([], inference("i"), training("t").serving("batch"), False),
    "who may not be evicted": (
        [],
        inference("i"),
        training("t").annotated({"volcano.sh/preemptable": "false"}),
        False,
    ),
    "who may not be evicted, by a label": (
        [],
        inference("i"),
        training("t").labelled({"volcano.sh/preemptable": "false"}),
        False,
    ),
    "what cannot be read counts as no": (
        [],
        inference("i"),
        training("t").annotated({"volcano.sh/preemptable": "perhaps"}),
        False,
    ),
    "not from a queue that loses nothing": (
        [a_queue("inference"), a_queue("training", reclaimable=False)],
        inference("i"),
        training("t"),
        False,
    ),
    "not for a closed queue": (
        [a_queue("inference", state="Closed"), a_queue("training")],
        inference("i"),
        training("t"),
        False,
    ),
    "from a closed queue": (
        [a_queue("inference"), a_queue("training", state="Closing")],
        inference("i"),
        training("t"),
        True,
    ),
    "from a queue that is not there, as from the default one": (
        [a_queue("inference")],
        inference("i"),
        training("t").on("n"),
        True,
    ),
    "the default queue gives without being made": (
        [a_queue("inference")],
        inference("i"),
        training("t").in_queue("default"),
        True,
    ),
}


@pytest.mark.parametrize("case", MAY.values(), ids=MAY.keys())
def test_who_may_take(case: tuple[list[Queue], PodBuilder, PodBuilder, bool]) -> None:
    queues, taker, victim, expected = case
    policy, _, _ = a_policy(*queues)
    assert policy.can_preempt(taker.info(), victim.info()) is expected


def test_priority_can_be_left_out_across_queues_and_not_inside() -> None:
    policy, _, _ = a_policy(respect_priority=False)
    assert policy.can_preempt(inference("i", 1, 0).info(), training("t", 1, 90000).info())
    assert not policy.can_preempt(training("t", 1, 0).info(), training("u", 1, 1).info())


def test_inside_a_queue_nobody_need_take_from_anybody() -> None:
    policy, _, _ = a_policy(preempt_within_queue=False)
    assert not policy.can_preempt(training("t", 1, 60000).info(), training("u").info())
    assert policy.can_preempt(inference("i").info(), training("u").info())


def test_without_queues_priority_alone_decides() -> None:
    policy, ledger, _ = a_policy()
    for name in list(ledger.queues):
        ledger.remove_queue(name)
    keep = {"volcano.sh/preemptable": "false"}
    assert policy.can_preempt(a_pod("a").with_priority(1).info(), a_pod("b").annotated(keep).info())
    assert policy.importance(a_pod().with_priority(7).info()) == 7


@pytest.mark.parametrize(
    ("then", "helps"),
    [
        pytest.param(a_queue("rich", deserved={"cpu": 2}), True, id="it has more than it deserves"),
        pytest.param(
            a_queue("rich", deserved={"cpu": 6}), False, id="it deserves all of it by now"
        ),
        pytest.param(a_queue("rich"), True, id="it deserves nothing any more"),
        pytest.param(None, False, id="it is gone"),
    ],
)
def test_who_waits_is_asked_about_use_of_a_queue_that_may_be_another_by_now(
    then: Queue | None, helps: bool
) -> None:
    """Of many that wait some are asked later."""
    _, ledger, cluster = a_policy(a_queue("poor", deserved={"cpu": 4}), a_queue("rich"))
    if then is None:
        ledger.remove_queue("rich")
    else:
        ledger.set_queue(then)
    ledger.refresh(cluster)
    waits = a_pod("waits").in_queue("poor").needs(cpu=1).info()
    reclaim = DeservedReclaim(ledger)
    assert reclaim.may_help(waits, {}, {"rich": {"cpu": 5000}}) is helps


class OnePodGroup:
    """All pods are of one PodGroup."""

    def __init__(self, group: VolcanoPodGroup) -> None:
        self._group = group

    def pod_group_of(self, uid: str) -> VolcanoPodGroup:
        return self._group


def test_a_pod_tells_its_type_before_its_pod_group_does() -> None:
    body = {"metadata": {"name": "g", "annotations": {"volcano.sh/service.type": "inference"}}}
    group = msgspec.convert(body, VolcanoPodGroup)
    ledger = QuotaLedger(NodeTable(), pod_groups=OnePodGroup(group), service_by_owner=OWNERS)
    assert ledger.service_of(training("t").info())[0] == "training"
    assert ledger.service_of(a_pod("silent").info())[0] == "inference"


def test_the_less_important_queue_loses_first_whatever_the_priority_of_its_pods() -> None:
    policy, _, _ = a_policy(a_queue("low", priority=1), a_queue("high", priority=2))
    low, high = (a_pod().in_queue(queue) for queue in ("low", "high"))
    weights = [
        policy.importance(pod.info())
        for pod in (
            a_pod().in_queue("nowhere"),
            low.with_priority(-5),
            low.with_priority(2_000_000_000),
            high.with_priority(-5),
            high,
        )
    ]
    assert weights == sorted(weights)


GUARANTEES: dict[str, tuple[list[Queue], int, bool]] = {
    "none": ([a_queue("training")], 3, True),
    "above it": ([a_queue("training", guarantee={"resource": {"cpu": 1}})], 2, True),
    "below it": ([a_queue("training", guarantee={"resource": {"cpu": 1}})], 3, False),
    "of what the victims do not use": (
        [a_queue("training", guarantee={"resource": {"memory": 1}})],
        3,
        True,
    ),
    "a parent's": (
        [a_queue("team", guarantee={"resource": {"cpu": 2}}), a_queue("training", parent="team")],
        2,
        False,
    ),
}


@pytest.mark.parametrize("case", GUARANTEES.values(), ids=GUARANTEES.keys())
def test_no_queue_falls_below_its_guarantee(case: tuple[list[Queue], int, bool]) -> None:
    """Three pods of one cpu run; so many are to go."""
    queues, count, expected = case
    policy, _, cluster = a_policy(*queues)
    pods = [a_pod(f"p{n}").in_queue("training").needs(cpu=1).on("n").info() for n in range(3)]
    for pod in pods:
        cluster.observe_pod(pod)
    assert policy.losses(()).may_add(pods[:count]) is expected
    with cluster.simulate_without(pods[:count]):
        pass
    assert policy.losses(()).may_add(pods[:count]) is expected
