"""One pod of ours on its way from arriving to being bound."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import TYPE_CHECKING

from arranger.api.effects import Bind
from arranger.cluster.pod_info import PodInfo
from arranger.engine.phases import TRANSITIONS, InvalidTransitionError, Phase
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import CycleState

if TYPE_CHECKING:
    from arranger.engine.entity import QueuedEntity

log = logging.getLogger(__name__)


class QueuedPod:
    """A pod with its history; the entity it belongs to is what the queue holds.

    Attributes:
        pod: the pod, as last observed.
        profile: whose plugins schedule it.
        queued_at: when it first arrived, in the engine's clock.
        entity: what it is placed with; None when it is placed or gone.
        signature: key of its equivalence class, None when it must be judged alone.
        phase: see :class:`JobPhase`.
        node: the node reserved for it, "" for none.
        cycle_state: the plugins' notes of the attempt that placed it.
        pending_writes: effects that must be applied before the Binding, by identity.
        binding: the Binding on its way, None before it is posted.
        permit_plugin: the Permit plugin it waits for, with ``permit_timeout`` seconds' patience.
        deadline: when waiting ends, in the engine's clock.
        attempts: how often it has been tried.
        last_condition: the condition text we last wrote.
        pending_update: what the pod was edited to while a decision about it was being carried out.
    """

    __slots__ = (
        "attempts",
        "binding",
        "cycle_state",
        "deadline",
        "entity",
        "last_condition",
        "node",
        "pending_update",
        "pending_writes",
        "permit_plugin",
        "permit_timeout",
        "phase",
        "pod",
        "profile",
        "queued_at",
        "signature",
    )

    def __init__(self, pod: PodInfo, profile: Profile, now: float) -> None:
        self.profile = profile
        self.queued_at = now
        self.entity: QueuedEntity | None = None
        self.phase = Phase.QUEUED
        self.node = ""
        self.cycle_state = CycleState()
        self.pending_writes: set[int] = set()
        self.binding: Bind | None = None
        self.permit_plugin = ""
        self.permit_timeout = 0.0
        self.deadline = 0.0
        self.attempts = 0
        self.last_condition: tuple[str, str] | None = None
        self.pending_update: PodInfo | None = None
        self.pod = pod
        self.signature: Hashable | None = _signature_of(profile, pod)

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.pod.metadata.uid

    @property
    def equivalence_key(self) -> Hashable:
        """Pods of one kind are judged alike."""
        return self.signature if self.signature is not None else self.uid

    def update(self, pod: PodInfo) -> None:
        """The pod was edited."""
        self.pod = pod
        self.pending_update = None
        self.signature = _signature_of(self.profile, pod)

    def transition(self, to: Phase) -> None:
        """Enter a phase.

        Raises:
            IllegalMoveError: the table forbids it.
        """
        if to not in TRANSITIONS[self.phase]:
            raise InvalidTransitionError(f"{self.pod.key}: {self.phase.value} → {to.value}")
        self.phase = to

    def __repr__(self) -> str:
        return f"Member({self.pod.key}, {self.phase.value})"


def _signature_of(profile: Profile, pod: PodInfo) -> Hashable | None:
    try:
        return profile.sign_pod(pod)
    except Exception:
        # Judged alone a pod costs more, and nothing else.
        log.exception("pod %s: no signature", pod.key)
        return None
