"""Simulates what makes claims from templates, and releases those that no pod uses.

One small controller stands for kube-controller-manager's resourceclaim controller, as far as a
scheduler can see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.storage.store import Change
from tests.simulation.harnesses.reconcile_loop import ReconcileLoop
from tests.simulation.harnesses.simulation import MERGE, Object, SimulationHarness

API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
_CLAIMS, _PODS = "resource.k8s.io/resourceclaims", "/pods"


class HasCluster(Protocol):
    """A simulation, or as much of it as claims need."""

    @property
    def cluster(self) -> EmbeddedCluster:
        """Where the objects are."""

    def request(self, method: str, path: str, body: Any = None, content_type: str = "") -> Any:
        """A request that must succeed."""


def release_claims(sim: HasCluster) -> None:
    """Claims are free of the pods that are gone or have ended; devices of those without pods."""
    living = {pod["metadata"]["uid"] for pod in sim.cluster.objects("pods") if not _ended(pod)}
    for claim in sim.cluster.objects("resourceclaims", "resource.k8s.io"):
        users = claim.get("status", {}).get("reservedFor") or []
        left = [user for user in users if user.get("uid") in living]
        if len(left) < len(users):
            change: Object = {"reservedFor": left or None}
            if not left:
                change["allocation"] = None
            meta = claim["metadata"]
            path = f"{API}/namespaces/{meta['namespace']}/resourceclaims/{meta['name']}/status"
            sim.request("PATCH", path, {"status": change}, MERGE)


class DeviceHarness:
    """The objects of a simulation's devices, and their controller.

    Attributes:
        spec: what every claim that is made from a template asks for.
        loop: runs the controller.
    """

    def __init__(self, sim: SimulationHarness, spec: Object) -> None:
        self.spec = spec
        self.loop = ReconcileLoop("resourceclaim-controller", self._reconcile, delay=0.5)
        self._sim = sim
        sim.cluster.store.subscribe(self._on_change)

    # --- what is there -----------------------------------------------------------------------

    def claims(self) -> dict[str, Object]:
        """The claims by name."""
        return {claim["metadata"]["name"]: claim for claim in self._claims()}

    def allocated_devices(self) -> dict[str, list[str]]:
        """Claim → the devices it has, as ``pool/device``."""
        return {name: _devices(claim) for name, claim in self.claims().items() if _devices(claim)}

    def check(self) -> None:
        """No device was ever allocated twice, and no pod bound before its claims were reserved."""
        holders: dict[str, str] = {}
        claims: dict[str, Object] = {}
        for change in self._sim.history:
            name = change.after["metadata"]["name"]
            if change.resource == _CLAIMS:
                gone = change.type == "DELETED"
                for device in [d for d, holder in holders.items() if holder == name]:
                    del holders[device]
                for device in [] if gone else _devices(change.after):
                    assert device not in holders, f"{device}: {holders[device]} and {name}"
                    holders[device] = name
                claims[name] = {} if gone else change.after
            elif change.resource == _PODS and _newly_bound(change):
                for used in _claims_of(change.after):
                    claim = claims[used]
                    users = [user["uid"] for user in claim["status"]["reservedFor"]]
                    assert change.after["metadata"]["uid"] in users, f"{name} before {used}"
                    assert _devices(claim), f"{name}: {used} has no devices"

    # --- inside ------------------------------------------------------------------------------

    def _claims(self) -> Sequence[Object]:
        return self._sim.cluster.objects("resourceclaims", "resource.k8s.io")

    def _on_change(self, change: Change) -> None:
        if change.resource in (_CLAIMS, _PODS):
            self.loop.wake()

    def _reconcile(self) -> None:
        pods = self._sim.cluster.objects("pods")
        for pod in pods:
            self._create_claims(pod)
        release_claims(self._sim)

    def _create_claims(self, pod: Object) -> None:
        meta, made = pod["metadata"], []
        space = meta["namespace"]
        here = (each["metadata"] for each in self._claims())
        claims = {each["name"] for each in here if each["namespace"] == space}
        for use in pod["spec"].get("resourceClaims", []):
            if "resourceClaimTemplateName" not in use:
                continue
            name = f"{meta['name']}-{use['name']}"
            made.append({"name": use["name"], "resourceClaimName": name})
            if name not in claims:
                owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
                owner |= {key: meta[key] for key in ("name", "uid")}
                self._sim.cluster.create(
                    {
                        "apiVersion": "resource.k8s.io/v1",
                        "kind": "ResourceClaim",
                        "metadata": {
                            "name": name,
                            "namespace": space,
                            "ownerReferences": [owner],
                        },
                        "spec": self.spec,
                    }
                )
        if made and pod["status"].get("resourceClaimStatuses") != made:
            change = {"status": {"resourceClaimStatuses": made}}
            path = f"/api/v1/namespaces/{space}/pods/{meta['name']}/status"
            self._sim.request("PATCH", path, change, MERGE)


def _devices(claim: Object) -> list[str]:
    allocation = claim.get("status", {}).get("allocation") or {}
    return [f"{r['pool']}/{r['device']}" for r in allocation.get("devices", {}).get("results", [])]


def _claims_of(pod: Object) -> list[str]:
    made = {
        s["name"]: s["resourceClaimName"] for s in pod["status"].get("resourceClaimStatuses", [])
    }
    uses = pod["spec"].get("resourceClaims", [])
    return [use.get("resourceClaimName") or made[use["name"]] for use in uses]


def _newly_bound(change: Change) -> bool:
    before = (change.before or {}).get("spec", {}).get("nodeName")
    return change.type != "DELETED" and not before and bool(change.after["spec"].get("nodeName"))


def _ended(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")
