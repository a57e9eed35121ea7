"""Judges pods one at a time against a snapshot, in the words of the conformance corpora."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.explain.snapshot import Snapshot
from arranger.framework.diagnosis import PRE_FILTER_RESULT, Diagnosis, Rejected
from arranger.framework.filter_result import Rejection
from arranger.framework.runtime.dry_run import WhatIf
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.post_filter import run_post_filter
from arranger.framework.runtime.profile import Profile
from arranger.plugins import default_profile

#: What was found about one pod:
#:
#: ``pod`` (namespace/name) · ``preFilter`` {plugin, code, reasons} if the pod was rejected as a
#: whole · ``feasible`` node names · ``rejected`` {node: {plugin, code, reasons}} by the first
#: plugin to reject · ``scores`` {node: {plugin: points}} and ``totals`` of the feasible nodes ·
#: ``fitError`` if there are none, and ``preemption`` {node, victims, message}: who would go.
Verdict = dict[str, Any]

_OUTSIDE = "node is not in the PreFilter result"


def judge(snapshot: Snapshot, profile: Profile | None = None) -> list[Verdict]:
    """A verdict for each pending pod, as if it came alone; nothing is placed.

    Raises:
        SnapshotError: an amount in the snapshot is not a quantity.
    """
    profile = profile or _default()
    cluster = snapshot.cluster  # built even for no pod, so that what is wrong in it is told
    return [judge_pod(cluster, pod, profile) for pod in snapshot.pending]


def judge_pod(cluster: Cluster, pod: PodInfo, profile: Profile) -> Verdict:
    """What the profile's plugins say about one pod."""
    evaluation = Evaluation(profile, cluster, pod)
    diagnosis = evaluation.diagnosis()
    verdict: Verdict = {"pod": pod.key}
    if diagnosis.refusal is not None:
        verdict["preFilter"] = {
            "plugin": diagnosis.refusal.plugin,
            "code": diagnosis.refusal.code.value,
            "reasons": sorted(diagnosis.refusal.reasons),
        }
        rows: list[int] = []
    else:
        rows = evaluation.feasible.nonzero()[0].tolist()
    table = cluster.table
    verdict["feasible"] = sorted(table.name(row) for row in rows)
    verdict["rejected"] = _rejected(cluster, diagnosis)
    scores = evaluation.scores() if rows else {}
    verdict["scores"] = {
        table.name(row): {plugin: int(points[row]) for plugin, points in sorted(scores.items())}
        for row in rows
    }
    verdict["totals"] = {table.name(row): int(evaluation.ranked[row]) for row in rows}
    if not rows:
        verdict["fitError"] = _fit_error(diagnosis)
        nominated = pod.pod.status.nominated_node_name
        what_if = WhatIf(profile, cluster, pod, evaluation, nominated=nominated)
        found = run_post_filter(what_if, diagnosis)
        verdict["preemption"] = {
            "node": found.nominated or "",
            "victims": sorted(victim.key for victim in found.victims),
            **({"message": found.message()} if found.message() else {}),
        }
    return verdict


def _rejected(cluster: Cluster, diagnosis: Diagnosis) -> dict[str, Any]:
    if diagnosis.refusal is not None:
        return {}
    rejected = {}
    for name, row in sorted(cluster.table.index.items()):
        why = diagnosis.of_row(row)
        if why is not None:
            reasons = why.rejection.reasons
            rejected[name] = {
                "plugin": why.plugin,
                "code": why.rejection.code.value,
                "reasons": [_OUTSIDE] if why.plugin == PRE_FILTER_RESULT else sorted(reasons),
            }
    return rejected


def _fit_error(diagnosis: Diagnosis) -> str:
    """The sentence about filtering alone: the corpora do not count nodes outside PreFilter's."""
    kinds = [
        Rejected(kind.plugin, Rejection((), kind.rejection.code))
        if kind.plugin == PRE_FILTER_RESULT
        else kind
        for kind in diagnosis.kinds
    ]
    return replace(diagnosis, kinds=kinds).message()


@lru_cache(maxsize=1)
def _default() -> Profile:
    return default_profile()
