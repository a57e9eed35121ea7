"""ReplicaSets and ReplicationControllers: so many pods that are all alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from arranger.embedded import Object
from arranger.embedded.workloads.ownership import claimed
from arranger.embedded.workloads.plan import (
    Plan,
    Surroundings,
    created_at,
    has_ended,
    is_active,
    is_available,
    is_deleted,
    is_ready,
    is_terminating,
    next_available_in,
    pod_of,
)

#: Pods of a ReplicaSet that have ended and are kept to be looked at.
_ENDED_KEPT: Final = 10
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def reconcile_replicas(workload: Object, owned: Sequence[Object], around: Surroundings) -> Plan:
    """As many active pods as ``replicas``; of too many those go first that serve least."""
    orphans = [pod for pod in around.orphans if pod["kind"] == "Pod" and is_active(pod)]
    pods, changes = claimed(workload, [o for o in owned if o["kind"] == "Pod"], orphans)
    active = [pod for pod in pods if is_active(pod)]
    surplus = len(active) - workload["spec"].get("replicas", 1)
    ended = sorted((pod for pod in pods if has_ended(pod) and not is_deleted(pod)), key=created_at)
    labels = (workload["spec"]["template"].get("metadata") or {}).get("labels") or {}
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(
            labels.items() <= (pod["metadata"].get("labels") or {}).items() for pod in active
        ),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, workload, around.now) for pod in active),
    }
    if workload["kind"] == "ReplicaSet":
        status["terminatingReplicas"] = sum(map(is_terminating, pods))
    return Plan(
        create=[pod_of(workload) for _ in range(-surplus)],
        delete=[*least_worth(active, surplus), *ended[:-_ENDED_KEPT]],
        change=changes,
        status=status,
        again_in=next_available_in(active, workload, around.now),
    )


def least_worth(pods: Sequence[Object], count: int) -> Sequence[Object]:
    """The pods that go first, of those that a workload has too many of."""
    if count <= 0:
        return ()
    # A stable sort: of equal ones the newest goes.
    newest = sorted(pods, key=created_at, reverse=True)
    return sorted(newest, key=_worth_among(pods))[:count]


def _worth_among(pods: Sequence[Object]) -> Callable[[Object], tuple[Any, ...]]:
    beside = Counter(pod["spec"].get("nodeName") for pod in pods)

    def worth(pod: Object) -> tuple[Any, ...]:
        node = pod["spec"].get("nodeName")
        phase = _PHASES.get(pod["status"].get("phase"), 0)
        return bool(node), phase, is_ready(pod), _cost(pod), -beside[node]

    return worth


def _cost(pod: Object) -> int:
    try:
        return int((pod["metadata"].get("annotations") or {}).get(_DELETION_COST, "0"))
    except ValueError:
        return 0
