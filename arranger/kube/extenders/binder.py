"""Bindings by extenders, whose outcome is found out where their answer does not tell it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from arranger.api.effects import Ambiguous, Applied, Bind, Outcome, Refused
from arranger.kube.client.backoff import Backoff
from arranger.kube.client.transport import RefusedConnectionError, TransportError
from arranger.kube.extenders.caller import ExtenderCaller, ExtenderCallError, call_error
from arranger.kube.extenders.wire import decode_binding_error, encode_binding_args
from arranger.kube.writes.binding import bound_node
from arranger.kube.writes.call import OutcomeCallback

#: Seconds for which a pod is read again and again that an extender may have bound.
AMBIGUITY_WINDOW: Final = 30.0


@dataclass(frozen=True, slots=True)
class ExtenderBinder:
    """Has extenders bind pods.

    Args:
        caller: reaches the extenders.
        may_write: whether pods may be bound now.
        rng: spreads the reads of a pod that may be bound.
    """

    caller: ExtenderCaller
    may_write: Callable[[], bool]
    rng: random.Random

    async def bind(self, bind: Bind, on_outcome: OutcomeCallback) -> None:
        """Have a pod bound; ``on_outcome`` is called as for a Binding of our own."""
        extender = bind.extender
        assert extender is not None, "no extender binds this pod"
        if not self.may_write():
            on_outcome(Refused(0, "NotLeader"))
            return
        try:
            error = await self.caller.post(
                extender,
                extender.bind_verb,
                encode_binding_args(bind),
                decode_binding_error,
                bind.pod.namespace,
            )
        except RefusedConnectionError as unsent:
            refused = call_error(extender, str(unsent)).refused
        except TransportError as lost:
            await self._resolve_ambiguous(bind, str(lost), on_outcome)
            return
        except ExtenderCallError as failure:
            refused = failure.refused
        else:
            if not error:
                on_outcome(Applied())
                return
            refused = call_error(extender, error).refused
        # It may have bound the pod all the same, and have failed at something else.
        try:
            outcome = await self._read_outcome(bind) or refused
        except ExtenderCallError:
            await self._resolve_ambiguous(bind, refused.message, on_outcome)
        else:
            on_outcome(outcome)

    async def _resolve_ambiguous(self, bind: Bind, why: str, on_outcome: OutcomeCallback) -> None:
        """No answer came: read the pod until its outcome is known or the window has passed.

        An extender that binds even later is stopped by the API server if we have bound the pod
        by then, and is believed if we have not.
        """
        on_outcome(Ambiguous(why))
        loop = asyncio.get_running_loop()
        pauses, end = Backoff(self.rng, first=0.25, limit=5.0), loop.time() + AMBIGUITY_WINDOW
        while True:
            outcome = None
            with suppress(ExtenderCallError):
                outcome = await self._read_outcome(bind)
            if outcome is not None or loop.time() >= end:
                break
            await asyncio.sleep(pauses.next_delay())
        assert bind.extender is not None
        on_outcome(
            outcome or call_error(bind.extender, f"{why}; and the pod is not seen bound").refused
        )

    async def _read_outcome(self, bind: Bind) -> Outcome | None:
        """What the pod says of its binding; None while it is not bound.

        Raises:
            ExtenderCallError: it cannot be read.
        """
        try:
            raw = await self.caller.read_pod(bind.pod, bind.pod.namespace)
        except ExtenderCallError as error:
            if error.refused.reason in ("NotFound", "Replaced"):
                return error.refused
            raise
        node = bound_node(raw)
        if node == bind.node:
            return Applied()
        return Refused(409, "AlreadyBound", f"the pod is bound to {node}") if node else None
