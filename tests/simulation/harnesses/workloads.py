"""Simulates workloads whose pods are gangs by their owner; the test plays the operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from arranger.daemon.config.schema import Config, GangConfig, LeaderElectionConfig
from arranger.daemon.config.workloads import WorkloadConfig, merged_workloads
from tests.builders import PodBuilder
from tests.builders.workloads import WorkloadBuilder
from tests.simulation.harnesses.gangs import GangHarness
from tests.simulation.harnesses.simulation import MERGE, Object

SHIPPED = {each.kind: each for each in merged_workloads([])}
#: As without a configuration, with plain Jobs.
JOBS_ON = Config(
    leader_election=LeaderElectionConfig(resource_namespace="kube-system"),
    gangs=GangConfig(workloads=[WorkloadConfig(api_version="batch/v1", kind="Job", enabled=True)]),
)


def definition_of(kind: str) -> Object:
    """The definition of one of the shipped kinds, which keeps every field."""
    entry = SHIPPED[kind]
    group, _, version = entry.api_version.partition("/")
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{entry.resource}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": entry.resource, "singular": kind.lower()},
            "versions": [served],
        },
    }


class WorkloadHarness(GangHarness):
    """A simulation of workloads: the server gives uids, and the test's operators use them."""

    def __init__(self, seed: int = 1, *, max_bind_seconds: float = 1.0) -> None:
        super().__init__(seed, max_bind_seconds=max_bind_seconds)
        #: uid of the builders → that in the cluster.
        self._uids: dict[str, str] = {}

    def define(self, *kinds: str) -> None:
        """The server begins to serve kinds."""
        for kind in kinds:
            self.cluster.create(definition_of(kind))

    def submit(self, owner: WorkloadBuilder) -> None:
        """Somebody creates an owner."""
        manifest = owner.manifest()
        uid = manifest["metadata"].pop("uid")
        del manifest["metadata"]["creationTimestamp"]
        self._uids[uid] = self.cluster.create(manifest)["metadata"]["uid"]

    def make(self, pods: Iterable[PodBuilder], *, cpu: int = 1) -> None:
        """An operator creates pods; those between them and their owner are not there."""
        for pod in pods:
            manifest = pod.needs(cpu=cpu).manifest()
            meta = manifest["metadata"]
            uid = meta.pop("uid")
            meta.pop("creationTimestamp", None)
            for reference in meta.get("ownerReferences", ()):
                if reference["uid"] not in self._uids:
                    self._make_controller(reference)
                reference["uid"] = self._uids[reference["uid"]]
            for key, label in meta.get("labels", {}).items():
                meta["labels"][key] = self._uids.get(label, label)
            self._uids[uid] = self.cluster.create(manifest)["metadata"]["uid"]

    def edit(self, owner: WorkloadBuilder, **spec: Any) -> None:
        """Somebody edits an owner."""
        self.request("PATCH", self._path(owner), {"spec": spec}, MERGE)

    def _path(self, owner: WorkloadBuilder) -> str:
        entry = SHIPPED[owner.kind]
        return f"/apis/{entry.api_version}/namespaces/default/{entry.resource}/{owner.name}"

    def _make_controller(self, reference: Object) -> None:
        """The Job or StatefulSet between pods and their owner, which nobody reads."""
        template = {
            "metadata": {"labels": {"of": reference["name"]}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
        }
        spec: dict[str, Any] = {"template": template}
        if reference["kind"] == "Job":
            spec["suspend"] = True
        else:
            template["spec"].pop("restartPolicy")
            spec |= {"selector": {"matchLabels": {"of": reference["name"]}}, "replicas": 0}
        head = {key: reference[key] for key in ("apiVersion", "kind")}
        made = self.cluster.create(
            {**head, "metadata": {"name": reference["name"], "namespace": "default"}, "spec": spec}
        )
        self._uids[reference["uid"]] = made["metadata"]["uid"]

    def bound_pods(self) -> list[str]:
        """The names of the pods that have a node."""
        pods = self.cluster.objects("pods")
        return sorted(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName"))
