"""Where nothing changes, the scheduler comes to rest: no write goes on, and no two notes alternate.

What it writes meanwhile is for people: no text shows how Python prints its objects.
"""

from __future__ import annotations

import random
import re

import pytest

from arranger.api.effects import PatchPodStatus, PublishEvent
from arranger.kube.events import REPEAT_TIME, EventRecorder
from tests.unit.engine.stateful.standstill import StandstillWorld

WORLDS = 150
HOUR = 3600.0
#: By then every wait time, protection and starvation has ended.
CALM = 2 * HOUR
PYTHON = re.compile(
    r"\{'|\['|\('|None|<class|<arranger|Counter\(|frozenset|dict_|array\(|np\.|Decimal|\bobject at"
    r"|\bnan\b|defaultdict|set\(\)|<function|Enum|Traceback|Error\("
)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_where_nothing_changes_nothing_is_written_for_ever(seed: int) -> None:
    world = StandstillWorld(random.Random(seed))
    world.run_until(CALM)
    before = {_identity(e) for _, e in world.told if isinstance(e, PublishEvent)}
    calm = len(world.told)
    world.run_until(2 * CALM)
    later = [effect for _, effect in world.told[calm:]]
    assert [e for e in later if not isinstance(e, PublishEvent)] == []
    assert {_identity(e) for e in later if isinstance(e, PublishEvent)} <= before
    texts = [e.note for _, e in world.told if isinstance(e, PublishEvent)]
    texts += [
        e.condition.message
        for _, e in world.told
        if isinstance(e, PatchPodStatus) and e.condition is not None
    ]
    assert [text for text in texts if PYTHON.search(text)] == []


@pytest.mark.parametrize("seed", range(0, WORLDS, 15))
def test_where_nothing_changes_the_events_end(seed: int) -> None:
    world = StandstillWorld(random.Random(seed))
    recorder = EventRecorder("host", rng=random.Random(seed))
    writes: list[float] = []
    now = 0.0
    while now < CALM + REPEAT_TIME + 2 * HOUR:
        told = len(world.told)
        now += 60
        world.run_until(now)
        for at, effect in world.told[told:]:
            if isinstance(effect, PublishEvent):
                recorder.record(effect, at)
        recorder.tick(now)
        while (write := recorder.next()) is not None:
            writes.append(now)
            recorder.on_answer(write, 201 if write.method == "POST" else 200, now)
    assert not [at for at in writes if at > CALM + REPEAT_TIME + HOUR]


def _identity(event: PublishEvent) -> tuple[object, ...]:
    return event.regarding, event.reason, event.related, event.note
