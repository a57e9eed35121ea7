"""Pods: as lines of a list, and one with what is known of it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from arranger.api.quantity import QuantityError
from arranger.api.resource_requests import pod_requests
from arranger.api.types.core import Pod
from arranger.shadow.answers.ends import ends_by
from arranger.ui.views.amounts import several
from arranger.ui.views.observed import STATES, Observed, state_of

#: Amounts of a pod that are added up and shown.
_MOST_AMOUNTS: Final = 256


@dataclass(frozen=True, slots=True)
class PodRow:
    """One line of a list."""

    key: str
    state: str
    node: str
    requests: str
    reason: str


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod.

    Attributes:
        owner: kind and ``namespace/name`` of what controls it.
        facts: (name, text) of what else is known.
    """

    key: str
    state: str
    node: str
    gang: str
    queue: str
    owner: tuple[str, str] | None
    reason: str
    facts: list[tuple[str, str]]


def pod_rows(observed: Observed, pods: Iterable[Pod]) -> list[PodRow]:
    """The lines of these pods."""
    return [_row(observed, pod) for pod in pods if observed.scope.sees(pod.key)]


def find_pods(observed: Observed, text: str, state: str, most: int) -> tuple[list[PodRow], int]:
    """The first of the pods whose names hold a text and that are in a state, and how many are."""
    found = [
        (order, pod.key, pod)
        for pod in observed.pods()
        if text in pod.key and (order := STATES.index(state_of(pod))) in _wanted(state)
    ]
    first = heapq.nsmallest(most, found, key=lambda each: each[:2])
    return [_row(observed, pod) for _, _, pod in first], len(found)


def pod_view(observed: Observed, key: str) -> PodView | None:
    """One pod; None where there is none of that ``namespace/name``."""
    pod = observed.objects.get(Pod, key)
    if pod is None or not observed.scope.sees(key):
        return None
    gang = observed.engine.registry.gang_of(pod.metadata.uid)
    is_shown = gang is not None and observed.scope.sees(gang.name)
    owner = pod.metadata.controller
    created = pod.metadata.creation_timestamp
    facts = [
        ("asks for", _requests(pod)),
        ("priority", f"{pod.priority:,}"),
        ("scheduler", pod.spec.scheduler_name),
        ("created", f"{created:%Y-%m-%d %H:%M:%S} UTC" if created is not None else ""),
        ("ends by", ends_by(observed.engine, [pod])),
        ("gates", ", ".join(gate.name for gate in pod.spec.scheduling_gates)),
    ]
    return PodView(
        key,
        state_of(pod),
        pod.spec.node_name,
        gang.name if gang is not None and is_shown else "",
        observed.queue_of(pod.metadata.uid),
        (owner.kind, f"{pod.metadata.namespace}/{owner.name}") if owner is not None else None,
        _reason(observed, pod),
        [(name, text) for name, text in facts if text],
    )


def _wanted(state: str) -> Iterable[int]:
    return (STATES.index(state),) if state in STATES else range(len(STATES))


def _row(observed: Observed, pod: Pod) -> PodRow:
    return PodRow(
        pod.key, state_of(pod), pod.spec.node_name, _requests(pod), _reason(observed, pod)
    )


def _reason(observed: Observed, pod: Pod) -> str:
    return observed.reason_of(pod) if state_of(pod) == "Waiting" else ""


def _requests(pod: Pod) -> str:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    named = sum(len(each.resources.requests) for each in containers)
    if named > _MOST_AMOUNTS:
        return f"{named:,} amounts"
    try:
        return several(pod_requests(pod))
    except QuantityError as error:
        return str(error)
