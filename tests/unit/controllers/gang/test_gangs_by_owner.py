"""The controllers leave alone the Gangs of pods that are one because of their owner."""

from __future__ import annotations

from typing import Any

from arranger.controllers.gang.cache import GANG_GROUP, GangCache
from tests.builders import an_unstructured


def a_gang(source: str) -> dict[str, Any]:
    return {
        "apiVersion": "arranger.io/v1alpha1",
        "kind": "Gang",
        "metadata": {
            "name": "g",
            "namespace": "default",
            "uid": "uid-g",
            "resourceVersion": "1",
            "labels": {"app.kubernetes.io/managed-by": "arranger"},
        },
        "spec": {"source": source, "bundles": [{"name": "", "minMember": 3}]},
        "status": {"resourceSatisfied": True},
    }


def changes_about(source: str) -> list[bool]:
    """Of each change to a Gang that has no pods here: whether it is deleted."""
    cache = GangCache()
    cache.on_definition_updated(GANG_GROUP, None)
    cache.on_object_updated(GANG_GROUP, an_unstructured(a_gang(source)))
    return [change.delete for change in cache.changes("default/g", "2026-01-01T00:00:00Z")]


def test_a_gang_whose_pods_only_the_scheduler_knows_is_not_deleted() -> None:
    assert changes_about("workload") == []
    assert changes_about("gang.scheduling.koordinator.sh") == [True]
