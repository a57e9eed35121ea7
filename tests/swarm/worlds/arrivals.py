"""Who arrives in a world: what the worlds of warm and cold starts are made of, and jobs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from arranger.embedded.kubelet import EXIT_CODE, RUN_SECONDS, TERMINATION_SECONDS
from tests import devices, storage
from tests.builders import Manifest, PodBuilder
from tests.hostile.attack import CULPRIT
from tests.queueing import GPU
from tests.simulation.harnesses.jobs import task
from tests.simulation.warm_cold.worlds import PRIORITIES, WorldBuilder
from tests.swarm.worlds.tenants import SECOND, namespaces
from tests.tyjobs import a_tyjob

_CARD_KEYS: Final = ("volcano.sh/card.name", "volcano.sh/card.request")
_QUEUE: Final = "scheduling.volcano.sh/queue-name"
#: Feature → the namespace that it takes.
_NAMESPACES: Final = {"tenants": SECOND, "hostile": CULPRIT}
#: Feature → the policies of a Volcano Job, event → action.
_POLICIES: Final = (
    {},
    {"PodFailed": "RestartJob"},
    {"PodEvicted": "RestartTask", "PodFailed": "AbortJob"},
    {"PodEvicted": "RestartPod"},
    {"TaskCompleted": "CompleteJob"},
)


class Arrivals(WorldBuilder):
    """Makes what is there at first, and one arrival after another.

    Args:
        features: those that are on.
    """

    def __init__(self, seed: int, features: Collection[str]) -> None:
        super().__init__(seed, past=False)
        self._features = features

    def surround(self) -> list[Manifest]:
        """Nodes, priority classes, queues, classes, owners: what is there before any pod."""
        rng, on = self._rng, self._features
        for n in range(rng.randint(2, 6)):
            self._add_node(f"n{n}")
        if "queues" in on:
            for n in range(rng.randint(1, 4)):
                self._add_queue(f"q{n}")
        if "volumes" in on:
            self._add_storage()
        if "devices" in on:
            self._add_devices()
        if "owners" in on:
            self._add_owners()
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        classes = [{**head, "metadata": {"name": f"p{v}"}, "value": v} for v in PRIORITIES]
        others = [name for feature, name in _NAMESPACES.items() if feature in on]
        return [*namespaces(*others), *classes, *map(self._plain, self._world.early)]

    def next(self, name: str) -> list[Manifest]:
        """What arrives together, in the order of its creation."""
        makers = [(3, self._add_lone_pods)]
        makers += [
            (weight, make)
            for feature, weight, make in (
                ("gangs", 2, self._add_gang),
                ("pairs", 1, self._add_pair_of_gangs),
                ("podgroups", 3, self._add_pod_group),
                ("jobs", 1, self._add_job),
                ("workloads", 1, self._add_workload),
                ("budgets", 1, self._add_budget),
                ("vcjobs", 1, self._add_volcano_job),
                ("tyjobs", 1, self._add_tyjob),
                ("deployments", 1, self._add_deployment),
            )
            if feature in self._features
        ]
        self._world.late.clear()
        weights, chosen = zip(*makers, strict=True)
        self._rng.choices(chosen, weights)[0](name)
        return [self._plain(manifest) for manifest in self._world.late]

    def _with_objects(self, pod: PodBuilder, name: str) -> PodBuilder:
        """Some have two volumes or devices, so that several writes come before their Binding."""
        pod = super()._with_objects(pod, name)
        if self._has_devices and self._rng.random() < 0.2:
            self._late(devices.a_claim(f"{name}-spare").asks().manifest())
            pod = devices.claiming(pod, f"{name}-spare")
        if self._has_storage and self._rng.random() < 0.2:
            self._late(storage.a_claim(f"{name}-more").manifest())
            pod = pod.with_claim(f"{name}-more")
        return pod

    # --- more kinds --------------------------------------------------------------------------

    def _add_volcano_job(self, name: str) -> None:
        rng = self._rng
        roles = rng.choice([["w"], ["ps", "w"]])
        tasks = [
            task(role, rng.randint(1, 3), runs=self._run_seconds(), exits=rng.choice([0, 0, 0, 1]))
            for role in roles
        ]
        policies = [{"event": e, "action": a} for e, a in rng.choice(_POLICIES).items()]
        spec: dict[str, Any] = {
            "tasks": tasks,
            "policies": policies,
            "minAvailable": rng.randint(1, sum(each["replicas"] for each in tasks)),
            "maxRetry": rng.randint(1, 3),
        }
        if self._queues:
            spec["queue"] = rng.choice(self._queues)
        self._object("batch.volcano.sh/v1alpha1", "Job", name, spec)

    def _add_tyjob(self, name: str) -> None:
        workers = self._rng.randint(1, 3)
        self._late(a_tyjob(name, workers=workers, least=self._rng.randint(1, workers)))

    def _add_deployment(self, name: str) -> None:
        """Pods that come again, made by the hollow controllers."""
        rng = self._rng
        pod = self._plain(self._pod("x").manifest())
        labels = {"of": name}
        template = {
            "metadata": {**{k: v for k, v in pod["metadata"].items() if k == "annotations"}},
            "spec": pod["spec"],
        }
        template["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **labels}
        template["metadata"].get("annotations", {}).pop(RUN_SECONDS, None)
        spec: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": template}
        if rng.random() < 0.6:
            self._object("apps/v1", "Deployment", name, {**spec, "replicas": rng.randint(1, 4)})
            return
        template["spec"] = {**pod["spec"], "restartPolicy": "Never"}
        template["metadata"].setdefault("annotations", {})[RUN_SECONDS] = "30"
        count = rng.randint(1, 3)
        jobs = {"template": template, "parallelism": count, "completions": count}
        self._object("batch/v1", "Job", name, jobs)

    def _object(self, version: str, kind: str, name: str, spec: dict[str, Any]) -> None:
        meta = {"name": name, "namespace": "default"}
        self._late({"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec})

    # --- what is left out --------------------------------------------------------------------

    def _run_seconds(self) -> float | None:
        if "runs-end" not in self._features or self._rng.random() < 0.2:
            return None
        return round(self._rng.expovariate(1 / 40), 1)

    def _plain(self, manifest: Manifest) -> Manifest:
        """The object without what is switched off, and without what the server gives it."""
        made = {**manifest, "metadata": {**manifest["metadata"]}}
        meta, on = made["metadata"], self._features
        meta.pop("creationTimestamp", None)
        meta.pop("resourceVersion", None)
        notes = dict(meta.get("annotations") or {})
        if "cards" not in on:
            for key in _CARD_KEYS:
                notes.pop(key, None)
        if manifest["kind"] == "Pod":
            made["spec"] = self._pod_spec(manifest["spec"])
            if "slow-ends" not in on:
                notes.pop(TERMINATION_SECONDS, None)
            seconds = self._run_seconds()
            if seconds is not None:
                notes[RUN_SECONDS] = str(seconds)
                notes[EXIT_CODE] = self._rng.choice("0001")
        meta["annotations"] = notes
        if not notes:
            del meta["annotations"]
        return made

    def _pod_spec(self, spec: Manifest) -> Manifest:
        spec, on = dict(spec), self._features
        if "priorities" not in on:
            spec.pop("priorityClassName", None)
            spec.pop("priority", None)
        if "choosy" not in on:
            spec.pop("affinity", None)
            spec.pop("topologySpreadConstraints", None)
        if "gates" not in on:
            spec.pop("schedulingGates", None)
        if "slow-ends" not in on:
            spec.pop("terminationGracePeriodSeconds", None)
        if "cards" not in on:
            spec["containers"] = [_without_cards(c) for c in spec["containers"]]
        return spec


def _without_cards(container: Manifest) -> Manifest:
    resources = dict(container.get("resources") or {})
    requests = {k: v for k, v in (resources.get("requests") or {}).items() if k != GPU}
    return {**container, "resources": {**resources, "requests": requests}}
