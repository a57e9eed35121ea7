"""VolumeBinding: a pod runs where its volumes can be used, and has them bound before it is.

:mod:`arranger.plugins.volumes.matching` decides which volume goes to which claim. Here a decided
volume or claim is assumed in the state we are going to write, and written in PreBind; the Binding
waits until the volume controller and the provisioner have done their part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from msgspec.structs import replace
from pydantic import Field

from arranger.api.annotations import BOUND_BY_CONTROLLER, SELECTED_NODE
from arranger.api.effects import Effect, PatchObject
from arranger.api.types.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimReference,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from arranger.cluster import Cluster, NodeView
from arranger.cluster.object_store import ObjectStore, StorageObject
from arranger.cluster.pod_info import PodInfo, restricts_nodes
from arranger.framework import ActionType, ClusterEvent, DependsOn, FilterResult, QueueingHint, Wait
from arranger.framework.status import SKIP, Code, CycleState, Status
from arranger.plugins.helpers.args import PluginArgs
from arranger.plugins.volumes.claims import (
    MAX_VOLUMES,
    VolumePlugin,
    is_used_by_pod,
    not_for_pod_message,
    not_found_message,
    pvc_references,
    storage_hint,
)
from arranger.plugins.volumes.free_volumes import MAX_MATCHED, TooManyClaimsError
from arranger.plugins.volumes.matching import PodVolumeClaims
from arranger.plugins.volumes.topology import NodeTopologyIndex

TOO_MUCH_TO_MATCH: Final = (
    f"pod has more than {MAX_MATCHED} unbound PersistentVolumeClaims for volumes that exist, "
    "or they are too different to be matched with these"
)
#: Units of :mod:`~arranger.cluster.attempt_work` to compare a free volume with a pod's claims.
_MATCHING: Final = 4
CHOSEN_CHANGED: Final = "volumes or claims that were chosen for the pod have changed"
UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"


class VolumeBindingArgs(PluginArgs):
    """How long a pod with a node waits for its volumes, in seconds."""

    bind_timeout_seconds: Annotated[int, Field(ge=0)] = 600


@dataclass(frozen=True, slots=True)
class _PreFilterState:
    """What is worked out once for a class of pods."""

    cluster: Cluster
    claims: PodVolumeClaims


@dataclass(slots=True)
class _BindingPlan:
    """What has to be true before the pod is bound.

    Attributes:
        bindings: claims and the volumes they are to be bound to.
        provisions: claims for which a volume is to be provisioned.
        assumed: the objects as we are going to write them, and as they were then.
        writes: the writes.
    """

    bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)
    assumed: list[tuple[StorageObject, StorageObject]] = field(default_factory=list)
    writes: list[PatchObject] = field(default_factory=list)

    def assume_again(self, objects: ObjectStore) -> bool:
        """Assume what :meth:`restore` has ended; False, and nothing is, if any is another now."""
        for after, before in self.assumed:
            meta = before.metadata
            if objects.get(type(before), meta.namespace, meta.name) is not before:
                self.restore(objects)
                return False
            objects.assume(after)
        return True

    def restore(self, objects: ObjectStore) -> None:
        """End the assumptions that have not come true."""
        for after, _ in reversed(self.assumed):
            objects.restore(after)


class VolumeBinding(VolumePlugin):
    """Reject nodes where a pod's volumes cannot be used, found or provisioned; bind them."""

    depends_on = DependsOn.NODE
    Args = VolumeBindingArgs

    def __init__(self, args: VolumeBindingArgs | None = None) -> None:
        self._timeout = float((args or VolumeBindingArgs()).bind_timeout_seconds)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Look the claims up; refuse pods that have to wait for one, skip those without any."""
        claims: list[PersistentVolumeClaim] = []
        if len(pod.volumes) > MAX_VOLUMES:
            why = f"pod has {len(pod.volumes)} volumes, and at most {MAX_VOLUMES} are looked at"
            return self.reject(why, resolvable=False)
        for claim in _pod_claims(pod, cluster.objects):
            if isinstance(claim, str):
                return self.reject(claim, resolvable=False)
            claims.append(claim)
        if not claims:
            return SKIP
        bound = [claim for claim in claims if claim.bound]
        unbound = [claim for claim in claims if not claim.bound]
        immediate = False
        for claim in unbound:
            storage_class = cluster.objects.get(StorageClass, "", claim.class_name)
            if storage_class is not None and storage_class.volume_binding_mode is None:
                reason = f'VolumeBindingMode not set for StorageClass "{claim.class_name}"'
                return Status(Code.ERROR, (reason,), self.name)
            mode = None if storage_class is None else storage_class.volume_binding_mode
            immediate |= mode != WAIT_FOR_FIRST_CONSUMER or bool(claim.spec.volume_name)
        if immediate:
            return self.reject(UNBOUND, resolvable=False)
        try:
            found = PodVolumeClaims.look_up(cluster.objects, bound, unbound)
        except TooManyClaimsError:
            return self.reject(TOO_MUCH_TO_MATCH, resolvable=False)
        cluster.work.count(_MATCHING * found.free)
        state[self.name] = _PreFilterState(cluster, found)
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes where bound volumes can be used and the others found or provisioned."""
        data: _PreFilterState = state[self.name]
        found = data.claims.match(nodes)
        return FilterResult(found.conflicts == 0, found.grouped_rejections)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Choose volumes for the unbound claims, and assume the choice.

        What the state says that was chosen for the pod before on this node is assumed again.
        """
        data: _PreFilterState | None = state.get(self.name)
        if data is None or not data.claims.unbound:
            return None
        before: _BindingPlan | None = state.get(_plan_key(self))
        if before is not None:
            if before.assume_again(data.cluster.objects):
                return None
            return self.reject(CHOSEN_CHANGED)
        row = data.cluster.table.index[node]
        found = data.claims.match(NodeView(data.cluster.table, slice(row, row + 1)))
        state[_plan_key(self)] = plan = _BindingPlan()
        objects = data.cluster.objects
        for wanted, chosen in found.chosen:
            if chosen[0] >= 0:
                _bind(plan, wanted.claim, wanted.volumes[chosen[0]], objects)
        for claim, here in found.provisions:
            if here[0]:
                _provision(plan, claim, node, objects)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """End the assumptions that have not come true."""
        plan: _BindingPlan | None = state.get(_plan_key(self))
        if plan is not None:
            data: _PreFilterState = state[self.name]
            plan.restore(data.cluster.objects)

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node: str
    ) -> Sequence[Effect] | Status | None:
        """Write the choice."""
        plan: _BindingPlan | None = state.get(_plan_key(self))
        return None if plan is None else plan.writes

    def wait_pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | Wait | None:
        """Wait until every claim is bound, or somebody has undone a write."""
        plan: _BindingPlan | None = state.get(_plan_key(self))
        if plan is None:
            return None
        data: _PreFilterState = state[self.name]
        cluster = data.cluster
        row = cluster.table.index.get(node)
        if row is None:
            return None  # the Binding will be refused for it
        place = NodeTopologyIndex(NodeView(cluster.table, slice(row, row + 1)))
        problem = _binding_problem(plan, cluster.objects, place, node)
        if problem is None:
            return None
        if problem:
            return Status(Code.ERROR, (f"binding volumes: {problem}",), self.name)
        return Wait(self._timeout, "binding volumes: context deadline exceeded")

    @staticmethod
    def _allows_more(_pod: PodInfo, after: StorageClass, before: StorageClass | None) -> bool:
        if before is None or before.allowed_topologies != after.allowed_topologies:
            return True
        return before.provisioner != after.provisioner  # made anew while nobody watched

    @staticmethod
    def _may_serve(pod: PodInfo, after: PersistentVolume, _before: PersistentVolume | None) -> bool:
        ref = after.spec.claim_ref
        if ref is None or len(pod.volumes) > MAX_VOLUMES:
            return ref is None
        names = {use.name for use in pvc_references(pod)}
        return ref.namespace == pod.pod.metadata.namespace and ref.name in names

    @staticmethod
    def _serves_more(_pod: PodInfo, after: CSINode, before: CSINode | None) -> bool:
        return before is None or before.migrated_plugins != after.migrated_plugins

    @staticmethod
    def _stopped_counting(_pod: PodInfo, after: CSIDriver, before: CSIDriver | None) -> bool:
        """A driver no longer reports capacity, so it is not checked."""
        return before is not None and before.spec.storage_capacity > after.spec.storage_capacity

    @staticmethod
    def _has_more(_pod: PodInfo, new: CSIStorageCapacity, old: CSIStorageCapacity | None) -> bool:
        return old is None or (new.max_volume_size or 0) > (old.max_volume_size or 0)

    @staticmethod
    def _had_volumes(_pod: PodInfo, event: ClusterEvent) -> bool:
        """The pod that went may have reserved volumes."""
        return event.pod is None or any(map(restricts_nodes, event.pod.spec.volumes))

    queueing_hints = (
        QueueingHint(ActionType.NODE_ADDED | ActionType.NODE_LABELS),
        QueueingHint(ActionType.POD_REMOVED, _had_volumes),
        storage_hint(StorageClass, _allows_more),
        storage_hint(PersistentVolumeClaim, is_used_by_pod),
        storage_hint(PersistentVolume, _may_serve),
        storage_hint(CSINode, _serves_more),
        storage_hint(CSIDriver, _stopped_counting),
        storage_hint(CSIStorageCapacity, _has_more),
    )


def _plan_key(plugin: VolumeBinding) -> str:
    return f"{plugin.name}/plan"


def _pod_claims(pod: PodInfo, objects: ObjectStore) -> Iterator[PersistentVolumeClaim | str]:
    """The claims the pod uses or, for one it cannot use, the reason."""
    for use in pvc_references(pod):
        claim = objects.get(PersistentVolumeClaim, pod.pod.metadata.namespace, use.name)
        if claim is None:
            yield (
                "waiting for ephemeral volume controller to create the "
                f'persistentvolumeclaim "{use.name}"'
                if use.ephemeral
                else not_found_message("persistentvolumeclaim", use.name)
            )
        elif claim.status.phase == "Lost":
            yield (
                f'persistentvolumeclaim "{use.name}" bound to non-existent '
                f'persistentvolume "{claim.spec.volume_name}"'
            )
        elif claim.metadata.deletion_timestamp is not None:
            yield f'persistentvolumeclaim "{use.name}" is being deleted'
        elif use.ephemeral and not claim.metadata.is_controlled_by(pod.uid):
            yield not_for_pod_message(claim, pod.pod)
        else:
            yield claim


def _bind(
    plan: _BindingPlan, claim: PersistentVolumeClaim, volume: PersistentVolume, objects: ObjectStore
) -> None:
    """Bind a volume to a claim, as the volume controller would."""
    plan.bindings.append((claim, volume))
    ref, meta = volume.spec.claim_ref, volume.metadata
    if ref is not None and ref.uid:
        return  # bound already, from the volume's side
    own = claim.metadata
    key = {"namespace": own.namespace, "name": own.name, "uid": own.uid}
    version = {"apiVersion": "v1", "resourceVersion": own.resource_version}
    reference = {"kind": "PersistentVolumeClaim", **key, **version}
    # Without the annotation the volume's owner has chosen the claim.
    marks = {} if volume.is_bound_to(claim) else {BOUND_BY_CONTROLLER: "yes"}
    bound = ClaimReference("PersistentVolumeClaim", own.namespace, own.name, own.uid)
    marked = replace(meta, annotations={**meta.annotations, **marks})
    after = replace(volume, metadata=marked, spec=replace(volume.spec, claim_ref=bound))
    _write(plan, after, marks, {"spec": {"claimRef": reference}}, objects)


def _provision(
    plan: _BindingPlan, claim: PersistentVolumeClaim, node: str, objects: ObjectStore
) -> None:
    """Have a volume provisioned for a claim, for the selected node."""
    plan.provisions.append(claim)
    meta = claim.metadata
    if meta.annotations.get(SELECTED_NODE) != node:
        mark = {SELECTED_NODE: node}
        after = replace(claim, metadata=replace(meta, annotations={**meta.annotations, **mark}))
        _write(plan, after, mark, {}, objects)


def _write(
    plan: _BindingPlan,
    after: PersistentVolume | PersistentVolumeClaim,
    annotations: dict[str, str],
    change: dict[str, Any],
    objects: ObjectStore,
) -> None:
    meta = after.metadata
    path = f"/api/v1/persistentvolumes/{meta.name}"
    if isinstance(after, PersistentVolumeClaim):
        path = f"/api/v1/namespaces/{meta.namespace}/persistentvolumeclaims/{meta.name}"
    metadata: dict[str, Any] = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    if annotations:
        metadata["annotations"] = annotations
    before = objects.get(type(after), meta.namespace, meta.name)
    assert before is not None, "what is chosen is known"
    objects.assume(after)
    plan.assumed.append((after, before))
    plan.writes.append(PatchObject(path, {"metadata": metadata, **change}))


def _binding_problem(
    plan: _BindingPlan, objects: ObjectStore, place: NodeTopologyIndex, node: str
) -> str | None:
    """The error, "" if there is nothing to do but wait, ``None`` if all is bound."""
    for claim, chosen in plan.bindings:
        volume = objects.get(PersistentVolume, "", chosen.metadata.name)
        if volume is None:
            missing = not_found_message("persistentvolumes", chosen.metadata.name)
            return f"failed to check binding: {missing}"
        meta = claim.metadata
        current = objects.get(PersistentVolumeClaim, meta.namespace, meta.name)
        if current is None:
            missing = not_found_message("persistentvolumeclaims", claim.key)
            return f"failed to check binding: {missing}"
        if objects.is_assumed(volume):
            return ""
        if elsewhere := _affinity_conflict(volume, objects, place, node):
            return elsewhere
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            return f'ClaimRef got reset for pv "{volume.metadata.name}"'
        if not current.bound:
            return ""
    for claim in plan.provisions:
        meta = claim.metadata
        current = objects.get(PersistentVolumeClaim, meta.namespace, meta.name)
        if current is None:
            missing = not_found_message("persistentvolumeclaims", claim.key)
            return f"failed to check provisioning pvc: {missing}"
        if objects.is_assumed(current):
            return ""
        if not current.metadata.annotations:
            return f'selectedNode annotation reset for PVC "{claim.metadata.name}"'
        if current.metadata.annotations.get(SELECTED_NODE) != node:
            return f'provisioning failed for PVC "{claim.metadata.name}"'
        if current.spec.volume_name:
            volume = objects.get(PersistentVolume, "", current.spec.volume_name)
            if volume is None:
                return ""
            if elsewhere := _affinity_conflict(volume, objects, place, node):
                return elsewhere
        if not current.bound:
            return ""
    return None


def _affinity_conflict(
    volume: PersistentVolume, objects: ObjectStore, place: NodeTopologyIndex, node: str
) -> str | None:
    if place.bound_volume_mask(volume, objects)[0]:
        return None
    return (
        f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node}": '
        "no matching NodeSelectorTerms"
    )
