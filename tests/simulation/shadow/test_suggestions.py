"""What ``why`` suggests helps: in random worlds at rest, whoever waits is placed by a fresh shadow.

The suggestion was tried in a copy of the scheduler that had placed all others. The judge knows
nothing of that one: it starts with the objects as they are then, and is asked what the change does.
"""

from __future__ import annotations

import os
from functools import partial

from arranger.shadow import ClusterObjects, Present, Shadow, WhatIf
from arranger.shadow.answers.missing_members import arrival
from arranger.shadow.answers.suggestions import Suggester
from arranger.shadow.answers.why import Suggestion, WhyAnswers
from arranger.shadow.forecasts.changes import ClusterChange
from arranger.shadow.forecasts.forecast import Driver
from tests.builders import a_pod
from tests.simulation.shadow.asking import NOW, a_shadow, busy, node
from tests.simulation.shadow.truth import CONFIG, a_forecast_world, as_read, at

#: Worlds, in each of which one pod is asked about, and the first of them.
WORLDS = int(os.environ.get("ARRANGER_WORLDS", "20"))
FIRST = 8_000_000
#: Seconds in which changes are tried, of the clock: more than any world takes.
LONG = 50.0
#: A gang that holds nodes for members until its time is up. Which gang does so first is known to
#: an engine that has tried all of them, and not to one that starts: world 8,000,036.
_REMEMBERED = "ran out of time"


def suggestions(
    driver: Driver,
) -> tuple[ClusterObjects, list[tuple[str, list[ClusterChange], Suggestion]]]:
    """The objects once all others are placed; (pod, changes, promise) of one that waits."""
    told = driver.settle()
    objects = driver.objects.copy()
    answers, found = WhyAnswers(told), []
    waiting = [key for key, why in told.waiting.items() if _REMEMBERED not in why]
    for key in waiting[:1]:
        entity = answers.entity_of(key)
        if entity is None or key in told.held:
            continue
        suggester = Suggester(driver, told, LONG)
        promised, _ = suggester.suggest(entity, entity.representative)
        changes = {
            change.text: [change]
            for _, change in suggester._candidates(entity, entity.representative)
        }
        rest = arrival(entity, told.engine)
        if rest is not None and any(each.change not in changes for each in promised):
            changes |= _once_complete(driver, rest, key)
        found += [(key, changes[each.change], each) for each in promised]
    return objects, found


def _once_complete(driver: Driver, rest: ClusterChange, key: str) -> dict[str, list[ClusterChange]]:
    """What might be suggested once the rest of a gang has come, by its text; the driver goes on."""
    driver.change([rest])
    told = driver.settle()
    entity = WhyAnswers(told).entity_of(key)
    if entity is None:
        return {}
    candidates = Suggester(driver, told, LONG)._candidates(entity, entity.representative)
    return {f"{rest.text}, and then {each.text}": [rest, each] for _, each in candidates}


def test_what_is_suggested_places_the_pod() -> None:
    judged = 0
    for seed in range(FIRST, FIRST + WORLDS):
        known, began = as_read(a_forecast_world(seed))
        shadow = Shadow.of(known, CONFIG, calendar=partial(at, began))
        driver = Driver(shadow.engine, known, CONFIG, began, shadow._clocks.now())
        objects, found = suggestions(driver)
        for key, changes, promised in found:
            judge = Shadow.of(objects.copy(), CONFIG, calendar=partial(at, began))
            told = judge.ask_now(WhatIf(changes))
            where = f"world {seed}, {key}: {promised.change}"
            assert promised.nodes, where
            if any(_REMEMBERED in told.still_waiting.get(pod, "") for pod in promised.nodes):
                continue
            assert promised.nodes.keys().isdisjoint(judge.ask_now(Present()).nodes), where
            assert promised.nodes.keys() <= {**told.placed, **told.moved}.keys(), where
            judged += 1
    assert judged > WORLDS / 4, "many have suggestions"


def test_no_end_on_a_node_that_is_too_small_and_no_more_like_it_are_suggested() -> None:
    """Only the tainted one would hold it; whoever leaves the others leaves too little."""
    big = node("big", cpu=16).with_spec(taints=[{"key": "gpu", "effect": "NoSchedule"}])
    given = [node("n1"), node("n2"), busy("old", 3), big, a_pod("new").needs(cpu=12)]
    shadow = a_shadow(given)
    driver = Driver(shadow.engine, shadow.objects, CONFIG, NOW)
    told = driver.settle()
    (entity,) = told.engine.queue.entities()
    _, named = Suggester(driver, told, 0.0).suggest(entity, entity.representative)
    assert named[0] == "node big without its taints, or with a toleration"
    assert not [each for each in named if "ends" in each or "more node" in each]
