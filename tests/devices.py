"""Devices, their classes and the claims to them for tests; as in :mod:`tests.builders`."""

from __future__ import annotations

from typing import Any, Self

from arranger.api.types.resource_claims import DeviceClass, ResourceClaim, ResourceSlice
from tests.builders import Manifest, PodBuilder, StoredBuilder, expr

#: The driver of all devices, and the domain of their attributes.
DRIVER = "gpu.example.com"
ATTRIBUTES = f'device.attributes["{DRIVER}"]'


class ClaimBuilder(StoredBuilder):
    """See :func:`a_claim`."""

    def build(self) -> ResourceClaim:
        built = super().build()
        assert isinstance(built, ResourceClaim)
        return built

    def named(self, name: str) -> Self:
        """Another claim that asks for the same."""
        return self._set("metadata", name=name, uid=f"uid-{name}")

    def asks(self, name: str = "gpu", *, of: str = "gpu", **exactly: Any) -> Self:
        """One more request; ``exactly`` has the fields of its API."""
        return self._request({"name": name, "exactly": {"deviceClassName": of, **exactly}})

    def asks_first(self, *options: Manifest, name: str = "gpu") -> Self:
        """One more request that the first of the options satisfies; see :func:`option`."""
        return self._request({"name": name, "firstAvailable": list(options)})

    def constrained(self, **constraint: Any) -> Self:
        return self._devices("constraints", constraint)

    def told(self, *requests: str, **parameters: Any) -> Self:
        """Something for the driver to know, about these requests or about all."""
        config = {"opaque": {"driver": DRIVER, "parameters": parameters}}
        return self._devices("config", {"requests": list(requests), **config})

    def given(self, *devices: str, pool: str = "n1", on: str = "", **result: Any) -> Self:
        """Allocated: these devices of a pool, for one node if it is named."""
        results = [
            {"request": "gpu", "driver": DRIVER, "pool": pool, "device": device, **result}
            for device in devices
        ]
        allocation: Manifest = {"devices": {"results": results}}
        if on:
            field = {"key": "metadata.name", "operator": "In", "values": [on]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        return self.with_status(allocation=allocation)

    def reserved_for(self, *uids: str) -> Self:
        users = [{"resource": "pods", "name": uid, "uid": uid} for uid in uids]
        return self.with_status(reservedFor=users)

    def made_for(self, pod: PodBuilder) -> Self:
        metadata = pod.manifest()["metadata"]
        owner = {"kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        return self._append("metadata", ownerReferences={**owner, "controller": True})

    def _request(self, request: Manifest) -> Self:
        return self._devices("requests", request)

    def _devices(self, field: str, item: Manifest) -> Self:
        devices = dict(self._manifest["spec"]["devices"])
        devices[field] = [*devices.get(field, []), item]
        return self._set("spec", devices=devices)


class SliceBuilder(StoredBuilder):
    """See :func:`a_slice`."""

    def build(self) -> ResourceSlice:
        built = super().build()
        assert isinstance(built, ResourceSlice)
        return built

    def in_pool(self, name: str, *, generation: int = 1, of: int = 1) -> Self:
        pool = {"name": name, "generation": generation, "resourceSliceCount": of}
        return self._set("spec", pool=pool)

    def usable_in(self, zone: str) -> Self:
        """Usable from the nodes of a zone, not from one node alone."""
        term = {"matchExpressions": [expr("topology.kubernetes.io/zone", "In", zone)]}
        return self._anywhere(nodeSelector={"nodeSelectorTerms": [term]})

    def usable_everywhere(self) -> Self:
        return self._anywhere(allNodes=True)

    def _anywhere(self, **where: Any) -> Self:
        spec = {k: v for k, v in self._manifest["spec"].items() if k != "nodeName"}
        return type(self)({**self._manifest, "spec": {**spec, **where}})


class ClassBuilder(StoredBuilder):
    """See :func:`a_device_class`."""

    def build(self) -> DeviceClass:
        built = super().build()
        assert isinstance(built, DeviceClass)
        return built

    def told(self, **parameters: Any) -> Self:
        """Something for the driver to know about all devices of the class."""
        return self._append("spec", config={"opaque": {"driver": DRIVER, "parameters": parameters}})


def _object(kind: str, name: str, *, namespace: str = "") -> Manifest:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata}


def a_claim(name: str = "c") -> ClaimBuilder:
    """The unallocated claim ``default/<name>``, which asks for nothing yet."""
    manifest = _object("ResourceClaim", name, namespace="default")
    return ClaimBuilder({**manifest, "spec": {"devices": {}}})


def option(name: str, *, of: str = "gpu", **request: Any) -> Manifest:
    """One of the alternatives of a request."""
    return {"name": name, "deviceClassName": of, **request}


def cel(expression: str) -> Manifest:
    """A selector."""
    return {"cel": {"expression": expression}}


def a_device_class(name: str = "gpu", *expressions: str) -> ClassBuilder:
    """A class of the devices of :data:`DRIVER`, or of those that the expressions select."""
    chosen = expressions or (f'device.driver == "{DRIVER}"',)
    spec = {"selectors": [cel(expression) for expression in chosen]}
    return ClassBuilder({**_object("DeviceClass", name), "spec": spec})


def a_device(name: str, *, memory: str = "80Gi", **attributes: Any) -> Manifest:
    """A device; attributes are typed by their values, ``version`` by its name."""
    kinds = {bool: "bool", int: "int", str: "string"}
    typed = {
        key: {"version" if key == "version" else kinds[type(value)]: value}
        for key, value in attributes.items()
    }
    return {"name": name, "attributes": typed, "capacity": {"memory": {"value": memory}}}


def a_slice(node: str, *devices: str | Manifest, name: str = "") -> SliceBuilder:
    """The whole pool of a node, called like it; plain devices by their names."""
    made = [a_device(each) if isinstance(each, str) else each for each in devices]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": made}
    return SliceBuilder({**_object("ResourceSlice", name or f"slice-{node}"), "spec": spec})


def claiming(pod: PodBuilder, *claims: str) -> PodBuilder:
    """The pod with claims that are there already."""
    for claim in claims:
        pod = pod._append("spec", resourceClaims={"name": claim, "resourceClaimName": claim})
    return pod


def claiming_from(pod: PodBuilder, template: str, claim: str | None = None) -> PodBuilder:
    """The pod with a claim from a template; with a ``claim``, one that has been made."""
    use = {"name": template, "resourceClaimTemplateName": template}
    pod = pod._append("spec", resourceClaims=use)
    if claim is None:
        return pod
    return pod._append(
        "status", resourceClaimStatuses={"name": template, "resourceClaimName": claim}
    )
