"""A line in the log for what became of each binding and eviction, and never too many of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import structlog

from arranger.api.effects import Ambiguous, Applied, Bind, DeletePod, Eviction, Outcome, Refused
from arranger.daemon.token_bucket import TokenBucket
from arranger.kube.client.problems import missing_right

log = structlog.get_logger(__name__)

#: Seconds after which the lines left out are counted in one.
SUMMARY_INTERVAL: Final = 10.0

_DELETED: Final = Eviction("", "")


@dataclass(eq=False)
class DecisionLog:
    """Logs outcomes of bindings and evictions.

    Nothing is put into words before it is known that it will be written: in a burst of a thousand
    pods a second the log costs nothing.

    Args:
        call_later: calls a function after so many seconds; what was left out is counted then.
    """

    call_later: Callable[[float, Callable[[], None]], object]
    _: KW_ONLY
    _buckets: dict[str, TokenBucket] = field(default_factory=dict, init=False)
    _left_out: Counter[str] = field(default_factory=Counter, init=False)

    def record(self, effect: Bind | DeletePod, outcome: Outcome, now: float) -> None:
        """What became of a binding or an eviction."""
        done = "bound" if isinstance(effect, Bind) else "evicted"
        match outcome:
            case Applied():
                event = f"pod.{done}"
            case Ambiguous():
                event = f"pod.{done}_unknown"
            case Refused() if outcome.status and not _lacks_right(outcome):
                event = f"pod.not_{done}"
            case _:
                # Nothing was sent, or the log has a line for the right that is missing.
                return
        bucket = self._buckets.get(event)
        if bucket is None:
            bucket = self._buckets[event] = TokenBucket()
        if bucket.take(now):
            _write(event, effect, outcome)
            return
        if not self._left_out:
            self.call_later(SUMMARY_INTERVAL, self._summarize)
        self._left_out[event] += 1

    def _summarize(self) -> None:
        counts = {event.partition(".")[2]: count for event, count in self._left_out.items()}
        self._left_out.clear()
        log.info("pods.not_logged", seconds=SUMMARY_INTERVAL, **counts)


def _lacks_right(outcome: Refused) -> bool:
    return missing_right(outcome.status, outcome.message, "") is not None


def _write(event: str, effect: Bind | DeletePod, outcome: Outcome) -> None:
    fields: dict[str, object] = {"pod": str(effect.pod)}
    if isinstance(effect, Bind):
        fields["node"] = effect.node
    else:
        why = effect.eviction or _DELETED
        fields |= {"node": why.node, "reason": why.reason, "taker": why.taker}
        fields |= {"gang": why.gang, "taker_queue": why.queue}
    match outcome:
        case Refused():
            fields["refused"] = f"{outcome.status} {outcome.reason} {outcome.message}".rstrip()
        case Ambiguous():
            fields["error"] = outcome.reason
    shown = {name: value for name, value in fields.items() if value}
    if isinstance(outcome, Applied):
        log.info(event, **shown)
    else:
        log.warning(event, **shown)
