"""A cluster with our definitions, and the gang controller, shown what it is to see by hand."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from arranger.api.types.core import Pod
from arranger.controllers.gang.cache import GANG_GROUP, POD_GROUP_KINDS, GangObjectKey
from arranger.controllers.gang.controller import GangController
from arranger.controllers.runtime.controller import ControllerOptions, status_fields
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.kube.client.transport import Request
from arranger.kube.watch.informer import Informer, uid_of
from tests.builders import PodBuilder, a_pod, an_unstructured
from tests.faults.injector import FaultInjector, ReceivedWrite
from tests.project.crds.samples import definitions

Object = dict[str, Any]

SIGS = "scheduling.sigs.k8s.io"
LABEL = "pod-group.scheduling.sigs.k8s.io"


class ReconcilerHarness:
    """What kopf and the reflector do is done by hand, so that a test says what was seen when."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster(rng=random.Random(1))
        self.faults = FaultInjector()
        self._definitions = list(definitions().values())
        for definition in self._definitions:
            self.cluster.create(definition)
        self.restart()

    def restart(self) -> None:
        """The controllers start, knowing what is served and nothing else."""
        transport = InProcessTransport(self.cluster, hook=self.faults)
        self.pod_groups_read = True
        self.controller = GangController(
            transport,
            ControllerOptions(rng=random.Random(1)),
            pod_groups_read=lambda: self.pod_groups_read,
        )
        self.cache, self.work_queue = self.controller.cache, self.controller.work_queue
        self.pods: Informer[Pod] = Informer(self.controller.pods, key=uid_of)
        for definition in self._definitions:
            group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
            if kind in ("Gang", "PodGroup"):
                self.cache.on_definition_updated(group, status_fields(definition))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The reconciler writes while the context lasts."""
        (task,) = self.controller.tasks()
        working = asyncio.create_task(task)
        try:
            yield
        finally:
            working.cancel()
            await asyncio.wait({working})
            self.cache.registry.check_consistent()

    def observe(self, *pods: PodBuilder) -> None:
        """The reflector shows pods."""
        for pod in pods:
            self.pods.applied(pod.build())

    def observe_deleted(self, *pods: PodBuilder) -> None:
        """The reflector shows that pods are gone."""
        for pod in pods:
            self.pods.deleted(msgspec.convert(pod.manifest(), Pod))

    def create(self, manifest: Object) -> Object:
        """Somebody creates an object; nobody has seen it yet."""
        return self.cluster.create(manifest)

    def patch(self, path: str, change: Object) -> None:
        """Somebody merges a change into an object; nobody has seen it yet."""
        body = json.dumps(change).encode()
        merge = "application/merge-patch+json"
        answer = self.cluster.handle(Request("PATCH", path, {}, body, merge))
        assert answer.status == 200, answer

    def deliver(self, group: str) -> None:
        """kopf shows the objects of a group as they are now, and none that are gone."""
        plural = "gangs" if group == GANG_GROUP else "podgroups"
        for obj in self.cluster.objects(plural, group):
            self.work_queue.enqueue(self.cache.on_object_updated(group, an_unstructured(obj)))

    def delete_gang(self, name: str = "g") -> None:
        """Somebody deletes a Gang, and kopf shows it."""
        path = f"/apis/arranger.io/v1alpha1/namespaces/default/gangs/{name}"
        assert self.cluster.handle(Request("DELETE", path, {})).status == 200
        self.work_queue.enqueue(
            self.cache.on_object_deleted(GangObjectKey(GANG_GROUP, f"default/{name}"))
        )

    @property
    def gangs(self) -> dict[str, Object]:
        """Gangs by name."""
        return {g["metadata"]["name"]: g for g in self.cluster.objects("gangs", GANG_GROUP)}

    def status(self, group: str = SIGS) -> Mapping[str, Any]:
        """The status of the only PodGroup."""
        (pod_group,) = self.cluster.objects("podgroups", group)
        return dict(pod_group.get("status") or {})

    def written(self) -> list[ReceivedWrite]:
        """Writes that the server has accepted so far."""
        return self.faults.applied()


def members(count: int, *, first: int = 0, gang: str = "g") -> list[PodBuilder]:
    """Pods of a gang in the dialect of :data:`SIGS`."""
    return [a_pod(f"{gang}-{n}").labelled({LABEL: gang}) for n in range(first, first + count)]


def a_pod_group(minimum: int = 2, *, group: str = SIGS, name: str = "g") -> Object:
    """A PodGroup as its owner writes it."""
    return {
        "apiVersion": POD_GROUP_KINDS[group].api_version,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": minimum},
    }
