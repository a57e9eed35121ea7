"""Settings of gangs by PodGroups, their precedence, and durations."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arranger.api.parsing.duration import parse_duration
from arranger.api.settings.gang_settings import (
    GangSettings,
    MatchPolicy,
    Mode,
    Topology,
    pod_group_settings,
)
from arranger.api.types.pod_groups import (
    POD_GROUPS,
    AnyPodGroup,
    CommunityPodGroup,
    NativePodGroup,
    SigsPodGroup,
    VolcanoPodGroup,
)
from tests.unit.api.test_gang_membership import KOORDINATOR, Notes, in_g

# --- settings of PodGroups -------------------------------------------------------------------


def group(kind: type[AnyPodGroup], notes: Notes | None = None, **spec: Any) -> AnyPodGroup:
    meta = {"name": "g", "namespace": "default", "annotations": notes or {}}
    return msgspec.convert({"metadata": meta, "spec": spec}, kind)


TOPOLOGY = {"topology": [{"key": "zone"}]}
NO_QUANTITY = "is not a quantity: expected a number, with a suffix such as m or Ki"
GANG_POLICY = {"gang": {"minCount": 4}}
GROUPS: dict[str, tuple[AnyPodGroup, GangSettings, list[str]]] = {
    "of scheduling.sigs.k8s.io": (
        group(SigsPodGroup, minMember=3, scheduleTimeoutSeconds=60),
        GangSettings(minimum=3, wait_time=60.0),
        [],
    ),
    "of scheduling.x-k8s.io": (group(CommunityPodGroup, minMember=3), GangSettings(minimum=3), []),
    "of Volcano, with tasks": (
        group(VolcanoPodGroup, minMember=3, minTaskMember={"worker": 2, "ps": 1}),
        GangSettings(minimum=3, bundle_minimums=(("ps", 1), ("worker", 2))),
        [],
    ),
    "a minimum left out is none, as in Go": (group(SigsPodGroup), GangSettings(minimum=0), []),
    "no time is the default": (
        group(SigsPodGroup, minMember=1, scheduleTimeoutSeconds=0),
        GangSettings(minimum=1),
        [],
    ),
    "amounts that cannot be read": (
        group(VolcanoPodGroup, minMember=1, minResources={"cpu": "many"}),
        GangSettings(minimum=1),
        [f"spec.minResources: 'many' {NO_QUANTITY}"],
    ),
    "amounts below zero": (
        group(VolcanoPodGroup, minMember=1, minResources={"cpu": -1}),
        GangSettings(minimum=1),
        ["spec.minResources['cpu']: -1000 is less than zero"],
    ),
    "a time in the past": (
        group(SigsPodGroup, minMember=1, scheduleTimeoutSeconds=-5),
        GangSettings(minimum=1),
        ["spec.scheduleTimeoutSeconds: -5 is less than zero"],
    ),
    "a negative minimum": (
        group(SigsPodGroup, minMember=-1),
        GangSettings(minimum=0),
        ["spec.minMember: -1 is less than zero"],
    ),
    "more tasks than anybody has": (
        group(VolcanoPodGroup, minMember=3, minTaskMember={f"t{n}": 1 for n in range(1001)}),
        GangSettings(minimum=3),
        ["spec.minTaskMember: 1001 tasks are more than 1000, and none of them counts"],
    ),
    "more resources than anybody has": (
        group(VolcanoPodGroup, minMember=3, minResources={f"r{n}": "x" for n in range(129)}),
        GangSettings(minimum=3),
        ["spec.minResources: 129 resources are more than 128, and none of them counts"],
    ),
    "a negative minimum of a task": (
        group(VolcanoPodGroup, minMember=1, minTaskMember={"ps": -1}),
        GangSettings(minimum=1, bundle_minimums=(("ps", 0),)),
        ["spec.minTaskMember: -1 is less than zero"],
    ),
    "a minimum of none where there must be one": (
        group(CommunityPodGroup, minMember=0),
        GangSettings(minimum=0),
        ["spec.minMember: 0 is less than one"],
    ),
    "none where none is right": (group(VolcanoPodGroup, minMember=0), GangSettings(minimum=0), []),
    "numbers of more than 32 bits": (
        group(VolcanoPodGroup, minMember=2**31, minTaskMember={"ps": 2**63}),
        GangSettings(minimum=999_999_999, bundle_minimums=(("ps", 999_999_999),)),
        [
            "spec.minMember: '2147483648' is more than 2147483647",
            "spec.minTaskMember: '9223372036854775808' is more than 2147483647",
        ],
    ),
    "the largest number of 32 bits": (
        group(VolcanoPodGroup, minMember=2**31 - 1),
        GangSettings(minimum=999_999_999),
        [],
    ),
    "a time of more than 32 bits": (
        group(SigsPodGroup, minMember=1, scheduleTimeoutSeconds=2**31),
        GangSettings(minimum=1, wait_time=999_999_999.0),
        ["spec.scheduleTimeoutSeconds: '2147483648' is more than 2147483647"],
    ),
    "amounts beyond all": (
        group(VolcanoPodGroup, minMember=1, minResources={"a.io/x": "1e308", "a.io/y": "8E"}),
        GangSettings(minimum=1),
        ["spec.minResources['a.io/x']: '9223372036854775807' is more than 9223372036854775806"],
    ),
    "a class of a name that none has": (
        group(VolcanoPodGroup, minMember=1, priorityClassName="9" * 254),
        GangSettings(minimum=1),
        [f"spec.priorityClassName: '{'9' * 60}'... has more than 253 characters"],
    ),
    "annotations go before the spec": (
        group(
            SigsPodGroup,
            in_g(min_available="5", mode="NonStrict", waiting_time="9s"),
            minMember=3,
            scheduleTimeoutSeconds=60,
        ),
        GangSettings(minimum=5, mode=Mode.NON_STRICT, wait_time=9.0),
        [],
    ),
    "the seed's own spelling of groups": (
        group(SigsPodGroup, in_g(gang_groups='["a/b"]'), minMember=3),
        GangSettings(minimum=3, groups=("a/b",)),
        [],
    ),
    "a wrong annotation leaves the spec": (
        group(SigsPodGroup, in_g(min_available="x"), minMember=3),
        GangSettings(minimum=3),
        [f"{KOORDINATOR}min-available: 'x' is not a number of pods"],
    ),
    "of Kubernetes": (
        group(NativePodGroup, schedulingPolicy=GANG_POLICY),
        GangSettings(minimum=4),
        [],
    ),
    "of Kubernetes, with the basic policy": (
        group(NativePodGroup, schedulingPolicy={"basic": {}}),
        GangSettings(minimum=0),
        [],
    ),
    "of Kubernetes, that leaves whole and evicts nobody": (
        group(
            NativePodGroup,
            schedulingPolicy=GANG_POLICY,
            disruptionMode={"all": {}},
            priority=7,
            preemptionPolicy="Never",
        ),
        GangSettings(minimum=4, evict_together=True, priority=7, may_preempt=False),
        [],
    ),
    "of Kubernetes, one of which may leave": (
        group(
            NativePodGroup,
            schedulingPolicy=GANG_POLICY,
            disruptionMode={"single": {}},
            preemptionPolicy="PreemptLowerPriority",
        ),
        GangSettings(minimum=4),
        [],
    ),
    "of Kubernetes, in one domain": (
        group(NativePodGroup, schedulingPolicy=GANG_POLICY, schedulingConstraints=TOPOLOGY),
        GangSettings(minimum=4, topology=Topology("zone", required=True)),
        [],
    ),
    "of Kubernetes, with an annotated domain": (
        group(
            NativePodGroup,
            {"arranger.io/topology": "preferred=rack"},
            schedulingPolicy=GANG_POLICY,
            schedulingConstraints=TOPOLOGY,
        ),
        GangSettings(minimum=4, topology=Topology("rack", required=False)),
        [],
    ),
}


@pytest.mark.parametrize("case", GROUPS.values(), ids=GROUPS.keys())
def test_settings_of_pod_groups(case: tuple[AnyPodGroup, GangSettings, list[str]]) -> None:
    definition, expected, complaints = case
    problems: list[str] = []
    assert pod_group_settings(definition, problems) == expected
    assert problems == complaints


@pytest.mark.parametrize("kind", POD_GROUPS)
def test_a_pod_group_is_named_by_namespace_and_name(kind: type[AnyPodGroup]) -> None:
    assert group(kind).key == "default/g"


# --- one over the other ----------------------------------------------------------------------

FULL = GangSettings(
    minimum=2,
    mode=Mode.NON_STRICT,
    wait_time=5.0,
    groups=("a/b",),
    match_policy=MatchPolicy.ONLY_WAITING,
    topology=Topology("zone", required=True),
    bundle_minimums=(("ps", 1), ("worker", 2)),
)
OVER: dict[str, tuple[GangSettings, GangSettings, GangSettings]] = {
    "nothing over something": (GangSettings(), FULL, FULL),
    "something over nothing": (FULL, GangSettings(), FULL),
    "zero is something": (GangSettings(minimum=0), GangSettings(minimum=3), GangSettings(0)),
    "so is an empty list": (
        GangSettings(groups=()),
        GangSettings(groups=("a/b",)),
        GangSettings(groups=()),
    ),
    "bundles add up, and the same one is overruled": (
        GangSettings(bundle_minimums=(("worker", 9), ("eval", 1))),
        GangSettings(bundle_minimums=(("ps", 1), ("worker", 2))),
        GangSettings(bundle_minimums=(("eval", 1), ("ps", 1), ("worker", 9))),
    ),
}


@pytest.mark.parametrize("case", OVER.values(), ids=OVER.keys())
def test_over(case: tuple[GangSettings, GangSettings, GangSettings]) -> None:
    upper, lower, expected = case
    assert upper.with_fallback(lower) == expected


# --- durations -------------------------------------------------------------------------------

DURATIONS = {
    "90": 90.0,
    "1.5": 1.5,
    "0": 0.0,
    "90s": 90.0,
    "1h30m": 5400.0,
    "1h30m10.5s": 5410.5,
    ".5s": 0.5,
    "1500ms": 1.5,
    "2us": 2e-6,
    "2µs": 2e-6,
    "5ns": 5e-9,
    "3600s": 3600.0,
    "1000h": 3.6e6,
}
NO_DURATIONS = ["", " ", "s", "-1s", "+1s", "1d", "1h 30m", "1m5", "1e3s", "inf", "nan", "1.5.5s"]


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
def test_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("text", [*NO_DURATIONS, "1,5s", "٣s", "9" * 30, "9" * 400 + "h"])
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration such as|is longer than"):
        parse_duration(text)
