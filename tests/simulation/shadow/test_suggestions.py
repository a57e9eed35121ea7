"""What ``why`` suggests helps: in random worlds at rest, whoever waits is placed by a fresh shadow.

The suggestion was tried in a copy of the scheduler that had placed all others. The judge knows
nothing of that one: it starts with the objects as they are then, and is asked what the change does.
"""

from __future__ import annotations

import os
from functools import partial

from arranger.shadow import Present, Shadow, WhatIf
from arranger.shadow.answers.suggestions import Suggester
from arranger.shadow.answers.why import Suggestion, WhyAnswers
from arranger.shadow.forecasts.changes import ClusterChange
from arranger.shadow.forecasts.forecast import Driver
from tests.simulation.shadow.truth import CONFIG, a_forecast_world, as_read, at

#: Worlds, each with at most so many pods that are asked about, and the first of them.
WORLDS = int(os.environ.get("ARRANGER_WORLDS", "20"))
ASKED = 1
FIRST = 8_000_000
#: Seconds in which changes are tried, of the clock: more than any world takes.
LONG = 50.0
#: A gang that holds nodes for members until its time is up. Which gang does so first is known to
#: an engine that has tried all of them, and not to one that starts: world 8,000,036.
_REMEMBERED = "ran out of time"


def suggestions(driver: Driver) -> list[tuple[str, ClusterChange, Suggestion]]:
    """(pod, change, what is promised) of some that wait once all others are placed."""
    told = driver.settle()
    answers, found = WhyAnswers(told), []
    waiting = [key for key, why in told.waiting.items() if _REMEMBERED not in why]
    for key in waiting[:ASKED]:
        entity = answers.entity_of(key)
        if entity is None or key in told.held:
            continue
        suggester = Suggester(driver, told, LONG)
        promised, _ = suggester.suggest(entity, entity.representative)
        changes = {
            change.text: change
            for _, change in suggester._candidates(entity, entity.representative)
        }
        found += [(key, changes[each.change], each) for each in promised]
    return found


def test_what_is_suggested_places_the_pod() -> None:
    judged = 0
    for seed in range(FIRST, FIRST + WORLDS):
        known, began = as_read(a_forecast_world(seed))
        shadow = Shadow.of(known, CONFIG, calendar=partial(at, began))
        driver = Driver(shadow.engine, known, CONFIG, began, shadow._clocks.now())
        found = suggestions(driver)
        for key, change, promised in found:
            judge = Shadow.of(driver.objects.copy(), CONFIG, calendar=partial(at, began))
            told = judge.ask_now(WhatIf([change]))
            where = f"world {seed}, {key}: {change.text}"
            assert promised.nodes, where
            if any(_REMEMBERED in told.still_waiting.get(pod, "") for pod in promised.nodes):
                continue
            assert promised.nodes.keys().isdisjoint(judge.ask_now(Present()).nodes), where
            assert promised.nodes.keys() <= {**told.placed, **told.moved}.keys(), where
            judged += 1
    assert judged > WORLDS / 4, "many have suggestions"
