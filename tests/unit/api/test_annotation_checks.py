"""What pods say that nobody understands."""

from __future__ import annotations

import pytest

from arranger.api.settings.queue_annotations import invalid_values
from tests.builders import a_pod

KOORDINATOR = "gang.scheduling.koordinator.sh/"
CASES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "no annotations": ({}, ()),
    "others' annotations": ({"example.com/x": "?"}, ()),
    "all that is understood": (
        {
            "arranger.io/placement": "BinPack, LeaderFirst",
            "volcano.sh/service.type": "inference",
            "volcano.sh/card.name": "A|B",
            "volcano.sh/preemptable": "False",
            "arranger.io/job-priority": "9",
            "arranger.io/job-queue-policy": "DRF",
            "arranger.io/max-run-time": "1h30m",
        },
        (),
    ),
    "a policy that there is not": (
        {"arranger.io/placement": "BinPack,binpack"},
        ("arranger.io/placement: 'binpack' is no plugin of this profile",),
    ),
    "a service of another type": (
        {"volcano.sh/service.type": "Inference"},
        ("volcano.sh/service.type: 'Inference' is neither 'inference' nor 'training'",),
    ),
    "no card at all": (
        {"volcano.sh/card.name": "||"},
        ("volcano.sh/card.name: '||' names no card",),
    ),
    "neither yes nor no": (
        {"volcano.sh/preemptable": "never"},
        ("volcano.sh/preemptable: 'never' is neither 'true' nor 'false', and counts as no",),
    ),
    "a priority of the job that is no number": (
        {"arranger.io/job-priority": "high"},
        ("arranger.io/job-priority: 'high' is not a number from 1 to 10",),
    ),
    "an order of jobs that there is not": (
        {"arranger.io/job-queue-policy": "drf"},
        ("arranger.io/job-queue-policy: 'drf' is neither 'Priority' nor 'DRF'",),
    ),
    "a maximum run time that is no duration": (
        {"arranger.io/max-run-time": "1 day"},
        ("arranger.io/max-run-time: '1 day' is not a duration such as 90s or 1h30m",),
    ),
    "no run time at all": (
        {"arranger.io/max-run-time": "0s"},
        ("arranger.io/max-run-time: '0s' is shorter than a second",),
    ),
    "settings of a gang that is not named": (
        {KOORDINATOR + "min-available": "3", KOORDINATOR + "nam": "g"},
        (
            f"{KOORDINATOR}min-available, {KOORDINATOR}nam: the pod is in no gang, which "
            f"{KOORDINATOR}name would name",
        ),
    ),
    "a bundle of no gang": (
        {"gang.koordinater.io/bundleName": "ps"},
        (
            "gang.koordinater.io/bundleName: the pod is in no gang, which "
            f"{KOORDINATOR}name would name",
        ),
    ),
    "settings of a gang that another annotation names": (
        {"scheduling.k8s.io/group-name": "g", KOORDINATOR + "mode": "NonStrict"},
        (),
    ),
    "the mark of a gang that it was in": ({KOORDINATOR + "timeout": "true"}, ()),
    "everything at once": (
        {"arranger.io/placement": "x", "volcano.sh/service.type": "y"},
        (
            "arranger.io/placement: 'x' is no plugin of this profile",
            "volcano.sh/service.type: 'y' is neither 'inference' nor 'training'",
        ),
    ),
}


@pytest.mark.parametrize(("notes", "expected"), CASES.values(), ids=CASES.keys())
def test_what_is_ignored_is_named(notes: dict[str, str], expected: tuple[str, ...]) -> None:
    pod = a_pod("p").of_tyjob().annotated(notes).build()
    assert invalid_values(pod, {"BinPack", "LeaderFirst"}) == expected


@pytest.mark.parametrize("text", ["9", "999999999", "high"])
def test_the_priority_among_jobs_is_believed_of_pods_of_tyjobs_only(text: str) -> None:
    pod = a_pod("p").owned_by("Job", "j", api_version="batch/v1")
    told = invalid_values(pod.annotated({"arranger.io/job-priority": text}).build(), {})
    assert told == ("arranger.io/job-priority: it counts on pods of TYJobs only",)
