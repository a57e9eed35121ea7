"""How many pods ran and waited in the last hour, for the chart."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from arranger.ui.views.observed import Observed

#: Seconds between two samples, and how many are kept.
INTERVAL: Final = 5.0
_KEPT: Final = 720
#: Samples from which the rate is taken: a minute.
_RATE_SAMPLES: Final = 12


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment.

    Attributes:
        at: seconds since 1970.
        arrived: pods that have a node now and had none at the sample before.
    """

    at: float
    running: int
    waiting: int
    arrived: int


@dataclass(eq=False)
class History:
    """The samples, oldest first."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _placed: frozenset[str] | None = None

    def take(self, observed: Observed, at: float) -> None:
        """Remember how things are."""
        placed = frozenset(info.uid for info, _ in observed.engine.cluster.placed_pods())
        before = self._placed
        self._placed = placed
        states = observed.states
        running = states["Running"] + states["Starting"]
        waiting = states["Waiting"] + states["Gated"]
        arrived = len(placed - before) if before is not None else 0
        self.samples.append(Sample(at, running, waiting, arrived))

    def rate(self) -> str:
        """Pods that got a node in the last minute, in words; "" before there is anything to say."""
        recent = list(self.samples)[-_RATE_SAMPLES - 1 :]
        if len(recent) < 2:
            return ""
        seconds = recent[-1].at - recent[0].at
        count = sum(sample.arrived for sample in recent[1:])
        return f"{count:,} pods in the last {seconds:.0f} s"

    def columns(self) -> list[list[float]]:
        """Times, pods that run, pods that wait: as a chart is drawn from."""
        return [
            [sample.at for sample in self.samples],
            [sample.running for sample in self.samples],
            [sample.waiting for sample in self.samples],
        ]
