"""The numbers that the fields of Pods and Nodes have in the API server's binary form.

From ``k8s.io/api/core/v1/generated.proto`` and ``k8s.io/apimachinery/pkg/apis/meta/v1``: a number
never changes its meaning. What the scheduler reads of a disk that a pod names itself is here as
well, as such a source is a dict.
"""

from __future__ import annotations

from typing import Final

from arranger.api.parsing.protobuf_messages import FieldNumbers, Inlined, Messages
from arranger.api.types.core import (
    Affinity,
    ClaimVolumeSource,
    Container,
    ContainerImage,
    ContainerPort,
    ContainerRestartRule,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    ImageVolumeSource,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    Requirement,
    ResourceClaimUse,
    ResourceRequirements,
    SchedulingGate,
    SchedulingGroup,
    StatusCondition,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)

#: The message in which a volume has its source.
_SOURCE: Final = 2

#: By Struct.
CORE_NUMBERS: Final[dict[type, FieldNumbers]] = {
    OwnerReference: {"api_version": 5, "kind": 1, "name": 3, "uid": 4, "controller": 6},
    ObjectMeta: {
        "name": 1,
        "namespace": 3,
        "uid": 5,
        "resource_version": 6,
        "generation": 7,
        "creation_timestamp": 8,
        "deletion_timestamp": 9,
        "labels": 11,
        "annotations": 12,
        "owner_references": 13,
        "finalizers": 14,
    },
    Requirement: {"key": 1, "operator": 2, "values": 3},
    LabelSelector: {"match_labels": 1, "match_expressions": 2},
    NodeSelectorTerm: {"match_expressions": 1, "match_fields": 2},
    NodeSelector: {"node_selector_terms": 1},
    PreferredSchedulingTerm: {"weight": 1, "preference": 2},
    NodeAffinity: {
        "required_during_scheduling_ignored_during_execution": 1,
        "preferred_during_scheduling_ignored_during_execution": 2,
    },
    PodAffinityTerm: {
        "topology_key": 3,
        "label_selector": 1,
        "namespaces": 2,
        "namespace_selector": 4,
        "match_label_keys": 5,
    },
    WeightedPodAffinityTerm: {"weight": 1, "pod_affinity_term": 2},
    PodAffinity: {
        "required_during_scheduling_ignored_during_execution": 1,
        "preferred_during_scheduling_ignored_during_execution": 2,
    },
    Affinity: {"node_affinity": 1, "pod_affinity": 2, "pod_anti_affinity": 3},
    Toleration: {"key": 1, "operator": 2, "value": 3, "effect": 4},
    TopologySpreadConstraint: {
        "max_skew": 1,
        "topology_key": 2,
        "when_unsatisfiable": 3,
        "label_selector": 4,
        "min_domains": 5,
        "node_affinity_policy": 6,
        "node_taints_policy": 7,
        "match_label_keys": 8,
    },
    ContainerPort: {"host_port": 2, "protocol": 4, "host_ip": 5},
    ResourceClaimUse: {"name": 1},
    ResourceRequirements: {"requests": 2, "limits": 1, "claims": 3},
    ContainerRestartRule: {"action": 1},
    Container: {
        "name": 1,
        "image": 2,
        "resources": 8,
        "ports": 6,
        "restart_policy": 24,
        "restart_policy_rules": 25,
    },
    ClaimVolumeSource: {"claim_name": 1},
    ImageVolumeSource: {"reference": 1},
    Volume: {
        "name": 1,
        "persistent_volume_claim": Inlined(_SOURCE, 10),
        "ephemeral": Inlined(_SOURCE, 29),
        "gce_persistent_disk": Inlined(_SOURCE, 3, {"pdName": (1, str), "readOnly": (4, bool)}),
        "aws_elastic_block_store": Inlined(
            _SOURCE, 4, {"volumeID": (1, str), "readOnly": (4, bool)}
        ),
        "azure_disk": Inlined(_SOURCE, 22, {"diskURI": (2, str), "readOnly": (5, bool)}),
        "cinder": Inlined(_SOURCE, 13, {"volumeID": (1, str), "readOnly": (3, bool)}),
        "portworx_volume": Inlined(_SOURCE, 24, {"volumeID": (1, str), "readOnly": (3, bool)}),
        "rbd": Inlined(
            _SOURCE,
            11,
            {"monitors": (1, list), "image": (2, str), "pool": (4, str), "readOnly": (8, bool)},
        ),
        "iscsi": Inlined(_SOURCE, 8, {"iqn": (2, str), "readOnly": (6, bool)}),
        "image": Inlined(_SOURCE, 30),
    },
    SchedulingGate: {"name": 1},
    PodResourceClaim: {"name": 1, "resource_claim_name": 3, "resource_claim_template_name": 4},
    SchedulingGroup: {"pod_group_name": 1},
    PodSpec: {
        "containers": 2,
        "init_containers": 20,
        "node_name": 10,
        "scheduler_name": 19,
        "priority": 25,
        "priority_class_name": 24,
        "preemption_policy": 31,
        "node_selector": 7,
        "affinity": 18,
        "tolerations": 22,
        "topology_spread_constraints": 33,
        "scheduling_gates": 38,
        "overhead": 32,
        "resources": 40,
        "volumes": 1,
        "host_network": 11,
        "host_users": 37,
        "resource_claims": 39,
        "scheduling_group": 43,
        "active_deadline_seconds": 5,
        "termination_grace_period_seconds": 4,
    },
    StatusCondition: {"type": 1, "status": 2, "reason": 5, "message": 6, "last_transition_time": 4},
    ContainerStateTerminated: {"finished_at": 6},
    ContainerState: {"terminated": 3},
    ContainerStatus: {"name": 1, "state": 2, "resources": 11, "allocated_resources": 10},
    PodResourceClaimStatus: {"name": 1, "resource_claim_name": 2},
    PodStatus: {
        "phase": 1,
        "conditions": 2,
        "nominated_node_name": 11,
        "start_time": 7,
        "container_statuses": 8,
        "init_container_statuses": 10,
        "allocated_resources": 19,
        "resources": 20,
        "resource_claim_statuses": 15,
    },
    Pod: {"metadata": 1, "spec": 2, "status": 3},
    Taint: {"key": 1, "value": 2, "effect": 3},
    NodeSpec: {"unschedulable": 4, "taints": 5},
    ContainerImage: {"names": 1, "size_bytes": 2},
    NodeStatus: {
        "capacity": 1,
        "allocatable": 2,
        "images": 8,
        "conditions": 4,
        "declared_features": 14,
    },
    Node: {"metadata": 1, "spec": 2, "status": 3},
}


def core_messages() -> Messages:
    """New readers of Pods, Nodes and what they consist of, which have nothing to share yet."""
    return Messages(
        CORE_NUMBERS,
        shared=(
            Affinity,
            ContainerImage,
            ContainerPort,
            OwnerReference,
            ResourceRequirements,
            Taint,
            Toleration,
            TopologySpreadConstraint,
        ),
        own=(
            (ObjectMeta, "name"),
            (ObjectMeta, "uid"),
            (ObjectMeta, "resource_version"),
            (StatusCondition, "message"),
        ),
    )


#: Reads Pods, Nodes and what they consist of.
CORE_MESSAGES: Final = core_messages()
