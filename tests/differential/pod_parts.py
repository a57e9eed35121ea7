"""Random pods, piece by piece: requests, affinity, spread constraints, tolerations, ports."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
TOPOLOGIES = (HOST, ZONE, "topology.kubernetes.io/region", "rack")
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
#: Fractions with a binary suffix are left out: kube-scheduler adds overhead to such a request in
#: place, and counts it again whenever it looks at the pod.
MEMORY = ("0", "1", "100Mi", "512Mi", "1G", "1500M", "2Gi", "1e9", "3k")
PRIORITIES = (-10, 0, 0, 5, 100)


class PodParts:
    """Makes pods of the features given."""

    def __init__(self, random: Random, features: frozenset[str]) -> None:
        self._random = random
        self._features = features

    def pod(self, name: str, namespace: str) -> Json:
        """A pod without status or node."""
        random = self._random
        spec: Json = {
            "containers": [self._container(i) for i in range(random.choice((1, 1, 1, 2)))],
            "priority": random.choice(PRIORITIES) if "priorities" in self._features else 0,
        }
        if self._has("init", 0.4):
            spec["initContainers"] = [self._init_container(i) for i in range(random.randint(1, 3))]
        if self._has("overhead", 0.3):
            spec["overhead"] = {"cpu": "50m", "memory": "32Mi"}
        if self._has("features", 0.3):
            spec |= {"hostNetwork": True, "hostUsers": random.choice((True, False))}
        if self._has("level", 0.3):
            spec["resources"] = {"requests": self._requests()}
        affinity = self._affinity()
        if affinity:
            spec["affinity"] = affinity
        if self._has("node-affinity", 0.3):
            spec["nodeSelector"] = {"disk": random.choice(("ssd", "hdd"))}
        if self._has("taints", 0.6):
            spec["tolerations"] = [self._toleration() for _ in range(random.randint(1, 2))]
        if self._has("spread", 0.5):
            spec["topologySpreadConstraints"] = self._spread()
        if self._has("images", 0.2):
            spec["volumes"] = [{"name": "model", "image": {"reference": self._image()}}]
        metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
        labels = self._labels()
        if labels:
            metadata["labels"] = labels
        if self._has("owners", 0.4):
            metadata["ownerReferences"] = [self._owner()]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def resize(self, pod: Json) -> None:
        """Put a running pod into a resize: its status reports other requests than its spec."""
        random = self._random
        spec, status = pod["spec"], pod["status"]
        status["containerStatuses"] = [self._resized(c) for c in spec["containers"]]
        if "initContainers" in spec:
            status["initContainerStatuses"] = [self._resized(c) for c in spec["initContainers"]]
        if "resources" in spec and random.random() < 0.7:
            status["resources"] = {"requests": self._requests()}
            status["allocatedResources"] = self._requests()
        if random.random() < 0.3:
            status["conditions"] = [
                {
                    "type": "PodResizePending",
                    "status": "True",
                    "reason": random.choice(("Infeasible", "Deferred")),
                }
            ]

    def _resized(self, container: Json) -> Json:
        status: Json = {"name": container["name"], "allocatedResources": self._requests()}
        if self._random.random() < 0.8:
            status["resources"] = {"requests": self._requests()}
        return status

    def plain_labels(self) -> dict[str, str]:
        """A selector of equalities, as services have."""
        return {"app": self._random.choice(("web", "db"))}

    def selector(self) -> Json:
        """A label selector that is not empty."""
        choices: tuple[Callable[[], Json], ...] = (
            lambda: {"matchLabels": self.plain_labels()},
            lambda: {"matchLabels": self.plain_labels()},
            lambda: {"matchExpressions": [self._requirement()]},
            lambda: {"matchLabels": self.plain_labels(), "matchExpressions": [self._requirement()]},
        )
        return self._random.choice(choices)()

    def any_selector(self) -> Json:
        """A label selector; some are empty and match everything."""
        return {} if self._random.random() < 0.15 else self.selector()

    def _has(self, feature: str, chance: float) -> bool:
        return feature in self._features and self._random.random() < chance

    def _labels(self) -> dict[str, str]:
        random = self._random
        labels = {}
        for key, values in (("app", ("web", "db")), ("tier", ("a", "b")), ("rev", ("1", "2"))):
            if random.random() < 0.7:
                labels[key] = random.choice(values)
        return labels

    def _owner(self) -> Json:
        kind = self._random.choice(("ReplicaSet", "StatefulSet", "ReplicationController", "Job"))
        return {
            "apiVersion": {"ReplicationController": "v1", "Job": "batch/v1"}.get(kind, "apps/v1"),
            "kind": kind,
            "name": f"{kind.lower()}{self._random.randint(0, 1)}",
            "uid": "uid-owner",
            "controller": True,
        }

    def _requests(self) -> dict[str, str]:
        random = self._random
        full = "full" in self._features
        requests = {}
        if random.random() < 0.85:
            requests["cpu"] = random.choice(
                ("900m", "1", "1500m")
                if full
                else ("0", "1m", "100m", "0.25", "500m", "1", "1e-1", "0.1234")
            )
        if random.random() < 0.7:
            requests["memory"] = random.choice(MEMORY)
        return requests

    def _container(self, index: int) -> Json:
        random = self._random
        requests = self._requests()
        if random.random() < 0.15:
            requests["ephemeral-storage"] = random.choice(("1Gi", "8Gi"))
        limits = {}
        if self._has("gpus", 0.3):
            requests["example.com/gpu"] = limits["example.com/gpu"] = random.choice("012")
        if self._has("gpus", 0.15):
            requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = "32Mi"
        resources: Json = {"requests": requests}
        if random.random() < 0.1:
            limits["memory"] = "3Gi"  # without a request of its own, where admission has not run
        if limits:
            resources["limits"] = limits
        container: Json = {"name": f"c{index}", "image": self._image(), "resources": resources}
        if self._has("ports", 0.4):
            container["ports"] = [self._port()]
        if self._has("features", 0.3):
            action = random.choice(("Restart", "RestartAllContainers"))
            container["restartPolicyRules"] = [{"action": action}]
        return container

    def _init_container(self, index: int) -> Json:
        container: Json = {
            "name": f"i{index}",
            "image": self._image(),
            "resources": {"requests": self._requests()},
        }
        if self._random.random() < 0.5:
            container["restartPolicy"] = "Always"
            if self._has("ports", 0.2):
                container["ports"] = [self._port()]
        return container

    def _image(self) -> str:
        return self._random.choice(
            (
                "repo/web:v1",
                "repo/db:v1",
                "repo/tiny:v1",
                "repo/big",
                "repo/db:v1@sha256:0",
                "host:5000/own",
                "none",
            )
        )

    def _port(self) -> Json:
        random = self._random
        port: Json = {"containerPort": 80, "hostPort": random.choice((80, 8080))}
        if random.random() < 0.4:
            port["protocol"] = random.choice(("TCP", "UDP", "SCTP"))
        if random.random() < 0.4:
            port["hostIP"] = random.choice(("0.0.0.0", "10.0.0.1", "10.0.0.2", "::"))
        return port

    def _toleration(self) -> Json:
        random = self._random
        toleration: Json = {}
        if random.random() < 0.85:
            toleration["key"] = random.choice(
                ("dedicated", "drain", "node.kubernetes.io/unreachable", UNSCHEDULABLE)
            )
            toleration["operator"] = random.choice(("Exists", "Equal"))
        else:
            toleration["operator"] = "Exists"
        if toleration["operator"] == "Equal":
            toleration["value"] = random.choice(("a", "b", ""))
            if random.random() < 0.3:
                del toleration["operator"]
        if random.random() < 0.6:
            toleration["effect"] = random.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
            if toleration["effect"] == "NoExecute" and random.random() < 0.5:
                toleration["tolerationSeconds"] = random.choice((-1, 0, 300))
        return toleration

    def _requirement(self) -> Json:
        key, values = self._random.choice((("app", ("web", "db")), ("tier", ("a", "b", "c"))))
        return self._expression(key, values, ("In", "NotIn", "Exists", "DoesNotExist"))

    def _expression(self, key: str, values: tuple[str, ...], operators: tuple[str, ...]) -> Json:
        random = self._random
        operator = random.choice(operators)
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        if operator in ("Gt", "Lt"):
            return {
                "key": key,
                "operator": operator,
                "values": [random.choice(("0", "1", "2", "3", "006"))],
            }
        chosen = random.sample(values, random.randint(1, len(values)))
        return {"key": key, "operator": operator, "values": chosen}

    def _affinity(self) -> Json:
        affinity: Json = {}
        if self._has("node-affinity", 0.4):
            affinity["nodeAffinity"] = self._node_affinity()
        if self._has("affinity", 0.3):
            affinity["podAffinity"] = self._pod_affinity()
        if self._has("affinity", 0.3):
            affinity["podAntiAffinity"] = self._pod_affinity()
        return affinity

    def _node_affinity(self) -> Json:
        random = self._random
        affinity: Json = {}
        if random.random() < 0.6:
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": [self._node_term() for _ in range(random.randint(1, 2))]
            }
        if random.random() < 0.6:
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": random.choice((1, 7, 100)), "preference": self._node_term()}
                for _ in range(random.randint(1, 2))
            ]
        return affinity

    def _node_term(self) -> Json:
        random = self._random
        operators = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
        term: Json = {}
        if random.random() < 0.8:
            term["matchExpressions"] = [
                self._expression(*choice)
                for choice in random.sample(
                    (
                        ("disk", ("ssd", "hdd"), operators[:4]),
                        ("rank", ("1", "2", "x"), operators),
                        (ZONE, ("z1", "z2"), operators[:4]),
                    ),
                    random.randint(1, 2),
                )
            ]
        if random.random() < 0.2:
            term["matchFields"] = [
                {
                    "key": "metadata.name",
                    "operator": random.choice(("In", "NotIn")),
                    "values": [f"n{random.randint(0, 5)}"],
                }
            ]
        return term

    def _pod_affinity(self) -> Json:
        random = self._random
        affinity: Json = {}
        if random.random() < 0.7:
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = [
                self._pod_term() for _ in range(random.choice((1, 1, 2)))
            ]
        if random.random() < 0.6:
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": random.choice((1, 13, 100)), "podAffinityTerm": self._pod_term()}
                for _ in range(random.choice((1, 1, 2)))
            ]
        return affinity

    def _pod_term(self) -> Json:
        random = self._random
        term: Json = {"topologyKey": random.choice(TOPOLOGIES)}
        if random.random() < 0.95:
            term["labelSelector"] = self.any_selector()
            if random.random() < 0.15:
                term["matchLabelKeys"] = random.choice((["rev"], ["rev", "none"]))
            if random.random() < 0.15:
                term["mismatchLabelKeys"] = ["tier"]
        if random.random() < 0.3:
            term["namespaces"] = random.sample(("default", "blue", "nowhere"), random.randint(1, 2))
        if random.random() < 0.25:
            choices: tuple[Json, ...] = (
                {},
                {"matchLabels": {"team": "x"}},
                {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]},
            )
            term["namespaceSelector"] = random.choice(choices)
        return term

    def _spread(self) -> list[Json]:
        random = self._random
        # A topology may stand twice, once hard and once soft.
        pairs = random.sample(
            [(t, w) for t in TOPOLOGIES for w in ("DoNotSchedule", "ScheduleAnyway")],
            random.choice((1, 1, 2, 3)),
        )
        return [self._constraint(topology, when) for topology, when in pairs]

    def _constraint(self, topology: str, when: str) -> Json:
        random = self._random
        constraint: Json = {
            "maxSkew": random.choice((1, 1, 2, 5)),
            "topologyKey": topology,
            "whenUnsatisfiable": when,
        }
        if random.random() < 0.95:
            constraint["labelSelector"] = self.any_selector()
            if random.random() < 0.2:
                constraint["matchLabelKeys"] = random.choice((["rev"], ["rev", "none"]))
        if when == "DoNotSchedule" and random.random() < 0.3:
            constraint["minDomains"] = random.randint(1, 4)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if random.random() < 0.3:
                constraint[policy] = random.choice(("Honor", "Ignore"))
        return constraint
