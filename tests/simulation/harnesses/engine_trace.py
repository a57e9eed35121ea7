"""Has the specification judge an engine by itself, which hears of everything at once."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from arranger.api.effects import Bind, DeletePod, Effect, PatchPodStatus
from tests.specification.legal import Specification
from tests.specification.premises import Premises
from tests.specification.trace import PODS, SOMEBODY, Step

Object = dict[str, Any]

ENGINE = "engine"
#: Of the kinds that these worlds have.
PLURALS = {"Pod": "pods", "Node": "nodes", "Queue": "queues", "PodGroup": "podgroups"}


class EngineTrace:
    """What an API server would have seen of an engine's world.

    Nothing is too young to be known here, so that every step is judged.
    """

    def __init__(self, premises: Premises) -> None:
        premises.schedulers.add(ENGINE)
        premises.notice = 0.0
        self.specification = Specification(premises)
        self._version = 0
        self._objects: dict[tuple[str, str], Object] = {}

    def shows(self, manifest: Object, now: float, writer: str = SOMEBODY) -> None:
        """An object is there, or is edited; what is written of a pod's status stays."""
        manifest = deepcopy(manifest)
        resource = manifest["apiVersion"].rpartition("/")[0] + "/" + PLURALS[manifest["kind"]]
        key = resource, manifest["metadata"]["name"]
        before = self._objects.get(key)
        if resource == PODS and before is not None:
            manifest["status"] = {**before.get("status", {}), **manifest.get("status", {})}
            if stamp := before["metadata"].get("deletionTimestamp"):
                manifest["metadata"]["deletionTimestamp"] = stamp
        self._write(key, manifest, now, writer)

    def gone(self, name: str, now: float, resource: str = PODS) -> None:
        """An object is gone."""
        last = self._objects.pop((resource, name))
        self._version += 1
        self.specification.take(Step(self._version, now, resource, "DELETED", last, last, SOMEBODY))

    def applied(self, effect: Effect, now: float) -> None:
        """The server has done what the engine wanted of a pod."""
        if not isinstance(effect, Bind | DeletePod | PatchPodStatus):
            return
        known = self._objects.get((PODS, effect.pod.name))
        if known is None or known["metadata"]["uid"] != effect.pod.uid:
            return
        pod = deepcopy(known)
        status = pod.setdefault("status", {})
        if isinstance(effect, Bind):
            pod["spec"]["nodeName"] = effect.node
        elif isinstance(effect, PatchPodStatus):
            if effect.nominated_node is not None:
                status["nominatedNodeName"] = effect.nominated_node
        else:
            if effect.condition is not None:
                said = {"type": effect.condition.type, "status": effect.condition.status}
                status["conditions"] = [{**said, "reason": effect.condition.reason}]
                self._write((PODS, effect.pod.name), deepcopy(pod), now, ENGINE)
            pod["metadata"]["deletionTimestamp"] = str(now)
        self._write((PODS, effect.pod.name), pod, now, ENGINE)

    def _write(self, key: tuple[str, str], obj: Object, now: float, writer: str) -> None:
        self._version += 1
        before, self._objects[key] = self._objects.get(key), obj
        kind = "ADDED" if before is None else "MODIFIED"
        step = Step(self._version, now, key[0], kind, before, obj, writer)  # type: ignore[arg-type]
        self.specification.take(step)

    def check(self, now: float, *, at_rest: bool = False) -> None:
        """Nothing was wrong, and everything could be judged; at rest, also what has come about."""
        self.specification.settle(now)
        found = [str(each) for each in self.specification.violations]
        found += self.specification.at_rest(now) if at_rest else []
        assert not found, "\n".join(found[:20])
        assert not self.specification.unreadable, self.specification.unreadable[:20]
