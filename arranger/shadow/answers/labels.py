"""The labels of a node that a pod asks for."""

from __future__ import annotations

from collections.abc import Mapping

from arranger.api.types.core import Pod


def wanted_labels(pod: Pod) -> Mapping[str, str]:
    """Labels with which a node has what the pod wants of nodes: one way of several."""
    labels = dict(pod.spec.node_selector)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = (
        affinity.required_during_scheduling_ignored_during_execution
        if affinity is not None
        else None
    )
    for term in required.node_selector_terms[:1] if required is not None else ():
        for each in term.match_expressions:
            if each.operator == "In" and each.values:
                labels.setdefault(each.key, each.values[0])
            elif each.operator == "Exists":
                labels.setdefault(each.key, "")
    return labels
