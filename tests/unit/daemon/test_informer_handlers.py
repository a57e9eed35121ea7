"""What the scheduler's informers keep of pods, and what they tell the engine."""

from __future__ import annotations

from arranger.api.types.core import Pod
from arranger.daemon.informer_handlers import PodHandler, creation_time, trim_ended_pod
from arranger.kube.watch.informer import Informer
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import EngineHarness


def test_of_a_pod_that_has_ended_only_the_name_is_kept() -> None:
    running, ended = a_pod("a").on("n").build(), a_pod("b").on("n").build()
    ended.status.phase = "Succeeded"
    assert trim_ended_pod(running) is running
    trimmed = trim_ended_pod(ended)
    assert (trimmed.key, trimmed.metadata.uid) == (ended.key, ended.metadata.uid)
    assert trimmed.spec.node_name == ""


def test_pods_that_a_list_lacks_leave_the_engine_be_they_bound_waiting_or_ended() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=1))
    handlers, cluster = harness.engine.handlers, harness.engine.cluster
    informer = Informer[Pod](
        PodHandler(
            handlers, harness.engine.barrier, cluster, harness.engine.pods, lambda: harness.now
        ),
        sort_by=creation_time,
        transform=trim_ended_pod,
    )
    bound, waiting = a_pod("bound").needs(cpu=1).on("n").build(), a_pod("w").needs(cpu=1).build()
    ended = a_pod("ended").on("n").build()
    ended.status.phase = "Failed"
    informer.replaced([bound, waiting, ended], "1")
    harness.run()
    held = harness.engine.summary()
    assert (held["placed"], held["unschedulable"]) == (1, 1)
    informer.replaced([], "2")
    harness.run()
    held = harness.engine.summary()
    assert (held["placed"], held["unschedulable"]) == (0, 0)
    harness.engine.check_consistent()


def test_a_pod_that_is_bound_no_more_waits_again() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=1))
    engine = harness.engine
    handler = PodHandler(
        engine.handlers, engine.barrier, engine.cluster, engine.pods, lambda: harness.now
    )
    handler.on_updated(a_pod("p").needs(cpu=1).on("n").build())
    harness.start()
    assert harness.engine.summary()["placed"] == 1
    handler.on_updated(a_pod("p").needs(cpu=1).build())
    assert harness.engine.summary()["placed"] == 0
