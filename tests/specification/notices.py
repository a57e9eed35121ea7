"""Time to save one's state: who was told that it has to leave, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.specification.manifests import (
    Object,
    has_started,
    is_given_notice,
    name_of,
    notes_of,
    seconds_in,
    seconds_run,
)
from tests.specification.premises import Premises
from tests.specification.queues import run_time_limit
from tests.specification.trace import Step, World

_ASKS = "arranger.io/checkpoint-before-eviction"
_SAVED = "arranger.io/checkpointed-at"
#: Seconds of Go's longest duration: a longer one cannot be read.
_LONGEST = 2**63 / 1e9


@dataclass(slots=True)
class Notice:
    """A pod was told that it will have to leave, and had asked for so many seconds."""

    at: float
    asked: float
    saved: str


@dataclass(slots=True)
class NoticeBook:
    """The notices that stand, by the pods' uids."""

    premises: Premises
    _notices: dict[str, Notice] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """A pod is about to be as the step says."""
        pod, uid = step.after, step.after["metadata"].get("uid", "")
        if not is_given_notice(pod):
            if not step.begins_to_leave and step.kind != "DELETED":
                self.forget(uid)
        elif uid not in self._notices:
            saved = notes_of(pod).get(_SAVED, "")
            self._notices[uid] = Notice(step.at, self._time_asked(pod), saved)

    def forget(self, uid: str) -> None:
        """A pod is gone, or was told that it stays."""
        self._notices.pop(uid, None)

    def wrong_with(self, world: World, step: Step) -> Iterator[str]:
        """What is wrong with an eviction: no notice, or less time than was asked for.

        Not before the pod has started, nor beyond its run time.
        """
        victim = step.before if step.before is not None else step.after
        notice = self._notices.get(victim["metadata"].get("uid", ""))
        if not has_started(victim):
            return
        if notice is None:
            if asked := self._time_asked(victim):
                yield f"{name_of(victim)} asked for {asked:g} s and was given no notice"
            return
        limit, ran = run_time_limit(world, victim), seconds_run(step.after)
        over = limit is not None and ran is not None and ran >= limit - 1
        had, saved = step.at - notice.at, notes_of(victim).get(_SAVED, "")
        # Times of the API are whole seconds.
        if had < notice.asked - 2 and saved == notice.saved and not over:
            yield f"{name_of(victim)} was given {had:g} s of {notice.asked:g} s"

    def _time_asked(self, pod: Object) -> float:
        asked = seconds_in(notes_of(pod).get(_ASKS, "")) or 0.0
        return 0.0 if asked > _LONGEST else min(asked, self.premises.max_checkpoint)
