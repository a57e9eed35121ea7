"""Patches of one pod's status, in order: the last one submitted is the one that stays.

Two patches on their way at once may arrive in either order, and one that is tried again arrives
after those that were sent meanwhile. So a pod has one at a time; further patches that are
submitted before it has been answered are merged into it, or sent right after it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from arranger.api.effects import Applied, Outcome, PatchPodStatus
from arranger.kube.writes.call import ApiCall, CallContext, OutcomeCallback, Retry

#: Makes the call of one patch, to be tried until it is answered.
CallFactory = Callable[[PatchPodStatus], ApiCall]


class _Subscribers(list[OutcomeCallback]):
    """All who are told of one outcome; apart from the patch, so that no reference cycle is made."""

    def __call__(self, outcome: Outcome) -> None:
        for on_outcome in self:
            on_outcome(outcome)


class CoalescedStatusPatch(ApiCall):
    """All unanswered patches of the status of one pod.

    Attributes:
        effect: all of them merged into one.
    """

    call_type = "patch_status"

    def __init__(
        self,
        effect: PatchPodStatus,
        on_outcome: OutcomeCallback,
        make_call: CallFactory,
        rng: random.Random,
    ) -> None:
        self._subscribers = _Subscribers([on_outcome])
        super().__init__(self._subscribers, rng)
        self._make_call = make_call
        self.effect = effect
        self._call: ApiCall | None = None
        self._changed = False

    def merge(self, effect: PatchPodStatus, on_outcome: OutcomeCallback) -> None:
        """Add a patch; it replaces what an earlier one has set in the same field."""
        earlier = self.effect
        condition, node = effect.condition or earlier.condition, effect.nominated_node
        node = earlier.nominated_node if node is None else node
        self.effect = replace(effect, condition=condition, nominated_node=node)
        self._subscribers.append(on_outcome)
        self._changed = True

    def drop_outdated(self) -> None:
        """The pod is being bound: drop the condition that says why it waits, and its nomination.

        The server clears a nomination with the Binding, and refuses another after it.
        """
        condition = self.effect.condition
        if condition is not None and condition.type == "PodScheduled":
            condition = None
        # Clearing a nomination stays: the Binding may fail, and be tried on another node.
        nominated = "" if self.effect.nominated_node == "" else None
        self.effect = replace(self.effect, condition=condition, nominated_node=nominated)
        self._call = None

    async def execute(self, context: CallContext) -> Outcome | Retry:
        """Send it, and after it what has been merged in meanwhile."""
        while True:
            if self.effect.condition is None and self.effect.nominated_node is None:
                return Applied()
            if self._call is None or self._changed:
                self._call, self._changed = self._make_call(self.effect), False
            answer = await self._call.execute(context)
            if isinstance(answer, Retry) or not self._changed:
                return answer
