"""Simulates the controllers of storage: they bind volumes, make them, and make pods' claims.

One small controller stands for kube-controller-manager's volume and ephemeral volume controllers
and for a CSI provisioner, as far as a scheduler can tell them apart.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from arranger.api.annotations import BIND_COMPLETED, SELECTED_NODE
from arranger.api.quantity import value
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.storage.store import Change
from tests.simulation.harnesses.reconcile_loop import ReconcileLoop
from tests.simulation.harnesses.simulation import MERGE, Object
from tests.storage import ZONE

VOLUMES = "/api/v1/persistentvolumes"
_VOLUMES = "persistentvolumes"
_WATCHED = ("/persistentvolumes", "/persistentvolumeclaims", "/pods")


class HasCluster(Protocol):
    """A simulation, or as much of it as storage needs."""

    @property
    def cluster(self) -> EmbeddedCluster:
        """Where the objects are."""

    def request(self, method: str, path: str, body: Any = None, content_type: str = "") -> Any:
        """A request that must succeed."""


class VolumeHarness:
    """The objects of a simulation's storage, and their controllers.

    Attributes:
        enabled: whether it does anything.
        loop: runs the controller.
        failing: node → how many more volumes cannot be made for it.
        order: what happened to claims and pods, as it happened.
    """

    def __init__(self, sim: HasCluster) -> None:
        self.enabled = True
        self.loop = ReconcileLoop("storage", self._reconcile, delay=1.0)
        self.failing: Counter[str] = Counter()
        self.order: list[str] = []
        self._sim = sim
        sim.cluster.store.subscribe(self._on_change)

    # --- what is there -----------------------------------------------------------------------

    def volume(self, name: str) -> Object:
        return self._named("persistentvolumes", name)

    def claim(self, name: str) -> Object:
        return self._named("persistentvolumeclaims", name)

    def volume_of(self, claim: str) -> str:
        """The volume a claim is bound to; "" while it is not."""
        return str(self.claim(claim)["spec"].get("volumeName", ""))

    def selected(self, claim: str) -> str:
        """The node whose pod a claim's volume is to be made for; "" while there is none."""
        annotations = self.claim(claim)["metadata"].get("annotations") or {}
        return str(annotations.get(SELECTED_NODE, ""))

    def check(self) -> None:
        """No pod was bound before its claims, and none where its volumes cannot be used."""
        for pod in self._sim.cluster.objects("pods"):
            node = pod["spec"].get("nodeName")
            for claim in _claims_of(pod) if node else ():
                name = pod["metadata"]["name"]
                assert self.order.index(f"claim {claim}") < self.order.index(f"pod {name}")
                zones = _zones(self.volume(self.volume_of(claim)))
                labels = self._named("nodes", node)["metadata"]["labels"]
                assert zones is None or labels.get(ZONE) in zones, f"{name} cannot use {claim}"
        held = Counter(
            claim["spec"]["volumeName"]
            for claim in self._sim.cluster.objects("persistentvolumeclaims")
            if claim["spec"].get("volumeName")
        )
        assert all(times == 1 for times in held.values()), f"bound twice: {held}"

    # --- inside ------------------------------------------------------------------------------

    def _on_change(self, change: Change) -> None:
        if change.resource not in _WATCHED:
            return
        self.loop.wake()
        name, before, after = change.after["metadata"]["name"], change.before or {}, change.after
        if change.resource == "/persistentvolumeclaims" and _bound(after) and not _bound(before):
            self.order.append(f"claim {name}")
        if change.resource == "/pods" and after["spec"].get("nodeName"):
            self.order.append(f"pod {name}")

    def _reconcile(self) -> None:
        if not self.enabled:
            return
        for pod in self._sim.cluster.objects("pods"):
            self._claim_for(pod)
        for volume in self._sim.cluster.objects("persistentvolumes"):
            free = "claimRef" not in volume["spec"]
            if free and volume.get("status", {}).get("phase") != "Available":
                self._patch(f"{VOLUMES}/{volume['metadata']['name']}", status="Available")
        for claim in self._sim.cluster.objects("persistentvolumeclaims"):
            if not _bound(claim):
                self._serve(claim)

    def _claim_for(self, pod: Object) -> None:
        meta = pod["metadata"]
        claims = (c["metadata"] for c in self._sim.cluster.objects("persistentvolumeclaims"))
        have = {each["name"] for each in claims if each["namespace"] == meta["namespace"]}
        for volume in pod["spec"].get("volumes", []):
            if not {"ephemeral", "name"} <= volume.keys():  # hostile ones may have no name
                continue
            name = f"{meta['name']}-{volume['name']}"
            if name not in have:
                owner = {"kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
                owner |= {"apiVersion": "v1", "controller": True}
                self._sim.cluster.create(
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "metadata": {
                            "name": name,
                            "namespace": meta["namespace"],
                            "ownerReferences": [owner],
                        },
                        "spec": volume["ephemeral"]["volumeClaimTemplate"]["spec"],
                        "status": {"phase": "Pending"},
                    }
                )

    def _serve(self, claim: Object) -> None:
        """Bind a claim to the volume kept for it, or make one for the selected node."""
        meta, spec = claim["metadata"], claim["spec"]
        volumes = self._sim.cluster.objects(_VOLUMES)
        kept = [v for v in volumes if v["spec"].get("claimRef", {}).get("uid") == meta["uid"]]
        node = (meta.get("annotations") or {}).get(SELECTED_NODE)
        late = self._is_late(spec.get("storageClassName"))
        if not kept and not late:
            size = spec["resources"]["requests"]["storage"]
            kept = [v for v in volumes if "claimRef" not in v["spec"] and _holds(v, size)]
        if kept:
            self._bind(claim, kept[0]["metadata"]["name"])
        elif node is not None and (self.failing[node] or not self._has_node(node)):
            # Provisioners take the node back where they can make no volume for it.
            self.failing[node] -= self.failing[node] > 0
            gone = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            self._sim.request("PATCH", _path(claim), gone, MERGE)
        elif node is not None:
            self._bind(claim, self._make(claim, node))

    def _make(self, claim: Object, node: str) -> str:
        zone = self._named("nodes", node)["metadata"]["labels"][ZONE]
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        name = f"made-for-{claim['metadata']['name']}"
        if any(v["metadata"]["name"] == name for v in self._sim.cluster.objects(_VOLUMES)):
            name = f"{name}-{claim['metadata']['uid']}"  # that of another claim of this name
        self._sim.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                    "accessModes": claim["spec"]["accessModes"],
                    "storageClassName": claim["spec"]["storageClassName"],
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
                },
            }
        )
        return name

    def _bind(self, claim: Object, volume: str) -> None:
        meta = claim["metadata"]
        ref = {k: meta[k] for k in ("namespace", "name", "uid")}
        spec = {"claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **ref}}
        self._patch(f"{VOLUMES}/{volume}", spec=spec, status="Bound")
        done = {BIND_COMPLETED: "yes"}
        self._patch(_path(claim), spec={"volumeName": volume}, status="Bound", annotations=done)

    def _patch(
        self,
        path: str,
        *,
        status: str,
        spec: Object | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        change: Object = {"metadata": {"annotations": annotations or {}}, "spec": spec or {}}
        self._sim.request("PATCH", path, change, MERGE)
        self._sim.request("PATCH", f"{path}/status", {"status": {"phase": status}}, MERGE)

    def _is_late(self, storage_class: str | None) -> bool:
        """Whether claims of a class wait for a pod; so do those of one that is not there."""
        classes = self._sim.cluster.objects("storageclasses", "storage.k8s.io")
        found = [each for each in classes if each["metadata"]["name"] == storage_class]
        return not found or found[0].get("volumeBindingMode") != "Immediate"

    def _has_node(self, name: str) -> bool:
        return any(each["metadata"]["name"] == name for each in self._sim.cluster.objects("nodes"))

    def _named(self, plural: str, name: str) -> Object:
        objects = self._sim.cluster.objects(plural)
        return next(o for o in objects if o["metadata"]["name"] == name)


def _path(claim: Object) -> str:
    meta = claim["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/persistentvolumeclaims/{meta['name']}"


def _claims_of(pod: Object) -> list[str]:
    return [
        v["persistentVolumeClaim"]["claimName"]
        if "persistentVolumeClaim" in v
        else f"{pod['metadata']['name']}-{v['name']}"
        for v in pod["spec"].get("volumes", [])
    ]


def _bound(claim: Object) -> bool:
    annotations = claim.get("metadata", {}).get("annotations") or {}
    return BIND_COMPLETED in annotations and bool(claim["spec"].get("volumeName"))


def _holds(volume: Object, size: str) -> bool:
    return value(volume["spec"]["capacity"]["storage"]) >= value(size)


def _zones(volume: Object) -> list[str] | None:
    affinity = volume["spec"].get("nodeAffinity")
    if affinity is None:
        return None
    (term,) = affinity["required"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    return list(expression["values"])
