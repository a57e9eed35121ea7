"""What the queue holds: today a lone pod, tomorrow a gang group that is placed at once."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from enum import Enum

from arranger.api.effects import Bind
from arranger.cluster.pod_info import PodInfo
from arranger.engine.phases import LEGAL, IllegalMoveError, Phase
from arranger.framework.profile import Profile
from arranger.framework.status import CycleState

log = logging.getLogger(__name__)


class Part(Enum):
    """The parts of the queue."""

    ACTIVE = "active"  # to be tried
    BACKOFF = "backoff"  # to be tried when its back-off ends
    UNSCHEDULABLE = "unschedulable"  # to be tried when something happens that may help
    GATED = "gated"  # a PreEnqueue plugin holds it back
    OUT = "out"  # being tried, or placed


class Entity:
    """One unit of scheduling, with its history.

    Attributes:
        pod: the pod, as last observed.
        profile: whose plugins schedule it.
        queued_at: when it first arrived, in the engine's clock.
        attempts: how often it has been tried.
        rejected_by: the plugins that said no last time; their events wake it.
        sign: key of its equivalence class, None when it must be judged alone.
        phase: see :class:`Phase`.
        node: the node reserved for it, "" for none.
        state: the plugins' notes of the attempt that placed it.
        awaiting: effects that must be applied before the Binding, by identity.
        binding: the Binding on its way, None before it is posted.
        held_by: the Permit plugin it waits for, with ``held_for`` seconds' patience.
        deadline: when waiting ends, in the engine's clock.
        broken: what a plugin of the queue raised when asked about it, "" when none did.
        told: the condition text we last wrote.
        newest: what the pod was edited to while a decision about it was being carried out.
    """

    __slots__ = (
        "attempts",
        "awaiting",
        "binding",
        "broken",
        "deadline",
        "held_by",
        "held_for",
        "last_attempt",
        "newest",
        "node",
        "part",
        "phase",
        "pod",
        "profile",
        "queued_at",
        "rejected_by",
        "sign",
        "state",
        "ticket",
        "told",
    )

    def __init__(self, pod: PodInfo, profile: Profile, now: float) -> None:
        self.profile = profile
        self.queued_at = now
        self.attempts = 0
        self.last_attempt = now
        self.rejected_by: frozenset[str] = frozenset()
        self.phase = Phase.QUEUED
        self.part = Part.OUT
        self.ticket = 0
        self.node = ""
        self.state = CycleState()
        self.awaiting: set[int] = set()
        self.binding: Bind | None = None
        self.held_by = ""
        self.held_for = 0.0
        self.deadline = 0.0
        self.broken = ""
        self.told: tuple[str, str] | None = None
        self.newest: PodInfo | None = None
        self.pod = pod
        self.sign: Hashable | None = _sign(profile, pod)

    @property
    def uid(self) -> str:
        """The pod's uid, which is the entity's key."""
        return self.pod.pod.metadata.uid

    def update(self, pod: PodInfo) -> None:
        """The pod was edited."""
        self.pod = pod
        self.newest = None
        self.sign = _sign(self.profile, pod)

    def move(self, to: Phase) -> None:
        """Enter a phase.

        Raises:
            IllegalMoveError: the table forbids it.
        """
        if to not in LEGAL[self.phase]:
            raise IllegalMoveError(f"{self.pod.key}: {self.phase.value} → {to.value}")
        self.phase = to

    def __repr__(self) -> str:
        return f"Entity({self.pod.key}, {self.phase.value}, {self.part.value})"


def _sign(profile: Profile, pod: PodInfo) -> Hashable | None:
    try:
        return profile.sign(pod)
    except Exception:
        # Judged alone a pod costs more, and nothing else.
        log.exception("pod %s: no signature", pod.key)
        return None
