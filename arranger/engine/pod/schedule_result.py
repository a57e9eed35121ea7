"""What a scheduling cycle may answer about a pod."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from arranger.cluster.columns import BoolArray
from arranger.cluster.pod_info import PodInfo
from arranger.framework.diagnosis import Diagnosis, Rejected
from arranger.framework.filter_result import Rejection
from arranger.framework.interface import Eviction
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.status import Status


@dataclass(frozen=True, slots=True)
class Held:
    """A Permit plugin makes the pod wait: for at most ``timeout`` seconds."""

    plugin: str
    timeout: float


@dataclass(frozen=True, slots=True)
class Placed:
    """A node is reserved; ``held`` if Permit makes the pod wait."""

    node: str
    held: Held | None = None


@dataclass(frozen=True, slots=True)
class Unplaced:
    """No node, and why; ``rejected_by`` are the plugins whose events may change that.

    ``nominated`` is the node it shall have when the ``victims`` are gone; "" takes a nomination
    back, and None leaves it as it is. ``events`` are (reason, text) of further events. ``options``
    are what extenders are to choose among first.
    """

    message: str
    rejected_by: frozenset[str]
    nominated: str | None = None
    victims: tuple[PodInfo, ...] = ()
    events: tuple[tuple[str, str], ...] = ()
    options: tuple[Eviction, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin raised: the attempt says nothing about the pod."""

    message: str


Decision = Placed | Unplaced | Broken


@dataclass(frozen=True, slots=True)
class Within:
    """Only these rows may be chosen; the others are rejected as ``otherwise`` says."""

    rows: BoolArray
    otherwise: Rejected


@dataclass(frozen=True, slots=True)
class NoRoom:
    """No node is feasible; whoever asked may make room or give up."""

    evaluation: Evaluation
    diagnosis: Diagnosis


def refused_node(refusal: Status) -> str:
    """The text for a pod whose chosen node a Reserve, Permit or PreBind plugin refused.

    Upstream: the ``FitError`` over one node in ``schedule_one.go``.
    """
    kind = Rejected(refusal.plugin, Rejection(refusal.reasons, refusal.code))
    return Diagnosis(nodes=1, kinds=[kind], kind_of=np.zeros(1, dtype=np.int64)).message()
