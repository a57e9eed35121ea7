"""How crowded nodes are by the soft constraints of a pod: which pods count, and what they weigh."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Final

import numpy as np

from arranger.api.types.core import Pod
from arranger.cluster import ABSENT, BoolArray, IntArray, NodeView
from arranger.cluster.columns import IdArray
from arranger.cluster.nodes.resource_shares import FloatArray
from arranger.cluster.nodes.selector_counts import SelectorCountCache
from arranger.cluster.nodes.topology_counts import sum_by_domain
from arranger.plugins.helpers.node_selectors import RequiredNodeAffinity
from arranger.plugins.topology.spread_constraints import HOSTNAME, SpreadConstraint

#: With fewer domains than this, so many rows are looked at before all of them are.
_FEW_DOMAINS: Final = 32
_FIRST_ROWS: Final = 512

#: A constraint; domain → pods, for hosts row → pods; and the weight of a pod.
Crowd = tuple[SpreadConstraint, tuple[IntArray, float]]


def soft_counts(
    constraint: SpreadConstraint,
    pod: Pod,
    nodes: NodeView,
    counters: SelectorCountCache,
    affinity: RequiredNodeAffinity,
    complete: BoolArray,
    candidates: BoolArray,
) -> tuple[IntArray, float]:
    """(domain → pods, weight of a pod); for hosts, row → pods."""
    counts = constraint.pods(counters, pod.metadata.namespace).by_row()
    if constraint.key == HOSTNAME:
        # As upstream, whatever the inclusion policies say.
        return counts, log(np.count_nonzero(candidates) + 2)
    ids = nodes.label(constraint.key)
    domains = len(nodes.table.label_values(constraint.key))
    rows = np.flatnonzero(counts)  # mostly few
    there = NodeView(nodes.table, rows)
    policies = constraint.match_node_inclusion_policies(pod, affinity, there)
    among = complete[rows] & policies & (ids[rows] != ABSENT)
    pods = sum_by_domain(ids[rows], counts[rows], among, domains)
    all_labelled = int(ids.min()) != ABSENT
    size = _count_domains(ids, candidates, domains if all_labelled else domains + 1)
    return np.append(pods, 0), log(size + 2)


def crowd_scores(crowds: Sequence[Crowd], nodes: NodeView) -> IntArray:
    """The weighted number of pods in each node's domains."""
    if sorted(constraint.key == HOSTNAME for constraint, _ in crowds) == [False, True]:
        host, domain = sorted(crowds, key=lambda crowd: crowd[0].key != HOSTNAME)
        return _scores_by_host_and_domain(host, domain, nodes)
    crowd = np.zeros(nodes.length)
    for constraint, (pods, weight) in crowds:
        ids = nodes.label(constraint.key)
        if constraint.key == HOSTNAME:
            crowded = pods[nodes.rows] * weight + (constraint.max_skew - 1)
            crowded[ids == ABSENT] = 0.0
        else:
            crowded = _by_domain(constraint, pods, weight).take(ids)
        crowd += crowded
    return _rounded(crowd)


def _scores_by_host_and_domain(host: Crowd, domain: Crowd, nodes: NodeView) -> IntArray:
    """The same for two constraints, as by default.

    Most nodes have no such pod, and of these all in one domain score alike.
    """
    (by_host, (pods, weight)), (by_domain, counted) = host, domain
    ids, hosts, here = nodes.label(by_domain.key), nodes.label(HOSTNAME), pods[nodes.rows]
    crowded, skew = _by_domain(by_domain, *counted), by_host.max_skew - 1
    scores = _rounded(crowded + skew).take(ids)
    some = np.flatnonzero(here)
    scores[some] = _rounded(crowded.take(ids[some]) + (here[some] * weight + skew))
    if int(hosts.min(initial=0)) == ABSENT:
        nameless = hosts == ABSENT
        scores[nameless] = _rounded(crowded).take(ids[nameless])
    return scores


def _by_domain(constraint: SpreadConstraint, pods: IntArray, weight: float) -> FloatArray:
    """Domain → how crowded it is; the last entry is that of nodes without the label."""
    crowded: FloatArray = pods.astype(np.float64)
    crowded *= weight
    crowded += constraint.max_skew - 1
    crowded[ABSENT] = 0.0
    return crowded


def _rounded(crowd: FloatArray) -> IntArray:
    return np.floor(crowd + 0.5).astype(np.int64)


def _count_domains(ids: IdArray, candidates: BoolArray, most: int) -> int:
    """How many domains the candidates are in; ``most``: how many there are at most.

    No label at all is a domain of its own.
    """
    if most < _FEW_DOMAINS:  # often the first rows are enough
        first = ids[:_FIRST_ROWS][candidates[:_FIRST_ROWS]]
        if np.count_nonzero(np.bincount(first - ABSENT)) == most:
            return most
    found: int = (np.bincount(ids[candidates] - ABSENT) > 0).sum().item()
    return found
