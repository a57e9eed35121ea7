"""The extension points as methods of one base class.

A plugin overrides the methods of the points it takes part in; the framework looks which ones
those are. Every method is synchronous and pure: it reads the cluster it is given and changes
nothing but its own data in ``state``.

Order in a cycle: ``pre_enqueue`` · ``sort_key`` · ``pre_filter`` · ``filter`` · ``post_filter`` ·
``pre_score`` · ``score`` · ``normalize_score`` · ``reserve`` · ``permit`` · ``pre_bind`` ·
``wait_pre_bind`` · ``bind`` · ``post_bind``, with ``unreserve`` undoing ``reserve`` in reverse
order when a later point fails.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel

from arranger.api.effects import Bind, Effect
from arranger.cluster import BoolArray, Cluster, IntArray, NodeInfo, NodeView, PodInfo
from arranger.framework.cluster_event import ActionType, QueueingHint
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.filter_result import FilterResult
from arranger.framework.preemption import PreemptionContext
from arranger.framework.status import Code, CycleState, Status


class DependsOn(IntEnum):
    """What a plugin's result for a node depends on, beside the pod.

    The framework runs the plugin on a node again only when something of that has changed.
    """

    NODE = 0  # that node's object
    USAGE = 1  # that node's object and the pods on it
    NODES = 2  # the objects of all nodes
    CLUSTER = 3  # anything but Services and controllers of other namespaces


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """PreFilter passes, and only these nodes are filtered."""

    node_names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wait:
    """Neither let the pod go nor refuse it: ask again, for at most ``timeout`` seconds.

    ``timeout_message`` is the error when ``wait_pre_bind`` has waited that long.
    """

    timeout: float
    timeout_message: str = "timed out"


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A node with the pods to evict from it, and how many of them a budget protects."""

    node: str
    victims: tuple[PodInfo, ...]
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """Where the pod will find room.

    Attributes:
        node: it will have room once the victims are gone; "" clears a nomination.
        victims: pods to be evicted.
        message: why there is no such node.
        rejected_by: the plugins for which it would not fit on nodes although pods were evicted
            there: their events may help, beside those of who rejects it now.
        candidates: the alternatives, where extenders choose among them
            (:attr:`PreemptionContext.extenders_choose`).
    """

    node: str
    victims: tuple[PodInfo, ...] = ()
    message: str = ""
    rejected_by: frozenset[str] = frozenset()
    candidates: tuple[PreemptionCandidate, ...] = ()


class QueueSortInput(NamedTuple):
    """What QueueSort compares of a queued pod or gang.

    Attributes:
        pod: the pod; for a gang one of its members.
        created: when it was created, for a gang when the gang was, in seconds since 1970.
        queued_at: when it arrived here, in seconds of a clock that only runs forward.
        name: ``namespace/name`` of the pod or the gang.
        job_share: works out the dominant share of the cluster that it requests in all (DRF).
    """

    pod: PodInfo
    created: float
    queued_at: float
    name: str
    job_share: Callable[[], float] = float


class Plugin:
    """Base of all plugins; override what you need.

    Attributes:
        name: how configuration and messages call it; the class name unless set.
        depends_on: see :class:`DependsOn`. Per-node plugins are safe with ``USAGE``.
        queueing_hints: what may help a pod that this plugin rejected; everything unless set.
        Args: a pydantic model of the plugin's configuration; an instance is passed to ``__init__``.
        monotone: with one more pod on a node, Filter never passes where it rejected without. Then
            one look at the nodes with nominated pods on them is enough.
        counts_resources: Filter passes a node that would do when empty if and only if what is
            requested there, the pod included, is within what is allocatable. Then victims are
            found by counting, without asking the plugin.
        counts_quota: the same of the limits of the pod's queues.
        ignores: whether it is told not to look at a resource that pods request; None where it looks
            at all. What is ignored in all profiles is not compared with nodes by anybody.
        explains_first: its reasons are told where filters that look at what runs on a node have
            reasons, too; and also where it rejects all nodes, or would if there were any, and each
            is rejected by another filter already.
        score_of_zeros: what ``normalize_score`` makes of raw scores that are all 0, on every node
            and whichever are feasible; None if it may differ.
        evicts: PostFilter makes room by evicting pods; see :meth:`is_preemptable`.
        namespaces_take_turns: of a plugin that sorts the queue: where many wait, namespaces take
            turns among whatever has the same first element of ``sort_key``, which is a tuple.

    ``monotone``, ``counts_resources``, ``counts_quota`` and ``score_of_zeros`` state something
    about the very class that states them: subclasses do not inherit them.
    """

    name: ClassVar[str] = ""
    depends_on: ClassVar[DependsOn] = DependsOn.CLUSTER
    queueing_hints: ClassVar[Sequence[QueueingHint]] = (QueueingHint(ActionType.ANY),)
    Args: ClassVar[type[BaseModel] | None] = None
    monotone: ClassVar[bool] = False
    counts_resources: ClassVar[bool] = False
    counts_quota: ClassVar[bool] = False
    ignores: Callable[[str], bool] | None = None
    explains_first: ClassVar[bool] = False
    score_of_zeros: ClassVar[int | None] = None
    evicts: ClassVar[bool] = False
    namespaces_take_turns: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        for statement in ("monotone", "counts_resources", "counts_quota"):
            if statement not in cls.__dict__:
                setattr(cls, statement, False)
        if "score_of_zeros" not in cls.__dict__:
            cls.score_of_zeros = None
        filters = cls.__dict__.keys() & {"pre_filter", "filter", "filter_node"}
        if filters and "looks_at" not in cls.__dict__:
            cls.looks_at = Plugin.looks_at  # type: ignore[method-assign]

    # --- helpers for authors ---------------------------------------------------------------

    def reject(self, *reasons: str, resolvable: bool = True) -> Status:
        """A status that rejects this pod (or node), for these reasons.

        ``resolvable=False`` says that evicting pods would not change it.
        """
        code = Code.UNSCHEDULABLE if resolvable else Code.UNRESOLVABLE
        return Status(code, reasons, self.name)

    # --- identity --------------------------------------------------------------------------

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        """What of ``pod`` beyond its spec this plugin's results depend on.

        Pods with equal specs and equal signatures share one evaluation. ``()`` means nothing but
        the spec; ``None`` (the default) means that pods must not share, which is safe and slow.
        """
        return None

    def sign_pod_for_nodes(self, pod: PodInfo) -> Hashable | None:
        """What of ``pod`` Filter and Score depend on, of a plugin that depends on nodes alone.

        Pods that agree in it share the results, whatever else tells them apart. ``None`` (the
        default) means that they do not. It holds for the very class that states it.
        """
        return None

    # --- queue -----------------------------------------------------------------------------

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Whether the pod may enter the queue; a rejected one waits without being tried."""
        return None

    def sort_key(self, entry: QueueSortInput) -> Any:
        """The place of a pod or a gang in the queue, smallest first."""
        raise NotImplementedError

    def shared_turn(self, entry: QueueSortInput) -> tuple[Hashable, float] | None:
        """With whom a pod or a gang shares its turns in the queue, and its share; with nobody.

        Those that name the same keep their places in the queue as a whole: when it is the turn of
        any of them, the one with the least share takes it.
        """
        return None

    # --- filtering -------------------------------------------------------------------------

    def pre_filter(
        self, state: CycleState, pod: PodInfo, cluster: Cluster
    ) -> PreFilterResult | Status | None:
        """Look at the pod once before any node; ``SKIP`` leaves this plugin's Filter out."""
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Filter every node of the view (dead rows may get any result)."""
        raise NotImplementedError

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Filter one node: the easy form of ``filter``. ``None`` passes."""
        raise NotImplementedError

    def looks_at(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """Whether more of ``other`` than its requests may count for what Filter says of ``pod``.

        Asked about pods without (anti-)affinity, host ports and volumes of their own, where
        PreFilter has not skipped ``pod``. Those that no plugin looks at are taken away, in memory,
        for less. It holds for the very Filter that it was written for.
        """
        return True

    def post_filter(
        self, state: CycleState, pod: PodInfo, context: PreemptionContext, diagnosis: Diagnosis
    ) -> PostFilterResult | Status | None:
        """No node was feasible: make room (preemption), or say why that is impossible."""
        return None

    def pod_group_post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> Status | None:
        """No node was feasible for a member of a gang: undo what its earlier placement has left.

        Members of gangs are not asked ``post_filter``, since gangs are preempted for as a whole.
        Upstream: ``PodGroupPostFilter``.
        """
        return None

    def is_preemptable(self, victim: PodInfo) -> bool:
        """Whether a plugin that ``evicts`` may evict this pod for one of higher priority."""
        return True

    # --- scoring ---------------------------------------------------------------------------

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Prepare scoring; ``SKIP`` leaves this plugin's Score out."""
        return None

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """Raw scores, one per row of the view; those of infeasible rows are ignored."""
        raise NotImplementedError

    def score_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score one node 0–100: the easy form of ``score``."""
        raise NotImplementedError

    def normalize_score(self, scores: IntArray, feasible: BoolArray) -> IntArray:
        """Bring raw scores to 0–100, looking at the feasible ones only."""
        return scores

    # --- placing ---------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """The pod has been assumed on ``node``: update what you keep, or refuse."""
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Undo ``reserve``; must be idempotent and cannot fail."""

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status | Wait | None:
        """Let the pod bind, refuse, or make it wait."""
        return None

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node: str
    ) -> Sequence[Effect] | Status | None:
        """Effects that must all be applied before the Binding is posted."""
        return None

    def wait_pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | Wait | None:
        """PreBind's writes are applied: let the pod bind, refuse, or wait for others to act.

        While it waits it is asked again after every event. A pod that is refused, or has waited too
        long, is tried again after a back-off.
        """
        return None

    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Bind | None:
        """The Binding to post, or ``None`` to leave it to the next Bind plugin."""
        return None

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """The pod is bound; for information only."""


class SpecOnlyPlugin(Plugin):
    """A plugin whose results about a pod depend only on the pod's spec."""

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        """The spec is all that results depend on."""
        return ()


def overrides(plugin: Plugin, method: str) -> bool:
    """Whether ``plugin`` overrides ``method``."""
    return getattr(type(plugin), method) is not getattr(Plugin, method)
