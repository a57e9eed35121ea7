"""What a scheduling cycle may answer about a pod."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.pod_info import PodInfo
from arranger.framework.diagnosis import Diagnosis, PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.interface import PreemptionCandidate
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.plugin_errors import PluginFailureError
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import Status


@dataclass(frozen=True, slots=True)
class PermitWait:
    """A Permit plugin makes the pod wait: for at most ``timeout`` seconds."""

    plugin: str
    timeout: float


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A node is reserved; ``held`` if Permit makes the pod wait."""

    node: str
    held: PermitWait | None = None


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node, and why; ``rejected_by`` are the plugins whose events may change that.

    ``nominated_node`` is the node it shall have when the ``victims`` are gone; "" takes a
    nomination back, and None leaves it as it is. ``events`` are (reason, text) of further events.
    ``options`` are what extenders are to choose among first.
    """

    message: str
    rejected_by: frozenset[str]
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    events: tuple[tuple[str, str], ...] = ()
    options: tuple[PreemptionCandidate, ...] = ()


@dataclass(frozen=True, slots=True)
class CycleError:
    """A plugin raised: the attempt says nothing about the pod.

    Attributes:
        asks_again: whether it has only not come to an end yet.
    """

    message: str
    asks_again: bool = False


ScheduleResult = Scheduled | Unschedulable | CycleError


@dataclass(frozen=True, slots=True)
class Unfinished:
    """There is more to be looked at than one attempt may: the next one goes on."""


def cycle_error(error: Exception) -> CycleError:
    """What a plugin, or what calls them all, has raised."""
    if isinstance(error, PluginFailureError):
        return CycleError(str(error), error.asks_again)
    return CycleError(f"{type(error).__name__}: {error}")


def or_unfinished(result: ScheduleResult) -> ScheduleResult | Unfinished:
    """The result, but of a plugin that has only not come to an end."""
    goes_on = isinstance(result, CycleError) and result.asks_again
    return Unfinished() if goes_on else result


@dataclass(frozen=True, slots=True)
class RowMask:
    """Only these rows may be chosen; the others are rejected as ``rejection`` says.

    Attributes:
        closed: the others, where whoever made it knows them and they are few.
    """

    rows: BoolArray
    rejection: PluginRejection
    closed: IntArray | None = None


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No node is feasible; the caller may try preemption or give up."""

    evaluation: Evaluation
    diagnosis: Diagnosis

    @property
    def filters_about_others(self) -> frozenset[str]:
        """Plugins that may reject the pod for where other pods are, whoever is evicted.

        Where evictions do not help, it may be for these, although others have rejected the nodes
        before them: so their events may make room possible.
        """
        return self.evaluation.filters_about_others

    def filters_about_objects(self, profile: Profile) -> frozenset[str]:
        """Plugins that may reject the pod for other objects, its claims for example.

        As above: where evictions do not help, it may be for these.
        """
        return profile.object_filters - self.evaluation.unconcerned_plugins


def single_node_fit_error(refusal: Status) -> str:
    """The text for a pod whose chosen node a Reserve, Permit or PreBind plugin refused.

    Upstream: the ``FitError`` over one node in ``schedule_one.go``.
    """
    kind = PluginRejection(refusal.plugin, Rejection(refusal.reasons, refusal.code))
    return Diagnosis(
        nodes=1, rejections=[kind], rejection_index=np.zeros(1, dtype=np.int64)
    ).message()
