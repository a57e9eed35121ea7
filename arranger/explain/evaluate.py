"""Evaluates pods one at a time on a snapshot; verdicts have the form of the corpora of tests."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.explain.all_nodes import on_all_nodes
from arranger.explain.snapshot import Snapshot
from arranger.framework.diagnosis import PRE_FILTER_RESULT, Diagnosis, PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.runtime.dry_run import DryRun
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.plugin_errors import PluginFailureError
from arranger.framework.runtime.post_filter import run_post_filter
from arranger.framework.runtime.profile import Profile
from arranger.plugins import default_profile

#: What was found about one pod:
#:
#: ``pod`` (namespace/name) · ``preFilter`` {plugin, code, reasons} if the pod was rejected as a
#: whole · ``feasible`` node names · ``rejected`` {node: {plugin, code, reasons}} by the first
#: plugin to reject · ``scores`` {node: {plugin: points}} and ``totals`` of the feasible nodes ·
#: ``fitError`` if there are none, and ``preemption`` {node, victims, message}: who would go ·
#: ``error`` if that took too long to be found out, and nothing else then.
Verdict = dict[str, Any]

#: Attempts at one pod, each some 30 ms at most.
_MAX_ATTEMPTS: Final = 1000

_NOT_IN_PRE_FILTER_RESULT = "node is not in the PreFilter result"


def evaluate(snapshot: Snapshot, profile: Profile | None = None) -> list[Verdict]:
    """A verdict for each pending pod, as if it came alone; nothing is placed.

    Raises:
        SnapshotError: an amount in the snapshot is not a quantity.
    """
    profile = profile or _default()
    cluster = snapshot.cluster  # built even without pods, so that its errors are raised
    return [evaluate_pod(cluster, pod, profile) for pod in snapshot.pending]


def evaluate_pod(cluster: Cluster, pod: PodInfo, profile: Profile) -> Verdict:
    """What the profile's plugins say about one pod."""
    try:
        find = partial(Evaluation, profile, cluster, pod)
        evaluation = on_all_nodes(cluster.work, find, _MAX_ATTEMPTS)
    except PluginFailureError as failure:
        if not failure.asks_again:
            raise
        nothing: Verdict = {"feasible": [], "rejected": {}, "scores": {}, "totals": {}}
        return {"pod": pod.key, "error": str(failure), **nothing}
    diagnosis = evaluation.diagnosis()
    verdict: Verdict = {"pod": pod.key}
    if diagnosis.pre_filter_status is not None:
        verdict["preFilter"] = {
            "plugin": diagnosis.pre_filter_status.plugin,
            "code": diagnosis.pre_filter_status.code.value,
            "reasons": sorted(diagnosis.pre_filter_status.reasons),
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
    verdict["totals"] = {table.name(row): int(evaluation.total_scores[row]) for row in rows}
    if not rows:
        verdict["fitError"] = _fit_error(diagnosis)
        nominated = pod.pod.status.nominated_node_name
        context = DryRun(profile, cluster, pod, evaluation, nominated_node=nominated)
        post_filter = run_post_filter(context, diagnosis)
        verdict["preemption"] = {
            "node": post_filter.nominated_node or "",
            "victims": sorted(victim.key for victim in post_filter.victims),
            **({"message": post_filter.message()} if post_filter.message() else {}),
        }
    return verdict


def _rejected(cluster: Cluster, diagnosis: Diagnosis) -> dict[str, Any]:
    if diagnosis.pre_filter_status is not None:
        return {}
    rejected = {}
    for name, row in sorted(cluster.table.index.items()):
        why = diagnosis.first_rejection(row)
        if why is not None:
            reasons = why.rejection.reasons
            rejected[name] = {
                "plugin": why.plugin,
                "code": why.rejection.code.value,
                "reasons": [_NOT_IN_PRE_FILTER_RESULT]
                if why.plugin == PRE_FILTER_RESULT
                else sorted(reasons),
            }
    return rejected


def _fit_error(diagnosis: Diagnosis) -> str:
    """kube-scheduler's FitError of filtering alone, without nodes outside the PreFilter result."""
    kinds = [
        PluginRejection(kind.plugin, Rejection((), kind.rejection.code))
        if kind.plugin == PRE_FILTER_RESULT
        else kind
        for kind in diagnosis.rejections
    ]
    return replace(diagnosis, rejections=kinds).message()


@lru_cache(maxsize=1)
def _default() -> Profile:
    return default_profile()
