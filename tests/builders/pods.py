"""Pods of a test."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Self

import msgspec

from arranger.api.types.core import Pod
from arranger.cluster.pod_info import PodInfo
from tests.builders.base import Manifest, ManifestBuilder, Quantity, quantity_texts


class PodBuilder(ManifestBuilder):
    """See :func:`a_pod`."""

    def build(self) -> Pod:
        return msgspec.convert(self._manifest, Pod)

    def info(self) -> PodInfo:
        return PodInfo(self.build())

    # --- who ---------------------------------------------------------------------------------

    def in_namespace(self, namespace: str) -> Self:
        name = self._manifest["metadata"]["name"]
        return self._set("metadata", namespace=namespace, uid=f"uid-{namespace}-{name}")

    def owned_by(self, kind: str, name: str, *, api_version: str = "apps/v1") -> Self:
        return self._append(
            "metadata",
            ownerReferences={
                "apiVersion": api_version,
                "kind": kind,
                "name": name,
                "uid": f"uid-{kind}-{name}",
                "controller": True,
            },
        )

    def for_scheduler(self, name: str) -> Self:
        return self._set("spec", schedulerName=name)

    def with_priority(self, priority: int) -> Self:
        return self._set("spec", priority=priority)

    def gated(self, *gates: str) -> Self:
        return self._set("spec", schedulingGates=[{"name": gate} for gate in gates])

    def in_gang(self, name: str, least: int | None = None, **more: str) -> Self:
        """In a gang by Koordinator's annotations; ``more`` by their last words, ``_`` for ``-``."""
        words = {"name": name, **{key.replace("_", "-"): text for key, text in more.items()}}
        if least is not None:
            words["min-available"] = str(least)
        prefix = "gang.scheduling.koordinator.sh/"
        return self.annotated({prefix + word: text for word, text in words.items()})

    def in_bundle(self, gang: str, bundle: str, least: int, **more: str) -> Self:
        """In a bundle of a gang by the annotations of docs/design/bundles.md."""
        words = {"name": gang, "bundleName": bundle, "minRequiredNumber": str(least), **more}
        return self.annotated({f"gang.koordinater.io/{word}": t for word, t in words.items()})

    def in_pod_group(self, name: str, *, label: str = "pod-group.scheduling.sigs.k8s.io") -> Self:
        """In the gang of a PodGroup, by label."""
        return self.labelled({label: name})

    def in_queue(self, name: str) -> Self:
        """In a queue, by annotation."""
        return self.annotated({"scheduling.volcano.sh/queue-name": name})

    def of_tyjob(self, name: str = "job") -> Self:
        """Controlled by a TYJob, whose word about its priority among jobs is believed."""
        return self.owned_by("TYJob", name, api_version="arranger.io/v1alpha1")

    def serving(self, service: str) -> Self:
        """Of a service type: ``inference`` or ``training``."""
        return self.annotated({"volcano.sh/service.type": service})

    # --- where -------------------------------------------------------------------------------

    def on(self, node: str) -> Self:
        """Bound to ``node`` and running."""
        return self._set("spec", nodeName=node).in_phase("Running")

    def in_phase(self, phase: str) -> Self:
        return self._set("status", phase=phase)

    def nominated_to(self, node: str) -> Self:
        return self._set("status", nominatedNodeName=node)

    # --- what it needs -----------------------------------------------------------------------

    def needs(self, more: Mapping[str, Quantity] | None = None, /, **requests: Quantity) -> Self:
        """Requests of the first container, added to those it has."""
        copy = deepcopy(self._manifest)
        resources = copy["spec"]["containers"][0].setdefault("resources", {})
        resources.setdefault("requests", {}).update(quantity_texts({**(more or {}), **requests}))
        return type(self)(copy)

    def container(self, image: str = "img", **requests: Quantity) -> Self:
        """One more container."""
        return self._append("spec", containers=self._container("containers", image, requests))

    def init(self, **requests: Quantity) -> Self:
        """One more init container."""
        made = self._container("initContainers", "img", requests)
        return self._append("spec", initContainers=made)

    def sidecar(self, **requests: Quantity) -> Self:
        """One more init container that keeps running."""
        made = self._container("initContainers", "img", requests)
        return self._append("spec", initContainers={**made, "restartPolicy": "Always"})

    def with_overhead(self, **amounts: Quantity) -> Self:
        return self._set("spec", overhead=quantity_texts(amounts))

    def pod_level(
        self, more: Mapping[str, Quantity] | None = None, /, **requests: Quantity
    ) -> Self:
        """Requests of the pod as a whole."""
        return self._set(
            "spec", resources={"requests": quantity_texts({**(more or {}), **requests})}
        )

    def running(self, *images: str) -> Self:
        """One container per image, in place of those it has."""
        containers = [{"name": f"c{n}", "image": image} for n, image in enumerate(images)]
        return self._set("spec", containers=containers)

    def host_port(self, port: int, *, protocol: str = "TCP", ip: str = "") -> Self:
        copy = deepcopy(self._manifest)
        copy["spec"]["containers"][0].setdefault("ports", []).append(
            {"containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": ip}
        )
        return type(self)(copy)

    def with_claim(self, claim: str) -> Self:
        """A volume backed by the PersistentVolumeClaim ``claim``."""
        volume = {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
        return self._append("spec", volumes=volume)

    def with_scratch(self, name: str, **spec: Any) -> Self:
        """An ephemeral volume; its claim is called like the pod and the volume."""
        template = {"volumeClaimTemplate": {"spec": spec}}
        return self._append("spec", volumes={"name": name, "ephemeral": template})

    # --- where it may go ---------------------------------------------------------------------

    def selects(self, more: Mapping[str, str] | None = None, /, **labels: str) -> Self:
        """``spec.nodeSelector``."""
        return self._merge("spec", nodeSelector={**(more or {}), **labels})

    def requires(self, *expressions: Manifest, fields: list[Manifest] | None = None) -> Self:
        """One more required node selector term; see :func:`expr`."""
        copy = deepcopy(self._manifest)
        node = copy["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        required = node.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
        required.setdefault("nodeSelectorTerms", []).append(_term(expressions, fields))
        return type(self)(copy)

    def prefers(self, weight: int, *expressions: Manifest) -> Self:
        """One more preferred node selector term; see :func:`expr`."""
        copy = deepcopy(self._manifest)
        node = copy["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        node.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(
            {"weight": weight, "preference": _term(expressions, None)}
        )
        return type(self)(copy)

    def tolerates(
        self, key: str = "", value: str | None = None, *, effect: str = "", operator: str = ""
    ) -> Self:
        """One more toleration; Equal when a value is given, else Exists."""
        how = operator or ("Exists" if value is None else "Equal")
        toleration = {"key": key, "operator": how, "value": value or "", "effect": effect}
        return self._append("spec", tolerations=toleration)

    def spreads(
        self,
        key: str,
        *,
        skew: int = 1,
        soft: bool = False,
        over: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Self:
        """One more topology spread constraint over pods with labels ``over``."""
        constraint = {
            "topologyKey": key,
            "maxSkew": skew,
            "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
            "labelSelector": {"matchLabels": dict(over or {})},
            **more,
        }
        return self._append("spec", topologySpreadConstraints=constraint)

    def near(
        self, key: str, to: Mapping[str, str], *, weight: int | None = None, **more: Any
    ) -> Self:
        """Pod affinity to pods with labels ``to``; preferred when a weight is given."""
        return self._pod_term("podAffinity", key, to, weight, more)

    def apart(
        self, key: str, from_: Mapping[str, str], *, weight: int | None = None, **more: Any
    ) -> Self:
        """Pod anti-affinity to pods with labels ``from_``; preferred when a weight is given."""
        return self._pod_term("podAntiAffinity", key, from_, weight, more)

    def _pod_term(
        self, kind: str, key: str, to: Mapping[str, str], weight: int | None, more: Manifest
    ) -> Self:
        term = {"topologyKey": key, "labelSelector": {"matchLabels": dict(to)}, **more}
        copy = deepcopy(self._manifest)
        affinity = copy["spec"].setdefault("affinity", {}).setdefault(kind, {})
        if weight is None:
            affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
        else:
            affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(
                {"weight": weight, "podAffinityTerm": term}
            )
        return type(self)(copy)

    def _container(self, field: str, image: str, requests: Mapping[str, Quantity]) -> Manifest:
        number = len(self._manifest["spec"].get(field, []))
        name = f"{'i' if field == 'initContainers' else 'c'}{number}"
        return {"name": name, "image": image, "resources": {"requests": quantity_texts(requests)}}


def a_pod(name: str = "p") -> PodBuilder:
    """The pod ``default/<name>``, uid ``uid-default-<name>``, of one container needing nothing."""
    return PodBuilder(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-default-{name}"},
            "spec": {
                "schedulerName": "arranger",
                "containers": [{"name": "c0", "image": "img"}],
            },
            "status": {"phase": "Pending"},
        }
    )


def _term(expressions: tuple[Manifest, ...], fields: list[Manifest] | None) -> Manifest:
    term: Manifest = {"matchExpressions": list(expressions)}
    if fields:
        term["matchFields"] = fields
    return term
