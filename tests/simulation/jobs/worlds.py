"""Random worlds of Volcano Jobs, gangs of every dialect and queues."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress

from arranger.embedded.kubelet import RUN_SECONDS
from tests.builders import PodBuilder, a_pod
from tests.queueing import CARD, GPU, QUEUES, a_queue_manifest, gpu_node
from tests.simulation.harnesses.jobs import JOBS, MERGE, JobHarness, task
from tests.simulation.harnesses.simulation import Object

NATIVE = "scheduling.k8s.io/v1beta1"
#: Gang → apiVersion of its PodGroup, "" for none.
GANGS = {
    "sigs": "scheduling.sigs.k8s.io/v1alpha1",
    "community": "scheduling.x-k8s.io/v1alpha1",
    "volcano": "scheduling.volcano.sh/v1beta1",
    "native": NATIVE,
    "notes": "",
    "bundles": "",
    "none": "",
}
QUEUE_NAMES = ("team", "child", "other")
POLICIES = [
    {"PodFailed": "RestartJob"},
    {"PodEvicted": "RestartTask", "PodFailed": "AbortJob"},
    {"PodEvicted": "RestartPod"},
    {"TaskCompleted": "CompleteJob"},
]


class World:
    """A cluster in which things happen by chance."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sim = JobHarness(seed)
        self.sim.serve_native_pod_groups()
        self.sim.writes_per_pod = 60
        self.born = 0
        self.sim.create(*(gpu_node(f"n{n}").offers(cpu=6, pods=110) for n in range(2)))
        for name in QUEUE_NAMES:
            self.make_queue(name)

    async def live(self) -> None:
        """Let things happen; controllers are killed now and then, and away for a while."""
        async with self.sim.scheduler(), self.sim.kubelets():
            for life in range(3):
                dead = None
                async with self.sim.controllers(judged=False):
                    for _ in range(12):
                        self.happen()
                        await asyncio.sleep(self.rng.choice([0, 0.05, 1, 5, 20]))
                    if self.rng.random() < 0.5:
                        dead = self.sim.kill()
                if dead is not None:
                    dead.stop()
                for _ in range(self.rng.randint(0, 4)):
                    self.happen()
                await asyncio.sleep(life)
            async with self.sim.controllers():
                await asyncio.sleep(100)

    def happen(self) -> None:
        """One thing, by chance."""
        does = {
            self.make_pods: 6,
            self.change_pod: 8,
            self.change_group: 4,
            self.change_queue: 3,
            self.submit: 2,
            self.edit_job: 3,
        }
        self.rng.choices(list(does), list(does.values()))[0]()

    # --- pods and their gangs ----------------------------------------------------------------

    def make_pods(self) -> None:
        """One to three pods of a gang, or of none."""
        gang = self.rng.choice(list(GANGS))
        for _ in range(self.rng.randint(1, 3)):
            self.born += 1
            pod = self._member(gang).needs({GPU: self.rng.randint(0, 1)}, cpu=1)
            if self.rng.random() < 0.4:
                pod = pod.in_queue(self.rng.choice(QUEUE_NAMES))
            self.sim.create(pod)

    def _member(self, gang: str) -> PodBuilder:
        pod = a_pod(f"p{self.born}")
        match gang:
            case "sigs":
                return pod.in_pod_group(gang)
            case "community":
                return pod.in_pod_group(gang, label="scheduling.x-k8s.io/pod-group")
            case "volcano":
                return pod.annotated({"scheduling.k8s.io/group-name": gang})
            case "native":
                return pod.with_spec(schedulingGroup={"podGroupName": gang})
            case "notes":
                return pod.in_gang(gang, 2)
            case "bundles":
                role, least = self.rng.choice([("a", 1), ("b", 2)])
                return pod.in_bundle(gang, role, least)
        return pod

    def change_pod(self) -> None:
        """A pod runs, ends, is deleted, or says that it is of another gang."""
        if not (pods := self.sim.cluster.objects("pods")):
            return
        pod = self.rng.choice(pods)
        name, placed = pod["metadata"]["name"], pod["spec"].get("nodeName")
        # Who says how long it runs is ended by its kubelet.
        runs = RUN_SECONDS in (pod["metadata"].get("annotations") or {})
        ended = runs or pod["status"].get("phase") in ("Succeeded", "Failed")
        chance = self.rng.random()
        if placed and not ended and chance < 0.6:
            phase = self.rng.choice(["Succeeded", "Failed"])
            self.sim.patch("pod", name, {"status": {"phase": phase}}, sub="/status")
        elif chance < 0.9:
            self.sim.delete("pod", name, grace=self.rng.choice([0, 5, 30]))

    def change_group(self) -> None:
        """A PodGroup is made, edited or deleted."""
        gang = self.rng.choice([name for name, version in GANGS.items() if version])
        least = self.rng.randint(1, 3)
        spec: Object = {"minMember": least}
        if GANGS[gang] == NATIVE:
            spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
        elif gang == "volcano":
            spec["queue"] = self.rng.choice(QUEUE_NAMES)
        path = f"/apis/{GANGS[gang]}/namespaces/default/podgroups"
        head = {"apiVersion": GANGS[gang], "kind": "PodGroup"}
        there = self.sim.cluster.objects("podgroups", GANGS[gang].partition("/")[0])
        if gang not in (g["metadata"]["name"] for g in there):
            self.sim.cluster.create({**head, "metadata": {"name": gang}, "spec": spec})
        elif self.rng.random() < 0.6:
            self.sim.request("PATCH", f"{path}/{gang}", {"spec": spec}, MERGE)
        else:
            self.sim.request("DELETE", f"{path}/{gang}")

    # --- queues ------------------------------------------------------------------------------

    def make_queue(self, name: str) -> None:
        spec: Object = {"parent": "team"} if name == "child" else {}
        self.sim.cluster.create(a_queue_manifest(name, cards={CARD: 6}, **spec))

    def change_queue(self) -> None:
        """A queue is closed, opened, deleted or made."""
        name = self.rng.choice(QUEUE_NAMES)
        there = self.sim.cluster.objects("queues", "scheduling.volcano.sh")
        if name not in (queue["metadata"]["name"] for queue in there):
            self.make_queue(name)
        elif self.rng.random() < 0.7:
            state = self.rng.choice(["Open", "Closed", None])
            change = {"metadata": {"annotations": {"arranger.io/queue-state": state}}}
            self.sim.request("PATCH", f"{QUEUES}/{name}", change, MERGE)
        else:
            self.sim.request("DELETE", f"{QUEUES}/{name}")

    # --- jobs --------------------------------------------------------------------------------

    def submit(self) -> None:
        self.born += 1
        runs = self.rng.choice([None, None, 20])
        tasks = [
            task(name, self.rng.randint(1, 2), runs=runs, exits=self.rng.choice([0, 0, 1]))
            for name in self.rng.choice([["w"], ["m", "w"]])
        ]
        self.sim.job(
            f"job{self.born}",
            *tasks,
            on=self.rng.choice(POLICIES),
            minAvailable=self.rng.randint(1, len(tasks)),
            maxRetry=self.rng.randint(1, 3),
            queue=self.rng.choice(QUEUE_NAMES),
        )

    def edit_job(self) -> None:
        """A job is scaled, asked for an action, made invalid, or deleted."""
        jobs = self.sim.cluster.objects("jobs", "batch.volcano.sh")
        if not jobs:
            return
        job = self.rng.choice(jobs)
        name, tasks = job["metadata"]["name"], job["spec"]["tasks"]
        if self.rng.random() < 0.15:
            self.sim.request("DELETE", f"{JOBS}/{name}")
            return
        scaled = [{**each, "replicas": self.rng.randint(1, 3)} for each in tasks]
        action = self.rng.choice(["AbortJob", "ResumeJob", "RestartJob", "TerminateJob"])
        changes: Iterator[Object] = iter(
            self.rng.sample(
                [
                    {"spec": {"tasks": scaled}},
                    {"metadata": {"annotations": {"arranger.io/action": action}}},
                    {"spec": {"policies": [{"event": "PodPending", "action": "RestartJob"}]}},
                    {"spec": {"policies": []}},
                ],
                1,
            )
        )
        with suppress(AssertionError):  # the server may refuse it
            self.sim.edit(name, next(changes))
