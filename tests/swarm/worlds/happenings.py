"""What happens in a world to objects that have been created."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from typing import Any

from tests.builders import Manifest, a_node
from tests.queueing import GPU
from tests.swarm.world import Event, Object, an_event
from tests.swarm.worlds.tenants import an_attack
from tests.swarm.worlds.windows import a_change

_SAID = (
    {"scheduling.volcano.sh/queue-name": "q0"},
    {"volcano.sh/preemptable": "false"},
    {"volcano.sh/service.type": "training"},
    {"gang.scheduling.koordinator.sh/name": None},
)
#: What Commands are about → what they may say.
_COMMANDED: dict[str, list[str]] = {
    "batch.volcano.sh/v1alpha1": ["AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "Dance"],
    "scheduling.volcano.sh/v1beta1": ["CloseQueue", "OpenQueue"],
}
_GANG = "gang.scheduling.koordinator.sh/"
_EDITED = ("PodGroup", "PodGroup", "Job", "TYJob", "Deployment", "PyTorchJob")
_DELETED = (*_EDITED, "PodDisruptionBudget", "PersistentVolumeClaim", "ResourceClaim")


class Happenings:
    """Collects the events of a world.

    Args:
        features: those that are on.
        around: what is there at first.
    """

    def __init__(
        self, rng: random.Random, features: Collection[str], around: Iterable[Manifest]
    ) -> None:
        self._rng = rng
        self._on = features
        self._events: list[Event] = []
        self._known: dict[str, list[Manifest]] = {}
        self._harmful: list[Manifest] = []
        self._new_nodes = 0
        self._commands = 0
        for manifest in around:
            self._remember(manifest)

    def events(self, *, until: float) -> tuple[Event, ...]:
        """All of them, by time; at the latest then whatever meant harm is gone."""
        for obj in self._harmful:
            self._add(until, "delete", obj)
        return tuple(sorted(self._events, key=lambda event: event.at))

    def arrive(self, at: float, manifests: Iterable[Manifest]) -> None:
        """Objects that are created one soon after the other."""
        for manifest in manifests:
            self._add(at, "create", manifest)
            self._remember(manifest)
            if manifest["kind"] == "Pod":
                self._meddle(at, manifest)
            at += self._rng.choice([0.0, 0.0, 0.0, 0.01, 0.5, 5.0])

    def happen(self, at: float) -> None:
        """One thing, of those that are switched on."""
        things: list[tuple[str, int, Callable[[float], None]]] = [
            ("deletes", 4, self._delete_pod),
            ("deletes", 2, self._delete_other),
            ("edits", 2, self._edit_pod),
            ("edits", 1, self._edit_gang),
            ("edits", 3, self._edit_other),
            ("edits", 1, self._end_pod),
            ("gates", 3, self._open_gate),
            ("others", 3, self._bind_pod),
            ("nodes-change", 3, self._change_node),
            ("queues-change", 3, self._change_queue),
            ("reservations", 2, self._change_reservation),
            ("commands", 2, self._command),
            ("hostile", 3, self._attack),
        ]
        chosen = [(weight, do) for feature, weight, do in things if feature in self._on]
        if chosen:
            weights, does = zip(*chosen, strict=True)
            self._rng.choices(does, weights)[0](at)

    def _meddle(self, at: float, pod: Manifest) -> None:
        """A pod that has just come is placed by somebody else, or edited before it is placed."""
        rng = self._rng
        if "others" in self._on and rng.random() < 0.2 and (node := self._one_of("Node")):
            later = at + rng.choice([0.0, 0.0, 0.01, 0.05, 1.0])
            self._add(later, "bind", pod, node=node["metadata"]["name"])
        if "edits" in self._on and rng.random() < 0.2:
            note = {"metadata": {"annotations": {"edited": "soon"}}}
            self._add(at + rng.choice([0.0, 0.01, 0.3, 2.0]), "patch", pod, change=note)

    # --- pods --------------------------------------------------------------------------------

    def _delete_pod(self, at: float) -> None:
        if pod := self._one_of("Pod"):
            self._add(at, "delete", pod, grace=self._rng.choice([0, 3, 30]))
            if self._rng.random() < 0.3:  # and it comes again under its name
                self._add(at + self._rng.choice([0.0, 0.1, 4.0]), "create", pod)

    def _edit_pod(self, at: float) -> None:
        if pod := self._one_of("Pod"):
            change: Object = {"metadata": {"annotations": self._rng.choice(_SAID)}}
            if self._rng.random() < 0.3:
                change = {"metadata": {"labels": {"app": self._rng.choice("xyz")}}}
            self._add(at, "patch", pod, change=change)

    def _edit_gang(self, at: float) -> None:
        """Its minimum, on all of its members."""
        gangs = [
            (pod["metadata"]["annotations"][_GANG + "name"], pod)
            for pod in self._known.get("Pod", [])
            if _GANG + "name" in pod["metadata"].get("annotations", {})
        ]
        if gangs:
            chosen = self._rng.choice(gangs)[0]
            change = {_GANG + "min-available": str(self._rng.randint(1, 3))}
            for name, pod in gangs:
                if name == chosen:
                    self._add(at, "patch", pod, change={"metadata": {"annotations": change}})

    def _end_pod(self, at: float) -> None:
        if pod := self._one_of("Pod"):
            ended = {"status": {"phase": self._rng.choice(["Succeeded", "Failed"])}}
            self._add(at, "patch", pod, change=ended, part="status")

    def _bind_pod(self, at: float) -> None:
        """Somebody else places a pod, most likely one that has just come."""
        pods, node = self._known.get("Pod", [])[-4:], self._one_of("Node")
        if pods and node:
            self._add(at, "bind", self._rng.choice(pods), node=node["metadata"]["name"])

    def _open_gate(self, at: float) -> None:
        gated = [p for p in self._known.get("Pod", []) if p["spec"].get("schedulingGates")]
        if gated:
            pod = self._rng.choice(gated)
            self._add(at, "patch", pod, change={"spec": {"schedulingGates": []}})

    # --- what is about pods ------------------------------------------------------------------

    def _delete_other(self, at: float) -> None:
        kind = self._rng.choice(_DELETED)
        if obj := self._one_of(kind):
            self._add(at, "delete", obj)
            if self._rng.random() < 0.3:
                self._add(at + self._rng.choice([0.0, 0.1, 4.0]), "create", obj)

    def _edit_other(self, at: float) -> None:
        kind = self._rng.choice(
            ["PodGroup", "PodGroup", "Job", "TYJob", "Deployment", "PyTorchJob"]
        )
        if (obj := self._one_of(kind)) and (change := self._change_of(obj)):
            self._add(at, "patch", obj, change=change)

    def _change_of(self, obj: Manifest) -> Object:
        rng, few = self._rng, self._rng.randint(1, 3)
        match obj["apiVersion"], obj["kind"]:
            case ["scheduling.k8s.io/v1beta1", "PodGroup"]:
                return {"spec": {"schedulingPolicy": {"gang": {"minCount": few}}}}
            case [_, "PodGroup"]:
                return {"spec": {"minMember": few}}
            case ["batch.volcano.sh/v1alpha1", "Job"]:
                actions = ["AbortJob", "ResumeJob", "RestartJob", "TerminateJob"]
                notes = {"annotations": {"arranger.io/action": rng.choice(actions)}}
                tasks = [{**each, "replicas": few} for each in obj["spec"]["tasks"]]
                return rng.choice([{"metadata": notes}, {"spec": {"tasks": tasks}}])
            case [_, "Deployment"]:
                return {"spec": {"replicas": few - 1}}
            case [_, "TYJob"]:
                return {"spec": {"minWorkersNum": few}}
            case [_, "PyTorchJob"]:
                policy = {"runPolicy": {"schedulingPolicy": {"minAvailable": few}}}
                return rng.choice(
                    [
                        {"spec": policy},
                        {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": few}}}},
                        {"metadata": {"annotations": {"arranger.io/gang-by-owner": "false"}}},
                    ]
                )
        return {}

    # --- nodes and queues --------------------------------------------------------------------

    def _change_node(self, at: float) -> None:
        """One is added, goes, comes back, is cordoned, shrinks, is tainted, or gets labels.

        Some offer what nobody has named before.
        """
        rng, node = self._rng, self._one_of("Node")
        if node is None or rng.random() < 0.2:
            self._new_nodes += 1
            more = {f"example.com/x{self._new_nodes}": 2} if rng.random() < 0.3 else {}
            made = a_node(f"x{self._new_nodes}").in_zone(rng.choice("ab")).offers(more, cpu=4)
            self.arrive(at, [made.manifest()])
            return
        match rng.randrange(7):
            case 0:
                self._add(at, "delete", node)
                self._add(at + rng.choice([0.0, 1.0, 30.0, 90.0]), "create", node)
            case 1:
                self._add(at, "patch", node, change={"spec": {"unschedulable": True}})
                again = at + rng.choice([0.1, 10.0, 60.0])
                self._add(again, "patch", node, change={"spec": {"unschedulable": None}})
            case 2 | 3:
                room = {"cpu": str(rng.choice([1, 2, 4, 8])), GPU: str(rng.choice([0, 2, 8]))}
                if GPU not in node["status"]["allocatable"]:
                    del room[GPU]
                change = {"status": {"allocatable": room}}
                self._add(at, "patch", node, change=change, part="status")
            case 4:
                zone = {"topology.kubernetes.io/zone": rng.choice("ab")}
                self._add(at, "patch", node, change={"metadata": {"labels": zone}})
            case 5:
                effect = rng.choice(["NoSchedule", "NoExecute"])
                taints = rng.choice([[], [{"key": "odd", "value": "", "effect": effect}]])
                self._add(at, "patch", node, change={"spec": {"taints": taints}})
            case 6:
                room = {f"example.com/y{rng.randrange(4)}": str(rng.choice([0, 2]))}
                change = {"status": {"allocatable": room}}
                self._add(at, "patch", node, change=change, part="status")

    def _change_queue(self, at: float) -> None:
        rng, queue = self._rng, self._one_of("Queue")
        if queue is None:
            return
        if rng.random() < 0.2:
            self._add(at, "delete", queue)
            self._add(at + rng.choice([0.0, 20.0]), "create", queue)
            return
        state = {"annotations": {"arranger.io/queue-state": rng.choice(["Open", "Closed", None])}}
        quota = {"annotations": {"volcano.sh/card.quota": '{"NVIDIA-GeForce-RTX-4090": 4}'}}
        changes: list[Object] = [
            {"metadata": state},
            {"metadata": quota},
            {"spec": {"priority": rng.choice([20000, 90000])}},
            {"spec": {"capability": {"cpu": str(rng.choice([1, 4, 16]))}}},
            {"spec": {"reclaimable": rng.random() < 0.5}},
            {"spec": {"guarantee": {"resource": {"cpu": str(rng.randint(0, 2))}}}},
        ]
        self._add(at, "patch", queue, change=rng.choice(changes))

    def _change_reservation(self, at: float) -> None:
        """One is edited, or goes, perhaps to come back."""
        rng, found = self._rng, self._one_of("Reservation")
        if found is None:
            return
        if rng.random() < 0.7:
            self._add(at, "patch", found, change=a_change(rng))
            return
        self._add(at, "delete", found)
        self._add(at + rng.choice([0.0, 20.0, 500.0]), "create", found)

    # --- orders, and harm ---------------------------------------------------------------------

    def _command(self, at: float) -> None:
        """As vcctl does: a Command tells a Job or a Queue what to do."""
        known = (*self._known.get("Job", ()), *self._known.get("Queue", ()))
        obeying = [each for each in known if each["apiVersion"] in _COMMANDED]
        if not obeying:
            return
        obj = self._rng.choice(obeying)
        self._commands += 1
        namespace = obj["metadata"].get("namespace", "default")
        target = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
        command = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": f"c{self._commands}", "namespace": namespace},
            "action": self._rng.choice(_COMMANDED[obj["apiVersion"]]),
            "target": {**target, "name": obj["metadata"]["name"]},
        }
        self._add(at, "create", command)

    def _attack(self, at: float) -> None:
        """Objects that mean harm are created, edited, and gone again."""
        attack = an_attack(self._rng)
        for obj in attack.objects:
            self._add(at, "create", obj)
        for obj in attack.edits:
            self._add(at + 1.0, "patch", obj, change=obj)
        if self._rng.random() < 0.5:
            for obj in attack.objects:
                self._add(at + self._rng.choice([2.0, 20.0]), "delete", obj)
        self._harmful += attack.objects

    # --- inside ------------------------------------------------------------------------------

    def _one_of(self, kind: str) -> Manifest | None:
        """Of a kind; recent ones more often than old ones."""
        known = self._known.get(kind)
        if not known:
            return None
        return self._rng.choice(known[-12:] if self._rng.random() < 0.7 else known)

    def _remember(self, manifest: Manifest) -> None:
        self._known.setdefault(manifest["kind"], []).append(manifest)

    def _add(self, at: float, does: Any, obj: Manifest, **more: Any) -> None:
        self._events.append(an_event(at, does, obj, **more))
