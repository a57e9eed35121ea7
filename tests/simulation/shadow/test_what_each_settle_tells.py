"""A forecast that goes on from another one tells of its own evictions only."""

from __future__ import annotations

from arranger.shadow.answers.capacity import Capacity
from arranger.shadow.forecasts.changes import create
from arranger.shadow.forecasts.forecast import Driver
from tests.builders import PodBuilder, a_pod
from tests.simulation.shadow.asking import NOW, Given, a_shadow, busy, manifests, node
from tests.simulation.shadow.truth import CONFIG


def urgent(name: str, priority: int, cpu: int, on: str) -> PodBuilder:
    here = {"kubernetes.io/hostname": on}
    return a_pod(name).needs(cpu=cpu).with_priority(priority).selects(here)


#: ``first`` takes the place of a member of a StatefulSet, which comes back and goes to ``n2``.
CLUSTER: list[Given] = [
    node("n1"),
    node("n2"),
    busy("db-0", 3).owned_by("StatefulSet", "db"),
    urgent("first", 9, 3, on="n1"),
]


def test_who_was_evicted_before_is_not_named_again() -> None:
    shadow = a_shadow([*CLUSTER, node("n3"), busy("old", 4, on="n3")])
    driver = Driver(shadow.engine, shadow.objects, CONFIG, NOW)
    before = driver.settle()
    assert set(before.evicted) == set(before.replaced) == {"default/db-0"}
    driver.change([create(manifests([urgent("second", 9, 4, on="n3")]), "one more")])
    after = driver.settle()
    assert set(after.evicted) == {"default/old"}
    assert after.nodes == {"default/second": "n3"}
    assert not after.replaced
    assert set(before.evicted) == {"default/db-0"}


def test_who_is_evicted_once_more_under_its_name_is_named() -> None:
    copy = urgent("new", 9, 4, on="n2")
    told = a_shadow(CLUSTER).ask_now(Capacity(manifests([copy])))
    assert (told.copies, told.blocked) == (0, {"default/db-0": "evicts default/db-0"})
