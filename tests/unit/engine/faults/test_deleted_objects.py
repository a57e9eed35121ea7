"""What is gone stays gone, whatever it made our code raise."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.types.core import Pod
from arranger.api.types.reservation import Reservation
from arranger.cluster.cluster import Cluster
from arranger.daemon.informer_handlers import EngineFaults, PodHandler
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.faults.states import content_of
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.queue.backoff import SchedulingQueueConfig
from arranger.kube.watch.informer import Informer
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod

#: Seconds after which everything has been tried again.
LATER = (1, 5, 60, 400, 900, 2000)


class World:
    """An engine whose pods come through an informer."""

    def __init__(self, *left_out: PodBuilder) -> None:
        self.now = 0.0
        keys = {("Pod", "default", pod.build().metadata.name): pod for pod in left_out}
        self.engine = Engine(
            EngineSettings(
                [default_profile()],
                queue_config=SchedulingQueueConfig(),
                gang_policy=GangPolicy(),
                quota_config=QuotaConfig(),
                left_out={key: content_of(pod.build()) for key, pod in keys.items()},
            )
        )
        kinds, barrier = self.engine.handlers.kinds, self.engine.barrier
        self.pods: Informer[Pod] = Informer(
            PodHandler(
                self.engine.handlers, barrier, self.engine.cluster, self.engine.pods, self.clock
            ),
            faults=EngineFaults(barrier, kinds[Pod], self.clock),
        )
        self.engine.handlers.on_node_updated(a_node("n").build(), 0.0)

    def clock(self) -> float:
        return self.now

    def known(self) -> set[str]:
        """The pods that any book has."""
        engine = self.engine
        placed = {pod.uid for pod, _ in engine.cluster.placed_pods()}
        return placed | {pod.uid for pod in engine.pods()} | set(engine.handlers.pods.uids.values())

    def kept(self) -> set[str]:
        """What is kept in place of objects that are set aside: by which book, and for whom."""
        barrier, cluster = self.engine.barrier, self.engine.cluster
        spared, closed = barrier._held._spared, barrier._held._closed
        books = spared._pods, spared._groups, spared._spaces, spared._by_owner
        stored = list(cluster.objects.in_all_namespaces(Reservation))
        return {
            *(f"spared {each}" for book in books for each in book),
            *(f"uncharged {uid}" for uid in self.engine.ledger.uncharged._places),
            *(f"closed for {uid}" for uid in closed._node_of),
            *(f"closed {name}" for name in closed._stated),
            *(f"reserved {r.metadata.name}" for r in stored if r.stands_in),
            *(f"standing {uid}" for uid in barrier._held._standing),
        }

    def let_time_pass(self) -> None:
        for self.now in LATER:
            self.engine.run(self.now)
            self.engine.check_consistent()


PODS = {
    "on a node": a_pod("odd").needs(cpu=1).on("n"),
    "that waits": a_pod("odd").needs(cpu=99),
    "of a gang": a_pod("odd").needs(cpu=1).in_gang("g", 2).on("n"),
}


@pytest.mark.parametrize("name", PODS)
def test_a_pod_that_was_left_out_and_is_deleted_does_not_come_back(name: str) -> None:
    world, pod = World(PODS[name]), PODS[name].build()
    world.pods.replaced([pod], "1")
    world.engine.run(0.0)
    world.pods.deleted(pod)
    world.let_time_pass()
    assert not world.known()
    assert not world.kept()
    assert not world.engine.barrier.quarantine


@pytest.mark.parametrize("name", PODS)
@pytest.mark.parametrize("times", [1, 3, 1000])
@pytest.mark.parametrize("after", [False, True], ids=["instead", "after"])
def test_a_pod_whose_deletion_raises_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch, name: str, times: int, after: bool
) -> None:
    remove, raised = Cluster.remove_pod, []

    def remove_pod(cluster: Cluster, uid: str) -> Any:
        result = remove(cluster, uid) if after else None
        if len(raised) < times:
            raised.append(uid)
            raise RuntimeError("odd")
        return result if after else remove(cluster, uid)

    world, pod = World(), PODS[name].build()
    world.pods.replaced([pod], "1")
    world.engine.run(0.0)
    monkeypatch.setattr(Cluster, "remove_pod", remove_pod)
    world.pods.deleted(pod)
    assert raised
    monkeypatch.setattr(Cluster, "remove_pod", remove)
    world.let_time_pass()
    assert not world.known()
    assert not world.kept()
    assert not world.engine.barrier.quarantine
