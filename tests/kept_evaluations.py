"""What an engine keeps of its classes of pods, beside what it would find out anew."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from arranger.engine.context.entity import QueuedPod
from arranger.engine.engine import Engine
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.evaluation_cache import ClassKey

#: A class, and whose PodGroup it is asked for.
_Asked = tuple[ClassKey, int]


def check_kept_evaluations(engine: Engine) -> None:
    """For each pod that waits, what is kept of its class is what a fresh look gives.

    Nothing is said of pods about whom a plugin raises.

    Raises:
        AssertionError: it is not.
    """
    cycle, asked = engine.cycle, set[_Asked]()
    evaluations, cluster = cycle._evaluations, engine.cluster
    known = evaluations._kept.keys() | evaluations._new.keys()
    for member in engine.pods():
        key = _key(member)
        question = key, id(evaluations._group_of(member.pod))
        if key not in known or question in asked:
            continue
        asked.add(question)
        try:
            kept = cycle.evaluate(member.profile, member.pod, member.signature)
            fresh = Evaluation(member.profile, cluster, member.pod)
        except Exception:
            continue
        said, anew = _answers(kept), _answers(fresh)
        for what, answer in anew.items():
            assert said[what] == answer, (
                f"{member.pod.key}: {what} of its class is kept as {said[what]}, and is {answer}"
            )


def _key(member: QueuedPod) -> tuple[str, Hashable]:
    return member.profile.scheduler_name, member.signature


def _answers(evaluation: Evaluation) -> dict[str, Any]:
    """What is asked of it, as plain values; of scores those of nodes where it may be."""
    there = evaluation.feasible
    return {
        "PreFilter's status": evaluation.pre_filter_status,
        "where it may be": evaluation.feasible.tolist(),
        "where it could be on empty nodes": evaluation.fits_when_empty.tolist(),
        "the scores": evaluation.total_scores.tolist(),
        "what each plugin scores": {n: s[there].tolist() for n, s in evaluation.scores().items()},
        "who has a say about pods on nodes": evaluation.pod_dependent_filters,
        "the diagnosis": evaluation.diagnosis().message(),
    }
