"""Random worlds of TYJobs."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from arranger.kube.client.transport import Request
from tests.simulation.harnesses.tyjobs import JOBS, MERGE, TYJobHarness
from tests.tyjobs import a_template

POLICIES: list[Any] = [
    ["Gang", "BinPack"],
    "Gang",
    "BinPack",
    ["JobAntiAffinity"],
    ["Gang", "LeaderFirst"],
]
NON_STRICT = {"gang.scheduling.koordinator.sh/mode": "NonStrict"}


class World:
    """A cluster in which things happen by chance."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sim = TYJobHarness(seed)
        self.sim.writes_per_pod = 60
        self.nodes = 0
        self.jobs = 0
        self.did: list[str] = []

    async def live(self) -> None:
        """Let things happen, with a controller that is killed now and then."""
        self.add_node()
        self.submit()
        async with self.sim.scheduler(), self.sim.kubelets():
            for _ in range(3):
                async with self.sim.controller(judged=False):
                    for _ in range(6):
                        self.happen()
                        await asyncio.sleep(self.rng.choice([0, 0.05, 1, 5, 40]))
            async with self.sim.controller():
                await asyncio.sleep(100)

    def happen(self) -> None:
        """One thing, by chance."""
        do = self.rng.choices(
            [self.submit, self.add_node, self.lose_node, self.change_pod, self.edit, self.delete],
            [2, 2, 1, 6, 6, 1],
        )[0]
        self.did.append(do.__name__)
        do()

    def add_node(self) -> None:
        self.nodes += 1
        self.sim.nodes(f"n{self.nodes}", cpu=self.rng.randint(1, 4))

    def lose_node(self) -> None:
        """A node goes, and the node controller deletes its pods."""
        if not (names := [n["metadata"]["name"] for n in self.sim.cluster.objects("nodes")]):
            return
        name = self.rng.choice(names)
        self.sim.delete("node", name)
        for pod in self.sim.cluster.objects("pods"):
            if pod["spec"].get("nodeName") == name:
                self.sim.delete("pod", pod["metadata"]["name"])

    def submit(self) -> None:
        self.jobs += 1
        workers, ends = self.rng.randint(1, 3), self.rng.choice([None, None, "0", "1"])
        leader = a_template(run_seconds="20", exit_code=ends) if ends else a_template()
        self.sim.submit(
            f"job{self.jobs}",
            workers=workers,
            least=self.rng.randint(0, workers),
            leader=leader,
            annotations=self.rng.choice([{}, {}, NON_STRICT]),
            restartLimit=self.rng.randint(0, 2),
            cleanPodPolicy=self.rng.choice(["All", "Running", "None"]),
            schedulerPolicy={"basicPolicy": self.rng.choice(POLICIES)},
            **self.rng.choice([{}, {}, {"schedulingTimeoutSeconds": 30}]),
        )

    def change_pod(self) -> None:
        """A pod fails, ends, is evicted or deleted."""
        if not (pods := self.sim.cluster.objects("pods")):
            return
        pod = self.rng.choice(pods)
        name, placed = pod["metadata"]["name"], pod["spec"].get("nodeName")
        ends: list[dict[str, str]] = [
            {"phase": "Failed"},
            {"phase": "Succeeded"},
            {"phase": "Failed", "reason": "Evicted"},
        ]
        if placed and "phase" in pod["status"] and self.rng.random() < 0.6:
            self.sim.patch("pod", name, {"status": self.rng.choice(ends)}, sub="/status")
        if self.rng.random() < 0.4:
            self.sim.delete("pod", name, grace=self.rng.choice([0, 5, 30]))

    def edit(self) -> None:
        """Somebody edits a job; the server may refuse that."""
        jobs = self.sim.cluster.objects("tyjobs", "arranger.io")
        if not jobs:
            return
        template = a_template(cpu=self.rng.randint(1, 3))
        sets = [
            {"name": name, "template": template, "counts": self.rng.randint(1, 3)}
            for name in self.rng.choice([["actor"], ["actor", "more"], ["other"]])
        ]
        change = self.rng.choice(
            [
                {"minWorkersNum": self.rng.randint(0, 3)},
                {"workerSets": sets, "minWorkersNum": self.rng.randint(0, 2)},
                {"leader": {"name": self.rng.choice(["learner", "head"]), "template": template}},
                {"schedulerPolicy": {"basicPolicy": self.rng.choice(POLICIES)}},
                {"schedulerPolicy": {"basicPolicy": ["JobAffinity", "JobAntiAffinity"]}},
                {"priority": self.rng.randint(1, 10)},
                {"restartLimit": self.rng.randint(0, 2)},
                {"schedulingTimeoutSeconds": self.rng.choice([None, 20, 1000])},
                {"terminating": True},
                {"cleanPodPolicy": self.rng.choice(["All", "Running", "None"])},
            ]
        )
        path = f"{JOBS}/{self.rng.choice(jobs)['metadata']['name']}"
        self._request("PATCH", path, {"spec": change})

    def delete(self) -> None:
        """Somebody deletes a job."""
        if jobs := self.sim.cluster.objects("tyjobs", "arranger.io"):
            self._request("DELETE", f"{JOBS}/{self.rng.choice(jobs)['metadata']['name']}", {})

    def _request(self, method: str, path: str, body: Any) -> None:
        import json

        answer = self.sim.cluster.handle(
            Request(
                method,
                path,
                {},
                json.dumps(body).encode(),
                MERGE if method == "PATCH" else "application/json",
            )
        )
        assert answer.status < 300 or answer.status == 422, answer
