"""Hostile objects that the real API server takes, and a restart of both processes among them.

The attacks are those of ``tests/hostile``; many are refused by the server, which is as good.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable

import aiohttp
import pytest
import pytest_asyncio

from tests.controlplane.cluster import ClusterHarness
from tests.controlplane.daemon import Daemon
from tests.controlplane.harness import ControlPlane, a_node, a_pod, until
from tests.hostile.attack import CULPRIT, NEIGHBOUR, Attack, Object
from tests.hostile.expansion import expanded
from tests.hostile.tables import audit, generated, tenancy
from tests.tyjobs import a_template, a_tyjob

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("controlplane"),
    pytest.mark.timeout(600),
]

JOBS = "/apis/arranger.io/v1alpha1/namespaces/default/tyjobs"
VOLCANO_JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=10)

#: The neighbour has a node of its own: nobody keeps the culprit from filling all others.
HOME = {"key": "tenant", "value": NEIGHBOUR, "effect": "NoSchedule"}
AT_HOME = {
    "nodeSelector": {"kubernetes.io/hostname": "home"},
    "tolerations": [{**HOME, "operator": "Equal"}],
}
#: What a shared cluster allows a tenant (docs/security.md): a million pods keep the server from
#: everybody, whoever schedules them.
QUOTA: Object = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "pods", "namespace": CULPRIT},
    "spec": {"hard": {"count/pods": "1000"}},
}


def _at_home() -> Object:
    template = a_template()
    template["spec"] |= AT_HOME
    return template


class HostileHarness(ClusterHarness):
    """A cluster with two tenants."""

    async def create(self, obj: Object) -> int:
        """What the server answers to somebody who creates an object."""
        session = self.plane._session
        assert session is not None
        try:
            path = await self._collection(obj)
            body = io.BytesIO(expanded(json.dumps(obj).encode()))
            headers = {"Content-Type": "application/json"}
            async with session.post(
                self.plane.url + path, data=body, headers=headers, timeout=REQUEST_TIMEOUT
            ) as answer:
                await answer.read()
                return answer.status
        except (aiohttp.ClientError, TimeoutError):
            return 0  # it closes the connection on a body that is too large, or ponders for long

    async def _collection(self, obj: Object) -> str:
        kind = (obj["apiVersion"], obj["kind"])
        if kind not in self._paths:
            bare = {"apiVersion": kind[0], "kind": kind[1]}
            home = {} if kind[1] in generated.CLUSTER_SCOPED else {"namespace": CULPRIT}
            self._paths[kind] = await self.plane.collection({**bare, "metadata": home})
        return self._paths[kind]

    async def create_all(self, attacks: Iterable[Attack]) -> Counter[int]:
        """How often the server answered what."""
        self._paths: dict[tuple[str, str], str] = {}
        left = iter([obj for attack in attacks for obj in attack.objects])
        answers: Counter[int] = Counter()

        async def work() -> None:
            for obj in left:
                answers[await self.create(obj)] += 1

        await asyncio.gather(*(work() for _ in range(8)))
        return answers

    async def assert_served(self, name: str) -> None:
        """Both live, and the neighbour's new pod is bound and its new TYJob runs."""
        pods = f"/api/v1/namespaces/{NEIGHBOUR}/pods"
        jobs = JOBS.replace("default", NEIGHBOUR)
        pod = a_pod(name, namespace=NEIGHBOUR)
        pod["spec"] |= AT_HOME
        await self.plane.post(pods, pod)
        job = a_tyjob(name, workers=1, leader=_at_home(), worker=_at_home())
        job["metadata"]["namespace"] = NEIGHBOUR

        async def bound() -> bool:
            self.assert_alive()
            return "nodeName" in (await self.plane.get(f"{pods}/{name}"))["spec"]

        try:
            await until(bound, what=f"the binding of {name}")
        except TimeoutError:
            pod = await self.plane.get(f"{pods}/{name}")
            raise AssertionError(f"{pod['status']}\n{self.scheduler.log_lines()[-2000:]}") from None
        await self.plane.post(jobs, job)

        async def running() -> bool:
            self.assert_alive()
            found = await self.plane.get(f"{jobs}/{name}")
            return bool(found.get("status", {}).get("stage") == "Running")

        try:
            await until(running, what=f"the TYJob {name}")
        except TimeoutError:
            found = (await self.plane.get(f"{jobs}/{name}")).get("status")
            raise AssertionError(f"{found}\n{self.controllers.log_lines()[-2000:]}") from None
        await self.plane.request("DELETE", f"{jobs}/{name}")

    async def restart(self, name: str) -> None:
        """Both processes again, with the objects as they are."""
        for daemon in (self.scheduler, self.controllers):
            assert await daemon.stop() == 0, daemon.log_lines()[-2000:]
        self.scheduler = await Daemon.start(self.plane, f"daemon-{name}")
        self.controllers = await Daemon.controllers(self.plane, f"controllers-{name}")


@pytest_asyncio.fixture
async def harness() -> AsyncIterator[HostileHarness]:
    nodes = [a_node(f"node-{n}", cpu="64", memory="256Gi") for n in range(4)]
    home = a_node("home", cpu="64", memory="256Gi")
    home["spec"] = {"taints": [HOME]}
    nodes.append(home)
    served = [JOBS, VOLCANO_JOBS, GROUPS]
    async with HostileHarness.start(nodes, served=served) as harness:
        for name in (CULPRIT, NEIGHBOUR):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await harness.plane.post("/api/v1/namespaces", namespace)
            path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            await harness.plane.until_served(path)
        await _limit(harness.plane)
        for manifest in tenancy.devices():
            await harness.plane.post(await harness.plane.collection(manifest), manifest)
        yield harness


async def _limit(plane: ControlPlane) -> None:
    quotas = f"/api/v1/namespaces/{CULPRIT}/resourcequotas"
    await plane.post(quotas, QUOTA)

    async def counted() -> bool:
        return "used" in (await plane.get(f"{quotas}/pods")).get("status", {})

    await until(counted, what="the count of the culprit's pods")


async def test_both_serve_others_and_start_again_among_hostile_objects(
    harness: HostileHarness,
) -> None:
    await harness.assert_served("before")
    tables = (
        audit.amounts(),
        audit.deep(),
        audit.templates(),
        audit.counts(),
        tenancy.costly(),
        tenancy.groups(),
        generated.of_tenants(96),
        generated.of_definitions(96),
    )
    attacks = itertools.chain(*tables)
    answers = await harness.create_all(attacks)
    logging.getLogger(__name__).info("the server answered %s", dict(answers))
    assert answers[201] > 200, answers
    await harness.assert_served("among")
    await harness.restart("again")
    await harness.assert_served("again")
    await harness.plane.request("DELETE", f"/api/v1/namespaces/{CULPRIT}")
    await harness.assert_served("after")
