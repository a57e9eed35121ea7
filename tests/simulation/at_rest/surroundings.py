"""Nodes, namespaces, queues and owners of a world that comes to rest."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from arranger.api.types.core import Namespace
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.reservation import Reservation
from arranger.api.types.workloads import Owner, ReplicaSet, Service
from arranger.engine.engine import Engine
from tests.builders import NodeBuilder, a_node, a_pod_group, a_queue
from tests.simulation.at_rest.pods import PREEMPTABLE, QUEUES, RACK, SPACES, ZONE
from tests.simulation.at_rest.told import Told


class Surroundings:
    """All that pods of such a world meet, but volumes and devices.

    Args:
        now: the seconds that have passed.
        nodes: how many there are.
    """

    def __init__(
        self,
        rng: random.Random,
        engine: Engine,
        told: Told,
        now: Callable[[], float],
        nodes: int,
        *,
        has_queues: bool,
    ) -> None:
        self._rng, self._engine, self._told, self._now = rng, engine, told, now
        self._nodes, self._has_queues = nodes, has_queues
        self._groups: list[tuple[str, str]] = []

    def begin(self) -> None:
        """What is there at first."""
        for name in SPACES:
            self._namespace(name)
        for name in ("default", *QUEUES) if self._has_queues else ():
            self._queue(name)
        for number in range(self._nodes):
            self._node(number)

    @property
    def events(self) -> Mapping[str, Callable[[], None]]:
        """What may happen."""
        rng = self._rng
        return {
            "node": lambda: self._node(rng.randrange(self._nodes)),
            "node changes": lambda: self._node(rng.randrange(self._nodes), changed=True),
            "namespace": lambda: self._namespace(rng.choice(SPACES)),
            "service": lambda: self._service(rng.choice(SPACES)),
            "replica set": lambda: self._replica_set(rng.choice(SPACES)),
            "owner": lambda: self._owner(rng.choice(SPACES)),
            "group": lambda: self._some_group(),
            "queue": lambda: self._queue(rng.choice(QUEUES)) if self._has_queues else None,
            "queue changes": lambda: self._changed_queue(rng.choice(QUEUES)),
            "reservation": lambda: self._reservation(),
        }

    def a_group(self, space: str, name: str) -> None:
        """The PodGroup of a gang appears."""
        self._groups.append((space, name))
        self._group(space, name)

    # --- what happens ------------------------------------------------------------------------

    def _namespace(self, name: str) -> None:
        labels = self._rng.choice(({"team": "x"}, {"team": "y"}, {}))
        meta = {"name": name, "uid": f"uid-{name}", "labels": labels}
        self._told(msgspec.convert({"metadata": meta}, Namespace))

    def _queue(self, name: str) -> None:
        rng = self._rng
        spec: dict[str, Any] = {"reclaimable": rng.random() < 0.5}
        if name != "default" and rng.random() < 0.6:
            spec["capability"] = {"cpu": rng.randint(3, 9)}
        self._engine.handlers.on_queue_updated(a_queue(name, **spec), self._now())

    def _changed_queue(self, name: str) -> None:
        """A queue with whatever queues may say."""
        rng = self._rng
        spec: dict[str, Any] = {"reclaimable": rng.random() < 0.5, "priority": rng.randint(0, 2)}
        if rng.random() < 0.5:
            spec["capability"] = {"cpu": rng.randint(3, 9)}
        if rng.random() < 0.3:
            spec["deserved"] = {"cpu": rng.randint(1, 4)}
        if rng.random() < 0.3:
            spec["guarantee"] = {"resource": {"cpu": rng.randint(1, 3)}}
        if rng.random() < 0.2:
            spec["namespaceSelector"] = {"matchLabels": {"team": rng.choice("xy")}}
        if rng.random() < 0.2:
            spec["serviceTypes"] = [rng.choice(("inference", "training"))]
        if rng.random() < 0.2:
            spec["maxPriority"] = rng.choice((0, 10))
        if rng.random() < 0.2:
            groups = {"requiredDuringSchedulingIgnoredDuringExecution": [rng.choice("gh")]}
            kind = rng.choice(("nodeGroupAffinity", "nodeGroupAntiAffinity"))
            spec["affinity"] = {kind: groups}
        if name == "blue" and rng.random() < 0.3:
            spec["parent"] = "red"
        state = "Open" if rng.random() < 0.8 else rng.choice(("Closed", "Closing"))
        self._engine.handlers.on_queue_updated(a_queue(name, state=state, **spec), self._now())

    def _node(self, number: int, *, changed: bool = False) -> None:
        rng = self._rng
        node = a_node(f"n{number}").offers(cpu=rng.choice((1, 2, 4, 4)))
        labels = {ZONE: f"z{number % 2}", "volcano.sh/nodegroup-name": "gh"[number % 2]}
        node = node.labelled({**labels, RACK: f"r{number % 3}"})
        if changed:
            node = self._differently(node)
        self._engine.handlers.on_node_updated(node.build(), self._now())

    def _differently(self, node: NodeBuilder) -> NodeBuilder:
        rng = self._rng
        match rng.randrange(6):
            case 0:
                return node.cordoned()
            case 1:
                effect = rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
                return node.tainted("team", rng.choice("xy"), effect=effect)
            case 2:
                return node.labelled(disk=rng.choice(("ssd", "hdd")))
            case 3:
                return node.labelled({ZONE: rng.choice(("z0", "z1"))})
            case 4:  # what nobody has named before
                return node.offers({f"example.com/{rng.choice('abcd')}": rng.randrange(3)})
        return node.labelled({RACK: rng.choice(("r0", "r1"))})

    def _service(self, space: str) -> None:
        service = _made(Service, "s", space, spec={"selector": {"app": self._rng.choice("st")}})
        if self._rng.random() < 0.5:
            self._told(service)
        else:
            self._told.gone(service)

    def _replica_set(self, space: str) -> None:
        selector = {"matchLabels": {"app": self._rng.choice("st")}}
        self._told(_made(ReplicaSet, f"rs-{space}", space, spec={"selector": selector}))

    def _owner(self, space: str) -> None:
        """The ReplicaSet of a namespace says something else of its pods."""
        rng, notes = self._rng, dict[str, str]()
        if rng.random() < 0.6:
            notes[PREEMPTABLE] = rng.choice(("true", "false"))
        if rng.random() < 0.4:
            notes["volcano.sh/service.type"] = rng.choice(("inference", "training"))
        meta = {"name": f"rs-{space}", "namespace": space, "uid": f"uid-ReplicaSet-rs-{space}"}
        owner = msgspec.convert({"metadata": {**meta, "annotations": notes}}, Owner)
        self._engine.owner_handlers.on_updated(owner, self._now())

    def _some_group(self) -> None:
        if self._groups:
            self._group(*self._rng.choice(self._groups))

    def _group(self, space: str, name: str) -> None:
        """The PodGroup of a gang appears, or says something else."""
        rng = self._rng
        group = a_pod_group(name, least=rng.randint(1, 4))
        if self._has_queues:
            group = group._set("spec", queue=rng.choice(QUEUES))
        if rng.random() < 0.3:
            group = group.annotated({PREEMPTABLE: rng.choice(("true", "false"))})
        made = group._set("metadata", namespace=space).build(VolcanoPodGroup)
        self._engine.handlers.on_pod_group_updated(made, self._now())

    def _reservation(self) -> None:
        """One appears, changes or goes."""
        rng = self._rng
        name = rng.choice(("r0", "r1"))
        start = self._now() + rng.choice((-5, 0, 4, 20))
        end = start + rng.choice((3, 10, 40))
        spec: dict[str, Any] = {"window": {"start": _when(start), "end": _when(end)}}
        spec["nodes"] = {"names": [f"n{rng.randrange(self._nodes)}"]}
        if rng.random() < 0.3:
            spec["nodes"] = {"selector": {"matchLabels": {ZONE: rng.choice(("z0", "z1"))}}}
        teams = {"namespaceSelector": {"matchLabels": {"team": rng.choice("xy")}}}
        users = [teams, *({"queues": [queue]} for queue in QUEUES if self._has_queues)]
        if rng.random() < 0.2:
            spec["maintenance"] = True
        else:
            spec["users"] = rng.choice(users)
            if rng.random() < 0.3:
                spec["nodes"]["perNode"] = {"cpu": rng.choice(("500m", "1", "2"))}
        spec["drainBefore"] = rng.choice(("1s", "8s", "60s"))
        spec["evict"] = rng.random() < 0.3
        meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": _when(0)}
        made = msgspec.convert({"metadata": meta, "spec": spec}, Reservation)
        if rng.random() < 0.25:
            self._told.gone(made)
        else:
            self._told(made)


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _made(kind: type[Any], name: str, space: str, **more: Any) -> Any:
    meta = {"name": name, "namespace": space, "uid": f"uid-{kind.__name__}-{name}"}
    return msgspec.convert({"metadata": meta, **more}, kind)
