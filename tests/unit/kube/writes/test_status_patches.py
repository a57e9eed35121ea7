"""What is left of patches of a pod's status once they are answered."""

from __future__ import annotations

import gc
import random
from datetime import UTC, datetime
from typing import Final

from arranger.api.effects import Applied, ObjectKey, Outcome, PatchPodStatus
from arranger.kube.writes.pods import PodCallFactory

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_an_answered_patch_is_freed_at_once() -> None:
    """A reference cycle would stay until the collector looks, which is rare."""
    heard: list[Outcome] = []
    calls = PodCallFactory(random.Random(1), lambda: NOON)
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            pod = ObjectKey("default", "p", "uid")
            call = calls.patch_status(PatchPodStatus(pod, None, "n"), heard.append)
            assert call is not None
            assert calls.patch_status(PatchPodStatus(pod, None, "m"), heard.append) is None
            call.on_outcome(Applied())
            del call
        assert len(heard) == 10
        assert gc.collect() == 0
    finally:
        gc.enable()
