"""Duels: small situations of which it is known what must come of them.

Each has nodes of its own, to which nobody else comes, so that it goes on by itself whatever happens
in the rest of its world.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tests.builders import Manifest, PodBuilder, a_node, a_pod, a_pod_group
from tests.simulation.harnesses.jobs import task
from tests.simulation.harnesses.preemption import slow_to_terminate
from tests.swarm.world import Event, Object, an_event

#: The versions of PodGroups of Kubernetes 1.36 and 1.37.
EARLY_VERSION: Final = "v1alpha2"
LATE_VERSION: Final = "v1beta1"
#: Whose nodes are whose: a label and a taint of them.
_DUEL: Final = "duel"
_HOST: Final = "kubernetes.io/hostname"
_LOW, _MIDDLE, _HIGH = 1, 50, 99
#: Seconds in which who comes first has found its place.
_SOON: Final = 10.0
_VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
_TASK: Final = "volcano.sh/task-spec"
#: Whether the names of others come into the environment, in the words of Jobs.
_FLAGS: Final = (
    [],
    ["--inject-hosts-env=false"],
    ["--inject-hosts-env=true"],
    ["--inject-hosts-env=False", "--disable-network-policy=true"],
    ["--publish-not-ready-addresses"],
)


@dataclass(slots=True)
class Duel:
    """One situation, as it is written down.

    Attributes:
        name: its nodes, pods and groups are called after it.
        at: when it begins.
    """

    name: str
    at: float
    rng: random.Random
    nodes: list[Manifest] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def node(self, cpu: int = 1) -> str:
        """One more node of its own."""
        name = f"{self.name}-n{len(self.nodes)}"
        made = a_node(name).labelled({_DUEL: self.name}).tainted(_DUEL, self.name).offers(cpu=cpu)
        self.nodes.append(made.manifest())
        return name

    def pod(self, name: str, priority: int, cpu: int = 1, node: str = "") -> PodBuilder:
        """A pod that comes to no other nodes than these, or to one of them."""
        pod = a_pod(f"{self.name}-{name}").needs(cpu=cpu).selects({_DUEL: self.name})
        pod = pod.tolerates(_DUEL, self.name).with_priority(priority)
        pod = pod.with_spec(priorityClassName=f"p{priority}")
        return pod.selects({_HOST: node}) if node else pod

    def group(self, name: str, least: int, dialect: str = "", **spec: Any) -> str:
        """A PodGroup, of Volcano or of Kubernetes itself; returns its name."""
        name = f"{self.name}-{name}"
        group = a_pod_group(name, least=least, **spec).manifest()
        group["apiVersion"] = "scheduling.volcano.sh/v1beta1"
        if dialect == "native":
            group["apiVersion"] = "scheduling.k8s.io/v1beta1"
            policy: Object = {"gang": {"minCount": least}} if least else {"basic": {}}
            group["spec"] = {"schedulingPolicy": policy}
        self.comes(group)
        return name

    def comes(self, *manifests: Manifest | PodBuilder, after: float = 0.0) -> None:
        """Objects are created."""
        for each in manifests:
            made = each.manifest() if isinstance(each, PodBuilder) else each
            self._add(after, "create", made)

    def goes(self, pod: PodBuilder, after: float, grace: int = 0) -> None:
        """A pod is deleted by somebody."""
        self._add(after, "delete", pod.manifest(), grace=grace)

    def is_bound(self, pod: PodBuilder, after: float, node: str) -> None:
        """A pod is bound by somebody else."""
        self._add(after, "bind", pod.manifest(), node=node)

    def is_said(self, pod: PodBuilder, after: float, status: Object) -> None:
        """Somebody writes into the status of a pod."""
        self._add(after, "patch", pod.manifest(), part="status", change={"status": status})

    def _add(self, after: float, does: Any, obj: Object, **more: Any) -> None:
        self.events.append(an_event(self.at + after, does, obj, **more))


def _in_group(pod: PodBuilder, group: str, role: str = "") -> PodBuilder:
    notes = {_VOLCANO_GROUP: group, **({_TASK: role} if role else {})}
    return pod.annotated(notes)


# --- who has to leave -----------------------------------------------------------------------------


def _a_gang_of_one(duel: Duel) -> None:
    """It needs a place on a node that a gang of lower priority fills, which can spare nobody."""
    size = duel.rng.randint(2, 4)
    node = duel.node(cpu=size)
    group = duel.group("v", size)
    duel.comes(*(_in_group(duel.pod(f"v{n}", _LOW, node=node), group) for n in range(size)))
    taker = duel.group("t", 1)
    duel.comes(_in_group(duel.pod("t0", _HIGH), taker), after=_SOON)


def _two_that_must_be_apart(duel: Duel) -> None:
    """On one node there is a gang of lower priority, on the other a lone pod."""
    size = duel.rng.randint(2, 3)
    first, second = duel.node(cpu=size), duel.node()
    group = duel.group("v", size)
    duel.comes(*(_in_group(duel.pod(f"v{n}", _LOW, node=first), group) for n in range(size)))
    duel.comes(duel.pod("lone", _LOW, node=second))
    taker, me = duel.group("t", 2), {"duel": duel.name}
    for n in range(2):
        pod = duel.pod(f"t{n}", _HIGH).labelled(me).apart(_HOST, me)
        duel.comes(_in_group(pod, taker), after=_SOON)


def _a_gang_with_roles(duel: Duel) -> None:
    """One of its workers is enough for whoever needs one place: it has one more than it needs."""
    workers = duel.rng.randint(2, 3)
    nodes = [duel.node() for _ in range(workers + 1)]
    least = {"ps": 1, "worker": workers - 1}
    group = duel.group("v", workers, minTaskMember=least)
    for n, node in enumerate(nodes):
        role = "worker" if n else "ps"
        duel.comes(_in_group(duel.pod(f"{role}{n}", _LOW, node=node), group, role))
    taker = duel.pod("t0", _HIGH)
    if duel.rng.random() < 0.6:
        taker = _in_group(taker, duel.group("t", 1))
    duel.comes(taker, after=_SOON)


def _one_of_each_gang(duel: Duel) -> None:
    """Two gangs could each do without one; whoever needs two places breaks neither."""
    for name in "ab":
        group = duel.group(name, 1)
        pods = (duel.pod(f"{name}{n}", _LOW, node=duel.node()) for n in range(2))
        duel.comes(*(_in_group(pod, group) for pod in pods))
    taker = duel.group("t", 2)
    duel.comes(*(_in_group(duel.pod(f"t{n}", _HIGH), taker) for n in range(2)), after=_SOON)


def _who_needs_nobody_else(duel: Duel) -> None:
    """Members of a group that needs nobody make room like lone pods, though none has a node yet."""
    size = duel.rng.randint(1, 2)
    node = duel.node(cpu=size)
    duel.comes(*(duel.pod(f"v{n}", _LOW, node=node) for n in range(size)))
    dialect = duel.rng.choice(["native", "annotations"])
    group = duel.group("t", 0, "native") if dialect == "native" else f"{duel.name}-t"
    for n in range(size):
        pod = duel.pod(f"t{n}", _HIGH)
        if dialect == "native":
            pod = pod.with_spec(schedulingGroup={"podGroupName": group})
        else:
            pod = pod.in_gang(group, 0)
        duel.comes(pod, after=_SOON)


# --- promises -------------------------------------------------------------------------------------


def _a_higher_one_comes(duel: Duel) -> None:
    """It takes the room that another has made; that one keeps nobody from what is left."""
    node = duel.node(cpu=4)
    victim = slow_to_terminate(20, duel.pod("v", _LOW, cpu=4, node=node))
    duel.comes(victim)
    duel.comes(duel.pod("t", _MIDDLE, cpu=3), after=_SOON)
    first = duel.rng.choice([1.0, 8.0, 18.0])
    duel.comes(duel.pod("h", _HIGH, cpu=duel.rng.choice([2, 3])), after=_SOON + first)
    duel.comes(duel.pod("s", _LOW), after=_SOON + first + duel.rng.choice([1.0, 30.0]))


def _others_take_the_room(duel: Duel) -> None:
    """Another scheduler takes what a pod has made room on; it keeps nobody from what is left."""
    node = duel.node(cpu=4)
    parts = duel.rng.choice([[2], [1, 1]])
    for n, cpu in enumerate(parts):
        seconds = duel.rng.choice([3, 20, 40])
        duel.comes(slow_to_terminate(seconds, duel.pod(f"v{n}", _LOW, cpu=cpu, node=node)))
    duel.comes(duel.pod("t", _MIDDLE, cpu=4), after=_SOON)
    foreign = duel.pod("x", _HIGH, cpu=2).for_scheduler("another")
    after = _SOON + duel.rng.choice([1.0, 2.5, 8.0])
    duel.comes(foreign, after=after)
    duel.is_bound(foreign, after, node)
    duel.comes(duel.pod("s", _LOW), after=after + duel.rng.choice([1.0, 40.0]))


def _others_nominate(duel: Duel) -> None:
    """Somebody promises a pod the node of one that is leaving; a lesser one comes meanwhile."""
    node = duel.node(cpu=4)
    leaving = slow_to_terminate(40, duel.pod("v", _HIGH, cpu=3, node=node))
    duel.comes(leaving)
    waits = duel.pod("t", _MIDDLE, cpu=4)
    duel.comes(waits, after=_SOON)
    duel.goes(leaving, after=_SOON + 2, grace=40)
    duel.is_said(waits, _SOON + 4, {"nominatedNodeName": node})
    duel.comes(duel.pod("s", _LOW), after=_SOON + 4 + duel.rng.uniform(6, 25))


# --- groups, and jobs -----------------------------------------------------------------------------


def _a_native_gang(duel: Duel) -> None:
    """A gang by a PodGroup of Kubernetes itself has room."""
    size = duel.rng.randint(1, 3)
    duel.node(cpu=size)
    group = duel.group("g", size, "native")
    for n in range(size):
        pod = duel.pod(f"g{n}", _MIDDLE).with_spec(schedulingGroup={"podGroupName": group})
        duel.comes(pod, after=duel.rng.uniform(0, 3))


def _a_member_is_lost(duel: Duel) -> None:
    """A running gang loses one that does not come again, or comes again and has no place."""
    size = duel.rng.randint(2, 3)
    node = duel.node(cpu=size)
    group = duel.group("g", size)
    pods = [_in_group(duel.pod(f"g{n}", _MIDDLE, node=node), group) for n in range(size)]
    duel.comes(*pods)
    duel.goes(pods[0], after=_SOON)
    if duel.rng.random() < 0.5:
        duel.comes(_in_group(duel.pod("g9", _MIDDLE, cpu=size, node=node), group), after=_SOON + 4)


def _a_job_with_names(duel: Duel) -> None:
    """The pods of a Volcano Job are told each other's names, or are not."""
    duel.node(cpu=4)
    made = task("w", duel.rng.randint(1, 2))
    made["template"]["spec"] |= {
        "nodeSelector": {_DUEL: duel.name},
        "tolerations": [{"key": _DUEL, "operator": "Exists"}],
    }
    meta = {"name": f"{duel.name}-j", "namespace": "default"}
    spec = {"minAvailable": 1, "tasks": [made], "plugins": {"svc": duel.rng.choice(_FLAGS)}}
    duel.comes(
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}
    )


KINDS: Final[Sequence[Callable[[Duel], None]]] = (
    _a_gang_of_one,
    _two_that_must_be_apart,
    _a_gang_with_roles,
    _one_of_each_gang,
    _who_needs_nobody_else,
    _a_higher_one_comes,
    _others_take_the_room,
    _others_nominate,
    _a_native_gang,
    _a_member_is_lost,
    _a_job_with_names,
)


def some_duels(rng: random.Random, seconds: float) -> tuple[list[Manifest], list[Event]]:
    """Some of them: nodes that are there at first, and what happens there."""
    nodes: list[Manifest] = []
    events: list[Event] = []
    for number, kind in enumerate(rng.sample(KINDS, rng.randint(2, 5))):
        at = round(rng.uniform(1.0, max(2.0, seconds - 80)), 3)
        duel = Duel(f"d{number}", at, rng)
        kind(duel)
        nodes += duel.nodes
        events += duel.events
    return nodes, events


def in_early_version(event: Event) -> Event:
    """The event as of a server that serves PodGroups of Kubernetes in an earlier version."""
    obj = event.object
    if obj["kind"] != "PodGroup" or not obj["apiVersion"].startswith("scheduling.k8s.io/"):
        return event
    made = {**obj, "apiVersion": f"scheduling.k8s.io/{EARLY_VERSION}"}
    if "disruptionMode" in obj.get("spec", {}):
        made["spec"] = {**obj["spec"], "disruptionMode": "PodGroup"}
    return msgspec.structs.replace(event, object=made)
