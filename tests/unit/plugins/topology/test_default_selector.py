"""By which Services a pod is spread where nobody says how, and how many of them are looked at."""

from __future__ import annotations

import pytest

from arranger.api.types.core import ObjectMeta
from arranger.api.types.workloads import Service, ServiceSpec
from arranger.cluster import ObjectStore
from arranger.plugins.topology import spread_constraints
from arranger.plugins.topology.spread_constraints import default_selector
from tests.builders import a_pod


def a_service(name: str, **selector: str) -> Service:
    metadata = ObjectMeta(name=name, namespace="default", uid=name)
    return Service(metadata, ServiceSpec(selector))


SERVICES = [a_service("a", app="x"), a_service("b", app="y"), a_service("c", tier="1", zone="2")]


@pytest.mark.parametrize(
    ("most", "selected"),
    [
        (50_000, {"app": "x", "tier": "1", "zone": "2"}),
        (4, {"app": "x", "tier": "1", "zone": "2"}),
        (3, {"app": "x"}),
        (1, {"app": "x"}),
        (0, {}),
    ],
)
def test_a_pod_is_spread_with_those_of_the_first_services_that_select_it(
    most: int, selected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread_constraints, "MAX_COMPARED", most)
    objects = ObjectStore()
    for service in SERVICES:
        objects.set(service)
    pod = a_pod("p").labelled(app="x", tier="1", zone="2").build()
    found = [dict(each.match_labels) for each in default_selector(pod, objects)]
    assert found == ([selected] if selected else [])
