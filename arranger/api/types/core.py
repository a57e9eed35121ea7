"""The Kubernetes objects we read, as msgspec Structs with only the fields we use.

Unknown fields are skipped at decode time, which is what makes decoding cheap (about 7 µs for a
pod of 4 kB). Structs are treated as immutable once decoded. Field names are the API's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec

from arranger.api.quantity import RawQuantity

#: A point in time; one without a zone is none, and could not be compared with others.
Time = Annotated[datetime, msgspec.Meta(tz=True)]

ResourceList = Mapping[str, RawQuantity]


class Struct(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """Base of every API struct: camelCase on the wire, not tracked by the cyclic collector."""


class OwnerReference(Struct):
    """``metadata.ownerReferences[]``."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct):
    """``metadata`` of every object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: Sequence[OwnerReference] = []
    finalizers: Sequence[str] = []

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the object, if there is one (``metav1.GetControllerOf``)."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    def is_controlled_by(self, uid: str) -> bool:
        """Whether the object of that uid controls this one (``metav1.IsControlledBy``)."""
        return self.controller is not None and self.controller.uid == uid


class NamespacedObject(Struct):
    """An object that has a namespace."""

    metadata: ObjectMeta

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class Requirement(Struct):
    """One ``matchExpressions`` entry of a label, node or field selector."""

    key: str
    operator: str
    values: Sequence[str] = []


class LabelSelector(Struct):
    """``matchLabels`` and ``matchExpressions``, all of which must hold."""

    match_labels: Mapping[str, str] = {}
    match_expressions: Sequence[Requirement] = []


class NodeSelectorTerm(Struct):
    """Expressions over labels and fields, all of which must hold; an empty term matches nothing."""

    match_expressions: Sequence[Requirement] = []
    match_fields: Sequence[Requirement] = []


class NodeSelector(Struct):
    """Terms of which one must hold."""

    node_selector_terms: Sequence[NodeSelectorTerm] = []


class PreferredSchedulingTerm(Struct):
    """A node selector term worth ``weight`` (1–100)."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Struct):
    """``affinity.nodeAffinity``."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: Sequence[PreferredSchedulingTerm] = []


class PodAffinityTerm(Struct):
    """``affinity.podAffinity`` and ``podAntiAffinity`` entries."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: Sequence[str] = []
    namespace_selector: LabelSelector | None = None
    match_label_keys: Sequence[str] = []


class WeightedPodAffinityTerm(Struct):
    """A pod affinity term worth ``weight`` (1–100)."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Struct):
    """``affinity.podAffinity`` or ``affinity.podAntiAffinity``."""

    required_during_scheduling_ignored_during_execution: Sequence[PodAffinityTerm] = []
    preferred_during_scheduling_ignored_during_execution: Sequence[WeightedPodAffinityTerm] = []


class Affinity(Struct):
    """``spec.affinity``."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct):
    """``spec.tolerations[]``; an empty key with Exists tolerates everything."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class TopologySpreadConstraint(Struct):
    """``spec.topologySpreadConstraints[]``."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: Sequence[str] = []


class ContainerPort(Struct):
    """``containers[].ports[]``; only ``hostPort`` matters for placement."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(name="hostIP", default="")


class ResourceClaimUse(Struct):
    """``resources.claims[]``."""

    name: str = ""


class ResourceRequirements(Struct):
    """``resources`` of a container or, since 1.34, of a pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: Sequence[ResourceClaimUse] = []


class ContainerRestartRule(Struct):
    """``restartPolicyRules[]``."""

    action: str = ""


class Container(Struct):
    """A container as the scheduler sees it: image, ports and resources."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    ports: Sequence[ContainerPort] = []
    restart_policy: str = ""
    restart_policy_rules: Sequence[ContainerRestartRule] = []


class ClaimVolumeSource(Struct):
    """``volumes[].persistentVolumeClaim``."""

    claim_name: str = ""


class ImageVolumeSource(Struct):
    """``volumes[].image``."""

    reference: str = ""


class Volume(Struct):
    """``spec.volumes[]``: only the sources that bear on placement."""

    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    ephemeral: Mapping[str, Any] | None = None
    gce_persistent_disk: Mapping[str, Any] | None = None
    aws_elastic_block_store: Mapping[str, Any] | None = None
    azure_disk: Mapping[str, Any] | None = None
    cinder: Mapping[str, Any] | None = None
    portworx_volume: Mapping[str, Any] | None = None
    rbd: Mapping[str, Any] | None = None
    iscsi: Mapping[str, Any] | None = None
    image: ImageVolumeSource | None = None


class SchedulingGate(Struct):
    """``spec.schedulingGates[]``."""

    name: str = ""


class PodResourceClaim(Struct):
    """``spec.resourceClaims[]`` (dynamic resource allocation)."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(Struct):
    """``spec.schedulingGroup`` (scheduling.k8s.io)."""

    pod_group_name: str | None = None


class PodSpec(Struct):
    """``spec`` of a pod."""

    containers: Sequence[Container] = []
    init_containers: Sequence[Container] = []
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: Sequence[Toleration] = []
    topology_spread_constraints: Sequence[TopologySpreadConstraint] = []
    scheduling_gates: Sequence[SchedulingGate] = []
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    volumes: Sequence[Volume] = []
    host_network: bool = False
    host_users: bool | None = None
    resource_claims: Sequence[PodResourceClaim] = []
    scheduling_group: SchedulingGroup | None = None
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None


class StatusCondition(Struct):
    """A condition of any object."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class ContainerStateTerminated(Struct):
    """``state.terminated`` of a container."""

    finished_at: Time | None = None


class ContainerState(Struct):
    """``state`` of a container."""

    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct):
    """``containerStatuses[]``: what is needed for in-place resize, and when it ended."""

    name: str = ""
    state: ContainerState | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodResourceClaimStatus(Struct):
    """``resourceClaimStatuses[]``: the claim that was made from a template, if one had to be."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Struct):
    """``status`` of a pod."""

    phase: str = ""
    conditions: Sequence[StatusCondition] = []
    nominated_node_name: str = ""
    start_time: Time | None = None
    container_statuses: Sequence[ContainerStatus] = []
    init_container_statuses: Sequence[ContainerStatus] = []
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
    resource_claim_statuses: Sequence[PodResourceClaimStatus] = []


class Pod(NamespacedObject):
    """A pod."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def priority(self) -> int:
        """``spec.priority``, 0 when admission set none."""
        return self.spec.priority or 0

    @property
    def terminal(self) -> bool:
        """Whether the pod has ended and holds no resources any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def ended_at(self) -> datetime | None:
        """When the last of its containers ended; None where nothing says so."""
        ends = (each.state.terminated for each in self.status.container_statuses if each.state)
        return max((end.finished_at for end in ends if end and end.finished_at), default=None)


class Taint(Struct):
    """``spec.taints[]`` of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct):
    """``spec`` of a node."""

    unschedulable: bool = False
    taints: Sequence[Taint] = []


class ContainerImage(Struct):
    """``status.images[]``: every name of one image, and its size in bytes."""

    names: Sequence[str] = []
    size_bytes: int = 0


class NodeStatus(Struct):
    """``status`` of a node."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    images: Sequence[ContainerImage] = []
    conditions: Sequence[StatusCondition] = []
    declared_features: Sequence[str] = []


class Node(Struct):
    """A node."""

    metadata: ObjectMeta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Namespace(Struct):
    """A namespace; its labels answer ``namespaceSelector``."""

    metadata: ObjectMeta
