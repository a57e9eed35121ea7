"""Devices, classes and claims for random snapshots, and pods that use them.

Nothing is generated that is an error to kube-scheduler, which then evaluates no node at all,
while we evaluate the others: selectors test for an attribute before they read it, and all devices
are requested only where every pool is complete. Nor may many devices have to differ from each
other: kube-scheduler compares only the last of each request, we compare all.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.differential.pod_parts import ZONE

Json = dict[str, Any]

DRIVERS = ("gpu.example.com", "nic.example.com")
MODELS = ("a100", "h100")
#: Classes that claims name; one of them is rare and does not exist.
CLASSES = ("any", "gpu", "new") * 6 + ("none",)
TAINTS = (
    {"key": "sick", "value": "yes", "effect": "NoSchedule"},
    {"key": "sick", "value": "no", "effect": "NoExecute"},
    {"key": "old", "effect": "None"},
)
TOLERATIONS = (
    {"key": "sick", "operator": "Exists"},
    {"key": "sick", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
    {"operator": "Exists", "effect": "NoExecute"},
)


def add_devices(random: Random, snapshot: Json) -> None:
    """Add devices to a snapshot, and claims to most of its pending pods."""
    Devices(random, snapshot).add()


class Devices:
    """Makes the objects of one snapshot."""

    def __init__(self, random: Random, snapshot: Json) -> None:
        self._random = random
        self._snapshot = snapshot
        self._whole = random.random() < 0.6
        self._free: list[tuple[str, str, str, str]] = []

    def add(self) -> None:
        """All sections."""
        snapshot = self._snapshot
        snapshot["deviceClasses"] = [
            _class("any"),
            _class("gpu", f'device.driver == "{DRIVERS[0]}"'),
            _class("new", *self._selectors(2)),
        ]
        snapshot["resourceSlices"] = slices = []
        for node in snapshot["nodes"]:
            for driver in DRIVERS:
                if self._random.random() < 0.7:
                    slices += self._pool(driver, node["metadata"]["name"])
        if self._random.random() < 0.4:
            slices += self._shared("rack")
        claims = [self._claim(f"c{n}") for n in range(self._random.randint(1, 6))]
        snapshot["resourceClaims"] = claims
        for pod in snapshot["pending"]:
            self._use(pod, claims)

    # --- what there is -----------------------------------------------------------------------

    def _pool(self, driver: str, node: str) -> list[Json]:
        """The pool of a node, in one slice or two, perhaps with one of an old generation."""
        random = self._random
        names = [f"d{n}" for n in range(random.randint(1, 4))]
        generation = random.choice((1, 1, 2))
        cut = random.randint(0, len(names)) if random.random() < 0.3 else len(names)
        parts = [part for part in (names[:cut], names[cut:]) if part]
        count = len(parts) + (0 if self._whole or random.random() < 0.8 else 1)
        made = []
        for n, part in enumerate(parts):
            pool = {"name": node, "generation": generation, "resourceSliceCount": count}
            devices = [self._device(name, driver) for name in part]
            spec = {"driver": driver, "pool": pool, "nodeName": node, "devices": devices}
            made.append(_slice(f"{node}-{driver[:3]}-{n}", spec))
            if count == len(parts):
                self._free += [(driver, node, name, node) for name in part]
        if generation == 2 and random.random() < 0.5:
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": driver, "pool": pool, "nodeName": node}
            made.append(_slice(f"{node}-{driver[:3]}-old", spec | {"devices": [{"name": "gone"}]}))
        return made

    def _shared(self, name: str) -> list[Json]:
        """A pool for a zone, for all nodes, or for each device's own."""
        random = self._random
        driver = random.choice(DRIVERS)
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [self._device(f"r{n}", driver) for n in range(random.randint(1, 3))]
        where: Json = {"allNodes": True}
        choice = random.randrange(3)
        if choice == 0:
            where = {"nodeSelector": self._zone()}
        elif choice == 1:
            where = {"perDeviceNodeSelection": True}
            for device in devices:
                device |= random.choice(({"allNodes": True}, {"nodeSelector": self._zone()}))
        return [_slice(name, {"driver": driver, "pool": pool, "devices": devices, **where})]

    def _zone(self) -> Json:
        term = {"key": ZONE, "operator": "In", "values": [self._random.choice(("z1", "z2", "z3"))]}
        return {"nodeSelectorTerms": [{"matchExpressions": [term]}]}

    def _device(self, name: str, driver: str) -> Json:
        random = self._random
        attributes: Json = {"numa": {"int": random.randrange(2)}}
        if random.random() < 0.8:
            attributes["model"] = {"string": random.choice(MODELS)}
        if random.random() < 0.6:
            attributes[f"{driver}/firmware"] = {"version": random.choice(("1.2.0", "1.10.0"))}
        if random.random() < 0.3:
            attributes["other.example.com/rack"] = {"string": "r1"}
        device: Json = {
            "name": name,
            "attributes": attributes,
            "capacity": {"memory": {"value": random.choice(("20Gi", "40960Mi", "80Gi"))}},
        }
        if random.random() < 0.15:
            device["taints"] = [dict(random.choice(TAINTS))]
        return device

    # --- what is wanted ----------------------------------------------------------------------

    def _claim(self, name: str) -> Json:
        random = self._random
        requests = [self._request(f"r{n}") for n in range(random.choice((1, 1, 1, 2, 3)))]
        devices: Json = {"requests": requests}
        every = any("All" in str(request) for request in requests)
        if not every and random.random() < 0.4:
            kind = "matchAttribute"
            if random.random() < 0.3 and not any(_many(request) for request in requests):
                kind = "distinctAttribute"
            constraint: Json = {
                kind: f"{random.choice(DRIVERS)}/{random.choice(('numa', 'model'))}"
            }
            if random.random() < 0.4:
                constraint["requests"] = [requests[0]["name"]]
            devices["constraints"] = [constraint]
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        claim = {"metadata": metadata, "spec": {"devices": devices}, "status": {}}
        if self._free and random.random() < 0.4:
            claim["status"] = self._given(requests[0]["name"])
        if random.random() < 0.05:
            claim["metadata"] |= {
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": ["resource.kubernetes.io/delete-protection"],
            }
        return claim

    def _request(self, name: str) -> Json:
        random = self._random
        if random.random() < 0.25:
            options = [self._exactly() | {"name": f"o{n}"} for n in range(random.randint(1, 3))]
            return {"name": name, "firstAvailable": options}
        exactly = self._exactly()
        if random.random() < 0.1:
            exactly["adminAccess"] = True
        return {"name": name, "exactly": exactly}

    def _exactly(self) -> Json:
        random = self._random
        wanted: Json = {
            "deviceClassName": random.choice(CLASSES),
            "allocationMode": "ExactCount",
            "count": random.choice((1, 1, 1, 2, 3)),
        }
        if self._whole and random.random() < 0.15:
            wanted |= {"allocationMode": "All"}
            del wanted["count"]
        if random.random() < 0.5:
            wanted["selectors"] = [{"cel": {"expression": e}} for e in self._selectors(1)]
        if random.random() < 0.2:
            wanted["tolerations"] = [dict(random.choice(TOLERATIONS))]
        return wanted

    def _selectors(self, most: int) -> list[str]:
        return [self._selector() for _ in range(self._random.randint(1, most))]

    def _selector(self) -> str:
        random = self._random
        domain = random.choice(DRIVERS)
        attributes, capacity = f'device.attributes["{domain}"]', f'device.capacity["{domain}"]'
        model, memory = random.choice(MODELS), random.choice(("30Gi", "40Gi", "80Gi"))
        return random.choice(
            (
                f'has({attributes}.model) && {attributes}.model == "{model}"',
                f'!has({attributes}.model) || {attributes}.model in ["{model}"]',
                f'"numa" in {attributes} && {attributes}.numa == 1',
                f"has({attributes}.numa) ? {attributes}.numa != 0 : false",
                f'has({capacity}.memory) && {capacity}.memory.compareTo(quantity("{memory}")) >= 0',
                f"has({attributes}.firmware) && "
                f'{attributes}.firmware.isGreaterThan(semver("1.9.0"))',
                f"cel.bind(own, {attributes}, has(own.numa) && own.numa == 0)",
                f'device.driver == "{domain}"',
                f'device.driver.startsWith("{domain[:3]}")',
                '"other.example.com" in device.attributes',
                f'{attributes}.?model.orValue("none") == "{model}"',
                f"{attributes}.?firmware.hasValue() || {capacity}.?memory.hasValue()",
                f'["{model}"].exists(m, has({attributes}.model) && m == {attributes}.model)',
                f'{attributes}.numa == 1 || device.driver.endsWith(".com")',
            )
        )

    # --- what is given -----------------------------------------------------------------------

    def _given(self, request: str) -> Json:
        """A device allocated to the claim, and the pods it is reserved for."""
        random = self._random
        driver, pool, device, node = self._free.pop(random.randrange(len(self._free)))
        result = {"request": request, "driver": driver, "pool": pool, "device": device}
        allocation: Json = {"devices": {"results": [result]}}
        if random.random() < 0.8:
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        users = [{"resource": "pods", "name": f"u{n}", "uid": f"uid-u{n}"} for n in range(2)]
        return {"allocation": allocation, "reservedFor": users[: random.randrange(3)]}

    def _use(self, pod: Json, claims: list[Json]) -> None:
        random = self._random
        uses: list[Json] = []
        made: list[Json] = []
        pod["metadata"]["namespace"] = "default"
        chosen = random.sample(claims, k=min(len(claims), random.choice((0, 1, 1, 1, 2))))
        for n, claim in enumerate(chosen):
            name = claim["metadata"]["name"]
            if random.random() < 0.7:
                uses.append({"name": f"u{n}", "resourceClaimName": name})
                continue
            uses.append({"name": f"u{n}", "resourceClaimTemplateName": "t"})
            if random.random() < 0.9:
                made.append({"name": f"u{n}", "resourceClaimName": name})
            if random.random() < 0.9:
                name = pod["metadata"]["name"]
                uid = pod["metadata"].get("uid", f"default/{name}")
                owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
                claim["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        if uses:
            pod["spec"]["resourceClaims"] = uses
        if made:
            pod.setdefault("status", {})["resourceClaimStatuses"] = made


def _many(request: Json) -> bool:
    options = request.get("firstAvailable") or [request["exactly"]]
    return any(option.get("count", 1) > 1 for option in options)


def _class(name: str, *expressions: str) -> Json:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors}}


def _slice(name: str, spec: Json) -> Json:
    return {"metadata": {"name": name}, "spec": spec}
