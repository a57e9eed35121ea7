"""What a Gang object says of its gang."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.settings.gang_membership import gang_membership
from arranger.api.settings.gang_settings import GangSettings, MatchPolicy, Mode, Topology
from arranger.gangs.gang_object import dialect_of, gang_manifest, gang_object_spec, gangs_path
from tests.builders import PodBuilder, a_pod

DEFAULTS = {
    "mode": "Strict",
    "matchPolicy": "once-satisfied",
    "waitTimeSeconds": 600,
    "group": None,
    "bundles": [{"name": "", "minMember": 0}],
    "topology": None,
    "source": None,
}

SPECS: dict[str, tuple[GangSettings, dict[str, Any]]] = {
    "a gang that says nothing has the defaults": (GangSettings(), {}),
    "one role without a name has the minimum": (
        GangSettings(minimum=3),
        {"bundles": [{"name": "", "minMember": 3}]},
    ),
    "roles are told in the order of their names, whatever the minimum of all": (
        GangSettings(minimum=9, bundle_minimums=(("worker", 2), ("ps", 1))),
        {"bundles": [{"name": "ps", "minMember": 1}, {"name": "worker", "minMember": 2}]},
    ),
    "modes and policies are told in their words": (
        GangSettings(mode=Mode.NON_STRICT, match_policy=MatchPolicy.WAITING_AND_RUNNING),
        {"mode": "NonStrict", "matchPolicy": "waiting-and-running"},
    ),
    "its own wait time goes before that of all, in whole seconds": (
        GangSettings(wait_time=0.2),
        {"waitTimeSeconds": 1},
    ),
    "partners are told in the order of their names": (
        GangSettings(groups=("z/b", "a/c")),
        {"group": ["a/c", "z/b"]},
    ),
    "a topology is told with how strict it is": (
        GangSettings(topology=Topology("zone", required=False)),
        {"topology": {"key": "zone", "required": False}},
    ),
}


@pytest.mark.parametrize(("settings", "differs"), SPECS.values(), ids=SPECS.keys())
def test_the_spec(settings: GangSettings, differs: dict[str, Any]) -> None:
    spec = gang_object_spec(settings, sources=(), wait_time=599.5)
    assert spec == DEFAULTS | differs


@pytest.mark.parametrize(
    ("sources", "source"),
    [((), None), (("",), None), (("volcano.sh", "", "arranger.io"), "arranger.io")],
    ids=["none", "one that is unknown", "the first by name of several"],
)
def test_the_source(sources: tuple[str, ...], source: str | None) -> None:
    spec = gang_object_spec(GangSettings(), sources=sources, wait_time=1)
    assert spec["source"] == source


def test_a_manifest_leaves_out_what_is_not_said() -> None:
    made = gang_manifest("team/g", {"mode": "Strict", "group": None}, managed_by="us")
    assert made == {
        "apiVersion": "arranger.io/v1alpha1",
        "kind": "Gang",
        "metadata": {
            "name": "g",
            "namespace": "team",
            "labels": {"app.kubernetes.io/managed-by": "us"},
        },
        "spec": {"mode": "Strict"},
    }
    assert gangs_path("team") == "/apis/arranger.io/v1alpha1/namespaces/team/gangs"


@pytest.mark.parametrize(
    ("pod", "dialect"),
    [
        pytest.param(a_pod().in_gang("g", 1), "gang.scheduling.koordinator.sh", id="annotations"),
        pytest.param(a_pod().in_bundle("g", "ps", 1), "gang.koordinater.io", id="roles"),
        pytest.param(
            a_pod().in_pod_group("g"), "scheduling.sigs.k8s.io", id="a label that names a PodGroup"
        ),
        pytest.param(
            a_pod().annotated({"pod-group.scheduling.sigs.k8s.io/name": "g"}),
            "pod-group.scheduling.sigs.k8s.io",
            id="annotations of a light-weight PodGroup",
        ),
        pytest.param(
            a_pod().annotated({"scheduling.k8s.io/group-name": "g"}),
            "scheduling.volcano.sh",
            id="Volcano's annotation",
        ),
    ],
)
def test_in_which_words_a_pod_is_a_member(pod: PodBuilder, dialect: str) -> None:
    membership = gang_membership(pod.build())
    assert membership is not None
    assert dialect_of(pod.build(), membership) == dialect
