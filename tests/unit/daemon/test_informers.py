"""What is read of the API server, in whichever version it serves it."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from arranger.api.types.pod_groups import NativePodGroup
from arranger.daemon.config.schema import QueueConfig
from arranger.daemon.informers import Informers, owner_kind
from arranger.kube.client.metrics import NULL_METRICS
from arranger.kube.client.problems import IGNORE_PROBLEMS
from arranger.plugins import default_profile
from tests.builders import a_pod_group
from tests.unit.engine.harness import EngineHarness
from tests.unit.kube.scripted_transport import ScriptedTransport, failure

POD_GROUPS = "/apis/scheduling.k8s.io/{}/podgroups"
POD_GROUP = {
    "type": "ADDED",
    "object": {
        "metadata": {"name": "g", "namespace": "team", "uid": "1", "resourceVersion": "5"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    },
}
END_OF_LIST = {
    "type": "BOOKMARK",
    "object": {
        "metadata": {
            "resourceVersion": "5",
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
    },
}


@pytest.mark.parametrize("served", ["v1beta1", "v1alpha3", "v1alpha2"])
async def test_podgroups_of_kubernetes_are_read_in_the_version_that_is_served(served: str) -> None:
    versions = ["v1beta1", "v1alpha3", "v1alpha2"]
    tried = versions[: versions.index(served) + 1]
    refusals = [failure(404) for _ in tried[:-1]]
    transport = ScriptedTransport(streams=[*refusals, [POD_GROUP, END_OF_LIST, 1e9]])
    harness = EngineHarness(default_profile())
    informers = Informers(harness.engine, lambda: harness.now, lambda: None)
    (reflector,) = [
        each
        for each in informers.reflectors(
            transport, rng=random.Random(1), metrics=NULL_METRICS, problems=IGNORE_PROBLEMS
        )
        if each.path == POD_GROUPS.format("v1beta1")
    ]
    running = asyncio.create_task(reflector.run())
    await asyncio.wait_for(reflector.synced.wait(), 1)
    running.cancel()
    assert [call.path for call in transport.opened] == [POD_GROUPS.format(v) for v in tried]
    harness.run()
    group = a_pod_group("g").build(NativePodGroup)
    metadata = msgspec.structs.replace(group.metadata, namespace="team")
    assert harness.engine.registry.knows(msgspec.structs.replace(group, metadata=metadata))


def test_events_about_owners_name_their_kind() -> None:
    for resource in QueueConfig().owner_resources:
        _, kind = owner_kind(f"/apis/{resource}")
        assert kind.lower() + "s" == resource.rpartition("/")[2]
        assert kind[0].isupper()
    assert owner_kind("/apis/apps/v1/deployments") == ("apps/v1", "Deployment")
    assert owner_kind("/apis/example.com/v1/things") == ("example.com/v1", "things")
