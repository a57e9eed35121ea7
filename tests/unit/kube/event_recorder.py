"""A recorder of events with its clock, and the events of one pod."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

from arranger.api.effects import ObjectReference, PublishEvent
from arranger.kube.events import EventRecorder, EventWrite

POD = ObjectReference("v1", "Pod", "team", "web-0", "uid-1")
FAILED = PublishEvent(
    regarding=POD,
    reason="FailedScheduling",
    action="Scheduling",
    note="0/3 nodes are available",
    type="Warning",
)


class RecorderHarness:
    """A recorder with its clock, and a server that answers as told."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0.0
        self.start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        self.recorder = EventRecorder(
            "host-1",
            rng=random.Random(1),
            clock=lambda: self.start + timedelta(seconds=self.now),
            **settings,
        )
        self.sent: list[EventWrite] = []
        #: Name → the Event as the server has it.
        self.events: dict[str, dict[str, Any]] = {}

    def record(self, event: PublishEvent = FAILED, times: int = 1) -> None:
        for _ in range(times):
            self.recorder.record(event, self.now)

    def send(self, status: int = 201) -> list[tuple[str, int]]:
        """Answer all that is ready; gives each request's method and the count it carried."""
        got = []
        while (write := self.recorder.next()) is not None:
            self.sent.append(write)
            body = json.loads(write.body)
            series = body.get("series") or {"count": 1}
            if status < 300:
                name = write.path.rpartition("/")[2]
                self.events.setdefault(body.get("metadata", {}).get("name", name), {}).update(body)
            got.append((write.method, series["count"]))
            self.recorder.on_answer(write, status, self.now)
            if len(got) > 20:
                raise AssertionError("no end")
        return got

    def wait(self, seconds: float) -> None:
        """Let time pass, ticking whenever the recorder wants."""
        end = self.now + seconds
        while self.recorder.next_due() <= end:
            self.now = max(self.now, self.recorder.next_due())
            self.recorder.tick(self.now)
        self.now = end

    def newest(self) -> str:
        """The note of the Event that was observed last, as the server has it."""

        def seen(event: dict[str, Any]) -> tuple[str, str]:
            last = event.get("series", {}).get("lastObservedTime", event["eventTime"])
            return last, event["metadata"]["name"]

        return str(max(self.events.values(), key=seen)["note"])

    def body(self, which: int = -1) -> Any:
        return json.loads(self.sent[which].body)
