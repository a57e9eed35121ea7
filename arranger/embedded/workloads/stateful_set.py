"""StatefulSets: numbered pods with a name and claims of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from arranger.embedded import Object
from arranger.embedded.workloads.ownership import claimed
from arranger.embedded.workloads.plan import (
    REVISION_HASH,
    Plan,
    Surroundings,
    controller_reference,
    has_ended,
    is_available,
    is_deleted,
    is_ready,
    next_available_in,
    pod_of,
    revision_of,
    share,
    template_hash,
)

_STATUS_REVISIONS: Final = ("currentRevision", "updateRevision")


def reconcile_stateful_set(
    stateful_set: Object, owned: Sequence[Object], around: Surroundings
) -> Plan:
    """Pods ``name-0`` and on; each after the one before it is ready, unless the policy is Parallel.

    A pod that has ended is made again; of too many the last goes first, and so does the roll-out
    of a new template.
    """
    prefix = f"{stateful_set['metadata']['name']}-"
    orphans = [pod for pod in around.orphans if pod["metadata"]["name"].startswith(prefix)]
    pods, changes = claimed(stateful_set, [o for o in owned if o["kind"] == "Pod"], orphans)
    numbered = {n: pod for pod in pods if (n := _ordinal(pod, prefix)) is not None}
    step = _Step(stateful_set, numbered, around, list(changes))
    step.take()
    return Plan(
        create=step.create,
        delete=step.delete,
        change=step.change,
        status=step.status(),
        again_in=next_available_in(list(numbered.values()), stateful_set, around.now),
    )


@dataclass
class _Step:
    """One look at a StatefulSet."""

    owner: Object
    pods: dict[int, Object]
    around: Surroundings
    change: list[tuple[Object, Object]]
    create: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)

    def __post_init__(self) -> None:
        spec = self.owner["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        self.wanted = range(first, first + spec.get("replicas", 1))
        self.ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        strategy = spec.get("updateStrategy") or {}
        self.rolls = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        limits = strategy.get("rollingUpdate") or {}
        self.partition = first + (limits.get("partition") or 0)
        self.few = max(1, share(limits.get("maxUnavailable", 1), len(self.wanted), round_up=True))
        name = self.owner["metadata"]["name"]
        self.update = f"{name}-{template_hash(self.owner)}"
        self.around.revisions.setdefault(self.update, deepcopy(spec["template"]))
        before = self.owner.get("status") or {}
        self.current = before.get("currentRevision") or self.update
        if self.current not in self.around.revisions:
            self.current = self.update

    @property
    def now(self) -> datetime:
        return self.around.now

    # --- what is done ----------------------------------------------------------------------

    def take(self) -> None:
        """Decide what changes: new pods first, then those too many, then old ones."""
        if self._fill() and self._shrink() and self.rolls:
            self._roll()

    def _is_healthy(self, pod: Object) -> bool:
        return not is_deleted(pod) and is_available(pod, self.owner, self.now)

    def _fill(self) -> bool:
        """Make what lacks; whether all is well so far that more may be done."""
        for ordinal in self.wanted:
            pod = self.pods.get(ordinal)
            if pod is not None and has_ended(pod):
                if not is_deleted(pod):
                    self.delete.append(pod)
                return False
            if pod is None:
                self._make(ordinal)
            if self.ordered and (pod is None or not self._is_healthy(pod)):
                return False
        return True

    def _shrink(self) -> bool:
        surplus = sorted((n for n in self.pods if n not in self.wanted), reverse=True)
        ill = [n for n in sorted(self.pods) if not self._is_healthy(self.pods[n])]
        for ordinal in surplus:
            pod = self.pods[ordinal]
            if is_deleted(pod):
                if self.ordered:
                    return False
                continue
            if self.ordered and not self._is_healthy(pod) and ordinal != ill[0]:
                return False
            self._release_claims(pod)
            self.delete.append(pod)
            if self.ordered:
                return False
        return True

    def _roll(self) -> None:
        unavailable = 0
        for ordinal in reversed(self.wanted):
            pod = self.pods.get(ordinal)
            if ordinal < self.partition or unavailable >= self.few:
                return
            if pod is None:
                unavailable += 1
            elif revision_of(pod) != self.update and not is_deleted(pod):
                self.delete.append(pod)
                unavailable += 1
            elif not self._is_healthy(pod):
                unavailable += 1

    # --- pods and claims -------------------------------------------------------------------

    def _make(self, ordinal: int) -> None:
        revision = self.current if self.rolls and ordinal < self.partition else self.update
        name = f"{self.owner['metadata']['name']}-{ordinal}"
        self.create += [
            claim
            for claim in self._claims(name)
            if claim["metadata"]["name"] not in self.around.claims
        ]
        template = self.around.revisions[revision]
        owner = {**self.owner, "spec": {**self.owner["spec"], "template": template}}
        self.create.append(_pod(owner, name, ordinal, revision))

    def _claims(self, pod_name: str) -> Iterator[Object]:
        """The claims of a pod; by default they outlive it, so that they may be there already."""
        owners = [controller_reference(self.owner)] if self._takes("whenDeleted") else []
        for template in _templates(self.owner):
            meta = template["metadata"]
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": f"{meta['name']}-{pod_name}",
                    "namespace": self.owner["metadata"]["namespace"],
                    "labels": dict(meta.get("labels") or {}),
                    "annotations": dict(meta.get("annotations") or {}),
                    **({"ownerReferences": owners} if owners else {}),
                },
                "spec": template.get("spec") or {},
            }

    def _takes(self, when: str) -> bool:
        policy = self.owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        return bool(policy.get(when) == "Delete")

    def _release_claims(self, pod: Object) -> None:
        """The claims of a pod that is too many go with it, if they are to."""
        if not self._takes("whenScaled"):
            return
        head = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"]}
        owner = {**head, "uid": pod["metadata"]["uid"]}
        for template in _templates(self.owner):
            name = f"{template['metadata']['name']}-{pod['metadata']['name']}"
            if (claim := self.around.claims.get(name)) is not None:
                self.change.append((claim, {"metadata": {"ownerReferences": [owner]}}))

    # --- status ----------------------------------------------------------------------------

    def status(self) -> Object:
        """Counts, and which revision is the one that all had last."""
        pods = list(self.pods.values())
        live = [pod for pod in pods if not is_deleted(pod)]
        counts = {
            "replicas": len(pods),
            "readyReplicas": sum(map(is_ready, pods)),
            "availableReplicas": sum(is_available(pod, self.owner, self.now) for pod in pods),
            "currentReplicas": sum(revision_of(pod) == self.current for pod in live),
            "updatedReplicas": sum(revision_of(pod) == self.update for pod in live),
        }
        done = {counts["updatedReplicas"], counts["readyReplicas"]} == {counts["replicas"]}
        if self.rolls and done and not self.create:
            self.current = self.update
            counts["currentReplicas"] = counts["updatedReplicas"]
        revisions = (self.current, self.update)
        return {**counts, **dict(zip(_STATUS_REVISIONS, revisions, strict=True))}


def _ordinal(pod: Object, prefix: str) -> int | None:
    name = pod["metadata"]["name"]
    number = name.removeprefix(prefix)
    return int(number) if name.startswith(prefix) and number.isdecimal() else None


def _pod(stateful_set: Object, name: str, ordinal: int, revision: str) -> Object:
    labels = {
        REVISION_HASH: revision,
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
    }
    pod = pod_of(stateful_set, name=name, labels=labels)
    spec = pod["spec"]
    spec["hostname"] = name
    if service := stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = service
    templates = [each["metadata"]["name"] for each in _templates(stateful_set)]
    own = [
        {"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}}
        for each in templates
    ]
    others = [volume for volume in spec.get("volumes") or () if volume["name"] not in templates]
    if own or others:
        spec["volumes"] = [*own, *others]
    return pod


def _templates(stateful_set: Object) -> Sequence[Object]:
    return list(stateful_set["spec"].get("volumeClaimTemplates") or ())
