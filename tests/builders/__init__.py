"""Pods and nodes for tests, saying only what matters.

Every method returns a new builder, so that a half-built pod can be shared by many cases::

    web = a_pod("web").labelled(app="web").needs(cpu="500m")
    web.on("n1").build()       # arranger.api.types.core.Pod
    web.info()                 # arranger.cluster.pod_info.PodInfo
    web.manifest()             # a dict as the API serves it
"""

from tests.builders.base import Manifest, expr
from tests.builders.objects import (
    Member,
    NodeBuilder,
    PodGroupBuilder,
    StoredBuilder,
    a_cluster,
    a_disruption_budget,
    a_node,
    a_pod_group,
    a_queue,
    an_unstructured,
    disruption_budgets,
)
from tests.builders.pods import PodBuilder, a_pod

__all__ = [
    "Manifest",
    "Member",
    "NodeBuilder",
    "PodBuilder",
    "PodGroupBuilder",
    "StoredBuilder",
    "a_cluster",
    "a_disruption_budget",
    "a_node",
    "a_pod",
    "a_pod_group",
    "a_queue",
    "an_unstructured",
    "disruption_budgets",
    "expr",
]
