"""Of Gang objects a forecast writes what keeps gangs from being tried, and no records."""

from __future__ import annotations

from arranger.api.types.pod_groups import GangObject
from arranger.daemon.config.schema import Config
from arranger.shadow import ClusterObjects
from arranger.shadow.forecasts.forecast import Forecast, forecast
from arranger.shadow.inputs.objects import owner_kinds
from tests.builders import Manifest, a_pod
from tests.simulation.shadow.asking import NOW, Given, manifests, node


def told(*given: Given) -> Forecast:
    """What the scheduler would do with these objects."""
    config = Config()
    known = ClusterObjects.from_manifests(manifests(given), owner_kinds(config))
    found = forecast(known, config, now=NOW)
    found.engine.check_consistent()
    return found


def a_gang_object(**status: object) -> Manifest:
    return {
        "apiVersion": "arranger.io/v1alpha1",
        "kind": "Gang",
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"source": "annotations", "bundles": []},
        "status": status,
    }


def test_nothing_is_recorded_as_nobody_goes_on_after_a_forecast() -> None:
    """Of thousands of gangs without objects each would take a tenth of a second to get one."""
    gangs = [a_pod(f"old-{n}").needs(cpu="1m").on("n1").in_gang(f"g{n}", 1) for n in range(10)]
    found = told(node(cpu=4), *gangs, a_pod("new").needs(cpu=1).in_gang("g", 1))
    assert found.nodes == {"default/new": "n1"}
    assert not list(found.objects.of(GangObject))


def test_a_gang_is_tried_whose_object_says_that_it_has_had_its_minimum() -> None:
    """The scheduler corrects the object before; so does a forecast."""
    members = [a_pod(f"m-{n}").needs(cpu=1).in_gang("g", 2) for n in range(2)]
    found = told(node(cpu=4), a_gang_object(resourceSatisfied=True), *members)
    assert found.nodes == {"default/m-0": "n1", "default/m-1": "n1"}
    (corrected,) = found.objects.of(GangObject)
    assert not corrected.status.resource_satisfied
