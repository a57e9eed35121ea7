"""Random storage for a random cluster, and volumes for its pods.

Nothing is generated that would show where kube-scheduler chooses at random: volumes differ in
size, and so do claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.differential.pod_parts import HOST, ZONE

Json = dict[str, Any]

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
DRIVERS = ("csi.example.com", "ebs.csi.aws.com")
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
#: Class → provisioner; classes that begin with ``now`` bind at once.
CLASSES = {
    "now": "csi.example.com",
    "late": "csi.example.com",
    "hand": "kubernetes.io/no-provisioner",
    "old": "kubernetes.io/aws-ebs",
}
ZONES = ("z1", "z2", "z3")
#: States of a claim beside bound, reserved and unbound.
ODDITIES = (
    "attributed",
    "beta",
    "block",
    "classless",
    "deleted",
    "lost",
    "named",
    "selective",
)


def add_volumes(random: Random, snapshot: Json) -> None:
    """Give a snapshot storage, and some of its pods volumes, in place."""
    Volumes(random, snapshot).add()


class Volumes:
    """Makes the storage of one snapshot."""

    def __init__(self, random: Random, snapshot: Json) -> None:
        self._random = random
        self._snapshot = snapshot
        self._nodes: list[str] = [node["metadata"]["name"] for node in snapshot["nodes"]]
        self._claims: dict[tuple[str, str], Json] = {}
        self._volumes: list[Json] = []

    def add(self) -> None:
        """Make everything."""
        random, snapshot = self._random, self._snapshot
        for node in snapshot["nodes"]:
            if self._may(0.3):
                node["metadata"].setdefault("labels", {})[BETA_ZONE] = random.choice(ZONES)
        for _ in range(random.randint(0, 6)):
            self._volume()
        for section in ("pods", "pending"):
            for pod in snapshot[section]:
                for number in range(random.choice((0, 1, 1, 2))):
                    self._mount(pod, f"d{number}", running=section == "pods")
        self._share()
        snapshot |= {
            "persistentVolumes": self._volumes,
            "persistentVolumeClaims": list(self._claims.values()),
            "storageClasses": [self._class(name) for name in CLASSES if self._may(0.9)],
            "csiNodes": [self._csi_node(name) for name in self._nodes if self._may(0.7)],
            "csiDrivers": [
                _object("CSIDriver", name, spec={"storageCapacity": self._may(0.6)})
                for name in DRIVERS
                if self._may(0.7)
            ],
            "csiStorageCapacities": [self._capacity(n) for n in range(random.randint(0, 4))],
            "volumeAttachments": [self._attachment(n) for n in range(random.randint(0, 4))],
        }

    def _may(self, chance: float) -> bool:
        return self._random.random() < chance

    def _mount(self, pod: Json, name: str, *, running: bool) -> None:
        random = self._random
        kind = random.choice(("claim", "claim", "claim", "ephemeral", "disk", "inline"))
        volume: Json = {"name": name}
        if kind == "claim":
            namespace = pod["metadata"]["namespace"]
            # The namespace is in the name: when kube-scheduler asks whether evicting a pod would
            # free a claim for one pod, it looks at the names of the pod's claims only.
            claim = f"c{random.randint(0, 3)}-{namespace}"
            if claim in _named_by(pod):
                return  # it may try to bind two volumes to a claim named twice
            if self._may(0.95):
                self._claim(namespace, claim)
            volume["persistentVolumeClaim"] = {"claimName": claim}
        elif kind == "ephemeral":
            volume["ephemeral"] = {}
            if self._may(0.9):
                self._ephemeral(pod, name, own=running or self._may(0.9))
        elif kind == "disk":
            volume |= self._disk()
        else:
            volume["csi"] = {"driver": random.choice(DRIVERS)}
        pod["spec"].setdefault("volumes", []).append(volume)

    def _disk(self) -> Json:
        random = self._random
        read_only = self._may(0.4)
        name = random.choice("xy")
        return random.choice(
            (
                {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}},
                {"awsElasticBlockStore": {"volumeID": f"aws://z1/vol-{name}"}},
                {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}},
                {"iscsi": {"iqn": name, "lun": 0, "targetPortal": "t", "readOnly": read_only}},
                {
                    "rbd": {
                        "monitors": random.sample(["m1", "m2", "m3"], 2),
                        "image": name,
                        "pool": random.choice(("rbd", "fast")),
                        "readOnly": read_only,
                    }
                },
            )
        )

    def _share(self) -> None:
        """Give each ReadWriteOncePod claim to one running pod only, as in a real cluster."""
        used = Counter(name for pod in self._snapshot["pods"] for name in _named_by(pod))
        for (_, name), claim in self._claims.items():
            if used[name] > 1:
                claim["spec"]["accessModes"] = ["ReadWriteOnce"]

    # --- claims ----------------------------------------------------------------------------

    def _claim(self, namespace: str, name: str) -> Json:
        if (namespace, name) in self._claims:
            return self._claims[namespace, name]
        random = self._random
        number = len(self._claims)
        claim = _object(
            "PersistentVolumeClaim",
            name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            annotations={},
            spec={
                "accessModes": [
                    random.choice(
                        ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany")
                    )
                ],
                "storageClassName": random.choice(
                    ("late", "late", "hand", "hand", "old", "now", "gone")
                ),
                "resources": {"requests": {"storage": str(10**9 + number)}},
            },
            status={"phase": "Pending"},
        )
        self._claims[namespace, name] = claim
        state = random.choice(
            ("bound", "bound", "bound", "unbound", "unbound", "kept", "selected", "odd")
        )
        if state == "bound":
            self._bind(claim)
        elif state == "selected":
            selected = random.choice([*self._nodes, "gone"])
            claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = selected
        elif state == "kept":
            self._volume(kept_for=claim)
        elif state == "odd":
            self._make_odd(claim)
        return claim

    def _bind(self, claim: Json) -> None:
        claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
        claim["status"]["phase"] = "Bound"
        volume = self._volume(kept_for=claim)
        volume["status"]["phase"] = "Bound"
        claim["spec"]["volumeName"] = "gone" if self._may(0.1) else volume["metadata"]["name"]

    def _make_odd(self, claim: Json) -> None:
        odd = self._random.choice(ODDITIES)
        if odd == "lost":
            claim["status"]["phase"] = "Lost"
            claim["spec"]["volumeName"] = "gone"
        elif odd == "deleted":
            claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        elif odd == "named":
            claim["spec"]["volumeName"] = "v0"
        elif odd == "selective":
            claim["spec"]["selector"] = {"matchLabels": {"disk": "fast"}}
        elif odd == "beta":
            claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] = "hand"
        elif odd == "block":
            claim["spec"]["volumeMode"] = "Block"
        elif odd == "attributed":
            claim["spec"]["volumeAttributesClassName"] = "fast"
        else:
            claim["spec"]["storageClassName"] = ""

    def _ephemeral(self, pod: Json, volume: str, *, own: bool) -> None:
        metadata = pod["metadata"]
        claim = self._claim(metadata["namespace"], f"{metadata['name']}-{volume}")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "controller": True}
        owner["uid"] = metadata["uid"] if own else "another"
        claim["metadata"]["ownerReferences"] = [owner]

    # --- volumes ---------------------------------------------------------------------------

    def _volume(self, *, kept_for: Json | None = None) -> Json:
        random = self._random
        number = len(self._volumes)
        name = f"v{number}"
        storage_class = random.choice(tuple(CLASSES))
        if kept_for is not None and self._may(0.9):
            storage_class = kept_for["spec"]["storageClassName"]
        spec: Json = {
            "capacity": {"storage": str(10**9 * random.choice((1, 2)) + 1000 * (number + 1))},
            "accessModes": ["ReadWriteOnce", *self._more_modes()],
            "storageClassName": storage_class,
            **self._source(name),
        }
        if self._may(0.1):
            spec["volumeMode"] = "Block"
        if self._may(0.1):
            spec["volumeAttributesClassName"] = "fast"
        if self._may(0.6):
            terms = [self._term() for _ in range(random.choice((1, 1, 2)))]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        if kept_for is not None:
            owner = kept_for["metadata"]
            reference = {"namespace": owner["namespace"], "name": owner["name"]}
            if self._may(0.8):
                reference["uid"] = owner["uid"]
            spec["claimRef"] = {"kind": "PersistentVolumeClaim", **reference}
        elif self._may(0.1):
            spec["claimRef"] = {"namespace": "default", "name": "another", "uid": "another"}
        labels = {}
        if self._may(0.5):
            key = random.choice((ZONE, BETA_ZONE))
            # Several zones of a GCE disk would need real zone names; others are an error.
            zones = ("z1", "z2", *(() if "gcePersistentDisk" in spec else ("z1__z2", "z1__")))
            labels[key] = random.choice(zones)
        if self._may(0.5):
            labels["disk"] = "fast"
        phase = random.choice(
            ("Available", "Available", "Available", "Pending", "Released", "Failed")
        )
        volume = _object(
            "PersistentVolume", name, labels=labels, spec=spec, status={"phase": phase}
        )
        self._volumes.append(volume)
        return volume

    def _more_modes(self) -> list[str]:
        return [mode for mode in ("ReadWriteOncePod", "ReadWriteMany") if self._may(0.5)]

    def _source(self, name: str) -> Json:
        return self._random.choice(
            (
                {"hostPath": {"path": "/x"}},
                {"csi": {"driver": DRIVERS[0], "volumeHandle": name}},
                {"csi": {"driver": DRIVERS[0], "volumeHandle": name}},
                {"csi": {"driver": DRIVERS[1], "volumeHandle": "vol-x"}},
                {"awsElasticBlockStore": {"volumeID": "vol-y"}},
                {"gcePersistentDisk": {"pdName": name}},
            )
        )

    def _term(self) -> Json:
        random = self._random
        choices: Sequence[Json] = (
            {"key": ZONE, "operator": "In", "values": random.sample(ZONES, 2)},
            {"key": BETA_ZONE, "operator": "In", "values": random.sample(ZONES, 2)},
            {"key": HOST, "operator": "In", "values": [random.choice(self._nodes)]},
            {"key": "disk", "operator": "Exists"},
            {"key": "rank", "operator": "Gt", "values": ["1"]},
            {"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": ["z1"]},
        )
        term: Json = {"matchExpressions": random.sample(choices, random.choice((1, 1, 2)))}
        if self._may(0.1):
            named = {"key": "metadata.name", "operator": "In", "values": [self._nodes[0]]}
            term = {**(term if self._may(0.5) else {}), "matchFields": [named]}
        return term

    # --- classes, drivers and what is attached -----------------------------------------------

    def _class(self, name: str) -> Json:
        random = self._random
        mode = "Immediate" if name.startswith("now") else "WaitForFirstConsumer"
        made = _object("StorageClass", name, provisioner=CLASSES[name], volumeBindingMode=mode)
        if self._may(0.4):
            made["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": ZONE, "values": random.sample(ZONES, 2)}]}
            ]
        return made

    def _csi_node(self, name: str) -> Json:
        random = self._random
        drivers: list[Json] = []
        for driver in DRIVERS:
            if self._may(0.8):
                count = random.choice((None, 1, 1, 2, 3))
                allocatable = {} if count is None else {"allocatable": {"count": count}}
                drivers.append({"name": driver, "nodeID": name, **allocatable})
        migrated = ("kubernetes.io/aws-ebs", "kubernetes.io/aws-ebs,kubernetes.io/gce-pd", "")
        annotations = {MIGRATED: random.choice(migrated)}
        return _object("CSINode", name, annotations=annotations, spec={"drivers": drivers})

    def _capacity(self, number: int) -> Json:
        random = self._random
        made = _object(
            "CSIStorageCapacity",
            f"s{number}",
            namespace="default",
            storageClassName=random.choice(("late", "late", "old")),
            capacity=random.choice(("500M", "5G")),
        )
        if self._may(0.3):
            made["maximumVolumeSize"] = random.choice(("500M", "5G"))
        if self._may(0.9):
            topology = {} if self._may(0.2) else {"matchLabels": {ZONE: random.choice(ZONES)}}
            made["nodeTopology"] = topology
        return made

    def _attachment(self, number: int) -> Json:
        random = self._random
        volume = random.choice([v["metadata"]["name"] for v in self._volumes] or ["gone"])
        spec = {
            "attacher": random.choice(DRIVERS),
            "nodeName": random.choice(self._nodes),
            "source": {"persistentVolumeName": volume},
        }
        return _object("VolumeAttachment", f"a{number}", spec=spec)


def _named_by(pod: Json) -> list[str]:
    volumes = pod["spec"].get("volumes", [])
    return [
        v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v
    ]


def _object(kind: str, name: str, *, namespace: str = "", uid: str = "", **fields: Any) -> Json:
    metadata: Json = {"name": name, "uid": uid or f"uid-{name}"}
    if namespace:
        metadata["namespace"] = namespace
    for part in ("labels", "annotations"):
        if part in fields:
            metadata[part] = fields.pop(part)
    group = "v1" if kind.startswith("Persistent") else "storage.k8s.io/v1"
    return {"apiVersion": group, "kind": kind, "metadata": metadata, **fields}
