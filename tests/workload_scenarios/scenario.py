"""Scenarios: workloads, and what happens to them and their pods, step by step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
#: Kind → (apiVersion, plural).
KINDS: Mapping[str, tuple[str, str]] = {
    "Deployment": ("apps/v1", "deployments"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "DaemonSet": ("apps/v1", "daemonsets"),
    "Job": ("batch/v1", "jobs"),
    "ReplicationController": ("v1", "replicationcontrollers"),
    "Pod": ("v1", "pods"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
}


class World(Protocol):
    """A cluster with controllers at work, and a namespace in it."""

    @property
    def namespace(self) -> str:
        """Where everything of the scenario is."""

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Status and body of an answer."""

    def now(self) -> str:
        """What its clock says."""

    async def settle(self) -> None:
        """Wait until the controllers have done what they have to do now."""

    async def wait(self, seconds: float) -> None:
        """Let time pass."""


Action = Callable[[World], Awaitable[None]]
#: A step's name and what happens in it; what there is then is looked at.
Step = tuple[str, Sequence[Action]]


@dataclass(frozen=True)
class Scenario:
    """Steps after each of which pods and statuses are compared."""

    steps: Sequence[Step]


# --- workloads ---------------------------------------------------------------------------


def a_workload(
    kind: str,
    name: str = "w",
    /,
    *,
    image: str = "i1",
    pod: Object | None = None,
    **spec: Any,
) -> Object:
    """A workload; ``pod`` is more of the spec of its pods, ``spec`` more of its own."""
    labels = {"app": "w"}
    selector: Object = {"selector": {"matchLabels": labels}}
    if kind == "Job":
        selector = {}
    if kind == "ReplicationController":
        selector = {"selector": labels}
    own = {"containers": [a_container(image)], **(pod or {})}
    if kind == "Job":
        own["restartPolicy"] = "Never"
    return {
        "apiVersion": KINDS[kind][0],
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": own}, **selector, **spec},
    }


def a_container(image: str) -> Object:
    return {"name": "c", "image": image}


def an_image(image: str) -> Object:
    """A change of a workload to another image."""
    return {"template": {"spec": {"containers": [a_container(image)]}}}


# --- what happens ------------------------------------------------------------------------


def create(obj: Object) -> Action:
    async def act(world: World) -> None:
        await _ask(world, "POST", resource_path(world, obj["kind"]), obj)

    return act


def started(creation: Action) -> Step:
    """The first step of a workload whose pods run before anything happens to it."""
    return "made", [creation, wait(2), run()]


def edit(kind: str, name: str = "w", **spec: Any) -> Action:
    async def act(world: World) -> None:
        await _patch(world, resource_path(world, kind, name), {"spec": spec})

    return act


def relabel(labels: Mapping[str, str | None], **which: Any) -> Action:
    """Give pods other labels."""

    async def act(world: World) -> None:
        for pod in await pods(world, **which):
            await _patch(world, _path_of(world, pod), {"metadata": {"labels": labels}})

    return act


def annotate(notes: Mapping[str, str], **which: Any) -> Action:
    async def act(world: World) -> None:
        for pod in await pods(world, **which):
            await _patch(world, _path_of(world, pod), {"metadata": {"annotations": notes}})

    return act


def run(*, ready: bool = True, **which: Any) -> Action:
    """Pods that have not started do; unless they are bound, that comes first."""

    async def act(world: World) -> None:
        for pod in await pods(world, phase="Pending", **which):
            if not pod["spec"].get("nodeName"):
                await _bind(world, pod)
            state = {"running": {"startedAt": world.now()}}
            conditions = [_condition(world, "Ready", ready=ready)]
            await _set_status(world, pod, "Running", state, conditions)

    return act


def end(code: int = 0, **which: Any) -> Action:
    """Pods end with an exit code."""

    async def act(world: World) -> None:
        for pod in await pods(world, **which):
            state = _terminated(world, code)
            phase = "Failed" if code else "Succeeded"
            conditions = [_condition(world, "Ready", ready=False)]
            await _set_status(world, pod, phase, state, conditions)

    return act


def evict(**which: Any) -> Action:
    """As a scheduler does that preempts: a condition that says so, then the deletion."""

    async def act(world: World) -> None:
        for pod in await pods(world, **which):
            reason = "PreemptionByScheduler"
            target = _condition(world, "DisruptionTarget", ready=True, reason=reason)
            found = pod["status"].get("conditions") or []
            change = {"status": {"conditions": [*found, target]}}
            await _patch(world, f"{_path_of(world, pod)}/status", change)
            await _ask(world, "DELETE", _path_of(world, pod))

    return act


def delete(**which: Any) -> Action:
    async def act(world: World) -> None:
        for pod in await pods(world, **which):
            await _ask(world, "DELETE", _path_of(world, pod))

    return act


def remove() -> Action:
    """Kubelets do their part for pods that are to go: containers end, then they are removed."""

    async def act(world: World) -> None:
        for pod in await pods(world, deleting=True):
            if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                found = [c for c in pod["status"].get("conditions") or [] if c["type"] != "Ready"]
                conditions = [*found, _condition(world, "Ready", ready=False)]
                await _set_status(world, pod, "Failed", _terminated(world, 137), conditions)
            uid = {"preconditions": {"uid": pod["metadata"]["uid"]}}
            body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, **uid}
            await _ask(world, "DELETE", _path_of(world, pod), body)

    return act


def wait(seconds: float) -> Action:
    async def act(world: World) -> None:
        await world.wait(seconds)

    return act


def settle() -> Action:
    async def act(world: World) -> None:
        await world.settle()

    return act


def delete_workload(kind: str, name: str = "w", policy: str = "Background") -> Action:
    async def act(world: World) -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
        await _ask(world, "DELETE", resource_path(world, kind, name), options)

    return act


# --- pods --------------------------------------------------------------------------------

INDEX = "batch.kubernetes.io/job-completion-index"


async def pods(world: World, *, count: int | None = None, **which: Any) -> list[Object]:
    """Pods that are meant, in the order of their creation; ``count`` of them at most."""
    found = (await _ask(world, "GET", resource_path(world, "Pod")))["items"]
    found.sort(key=lambda p: (p["metadata"]["creationTimestamp"], p["metadata"]["name"]))
    return [pod for pod in found if _is_meant(pod, **which)][:count]


def _is_meant(
    pod: Object,
    *,
    phase: str | None = None,
    image: str | None = None,
    index: int | None = None,
    name: str | None = None,
    deleting: bool = False,
) -> bool:
    meta, now = pod["metadata"], pod["status"].get("phase")
    if bool(meta.get("deletionTimestamp")) != deleting:
        return False
    if not deleting and phase is None and now in ("Succeeded", "Failed"):
        return False
    its_index = (meta.get("annotations") or {}).get(INDEX)
    return (
        (phase is None or now == phase)
        and (image is None or pod["spec"]["containers"][0]["image"] == image)
        and (index is None or its_index == str(index))
        and (name is None or meta["name"] == name)
    )


async def _bind(world: World, pod: Object) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": _node_of(pod)}
    head = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}}
    await _ask(world, "POST", f"{_path_of(world, pod)}/binding", {**head, "target": target})


def _node_of(pod: Object) -> str:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return "n1"


async def _set_status(
    world: World, pod: Object, phase: str, state: Object, conditions: Sequence[Object]
) -> None:
    container = {"name": "c", "image": "i", "imageID": "", "ready": "running" in state}
    statuses = [{**container, "restartCount": 0, "state": state}]
    status = {"phase": phase, "containerStatuses": statuses, "conditions": list(conditions)}
    await _patch(world, f"{_path_of(world, pod)}/status", {"status": status})


def _terminated(world: World, code: int) -> Object:
    return {"terminated": {"exitCode": code, "startedAt": world.now(), "finishedAt": world.now()}}


def _condition(world: World, kind: str, *, ready: bool, reason: str = "") -> Object:
    stamp = {"lastTransitionTime": world.now()}
    return {"type": kind, "status": str(ready), **stamp, **({"reason": reason} if reason else {})}


# --- requests ----------------------------------------------------------------------------


def resource_path(world: World, kind: str, name: str = "") -> str:
    """Where objects of a kind are, or one of them."""
    version, plural = KINDS[kind]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    path = f"{root}/namespaces/{world.namespace}/{plural}"
    return f"{path}/{name}" if name else path


def _path_of(world: World, pod: Object) -> str:
    return resource_path(world, "Pod", pod["metadata"]["name"])


async def _patch(world: World, path: str, change: Object) -> None:
    await _ask(world, "PATCH", path, change, content_type=MERGE)


async def _ask(world: World, method: str, path: str, body: object = None, **more: Any) -> Object:
    status, answer = await world.request(method, path, body, **more)
    # A controller may be quicker than the scenario: what it has removed is gone.
    quicker = status in (404, 409) and (method != "POST" or path.endswith("/binding"))
    assert status < 300 or quicker, (method, path, answer)
    return dict(answer)
