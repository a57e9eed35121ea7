"""Simulates Jobs: controllers that can be killed, in virtual time, with kopf's part by hand."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from arranger.api.types.command import COMMAND_API, Command
from arranger.api.types.core import Pod
from arranger.controllers.gang.cache import GANG_GROUP, NATIVE_GROUP
from arranger.controllers.gang.controller import GangController
from arranger.controllers.queue.controller import QueueController
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.informers import MultiNamespaceInformer
from arranger.controllers.vcjob.controller import JobController
from arranger.embedded.kubelet import EXIT_CODE, RUN_SECONDS
from arranger.embedded.storage.store import Change
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from tests.builders import an_unstructured
from tests.faults.injector import FaultInjector, from_user
from tests.faults.kinds import DropConnection, FaultRule
from tests.simulation.harnesses.controllers import native_pod_groups
from tests.simulation.harnesses.gangs import GangHarness
from tests.simulation.harnesses.simulation import Object
from tests.simulation.harnesses.status_judge import SCHEDULER, status_faults

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
MERGE = "application/merge-patch+json"
JOB_GROUP, GROUP_GROUP = "batch.volcano.sh", "scheduling.volcano.sh"
#: API groups of PodGroups whose definitions are installed.
DIALECTS = ("scheduling.sigs.k8s.io", "scheduling.x-k8s.io", GROUP_GROUP)


def task(
    name: str = "w",
    replicas: int = 2,
    *,
    cpu: int = 1,
    runs: float | None = None,
    exits: int = 0,
    **more: Any,
) -> Object:
    """A task whose pods need some CPUs, and end after so many seconds with a code."""
    notes = {} if runs is None else {RUN_SECONDS: str(runs), EXIT_CODE: str(exits)}
    container = {"name": "c", "image": "img", "resources": {"requests": {"cpu": str(cpu)}}}
    template = {
        "metadata": {"annotations": notes},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {"name": name, "replicas": replicas, "template": template, **more}


class JobHarness(GangHarness):
    """A simulation with the controllers of Jobs.

    Attributes:
        job_faults: every request of the controllers goes through them.
        may_repeat_pods: names of jobs whose pods may be of several versions, or be made again.
    """

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.job_faults = FaultInjector(rng=random.Random(seed))
        self.may_repeat_pods: set[str] = set()
        self._dialects = set(DIALECTS)
        self._running: dict[str, asyncio.Task[None]] = {}

    def serve_native_pod_groups(self) -> None:
        """Kubernetes' own PodGroups are there as well; before any controllers."""
        self.cluster.create(native_pod_groups())
        self._dialects.add(NATIVE_GROUP)

    # --- jobs --------------------------------------------------------------------------------

    def job(
        self,
        name: str,
        *tasks: Object,
        annotations: Mapping[str, str] | None = None,
        on: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Create a job; ``on`` is its policies, event → action."""
        policies = [{"event": event, "action": action} for event, action in (on or {}).items()]
        self.cluster.create(
            {
                "apiVersion": f"{JOB_GROUP}/v1alpha1",
                "kind": "Job",
                "metadata": {"name": name, "annotations": dict(annotations or {})},
                "spec": {"tasks": list(tasks) or [task()], "policies": policies, **spec},
            }
        )

    def edit(self, name: str, change: Object) -> None:
        """Merge a change into a job."""
        self.request("PATCH", f"{JOBS}/{name}", change, MERGE)

    def annotate(self, name: str, action: str | None) -> None:
        """Its owner asks for an action."""
        self.edit(name, {"metadata": {"annotations": {"arranger.io/action": action}}})

    def command(self, action: str, name: str, target: Object | None = None) -> None:
        """Somebody creates a Command for a job, as vcctl does.

        Args:
            target: what of the target is written differently.
        """
        self._command("jobs", (JOB_GROUP, "v1alpha1", "Job"), name, action, target or {})

    def command_queue(self, action: str, name: str, target: Object | None = None) -> None:
        """Somebody creates a Command for a queue."""
        self._command("queues", (GROUP_GROUP, "v1beta1", "Queue"), name, action, target or {})

    def _command(
        self, plural: str, what: tuple[str, str, str], name: str, action: str, change: Object
    ) -> None:
        group, version, kind = what
        found = [o for o in self.cluster.objects(plural, group) if o["metadata"]["name"] == name]
        uid = found[0]["metadata"]["uid"] if found else "gone"
        target = {"apiVersion": f"{group}/{version}", "kind": kind, "name": name, "uid": uid}
        owners = [{**target, "controller": True, "blockOwnerDeletion": True}] if found else []
        self.cluster.create(
            {
                "apiVersion": COMMAND_API,
                "kind": "Command",
                "metadata": {"generateName": f"{name}-", "ownerReferences": owners},
                "action": action,
                "target": {**target, **change},
            }
        )

    def commands(self) -> list[str]:
        """The actions of the Commands there are."""
        return [
            str(c.get("action", "")) for c in self.cluster.objects("commands", "bus.volcano.sh")
        ]

    def delete_job(self, name: str) -> None:
        """Its owner deletes it."""
        self.request("DELETE", f"{JOBS}/{name}")

    def evict(self, pod: str, *, grace: int = 30) -> None:
        """As the scheduler does it: a condition that says why, and then a delete."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "for somebody more important",
        }
        known = self.pod(pod)["status"].get("conditions", [])
        self.patch("pod", pod, {"status": {"conditions": [*known, condition]}}, sub="/status")
        self.delete("pod", pod, grace=grace)

    # --- looking -----------------------------------------------------------------------------

    def status(self, name: str) -> Object:
        """The status of a job."""
        jobs = self.cluster.objects("jobs", JOB_GROUP)
        return dict(next(j for j in jobs if j["metadata"]["name"] == name).get("status") or {})

    def phase(self, name: str) -> str:
        """Its phase; "" while it has none."""
        return str(self.status(name).get("state", {}).get("phase", ""))

    def reason(self, name: str) -> tuple[str, str]:
        """Why it is in its phase: reason and message."""
        state = self.status(name).get("state", {})
        return str(state.get("reason") or ""), str(state.get("message") or "")

    def phases_of(self, name: str) -> list[str]:
        """The phases that it went through, and is in."""
        return [c["status"] for c in self.status(name)["conditions"]]

    def pods_of_job(self, name: str) -> dict[str, str]:
        """Its pods: name → phase, with a dash for one without a node."""
        return {
            pod["metadata"]["name"]: pod["status"]["phase"] if pod["spec"].get("nodeName") else "-"
            for pod in self.cluster.objects("pods")
            if _job_of(pod) == name
        }

    def groups(self) -> list[str]:
        """The PodGroups there are."""
        return [g["metadata"]["name"] for g in self.cluster.objects("podgroups", GROUP_GROUP)]

    def events_about(self, name: str) -> dict[str, str]:
        """Events about a job: reason → note."""
        events = self.cluster.objects("events", "events.k8s.io")
        about = [e for e in events if e["regarding"]["kind"] == "Job"]
        return {e["reason"]: e["note"] for e in about if e["regarding"]["name"] == name}

    async def until_phase(self, name: str, *phases: str, within: float = 60.0) -> None:
        """Let virtual time pass until a job is in one of these phases."""
        await self.until(lambda: self.phase(name) in phases, within=within)

    # --- controllers -------------------------------------------------------------------------

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[JobController]:
        """Kubelets, scheduler and controllers."""
        async with self.kubelets(), self.scheduler(), self.controllers() as controller:
            yield controller

    @asynccontextmanager
    async def controllers(
        self, name: str = "jobs", *, judged: bool = True
    ) -> AsyncIterator[JobController]:
        """Controllers at work: those of Jobs, gangs and queues, as in one process.

        Args:
            judged: whether every status must be true before they stop, unless they were killed.
        """
        transport = InProcessTransport(self.cluster, hook=self.job_faults, user=name)
        options = ControllerOptions(debounce=0.1, rng=random.Random(1), now=virtual_now)
        controller = JobController(transport, options)
        queues = QueueController(transport, options)
        admit = queues.admission.why_not
        gangs = GangController(transport, options, why_not_admitted=admit)
        pods = MultiNamespaceInformer(
            transport, options, "/api/v1", "pods", Pod, gangs.pods, queues.pods
        )
        commands = MultiNamespaceInformer(
            transport,
            options,
            f"/apis/{COMMAND_API}",
            "commands",
            Command,
            controller.commands,
            queues.commands,
        )
        for group in (GANG_GROUP, *DIALECTS):
            gangs.cache.on_definition_updated(group, None)
        queues.cache.on_definition_updated(None)

        def show(resource: str, obj: Object, *, deleted: bool = False) -> None:
            if name not in self._running:
                return
            if resource.endswith("/jobs"):
                handlers = [controller.jobs]
            else:
                handlers = [gangs.objects[resource.partition("/")[0]]]
            if resource == f"{GROUP_GROUP}/podgroups":
                handlers.append(controller.pod_groups)
            for handler in handlers:
                (handler.on_deleted if deleted else handler.on_updated)(an_unstructured(obj))

        watched = (
            f"{JOB_GROUP}/jobs",
            f"{GANG_GROUP}/gangs",
            *(f"{group}/podgroups" for group in sorted(self._dialects)),
        )

        heard: deque[Change] = deque()

        def show_next() -> None:
            change = heard.popleft()
            show(change.resource, change.after, deleted=change.type == "DELETED")

        def hear(change: Change) -> None:
            """Show the change a little later, as a watch does; in order, as timers are not."""
            if change.resource in watched:
                heard.append(change)
                asyncio.get_running_loop().call_later(0.01, show_next)

        async def run() -> None:
            synced = [*pods.synced, *queues.synced]
            parts = [*controller.tasks(), *gangs.tasks(caches_synced=synced), *pods.tasks()]
            parts += [*queues.tasks(caches_synced=synced), *commands.tasks()]
            async with asyncio.TaskGroup() as group:
                for part in parts:
                    group.create_task(part)

        self._running[name] = running = asyncio.create_task(run())
        silence = self.cluster.store.subscribe(hear)
        for resource in watched:
            group, _, plural = resource.partition("/")
            for obj in self.cluster.objects(plural, group):
                show(resource, obj)
        try:
            yield controller
            if judged and name in self._running:
                await self.until_true(self.untrue)
        finally:
            silence()
            self._running.pop(name, None)
            running.cancel()
            await asyncio.wait({running})
            assert running.cancelled(), running.exception()

    def kill(self, name: str = "jobs") -> FaultRule:  # type: ignore[override]
        """As ``kill -9``: from this moment on, no request of it reaches the server."""
        self._running.pop(name).cancel()
        return self.job_faults.inject(from_user(name), DropConnection.BEFORE)

    # --- what must hold ----------------------------------------------------------------------

    def untrue(self) -> list[str]:
        """What is untrue in the status of any Gang, PodGroup, Queue or Job."""
        writers = {"vcjob", "gang", "queue", *([SCHEDULER] if self.alive() else [])}
        return status_faults(self.cluster, virtual_now(), writers)

    def check(self) -> None:
        """The invariants of every simulation, and those of jobs."""
        super().check()
        self.check_rights(self.job_faults, "arranger-controllers")
        self._check_jobs()

    def _check_jobs(self) -> None:
        """By the server's history: no pod is made twice, and no two versions of a job run at once.

        And a job that has ended has no active pods.
        """
        made: Counter[tuple[str, str]] = Counter()
        living: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for change in self.history:
            job = _job_of(change.after) if change.resource == "/pods" else ""
            if not job:
                continue
            meta = change.after["metadata"]
            version = meta["annotations"]["volcano.sh/job-version"]
            made[meta["name"], version] += (
                change.type == "ADDED" and job not in self.may_repeat_pods
            )
            alive = change.type != "DELETED" and not _ended(change.after)
            if alive:
                living[job][meta["name"]] = version
            else:
                living[job].pop(meta["name"], None)
            if job not in self.may_repeat_pods:
                assert len(set(living[job].values())) <= 1, f"{job}: {living[job]}"
        twice = [name for name, times in made.items() if times > 1]
        assert not twice, f"made twice: {twice}"
        for job in self.cluster.objects("jobs", JOB_GROUP):
            phase = job.get("status", {}).get("state", {}).get("phase")
            if phase in ("Aborted", "Completed", "Terminated"):
                assert not living[job["metadata"]["name"]], f"{phase} with {living}"


def _job_of(pod: Object) -> str:
    return str(pod["metadata"].get("labels", {}).get("volcano.sh/job-name", ""))


def _ended(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")
