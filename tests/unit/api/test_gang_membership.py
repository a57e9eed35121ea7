"""What pods and PodGroups of every dialect say about their gang."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.settings.gang_membership import GangMembership, gang_membership
from arranger.api.settings.gang_settings import GangSettings, MatchPolicy, Mode, Topology
from arranger.api.types.pod_groups import (
    AnyPodGroup,
    CommunityPodGroup,
    NativePodGroup,
    SigsPodGroup,
    VolcanoPodGroup,
)
from tests.builders import PodBuilder, a_pod

KOORDINATOR = "gang.scheduling.koordinator.sh/"
BUNDLES = "gang.koordinater.io/"
SIGS = "pod-group.scheduling.sigs.k8s.io"
Notes = dict[str, str]


def claim(pod: PodBuilder) -> GangMembership:
    said = gang_membership(pod.build())
    assert said is not None
    return said


def in_g(**words: str) -> Notes:
    """Annotations of gang g in Koordinator's dialect."""
    said = {KOORDINATOR + word.replace("_", "-"): text for word, text in words.items()}
    return {KOORDINATOR + "name": "g", **said}


def in_bundle(**words: str) -> Notes:
    return {BUNDLES + "name": "g", **{BUNDLES + word: text for word, text in words.items()}}


# --- membership ------------------------------------------------------------------------------

MEMBERSHIP: dict[str, tuple[PodBuilder, tuple[str, type[AnyPodGroup] | None] | None]] = {
    "a pod that says nothing": (a_pod(), None),
    "other labels and annotations": (a_pod().labelled(app="x").annotated(note="y"), None),
    "the seed's label": (a_pod().labelled({SIGS: "g"}), ("g", SigsPodGroup)),
    "its older label": (a_pod().labelled({f"{SIGS}/name": "g"}), ("g", SigsPodGroup)),
    "the label of scheduler-plugins": (
        a_pod().labelled({"scheduling.x-k8s.io/pod-group": "g"}),
        ("g", CommunityPodGroup),
    ),
    "Koordinator's annotation": (a_pod().annotated({KOORDINATOR + "name": "g"}), ("g", None)),
    "the compatible annotation": (a_pod().annotated({SIGS: "g"}), ("g", None)),
    "its longer form": (a_pod().annotated({f"{SIGS}/name": "g"}), ("g", None)),
    "the bundle annotation": (a_pod().annotated({BUNDLES + "name": "g"}), ("g", None)),
    "Volcano's annotation": (
        a_pod().annotated({"scheduling.k8s.io/group-name": "g"}),
        ("g", VolcanoPodGroup),
    ),
    "Volcano's longer annotation": (
        a_pod().annotated({"scheduling.volcano.sh/group-name": "g"}),
        ("g", VolcanoPodGroup),
    ),
    "the field of Kubernetes": (
        a_pod().with_spec(schedulingGroup={"podGroupName": "g"}),
        ("g", NativePodGroup),
    ),
    "a field without a name": (a_pod().with_spec(schedulingGroup={}), None),
    "an empty name is none": (a_pod().annotated({KOORDINATOR + "name": ""}), None),
    "a minimum without a name is none": (
        a_pod().annotated({KOORDINATOR + "min-available": "2"}),
        None,
    ),
    "a bundle without a gang is none": (a_pod().annotated({BUNDLES + "bundleName": "ps"}), None),
}


@pytest.mark.parametrize("case", MEMBERSHIP.values(), ids=MEMBERSHIP.keys())
def test_membership(case: tuple[PodBuilder, tuple[str, type[AnyPodGroup] | None] | None]) -> None:
    pod, expected = case
    said = gang_membership(pod.build())
    if expected is None:
        assert said is None
    else:
        assert said is not None
        gang, definition = expected
        assert said == GangMembership(
            f"default/{gang}", pod_group_type=definition, timeout_annotation=said.timeout_annotation
        )


def test_a_gang_is_of_its_pods_namespace() -> None:
    assert claim(a_pod().in_namespace("ml").annotated(in_g())).gang == "ml/g"


#: Each says another name; the first of them that is there counts.
PRECEDENCE = (
    a_pod().with_spec(schedulingGroup={"podGroupName": "native"}),
    a_pod().labelled({SIGS: "sigs"}),
    a_pod().labelled({f"{SIGS}/name": "sigs-name"}),
    a_pod().labelled({"scheduling.x-k8s.io/pod-group": "community"}),
    a_pod().annotated({KOORDINATOR + "name": "koordinator"}),
    a_pod().annotated({SIGS: "compatible"}),
    a_pod().annotated({f"{SIGS}/name": "compatible-name"}),
    a_pod().annotated({BUNDLES + "name": "bundles"}),
    a_pod().annotated({"scheduling.k8s.io/group-name": "volcano"}),
    a_pod().annotated({"scheduling.volcano.sh/group-name": "volcano-long"}),
)


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_first_dialect_names_the_gang(first: int) -> None:
    everything: dict[str, Any] = {}
    for pod in reversed(PRECEDENCE[first:]):
        manifest = pod.manifest()
        everything.setdefault("labels", {}).update(manifest["metadata"].get("labels", {}))
        everything.setdefault("notes", {}).update(manifest["metadata"].get("annotations", {}))
        everything["group"] = manifest["spec"].get("schedulingGroup")
    pod = a_pod().labelled(everything["labels"]).annotated(everything["notes"])
    if everything["group"]:
        pod = pod.with_spec(schedulingGroup=everything["group"])
    alone = claim(PRECEDENCE[first])
    both = claim(pod)
    assert (both.gang, both.pod_group_type) == (alone.gang, alone.pod_group_type)


NAMES: dict[str, tuple[str, str, bool]] = {
    "one word": ("g", "g", True),
    "dashes, dots and digits": ("job-1.v2", "job-1.v2", True),
    "capitals": ("Job", "Job", False),
    "an underscore": ("my_job", "my_job", False),
    "a dash at the end": ("job-", "job-", False),
    "a slash": ("other/job", "other%2Fjob", False),
    "what would read like a group of two": ("a,default/b", "a%2Cdefault%2Fb", False),
    "a line break": ("a\nb", "a%0Ab", False),
}


@pytest.mark.parametrize("case", NAMES.values(), ids=NAMES.keys())
def test_pods_of_a_gang_with_a_wrong_name_stay_together_and_are_told(
    case: tuple[str, str, bool],
) -> None:
    name, expected, right = case
    said = claim(a_pod().annotated({KOORDINATOR + "name": name}))
    assert said.gang == f"default/{expected}"
    problems = () if right else (f"gang name {name!r} is not a DNS-1123 name",)
    assert said.problems == problems


# --- settings of pods ------------------------------------------------------------------------

COMPAT = {f"{SIGS}/min-available": "3"}
SETTINGS: dict[str, tuple[Notes, GangSettings]] = {
    "a minimum": (in_g(min_available="5"), GangSettings(minimum=5)),
    "a minimum of none": (in_g(min_available="0"), GangSettings(minimum=0)),
    "the compatible minimum": ({**in_g(), **COMPAT}, GangSettings(minimum=3)),
    "the seed's minimum goes before the compatible one": (
        {**in_g(min_available="5"), **COMPAT},
        GangSettings(minimum=5),
    ),
    "Strict": (in_g(mode="Strict"), GangSettings(mode=Mode.STRICT)),
    "NonStrict": (in_g(mode="NonStrict"), GangSettings(mode=Mode.NON_STRICT)),
    "a time to wait": (in_g(waiting_time="1h"), GangSettings(wait_time=3600.0)),
    "no time is the default": (in_g(waiting_time="0"), GangSettings()),
    "nor is 0s": (in_g(waiting_time="0s"), GangSettings()),
    "the total number is taken and not needed": (in_g(total_number="9"), GangSettings()),
    "groups, in order and once": (
        in_g(groups='["b/x", "a/y", "b/x"]'),
        GangSettings(groups=("a/y", "b/x")),
    ),
    "the other spelling of groups": (
        in_g(gang_groups='["a/y"]'),
        GangSettings(groups=("a/y",)),
    ),
    "groups go before gang-groups": (
        in_g(groups='["a/y"]', gang_groups='["b/x"]'),
        GangSettings(groups=("a/y",)),
    ),
    "an empty list of groups": (in_g(groups="[]"), GangSettings(groups=())),
    "no groups, as the seed writes it": (in_g(groups=""), GangSettings()),
    "once-satisfied": (
        in_g(match_policy="once-satisfied"),
        GangSettings(match_policy=MatchPolicy.ONCE_SATISFIED),
    ),
    "only-waiting": (
        in_g(match_policy="only-waiting"),
        GangSettings(match_policy=MatchPolicy.ONLY_WAITING),
    ),
    "waiting-and-running": (
        in_g(match_policy="waiting-and-running"),
        GangSettings(match_policy=MatchPolicy.WAITING_AND_RUNNING),
    ),
    "the compatible match policy": (
        {**in_g(), f"{SIGS}/match-policy": "only-waiting"},
        GangSettings(match_policy=MatchPolicy.ONLY_WAITING),
    ),
    "Koordinator's match policy goes before it": (
        {**in_g(match_policy="once-satisfied"), f"{SIGS}/match-policy": "only-waiting"},
        GangSettings(match_policy=MatchPolicy.ONCE_SATISFIED),
    ),
    "a required domain": (
        {**in_g(), "arranger.io/topology": "required=zone"},
        GangSettings(topology=Topology("zone", required=True)),
    ),
    "a preferred domain": (
        {**in_g(), "arranger.io/topology": "preferred=example.com/rack"},
        GangSettings(topology=Topology("example.com/rack", required=False)),
    ),
    "a bundle's minimum": (
        in_bundle(bundleName="ps", minRequiredNumber="2"),
        GangSettings(bundle_minimums=(("ps", 2),)),
    ),
    "the only bundle needs no name": (
        in_bundle(minRequiredNumber="2"),
        GangSettings(bundle_minimums=(("", 2),)),
    ),
    "strict by bundle annotation": (
        in_bundle(isStrictMode="true"),
        GangSettings(mode=Mode.STRICT),
    ),
    "not strict by bundle annotation": (
        in_bundle(isStrictMode="False"),
        GangSettings(mode=Mode.NON_STRICT),
    ),
    "the wait by bundle annotation": (in_bundle(waitingTime="10m"), GangSettings(wait_time=600.0)),
    "its total changes nothing": (in_bundle(totalChildrenNum="9"), GangSettings()),
    "Koordinator's annotations go before those of bundles": (
        {**in_g(mode="Strict", waiting_time="5s"), **in_bundle(isStrictMode="false")},
        GangSettings(mode=Mode.STRICT, wait_time=5.0),
    ),
    "bundle annotations without a gang do not count": (
        {**in_g(), BUNDLES + "minRequiredNumber": "7"},
        GangSettings(),
    ),
}


@pytest.mark.parametrize("case", SETTINGS.values(), ids=SETTINGS.keys())
def test_settings_of_pods(case: tuple[Notes, GangSettings]) -> None:
    notes, expected = case
    said = claim(a_pod().annotated(notes))
    assert said.settings == expected
    assert said.problems == ()


@pytest.mark.parametrize(
    "notes",
    [
        in_g(total_number="2", min_available="3"),
        in_bundle(totalChildrenNum="2", minRequiredNumber="3"),
    ],
    ids=["Koordinator's", "of a bundle"],
)
def test_a_total_that_cannot_reach_the_minimum_is_named_and_the_minimum_counts(
    notes: Notes,
) -> None:
    said = claim(a_pod().annotated(notes))
    (problem,) = said.problems
    assert problem.endswith(": 2 members cannot reach the minimum of 3")
    assert said.settings.minimum == 3 or said.settings.bundle_minimums == (("", 3),)


def test_the_deprecated_label_gives_the_minimum_when_no_annotation_does() -> None:
    pod = a_pod().labelled({SIGS: "g", f"{SIGS}/min-available": "4"})
    assert claim(pod).settings.minimum == 4
    assert claim(pod.annotated({KOORDINATOR + "min-available": "2"})).settings.minimum == 2


INVALID: dict[str, tuple[Notes, str]] = {
    "a minimum that is no number": (in_g(min_available="many"), "'many' is not a number of pods"),
    "a negative minimum": (in_g(min_available="-1"), "'-1' is not a number of pods"),
    "half a pod": (in_g(min_available="2.5"), "'2.5' is not a number of pods"),
    "more pods than there can be": (
        in_g(min_available="9999999999"),
        "'9999999999' is not a number of pods",
    ),
    "digits of other scripts": (in_g(min_available="٣"), "'٣' is not a number of pods"),
    "a total that is no number": (in_g(total_number="all"), "'all' is not a number of pods"),
    "a bundle's total that is no number": (
        in_bundle(totalChildrenNum="-1"),
        "'-1' is not a number of pods",
    ),
    "an unknown mode": (in_g(mode="strict"), "'strict' is none of Strict, NonStrict"),
    "a wait without a number": (in_g(waiting_time="soon"), "'soon' is not a duration"),
    "a wait in the past": (in_g(waiting_time="-5s"), "'-5s' is not a duration"),
    "a wait that no clock can hold": (in_g(waiting_time="9" * 400), "is longer than 290 years"),
    "groups that are no list": (in_g(groups="a/b"), "is not a list such as"),
    "groups of numbers": (in_g(groups="[1]"), "is not a list such as"),
    "groups without namespaces": (in_g(groups='["g"]'), "is not a list such as"),
    "groups with an empty namespace": (in_g(groups='["/g"]'), "is not a list such as"),
    "groups with a wrong name": (in_g(groups='["ns/G"]'), "is not a list such as"),
    "groups nested beyond reason": (in_g(groups="[" * 100_000), "is not a list such as"),
    "groups of a number beyond reason": (
        in_g(groups=f"[{'9' * 5000}]"),
        "is not a list such as",
    ),
    "an unknown match policy": (
        in_g(match_policy="all"),
        "'all' is none of once-satisfied, only-waiting, waiting-and-running",
    ),
    "a topology without a label": (
        {**in_g(), "arranger.io/topology": "required="},
        "is neither required=<node label> nor preferred=<node label>",
    ),
    "a topology neither required nor preferred": (
        {**in_g(), "arranger.io/topology": "zone"},
        "is neither required=<node label> nor preferred=<node label>",
    ),
    "a bundle's minimum that is no number": (
        in_bundle(minRequiredNumber="all"),
        "'all' is not a number of pods",
    ),
    "neither strict nor not": (in_bundle(isStrictMode="yes"), "'yes' is neither true nor false"),
    "a wait of bundles that is no duration": (
        in_bundle(waitingTime="1 h"),
        "'1 h' is not a duration",
    ),
}


@pytest.mark.parametrize("case", INVALID.values(), ids=INVALID.keys())
def test_what_cannot_be_read_counts_as_absent_and_is_named(case: tuple[Notes, str]) -> None:
    notes, complaint = case
    said = claim(a_pod().annotated(notes))
    assert said.settings == GangSettings()
    (problem,) = said.problems
    (wrong,) = [key for key in notes if problem.startswith(f"{key}: ")]
    assert wrong not in (KOORDINATOR + "name", BUNDLES + "name")
    assert complaint in problem
    assert len(problem) < 400


FALL_BACK: dict[str, tuple[Notes, GangSettings]] = {
    "to the compatible minimum": (
        {**in_g(min_available="x"), f"{SIGS}/min-available": "3"},
        GangSettings(minimum=3),
    ),
    "to the compatible match policy": (
        {**in_g(match_policy="x"), f"{SIGS}/match-policy": "only-waiting"},
        GangSettings(match_policy=MatchPolicy.ONLY_WAITING),
    ),
    "to the other spelling of groups": (
        in_g(groups="x", gang_groups='["a/b"]'),
        GangSettings(groups=("a/b",)),
    ),
    "to the mode of bundles": (
        {**in_g(mode="x"), **in_bundle(isStrictMode="false")},
        GangSettings(mode=Mode.NON_STRICT),
    ),
}


@pytest.mark.parametrize("case", FALL_BACK.values(), ids=FALL_BACK.keys())
def test_a_wrong_value_falls_back(case: tuple[Notes, GangSettings]) -> None:
    notes, expected = case
    said = claim(a_pod().annotated(notes))
    assert said.settings == expected
    assert len(said.problems) == 1


VOLCANO = {"scheduling.k8s.io/group-name": "g"}
ROLES: dict[str, tuple[PodBuilder, str]] = {
    "a bundle": (a_pod().annotated(in_bundle(bundleName="ps")), "ps"),
    "without a bundle": (a_pod().annotated(in_g()), ""),
    "Volcano's task, annotated": (
        a_pod().annotated({**VOLCANO, "volcano.sh/task-spec": "worker"}),
        "worker",
    ),
    "Volcano's task, labelled": (
        a_pod().annotated(VOLCANO).labelled({"volcano.sh/task-spec": "worker"}),
        "worker",
    ),
    "a task outside Volcano's gangs is no bundle": (
        a_pod().annotated({**in_g(), "volcano.sh/task-spec": "worker"}),
        "",
    ),
}


@pytest.mark.parametrize("case", ROLES.values(), ids=ROLES.keys())
def test_bundles(case: tuple[PodBuilder, str]) -> None:
    pod, expected = case
    assert claim(pod).bundle == expected
