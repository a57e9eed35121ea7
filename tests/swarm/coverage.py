"""What has been entered: which phases follow which, and what happens to pods in which phase."""

from __future__ import annotations

from collections import Counter

from arranger.daemon.scheduler import Scheduler
from tests.swarm.world import Event


class Coverage:
    """Counts pairs."""

    def __init__(self) -> None:
        self.pairs: Counter[tuple[str, str]] = Counter()

    def watch(self, scheduler: Scheduler) -> None:
        """A scheduler has been started."""

    def note_event(self, event: Event) -> None:
        """Something happens."""
