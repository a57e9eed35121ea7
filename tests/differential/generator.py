"""Random small clusters, each wholly determined by its seed.

A cluster is small and its names are few, so that labels, ports, images and priorities often meet.
Every seed leaves out about half of the features or more: with many at once, one keeps the pod off
every node and hides the others. Every other one has volumes, and every third devices.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.differential.devices import add_devices
from tests.differential.pod_parts import HOST, UNSCHEDULABLE, ZONE, PodParts
from tests.differential.volumes import add_volumes

Json = dict[str, Any]

FEATURES = (
    "affinity",
    "budgets",
    "cordons",
    "features",
    "full",
    "gpus",
    "images",
    "init",
    "large",
    "level",
    "never",
    "node-affinity",
    "overhead",
    "owners",
    "ports",
    "priorities",
    "resizes",
    "roomy",
    "spread",
    "strays",
    "taints",
    "unlabelled",
    "zones",
)
#: Features that lead to preemption, and those that prevent it.
PREEMPTION_FEATURES = frozenset({"full", "priorities"})
PREEMPTION_BLOCKERS = frozenset({"cordons", "gpus", "never", "ports", "roomy", "taints"})
#: Values of a label that Gt and Lt compare as numbers; some are none.
RANK_LABELS = ("1", "2", "5", "x", "007", "99999999999999999999")
NAMESPACES = ("default", "blue", "green")
IMAGES = {
    "repo/web:v1": 300,
    "repo/db:v1": 900,
    "repo/tiny:v1": 5,
    "repo/big:latest": 2500,
    "host:5000/own:latest": 700,
}
KUBELET_FEATURES = (
    "InPlacePodLevelResourcesVerticalScaling",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
)


def random_snapshot(seed: int) -> Json:
    """The snapshot of a seed, in the format of the conformance corpora."""
    random = Random(seed)
    share = random.choice((0.15, 0.25, 0.35, 0.5))
    features = frozenset(f for f in FEATURES if random.random() < share)
    if random.random() < 0.4:
        features = (features - PREEMPTION_BLOCKERS) | PREEMPTION_FEATURES
    if seed % 2 and random.random() < 0.7:
        features |= {"zones"}
    snapshot = SnapshotGenerator(random, features).snapshot()
    if seed % 2:
        add_volumes(random, snapshot)
    if seed % 3 == 0:
        add_devices(random, snapshot)
    return snapshot


class SnapshotGenerator:
    """Makes the objects of one snapshot."""

    def __init__(self, random: Random, features: frozenset[str]) -> None:
        self._random = random
        self._features = features
        self._parts = PodParts(random, features)
        self._ports: dict[str, set[tuple[str, int]]] = {}

    def snapshot(self) -> Json:
        """All sections; 1 to 4 pending pods are evaluated."""
        random = self._random
        nodes = [self._node(f"n{i}") for i in range(random.randint(1, self._limit(5, 12)))]
        names = [node["metadata"]["name"] for node in nodes]
        if self._has("strays", 0.3):
            names.append("gone")
        pods = [self._bound(f"b{i}", names) for i in range(random.randint(0, self._limit(10, 40)))]
        return {
            "nodes": nodes,
            "pods": pods,
            "pending": [self._pending(f"p{i}") for i in range(random.randint(1, 4))],
            "namespaces": self._namespaces(),
            **self._owners(),
            "podDisruptionBudgets": self._budgets(),
        }

    def _has(self, feature: str, chance: float) -> bool:
        return feature in self._features and self._random.random() < chance

    def _limit(self, usual: int, large: int) -> int:
        return large if "large" in self._features else usual

    def _namespaces(self) -> list[Json]:
        random = self._random
        known = [n for n in NAMESPACES if not self._has("strays", 0.2)]
        return [
            _object(
                "Namespace",
                name,
                labels={
                    "kubernetes.io/metadata.name": name,
                    "team": random.choice(("x", "y")),
                    **({"env": "prod"} if random.random() < 0.3 else {}),
                },
            )
            for name in known
        ]

    def _node(self, name: str) -> Json:
        random = self._random
        labels = {HOST: name}
        if "zones" in self._features and not self._has("unlabelled", 0.2):
            labels[ZONE] = f"z{random.randint(1, 3)}"
            labels["topology.kubernetes.io/region"] = random.choice(("r1", "r2"))
        if self._has("unlabelled", 0.1):
            del labels[HOST]
        for key, values in (("disk", ("ssd", "hdd")), ("rank", RANK_LABELS)):
            if random.random() < 0.5:
                labels[key] = random.choice(values)
        allocatable = {
            "cpu": random.choice(("1", "2", "4", "1500m", "3900m")),
            "memory": random.choice(("2Gi", "4Gi", "8Gi", "3000M", "5368709120")),
            "pods": random.choice(("1", "4", "110", "110")),
        }
        if "roomy" in self._features:
            allocatable |= {"cpu": "64", "memory": random.choice(("256Gi", "1Ti")), "pods": "110"}
        elif random.random() < 0.05:
            del allocatable[random.choice(("cpu", "memory", "pods"))]
        if random.random() < 0.5:
            allocatable["ephemeral-storage"] = random.choice(("10Gi", "20G"))
        if self._has("gpus", 0.6):
            allocatable["example.com/gpu"] = random.choice(("0", "1", "4"))
            allocatable["hugepages-2Mi"] = random.choice(("0", "64Mi"))
        node = _object("Node", name, labels=labels)
        node["spec"] = {}
        if self._has("cordons", 0.2):
            node["spec"]["unschedulable"] = True
        if self._has("taints", 0.5):
            node["spec"]["taints"] = [self._taint() for _ in range(random.randint(1, 2))]
        node["status"] = {"capacity": allocatable, "allocatable": allocatable}
        if self._has("features", 0.6):
            node["status"]["declaredFeatures"] = sorted(random.sample(KUBELET_FEATURES, 2))
        if "images" in self._features:
            node["status"]["images"] = [
                {"names": [image, f"{image}@sha256:0"], "sizeBytes": size << 20}
                for image, size in IMAGES.items()
                if random.random() < 0.5
            ]
        return node

    def _taint(self) -> Json:
        random = self._random
        taint = {
            "key": random.choice(
                ("dedicated", "drain", "node.kubernetes.io/unreachable", UNSCHEDULABLE)
            ),
            "effect": random.choice(("NoSchedule", "PreferNoSchedule", "NoExecute")),
        }
        if random.random() < 0.6:
            taint["value"] = random.choice(("a", "b"))
        return taint

    def _bound(self, name: str, nodes: list[str]) -> Json:
        random = self._random
        pod = self._parts.pod(name, random.choice(NAMESPACES))
        node = random.choice(nodes)
        pod["spec"]["nodeName"] = node
        # Some start at one time, too: upstream takes such pods in the snapshot's order, but only
        # where no more than 12 can be on a node, because its sort is not stable beyond.
        minute, second = random.randint(0, 3), random.choice((0, 30))
        if "large" in self._features:
            minute, second = int(name[1:]), 0
        pod["status"] = {
            "phase": "Running",
            "startTime": f"2026-01-01T00:{minute:02}:{second:02}Z",
        }
        if self._has("strays", 0.1):
            pod["status"]["phase"] = random.choice(("Succeeded", "Failed", "Pending"))
        if self._has("strays", 0.15):
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
            if "spread" in self._features:
                # Upstream would take a terminating victim off a count that it is not in.
                pod["spec"]["priority"] = 2000
            if random.random() < 0.5:
                pod["status"]["conditions"] = [
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": random.choice(("PreemptionByScheduler", "EvictionByEvictionAPI")),
                    }
                ]
        if self._has("resizes", 0.3):
            self._parts.resize(pod)
        # Two running pods cannot have taken one port of one node.
        taken = self._ports.setdefault(node, set())
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
            ports = [p for p in container.pop("ports", ()) if not _port_keys(p) & taken]
            if ports:
                container["ports"] = ports[:1]
                taken.update(_port_keys(ports[0]))
        return pod

    def _pending(self, name: str) -> Json:
        random = self._random
        pod = self._parts.pod(name, random.choice(NAMESPACES))
        pod["status"] = {"phase": "Pending"}
        if "full" in self._features and random.random() < 0.7:
            pod["spec"]["priority"] = 1000
        if self._has("strays", 0.2):
            pod["status"]["nominatedNodeName"] = f"n{random.randint(0, 2)}"
        if self._has("never", 0.2):
            pod["spec"]["preemptionPolicy"] = "Never"
        return pod

    def _owners(self) -> Json:
        """Services and controllers, whose selectors make the default spread constraints."""
        if "owners" not in self._features:
            return {}
        random = self._random

        def some(kind: str, spec: Any) -> list[Json]:
            return [
                _object(kind, f"{kind.lower()}{i}", namespace=random.choice(NAMESPACES))
                | {"spec": spec(), "apiVersion": "v1" if kind[0] in "S" else "apps/v1"}
                for i in range(random.randint(0, 2))
            ]

        return {
            "services": some("Service", lambda: {"selector": self._parts.plain_labels()}),
            "replicationControllers": some(
                "ReplicationController", lambda: {"selector": self._parts.plain_labels()}
            ),
            "replicaSets": some("ReplicaSet", lambda: {"selector": self._parts.selector()}),
            "statefulSets": some("StatefulSet", lambda: {"selector": self._parts.selector()}),
        }

    def _budgets(self) -> list[Json]:
        if "budgets" not in self._features:
            return []
        random = self._random
        return [
            _object("PodDisruptionBudget", f"budget{i}", namespace=random.choice(NAMESPACES))
            | {
                "spec": {"selector": self._parts.any_selector()} if random.random() < 0.9 else {},
                "status": {
                    "disruptionsAllowed": random.randint(0, 2),
                    **(
                        {"disruptedPods": {f"b{random.randint(0, 9)}": "2026-01-01T00:00:00Z"}}
                        if random.random() < 0.2
                        else {}
                    ),
                },
            }
            for i in range(random.randint(0, 3))
        ]


def _port_keys(port: Json) -> set[tuple[str, int]]:
    return {(port.get("protocol", "TCP"), port["hostPort"])}


def _object(kind: str, name: str, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}
