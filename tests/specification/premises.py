"""What must be known of a world before its steps can be judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Premises:
    """What a trace does not say. A rule whose premise does not hold is not asked.

    Attributes:
        scheduler_names: whose pods ours are, as in ``spec.schedulerName``.
        schedulers: the processes that schedule, as steps name their writers; each takes leases by
            the same name.
        calendar: the date at 0 of the clock of steps, in seconds since 1970; None where that is
            not known, or where those of schedulers may be wrong.
        notice: seconds after which a scheduler must have heard of a change that was not its own.
            What is younger may be unknown to it, and is no reason to object.
        bind_seconds: within which all Bindings (or evictions) that belong together are done.
        writes_may_fail: whether single writes are refused or lost for good. Then nothing is said
            about who is bound or evicted alone though meant to be so together with others.
        changing_nodes: nodes that others place pods on, or shrink, at any moment.
        torn_gangs: gangs that others take apart, as ``namespace/name``.
        unjudged: rules that are not asked, by name: what they say is not so here, and the world
            says why.
        calm: whether nothing goes wrong, so that it can be told who else might have left.
        max_checkpoint: the most seconds that a victim is given to save its state.
        preempt_within_queue, respect_priority, exempt_card_pods, service_by_owner: as in the
            scheduler's configuration of queues.
        extenders_may_fail: whether we bind ourselves what an extender may have bound already.
        extended: resources that nodes need not offer, as extenders or devices provide them.
    """

    scheduler_names: set[str] = field(default_factory=lambda: {"arranger"})
    schedulers: set[str] = field(default_factory=set)
    calendar: float | None = None
    notice: float = 5.0
    bind_seconds: float = 1.0
    writes_may_fail: bool = False
    changing_nodes: set[str] = field(default_factory=set)
    torn_gangs: set[str] = field(default_factory=set)
    unjudged: set[str] = field(default_factory=set)
    calm: bool = False
    max_checkpoint: float = 600.0
    preempt_within_queue: bool = True
    respect_priority: bool = True
    exempt_card_pods: bool = False
    service_by_owner: Mapping[str, str] = field(
        default_factory=lambda: {
            "ReplicaSet": "inference",
            "Deployment": "inference",
            "StatefulSet": "inference",
            "Job": "training",
        }
    )
    extenders_may_fail: bool = False
    extended: set[str] = field(default_factory=set)
