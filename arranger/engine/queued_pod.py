"""One pod of ours on its way from arriving to being bound."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import TYPE_CHECKING

from arranger.api.effects import Bind
from arranger.cluster.pod_info import PodInfo
from arranger.engine.phases import LEGAL, IllegalMoveError, Phase
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import CycleState

if TYPE_CHECKING:
    from arranger.engine.entity import Entity

log = logging.getLogger(__name__)


class Member:
    """A pod with its history; the entity it belongs to is what the queue holds.

    Attributes:
        pod: the pod, as last observed.
        profile: whose plugins schedule it.
        queued_at: when it first arrived, in the engine's clock.
        entity: what it is placed with; None when it is placed or gone.
        sign: key of its equivalence class, None when it must be judged alone.
        phase: see :class:`Phase`.
        node: the node reserved for it, "" for none.
        state: the plugins' notes of the attempt that placed it.
        awaiting: effects that must be applied before the Binding, by identity.
        binding: the Binding on its way, None before it is posted.
        held_by: the Permit plugin it waits for, with ``held_for`` seconds' patience.
        deadline: when waiting ends, in the engine's clock.
        tries: how often it has been tried.
        told: the condition text we last wrote.
        newest: what the pod was edited to while a decision about it was being carried out.
    """

    __slots__ = (
        "awaiting",
        "binding",
        "deadline",
        "entity",
        "held_by",
        "held_for",
        "newest",
        "node",
        "phase",
        "pod",
        "profile",
        "queued_at",
        "sign",
        "state",
        "told",
        "tries",
    )

    def __init__(self, pod: PodInfo, profile: Profile, now: float) -> None:
        self.profile = profile
        self.queued_at = now
        self.entity: Entity | None = None
        self.phase = Phase.QUEUED
        self.node = ""
        self.state = CycleState()
        self.awaiting: set[int] = set()
        self.binding: Bind | None = None
        self.held_by = ""
        self.held_for = 0.0
        self.deadline = 0.0
        self.tries = 0
        self.told: tuple[str, str] | None = None
        self.newest: PodInfo | None = None
        self.pod = pod
        self.sign: Hashable | None = _sign(profile, pod)

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.pod.metadata.uid

    @property
    def kind(self) -> Hashable:
        """Pods of one kind are judged alike."""
        return self.sign if self.sign is not None else self.uid

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
        return f"Member({self.pod.key}, {self.phase.value})"


def _sign(profile: Profile, pod: PodInfo) -> Hashable | None:
    try:
        return profile.sign(pod)
    except Exception:
        # Judged alone a pod costs more, and nothing else.
        log.exception("pod %s: no signature", pod.key)
        return None
