"""DynamicResources: a pod runs where its resource claims are, or can be, allocated.

Devices are chosen in Filter and counted as taken from Reserve on; PreBind writes them into the
claims and reserves these for the pod. Different from upstream:

* A claim that is about to be allocated for one pod can be used by others at once.
* Where a binding fails, the allocation is undone together with the reservation, so that the pod
  is not tied to that node.
* What makes an allocation impossible on some node (a selector that needs an attribute which the
  devices there lack) rejects that node, not the pod.

Upstream: ``pkg/scheduler/framework/plugins/dynamicresources``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from arranger.api.effects import Effect, ObjectKey
from arranger.api.types.resource_claims import Allocation, DeviceClass, ResourceClaim
from arranger.cluster import BoolArray, Cluster, IntArray, NodeView, PodInfo
from arranger.cluster.resource_claim_tracker import ResourceClaimTracker
from arranger.framework import DependsOn, Diagnosis, FilterResult, Plugin, Rejection
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.preemption import PreemptionContext
from arranger.framework.status import SKIP, Code, CycleState, Status
from arranger.plugins.dynamicresources.allocation_cache import AllocationCache, AllocationQuery
from arranger.plugins.dynamicresources.allocation_result import build_allocation
from arranger.plugins.dynamicresources.claims import (
    QUEUEING_HINTS,
    NotCreatedError,
    claim_references,
    look_up_claims,
)
from arranger.plugins.dynamicresources.requests import (
    beyond_limits_of_pod,
    preference_score,
    unallocatable_reason,
)
from arranger.plugins.helpers.node_selectors import compile_terms, matches_any
from arranger.plugins.helpers.normalize_score import default_normalize_score

NOT_AVAILABLE: Final = "resourceclaim not available on the node"
#: Where others have taken, or have been given, what a pod is to reserve once more.
CHANGED_MEANWHILE: Final = "the devices have changed meanwhile"
#: What is kept in the state of a pod that has reserved its claims.
_RESERVED: Final = "DynamicResources/reserved"
#: Claims of one pod: each is searched for on every node.
MAX_CLAIMS: Final = 64
#: Pods that a claim can be reserved for (``ResourceClaimReservedForMaxSize``).
MAX_RESERVED_FOR: Final = 256


@dataclass(slots=True)
class _PreFilterState:
    """What is worked out once for a pod.

    Attributes:
        to_allocate: claims that have to be allocated.
        allocated: claims that are allocated.
        query: the query for devices for ``to_allocate``; None where that is empty.
    """

    cluster: Cluster
    to_allocate: list[ResourceClaim] = field(default_factory=list)
    allocated: list[ResourceClaim] = field(default_factory=list)
    query: AllocationQuery | None = None

    @property
    def tracker(self) -> ResourceClaimTracker:
        """Which claims and devices are taken."""
        return self.cluster.devices.claim_tracker

    def row_of(self, node: str) -> int:
        """The row of a node."""
        return self.cluster.table.index[node]


@dataclass(frozen=True, slots=True)
class _Reserved:
    """What was reserved for a pod.

    Attributes:
        offers: what its node offered.
        claims: each claim, and what it was allocated.
    """

    offers: Hashable
    claims: Sequence[tuple[ResourceClaim, Allocation]]


class DynamicResources(Plugin):
    """Reject nodes from which a pod's claims cannot be used; allocate and reserve them."""

    depends_on = DependsOn.NODE
    queueing_hints = QUEUEING_HINTS

    def __init__(self) -> None:
        self._allocation_cache = AllocationCache()

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        """Pods with claims share no evaluation: what is free changes with each one placed."""
        return None if pod.pod.spec.resource_claims else ()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Wait for claims that have yet to be made from templates."""
        if not pod.pod.spec.resource_claims:
            return None
        try:
            for _ in claim_references(pod.pod):
                pass
        except NotCreatedError as error:
            return self.reject(str(error), resolvable=False)
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Look the claims up; refuse pods that have to wait for one, skip those without any."""
        state[self.name] = None
        if cluster.devices.extended_resources and (why := _extended_resource_problem(pod, cluster)):
            return self.reject(why, resolvable=False)
        if not pod.pod.spec.resource_claims:
            return SKIP
        if (count := len(pod.pod.spec.resource_claims)) > MAX_CLAIMS:
            return self.reject(
                f"pod has {count} resource claims, and at most {MAX_CLAIMS} are looked up",
                resolvable=False,
            )
        try:
            claims = look_up_claims(pod.pod, cluster.objects)
        except NotCreatedError as error:
            return self.reject(str(error), resolvable=False)
        if not claims:
            return SKIP
        data = _PreFilterState(cluster)
        for claim in claims:
            if why := _classify_claim(claim, pod, data):
                return self.reject(why, resolvable=False)
        if why := beyond_limits_of_pod(data.to_allocate):
            return self.reject(why, resolvable=False)
        if data.to_allocate:
            data.query = self._allocation_cache.query(cluster, data.to_allocate)
        state[self.name] = data
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes that can use the allocated claims and have devices for the others."""
        data: _PreFilterState = state[self.name]
        here = nodes.full_mask()
        for claim in data.allocated:
            here &= _usable_nodes(data, claim, nodes)
        reasons: list[str] = []
        kind_of = np.full(nodes.length, -1, dtype=np.int64)
        if data.query is not None:
            reasons, kind_of = data.query.check(nodes)
        kind_of[~here & (kind_of < 0)] = len(reasons)
        kinds = [Rejection((reason,), Code.UNRESOLVABLE) for reason in (*reasons, NOT_AVAILABLE)]
        return FilterResult(kind_of < 0, lambda: (kinds, kind_of))

    def post_filter(
        self, state: CycleState, pod: PodInfo, context: PreemptionContext, diagnosis: Diagnosis
    ) -> Status | None:
        """Report what :meth:`pod_group_post_filter` has done."""
        if self.name not in state:
            # An earlier PreFilter refused the pod; upstream lacks its state then, with this error.
            return Status(Code.ERROR, ("not found",), self.name)
        if state[self.name] is None:
            return self.reject("no new claims to deallocate")
        done = self.pod_group_post_filter(state, pod, diagnosis)
        return done or self.reject("still not schedulable")

    def pod_group_post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> Status | None:
        """Take back an allocation that keeps the pod from nodes, if nobody else uses it."""
        data: _PreFilterState | None = state.get(self.name)
        if data is None:
            return None
        nodes = NodeView(data.cluster.table, self._rows_lacking_only_claims(diagnosis))
        for claim in _blocking_claims(data, nodes):
            if data.tracker.users_of(claim) <= {pod.uid}:
                data.tracker.plan_deallocation(claim, _pod_ref(pod))
                return self.reject("deallocation of ResourceClaim completed")
        return None

    def _rows_lacking_only_claims(self, diagnosis: Diagnosis) -> IntArray:
        """The rows that are rejected only because an allocated claim is elsewhere."""
        lacking = PluginRejection(self.name, Rejection((NOT_AVAILABLE,), Code.UNRESOLVABLE))
        kinds = [n for n, kind in enumerate(diagnosis.rejections) if kind == lacking]
        return np.flatnonzero(np.isin(diagnosis.rejection_index, kinds))

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Skip pods whose requests have no alternatives."""
        data: _PreFilterState | None = state.get(self.name)
        if data is None or not any(map(_has_alternatives, [*data.to_allocate, *data.allocated])):
            return SKIP
        return None

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """More points for alternatives that are named earlier."""
        data: _PreFilterState = state[self.name]
        points = np.zeros(nodes.length, dtype=np.int64)
        for claim in data.allocated:
            given = data.tracker.allocation_of(claim)
            results = [] if given is None else given.devices.results
            points += preference_score(claim, {result.request for result in results})
        if data.query is not None:
            points += data.query.points_on(nodes)
        return points

    def normalize_score(self, scores: IntArray, feasible: BoolArray) -> IntArray:
        """The best gets 100."""
        return default_normalize_score(scores, feasible)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Reserve the claims, and the devices found for them.

        With the state of a pod that has given them up meanwhile: the same, without another search.
        """
        data: _PreFilterState | None = state.get(self.name)
        if data is None:
            return None
        kept: _Reserved | None = state.get(_RESERVED)
        offers = data.cluster.devices.offers_at(node)
        if kept is not None:
            if kept.offers != offers or not _may_reserve_again(kept, data):
                return self.reject(CHANGED_MEANWHILE, resolvable=False)
            claims = kept.claims
        else:
            found = [] if data.query is None else data.query.devices_on(data.row_of(node))
            if isinstance(found, str):
                return self.reject(found, resolvable=False)
            claims = [
                (claim, build_allocation(claim, chosen, node))
                for claim, chosen in zip(data.to_allocate, found, strict=True)
            ]
            given = ((claim, data.tracker.allocation_of(claim)) for claim in data.allocated)
            claims += [(claim, has) for claim, has in given if has is not None]
            state[_RESERVED] = _Reserved(offers, claims)
        for claim, allocation in claims:
            data.tracker.reserve(claim, _pod_ref(pod), allocation)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Give the reservations up, and undo what is written; not for a bound pod."""
        data: _PreFilterState | None = state.get(self.name)
        if data is None:
            return
        cluster = data.cluster
        if pod.uid in cluster and pod.uid not in cluster.assumed:
            cluster.devices.claim_tracker.on_pod_bound(pod.uid)
        else:
            cluster.devices.claim_tracker.release_pod(pod.uid)

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node: str
    ) -> Sequence[Effect] | Status | None:
        """Write the allocations and the reservations."""
        data: _PreFilterState | None = state.get(self.name)
        return None if data is None else data.tracker.prepare_writes(pod.uid)

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """The pod is bound: its reservations are released by others."""
        data: _PreFilterState | None = state.get(self.name)
        if data is not None:
            data.tracker.on_pod_bound(pod.uid)


def _extended_resource_problem(pod: PodInfo, cluster: Cluster) -> str:
    """Why a pod cannot have an extended resource that only a DeviceClass provides."""
    extended, table = cluster.devices.extended_resources, cluster.table
    for resource in sorted(extended.keys() & pod.requests.keys()):
        column = table.resource_column(resource)
        if not table.allocatable[column].any():
            return (
                f"extended resource {resource} is of device class {extended[resource]}, which is "
                "not supported yet: a resource claim can ask for it"
            )
    return ""


def _classify_claim(claim: ResourceClaim, pod: PodInfo, data: _PreFilterState) -> str:
    """Add a claim to the state; returns why the pod cannot use it, "" if it can."""
    cluster = data.cluster
    if data.tracker.is_being_released(claim):
        return f"resource claim {claim.key} is in the process of being deallocated"
    given = data.tracker.allocation_of(claim)
    if given is None:
        data.to_allocate.append(claim)
        return unallocatable_reason(claim, lambda name: cluster.objects.get(DeviceClass, "", name))
    if any(result.binding_conditions for result in given.devices.results):
        return f"resource claim {claim.key}: binding conditions are not supported yet"
    users = data.tracker.users_of(claim)  # those that it is about to be reserved for, too
    if len(users) >= MAX_RESERVED_FOR and pod.uid not in users:
        return "resourceclaim in use"
    data.allocated.append(claim)
    return ""


def _may_reserve_again(kept: _Reserved, data: _PreFilterState) -> bool:
    """Whether the claims are as they were, and have the same devices, or may have them."""
    objects, tracker = data.cluster.objects, data.tracker
    for claim, allocation in kept.claims:
        meta = claim.metadata
        if objects.get(ResourceClaim, meta.namespace, meta.name) is not claim:
            return False
        if tracker.is_being_released(claim):
            return False
        given = tracker.allocation_of(claim)
        if given is not None and given != allocation:
            return False
        if given is None and any(map(tracker.is_taken, allocation.exclusive_devices())):
            return False
    return True


def _has_alternatives(claim: ResourceClaim) -> bool:
    return any(request.first_available for request in claim.spec.devices.requests)


def _usable_nodes(data: _PreFilterState, claim: ResourceClaim, nodes: NodeView) -> BoolArray:
    given = data.tracker.allocation_of(claim)
    if given is None or given.node_selector is None:
        return nodes.full_mask()
    return matches_any(compile_terms(given.node_selector.node_selector_terms), nodes)


def _blocking_claims(data: _PreFilterState, nodes: NodeView) -> Iterator[ResourceClaim]:
    return (claim for claim in data.allocated if not _usable_nodes(data, claim, nodes).all())


def _pod_ref(pod: PodInfo) -> ObjectKey:
    meta = pod.pod.metadata
    return ObjectKey(meta.namespace, meta.name, meta.uid)
