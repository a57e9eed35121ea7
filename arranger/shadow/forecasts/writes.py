"""Carries out what the engine asks for on copies of the objects, at once and without a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from arranger.api.effects import (
    AnnotatePod,
    Applied,
    Bind,
    CreateObject,
    DeleteObject,
    DeletePod,
    Effect,
    Eviction,
    ObjectKey,
    Outcome,
    PatchObject,
    PatchPodStatus,
    PublishEvent,
    Refused,
    ReleaseClaim,
    ReserveClaim,
)
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import convert_object
from arranger.api.types.core import ObjectMeta, Pod, PodStatus, StatusCondition
from arranger.api.types.packed import unpacked
from arranger.api.types.resource_claims import ResourceClaim
from arranger.api.types.storage import PersistentVolume, PersistentVolumeClaim
from arranger.engine.handlers.watched_kinds import TYPES
from arranger.shadow.inputs.claims import without_users
from arranger.shadow.inputs.objects import Change, ClusterObjects, Kind, key_of
from arranger.shadow.inputs.pod_claims import Claim, claims_made_for, with_claims
from arranger.shadow.inputs.volumes import VolumeBinder, bound

_GONE: Final = Refused(404, "NotFound", "it is gone")
#: Kinds of owners whose pods are made again when they are evicted.
_REMAKING: Final = frozenset(("ReplicaSet", "ReplicationController", "StatefulSet"))


@dataclass(slots=True, eq=False)
class ImmediateWrites:
    """Applies effects to the objects.

    A pod that is bound runs at once. One that is evicted is gone soon, and comes back
    pending if a ReplicaSet, ReplicationController or StatefulSet controls it, with new claims in
    place of those that were made for it. Claims that are written to for a pod get their volumes.

    Args:
        objects: are changed.
        now: the time, with a zone.

    Attributes:
        evicted: pod (``namespace/name``) → why, of each pod that was deleted to make room since
            :meth:`begin_record`.
        remade: pod that came back since then → the one in whose place.
        notes: (kind of object, its ``namespace/name``) → reason and text of its last Event.
    """

    objects: ClusterObjects
    now: Callable[[], datetime]
    evicted: dict[str, Eviction] = field(default_factory=dict, init=False)
    remade: dict[str, str] = field(default_factory=dict, init=False)
    notes: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict, init=False)
    _version: int = field(default=0, init=False)
    #: Pods that were asked to end here, and have not: they end after those that were ending before.
    _ending: set[str] = field(default_factory=set, init=False)
    #: Claims that may get a volume, by ``namespace/name``; a dict for its order.
    _claims: dict[str, None] = field(default_factory=dict, init=False)

    def begin_record(self) -> None:
        """Who was evicted and came back until now is not told any more."""
        self.evicted, self.remade = {}, {}

    def apply(self, effect: Effect) -> tuple[Outcome, list[Change]]:
        """Do what is asked; returns what becomes of it, and what a watch would then show."""
        match effect:
            case Bind():
                return self._change_pod(effect.pod, lambda pod: self._bound(pod, effect))
            case PatchPodStatus():
                return self._change_pod(effect.pod, lambda pod: self._patched(pod, effect))
            case AnnotatePod():
                return self._change_pod(effect.pod, lambda pod: _annotated(pod, effect.annotations))
            case DeletePod():
                return self._delete_pod(effect)
            case PatchObject():
                return self._patch(effect)
            case CreateObject():
                return self._create(effect)
            case DeleteObject():
                return self._delete(effect)
            case ReserveClaim() | ReleaseClaim():
                return self._change_claim(effect)
            case PublishEvent():
                about = effect.regarding
                name = about.kind, f"{about.namespace}/{about.name}"
                self.notes[name] = effect.reason, effect.note
                return Applied(), []
        return Refused(0, "NotSupported", "extenders are not asked"), []

    # --- pods ------------------------------------------------------------------------------

    def _change_pod(
        self, key: ObjectKey, change: Callable[[Pod], Pod]
    ) -> tuple[Outcome, list[Change]]:
        pod = self._pod(key)
        if pod is None:
            return _GONE, []
        return Applied(), [self._put(Pod, pod, change(pod))]

    def _bound(self, pod: Pod, bind: Bind) -> Pod:
        now = self.now()
        conditions = [c for c in pod.status.conditions if c.type != "PodScheduled"]
        scheduled = StatusCondition("PodScheduled", "True", last_transition_time=now)
        status = msgspec.structs.replace(
            pod.status,
            phase="Running",
            start_time=now,
            nominated_node_name="",
            conditions=[*conditions, scheduled],
        )
        spec = msgspec.structs.replace(pod.spec, node_name=bind.node)
        return msgspec.structs.replace(_annotated(pod, bind.annotations), spec=spec, status=status)

    def _patched(self, pod: Pod, patch: PatchPodStatus) -> Pod:
        status = pod.status
        if patch.nominated_node is not None:
            status = msgspec.structs.replace(status, nominated_node_name=patch.nominated_node)
        if (new := patch.condition) is not None:
            others = [c for c in status.conditions if c.type != new.type]
            condition = StatusCondition(new.type, new.status, new.reason, new.message)
            status = msgspec.structs.replace(status, conditions=[*others, condition])
        return msgspec.structs.replace(pod, status=status)

    def _delete_pod(self, effect: DeletePod) -> tuple[Outcome, list[Change]]:
        pod = self._pod(effect.pod)
        if pod is None:
            return _GONE, []
        if effect.eviction is not None:
            self.evicted[pod.key] = effect.eviction
        if pod.metadata.deletion_timestamp is not None:
            return Applied(), []
        self._ending.add(pod.key)
        now = self.now()
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=now)
        return Applied(), [self._put(Pod, pod, msgspec.structs.replace(pod, metadata=metadata))]

    def end_terminating(self) -> list[Change]:
        """The next pods that are being deleted are gone; what a watch would then show.

        First those that were ending already, then those that were asked to end here.
        """
        ending = list(self.objects.terminating.values())
        due = [pod for pod in ending if pod.key not in self._ending]
        if not due:
            due, self._ending = ending, set()
        changes: list[Change] = []
        made: list[Claim] = []
        for pod in due:
            if (again := self._remake(pod)) is not None:
                again, claims = with_claims(self.objects, again, pod)
                made += claims
            changes.append(self._put(Pod, pod, None))
            if again is not None:
                self.remade[again.key] = pod.key
                changes.append(self._put(Pod, None, again))
        for before, after in without_users(self.objects, due):
            changes.append(self._put(ResourceClaim, before, after))
        gone = claims_made_for(self.objects, due)
        changes += [self._put(type(claim), claim, None) for claim in gone]
        for claim in made:
            self.await_volume(claim)
            changes.append(self._put(type(claim), None, claim))
        return changes

    def await_volume(self, claim: Any) -> None:
        """A new claim may get a volume before any pod is placed."""
        if isinstance(claim, PersistentVolumeClaim):
            self._claims[claim.key] = None

    def _remake(self, pod: Pod) -> Pod | None:
        """The pod that a controller makes in place of one that is gone; None where none does."""
        meta, owner = pod.metadata, pod.metadata.controller
        if owner is None or owner.kind not in _REMAKING:
            return None
        self._version += 1
        name = meta.name
        if owner.kind != "StatefulSet":
            name = f"{name.removesuffix('-again')}-again"
            while self.objects.get(Pod, f"{meta.namespace}/{name}") is not None:
                name += "-again"
        metadata = ObjectMeta(
            name=name,
            namespace=meta.namespace,
            uid=f"{meta.uid}-{self._version}",
            creation_timestamp=self.now(),
            labels=meta.labels,
            annotations=meta.annotations,
            owner_references=meta.owner_references,
        )
        spec = msgspec.structs.replace(pod.spec, node_name="")
        return Pod(metadata, spec, PodStatus(phase="Pending"))

    def _pod(self, key: ObjectKey) -> Pod | None:
        pod = self.objects.get(Pod, f"{key.namespace}/{key.name}")
        return pod if pod is not None and pod.metadata.uid == key.uid else None

    # --- other objects ---------------------------------------------------------------------

    def _patch(self, effect: PatchObject) -> tuple[Outcome, list[Change]]:
        kind, before = self._find(effect.path)
        if kind is None or before is None:
            return _GONE, []
        meta = effect.change.get("metadata") or {}
        if meta.get("uid", before.metadata.uid) != before.metadata.uid:
            return Refused(409, "Conflict", "it is another object"), []
        version = before.metadata.resource_version
        if meta.get("resourceVersion", version) != version:
            return Refused(409, "Conflict", "it has changed"), []
        try:
            after = convert_object(
                _merged(msgspec.to_builtins(before, enc_hook=unpacked), effect.change), kind
            )
        except ParseError as error:
            return Refused(422, "Invalid", str(error)), []
        if kind is PersistentVolumeClaim:
            self._claims[key_of(after)] = None
        elif kind is PersistentVolume and (kept := after.spec.claim_ref) is not None:
            self._claims[f"{kept.namespace}/{kept.name}"] = None
        return Applied(), [self._put(kind, before, after)]

    def bind_volumes(self) -> list[Change]:
        """Claims that were written to have their volumes; what a watch would then show."""
        due, self._claims = self._claims, {}
        changes: list[Change] = []
        if not due:
            return changes
        binder = VolumeBinder(self.objects)
        for key in due:
            claim = self.objects.get(PersistentVolumeClaim, key)
            if claim is None or claim.bound:
                continue
            if (volume := binder.volume_for(claim)) is None:
                continue
            before = self.objects.get(PersistentVolume, key_of(volume))
            changes.append(self._put(PersistentVolume, before, volume))
            changes.append(self._put(PersistentVolumeClaim, claim, bound(claim, volume)))
        return changes

    def _create(self, effect: CreateObject) -> tuple[Outcome, list[Change]]:
        self._version += 1
        metadata = {
            "uid": f"made-{self._version}",
            "namespace": _namespace(effect.path),
            **effect.manifest["metadata"],
        }
        _, before = self._find(f"{effect.path}/{metadata['name']}")
        if before is not None:
            return Applied(), []
        obj = self.objects.add_manifest({**effect.manifest, "metadata": metadata})
        if obj is None:
            return _GONE, []
        return Applied(), [self._put(type(obj), None, obj)]

    def _delete(self, effect: DeleteObject) -> tuple[Outcome, list[Change]]:
        kind, before = self._find(effect.path)
        if kind is None or before is None or before.metadata.uid != effect.uid:
            return _GONE, []
        return Applied(), [self._put(kind, before, None)]

    def _change_claim(self, effect: ReserveClaim | ReleaseClaim) -> tuple[Outcome, list[Change]]:
        before = self.objects.get(ResourceClaim, str(effect.claim))
        if before is None or before.metadata.uid != effect.claim.uid:
            return _GONE, []
        status = msgspec.to_builtins(before.status)
        consumers = [c for c in status.get("reservedFor", ()) if c.get("uid") != effect.pod.uid]
        if isinstance(effect, ReserveClaim):
            if effect.allocation is not None:
                status["allocation"] = effect.allocation
            pod = {"resource": "pods", "name": effect.pod.name, "uid": effect.pod.uid}
            consumers.append(pod)
        elif effect.deallocate and not consumers:
            status.pop("allocation", None)
        status["reservedFor"] = consumers
        after = msgspec.structs.replace(before, status=convert_object(status, type(before.status)))
        return Applied(), [self._put(ResourceClaim, before, after)]

    def _find(self, path: str) -> tuple[type[Any] | None, Any | None]:
        """The kind and the object at a path of the API, without its subresource."""
        words = path.strip("/").split("/")
        group = words[1] if words[0] == "apis" else ""
        words = words[3 if words[0] == "apis" else 2 :]
        namespace = ""
        if words[0] == "namespaces" and len(words) > 2:
            namespace, words = words[1], words[2:]
        kind = _BY_RESOURCE.get((group, words[0]))
        return kind, kind and self.objects.get(kind, f"{namespace}/{words[1]}")

    def _put(self, kind: Kind, before: Any | None, after: Any | None) -> Change:
        """Write the state that an object has now."""
        if after is None:
            self.objects.drop(kind, key_of(before))
            return Change(kind, before, None)
        after = self.stamped(after)
        self.objects.put(after, kind)
        return Change(kind, before, after)

    def stamped(self, obj: Any) -> Any:
        """The object with a version that it has not had."""
        self._version += 1
        version = f"shadow-{self._version}"
        metadata = msgspec.structs.replace(obj.metadata, resource_version=version)
        return msgspec.structs.replace(obj, metadata=metadata)


#: (API group, plural) → how the objects are read that the engine writes.
_BY_RESOURCE: Final[Mapping[tuple[str, str], type[Any]]] = {
    (group, f"{kind.lower()}s"): of for (group, kind), of in TYPES.items()
}


def _namespace(path: str) -> str:
    """The namespace of a collection."""
    _, found, rest = path.partition("/namespaces/")
    return rest.partition("/")[0] if found else ""


def _annotated(pod: Pod, annotations: Mapping[str, str | None]) -> Pod:
    if not annotations:
        return pod
    merged = {**pod.metadata.annotations, **annotations}
    kept = {key: text for key, text in merged.items() if text is not None}
    metadata = msgspec.structs.replace(pod.metadata, annotations=kept)
    return msgspec.structs.replace(pod, metadata=metadata)


def _merged(target: Any, change: Any) -> Any:
    """A JSON merge patch (RFC 7396) of plain data."""
    if not isinstance(change, Mapping):
        return change
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
