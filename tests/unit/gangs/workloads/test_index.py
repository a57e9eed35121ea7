"""What is kept of a kind of one's own, of which every field is read: its gangs, owners and pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from arranger.api.types.core import ObjectMeta, OwnerReference
from arranger.api.types.pod_groups import PodGroupSpec, WorkloadGroup
from arranger.api.types.workloads import Workload
from arranger.gangs.workloads.expressions import Expression
from arranger.gangs.workloads.index import WorkloadIndex
from arranger.gangs.workloads.kinds import (
    OWNER_WORDS,
    POD_WORDS,
    ROLE_WORDS,
    RoleRule,
    WorkloadKind,
)
from tests.builders import PodBuilder, a_pod
from tests.builders.workloads import controlled

KIND = WorkloadKind(
    group="example.com",
    versions=("v2", "v1"),
    kind="Team",
    resource="teams",
    label="team",
    through=("Job",),
    uid_label="team-uid",
    role=Expression('pod.labels["role"]', POD_WORDS),
    roles=(
        RoleRule(
            Expression("role.name", ROLE_WORDS),
            Expression("role.count", ROLE_WORDS),
            each=Expression("spec.roles", ROLE_WORDS),
        ),
    ),
    gang_per_role=Expression("spec.perRole", OWNER_WORDS),
    alone=Expression('pod.name == "alone"', POD_WORDS),
    queue=Expression("spec.queue", OWNER_WORDS),
    wait_time=Expression("spec.wait", OWNER_WORDS),
)
MADE, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
UID = "a0000000-0000-4000-8000-000000000000"


def a_team(uid: str = UID, made: str = MADE, **more: Any) -> Workload:
    meta = {"name": "t", "namespace": "default", "uid": uid, "creationTimestamp": made}
    meta |= {key: more.pop(key) for key in ("annotations", "labels") if key in more}
    spec = msgspec.json.encode({"roles": [{"name": "Worker", "count": 2}], **more})
    return Workload(msgspec.convert(meta, ObjectMeta), msgspec.Raw(spec))


def a_member(name: str = "p", role: str = "worker", **labels: str) -> PodBuilder:
    pod = a_pod(name).labelled(role=role, **labels)
    return controlled(pod, "example.com/v1", "Team", "t", UID)


def of_a_job(name: str = "p", **labels: str) -> PodBuilder:
    """A pod of a Job that a Team has made."""
    return controlled(
        a_pod(name).labelled(role="worker", **labels), "batch/v1", "Job", "j", "uid-j"
    )


def known(owner: Workload | None = None, kind: WorkloadKind = KIND) -> WorkloadIndex:
    index = WorkloadIndex([kind])
    if owner is not None:
        assert index.set_owner(kind, owner) == []
    return index


def the_group(index: WorkloadIndex, pod: PodBuilder) -> WorkloadGroup | None:
    membership = index.membership_of(pod.build())
    index.check_consistent()
    return None if membership is None else index.group_of(membership.gang)


def test_what_an_owner_says_of_its_gang() -> None:
    said = {
        "gang.scheduling.koordinator.sh/min-available": "3",
        "volcano.sh/preemptable": "true",
        "example.com/own": "left out",
    }
    owner = a_team(queue="research", wait=90, annotations=said)
    group = the_group(known(owner), a_member())
    del said["example.com/own"]
    assert group == WorkloadGroup(
        ObjectMeta(
            name="team-t-a0000000",
            namespace="default",
            uid=UID,
            creation_timestamp=owner.metadata.creation_timestamp,
            annotations=said,
        ),
        PodGroupSpec(min_member=0, queue="research", schedule_timeout_seconds=90),
        owner=OwnerReference("example.com/v2", "Team", "t", UID, True),
    )


def test_of_gangs_by_role_its_minimums_in_annotations_say_nothing() -> None:
    said = {"gang.scheduling.koordinator.sh/min-available": "3", "volcano.sh/preemptable": "true"}
    index = known(a_team(perRole=True, annotations=said))
    group = the_group(index, a_member())
    assert group is not None
    assert group.metadata.name == "team-t-worker-a0000000"
    assert group.metadata.annotations == {"volcano.sh/preemptable": "true"}
    assert (group.spec.min_member, dict(group.spec.min_task_member)) == (2, {})
    assert the_group(index, a_member("q", "driver")) is None, "a role that it does not name"


QUEUE = "scheduling.volcano.sh/queue-name"


@pytest.mark.parametrize(
    ("owner", "queue"),
    [
        pytest.param(a_team(), "", id="none"),
        pytest.param(a_team(labels={QUEUE: "b"}), "b", id="by label"),
        pytest.param(
            a_team(labels={QUEUE: "b"}, annotations={QUEUE: "a"}), "a", id="by annotation first"
        ),
        pytest.param(a_team(annotations={QUEUE: "a"}, queue="c"), "c", id="by its spec before all"),
    ],
)
def test_the_queue(owner: Workload, queue: str) -> None:
    group = the_group(known(owner), a_member())
    assert group is not None
    assert group.spec.queue == queue


def test_a_role_that_is_listed_twice_needs_the_pods_of_both() -> None:
    roles = [{"name": "a", "count": 1}, {"name": "A", "count": 2}, {"name": "b", "count": 4}]
    group = the_group(known(a_team(roles=roles)), a_member())
    assert group is not None
    assert dict(group.spec.min_task_member) == {"a": 3, "b": 4}


PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "no roles at all": ({"roles": None}, []),
    "roles that are no list": ({"roles": "all"}, ["spec.roles: neither a list nor an object"]),
    "a role that is no object": ({"roles": [1]}, ["spec.roles: 0 is not an object"]),
    "a role without a number": (
        {"roles": [{"name": "Worker", "count": "many"}]},
        ["minimum of role worker: 'many' is not a number"],
    ),
    "a time that is none": ({"wait": []}, ["wait time: a list is not a number"]),
}


@pytest.mark.parametrize(("spec", "problems"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_what_cannot_be_used_is_told(spec: dict[str, Any], problems: list[str]) -> None:
    index = known(a_team(**spec))
    pod = a_member().build()
    index.membership_of(pod)
    reference = OwnerReference("example.com/v2", "Team", "t", UID, True)
    assert index.problems_of(pod.metadata.uid) == (reference, "default", tuple(problems))
    assert index.problems_of("uid-of-nobody") is None


#: Kinds whose owners say what their pods say.
BY_POD = {
    "by a label of the pod": ('pod.labels["size"]', 5),
    "by its annotation": ('pod.annotations["size"]', 6),
    "by its name": ('7 if pod.name == "p" else 8', 7),
    "by a label of the owner": ('metadata.labels["size"] + pod.labels["size"]', 8),
    "by the name of the owner": ('first(9 if metadata.name == "t" else 1, pod.name)', 9),
    "by the owner's annotation": ('metadata.annotations["size"] + pod.labels["size"]', 9),
}


@pytest.mark.parametrize(("minimum", "number"), BY_POD.values(), ids=BY_POD.keys())
def test_what_differs_among_the_pods_of_an_owner_is_read_in_each(minimum: str, number: int) -> None:
    kind = replace(KIND, minimum=Expression(minimum, OWNER_WORDS))
    index = known(a_team(labels={"size": "3"}, annotations={"size": "4"}), kind)
    pod = a_member(size="5").annotated({"size": "6"})
    group = the_group(index, pod)
    assert group is not None
    assert group.spec.min_member == number


def test_a_number_that_a_pod_says_and_that_is_none_is_told_of_that_pod() -> None:
    kind = replace(KIND, minimum=Expression('pod.labels["size"]', OWNER_WORDS))
    index = known(a_team(), kind)
    pod = a_member(size="many").build()
    index.membership_of(pod)
    found = index.problems_of(pod.metadata.uid)
    assert found is not None
    assert found[2] == ("minimum: 'many' is not a number",)


@pytest.mark.parametrize("owner", [None, a_team()], ids=["not read yet", "read"])
def test_the_owner_that_a_member_names(owner: Workload | None) -> None:
    membership = known(owner).membership_of(a_member().build())
    assert membership is not None
    assert (membership.gang, membership.owner) == ("default/team-t-a0000000", "Team t")


CONCERNED: dict[str, tuple[PodBuilder, bool]] = {
    "a pod of the kind": (a_member(), True),
    "a pod of a Job that names an owner": (of_a_job(team="t"), True),
    "a pod of any other Job": (of_a_job(), False),
    "a pod of another kind that has the label": (
        controlled(a_pod().labelled(team="t"), "apps/v1", "ReplicaSet", "r", "uid-r"),
        False,
    ),
    "a pod on its own": (a_pod().labelled(team="t"), False),
    "a pod that it owns and does not control": (
        a_pod()._append("metadata", ownerReferences={"kind": "Team", "name": "t", "uid": UID}),
        False,
    ),
}


@pytest.mark.parametrize(("pod", "concerned"), CONCERNED.values(), ids=CONCERNED.keys())
def test_which_pods_it_concerns(pod: PodBuilder, concerned: bool) -> None:
    assert known().concerns(pod.build().metadata) is concerned


def test_it_is_concerned_with_a_pod_that_it_knows_until_that_is_forgotten() -> None:
    index = known()
    index.membership_of(a_member().build())
    assert index.concerns(a_pod().build().metadata)
    index.forget_pod(a_pod().build().metadata.uid)
    assert not index.concerns(a_pod().build().metadata)


OWNERS: dict[str, tuple[Workload, PodBuilder, bool]] = {
    "by the uid of its controller": (a_team(), a_member(), True),
    "another of its name": (a_team("b0000000"), a_member(), False),
    "by the label with the uid": (a_team(), of_a_job(**{"team": "t", "team-uid": UID}), True),
    "a label with another uid": (a_team(), of_a_job(**{"team": "t", "team-uid": "x"}), False),
    "one that is older than the pod": (a_team(), of_a_job(team="t"), True),
    "one that is as old": (a_team(made=LATER), of_a_job(team="t"), True),
    "one that was made after the pod": (
        a_team(made="2026-01-01T00:00:02Z"),
        of_a_job(team="t"),
        False,
    ),
    "none of that name": (a_team(), of_a_job(team="u"), False),
}


@pytest.mark.parametrize(("owner", "pod", "owned"), OWNERS.values(), ids=OWNERS.keys())
def test_whose_a_pod_is(owner: Workload, pod: PodBuilder, owned: bool) -> None:
    assert (the_group(known(owner), pod) is not None) is owned


@pytest.mark.parametrize("listed", [True, False], ids=["it was there before", "it came later"])
def test_pods_of_a_kind_that_is_not_served_are_in_no_gang_once_that_was_asked_after_them(
    listed: bool,
) -> None:
    index = known()
    assert index.set_served(KIND, served=False) == []
    pod = a_member().build()
    assert (index.membership_of(pod, listed=listed) is None) is listed
    assert index.set_served(KIND, served=False) == ([] if listed else [pod])
    assert index.membership_of(pod) is None
    assert index.set_served(KIND, served=True) == [pod]
    assert index.membership_of(pod, listed=True) is not None
    assert index.set_served(KIND, served=True) == []
    index.check_consistent()


def test_of_two_kinds_that_may_own_a_pod_that_counts_which_is_served() -> None:
    other = WorkloadKind("example.com", ("v1",), "Club", "clubs", label="club", through=("Job",))
    index = WorkloadIndex([KIND, other])
    pod = of_a_job(team="t", club="c").build()
    for unserved, gang in ((None, "team-t"), (KIND, "club-c"), (other, None)):
        if unserved is not None:
            index.set_served(unserved, served=False)
        found = index.membership_of(pod)
        assert (found.gang if found else None) == (f"default/{gang}" if gang else None)
    index.check_consistent()


def test_what_an_edit_of_an_owner_has_looked_at_again() -> None:
    index = known(a_team())
    pods = [a_member(f"p{n}").build() for n in range(2)]
    for pod in pods:
        index.membership_of(pod)
    assert index.set_owner(KIND, a_team()) == [], "nothing has changed"
    assert index.set_owner(KIND, a_team(wait=5)) == [pods[1]], "one of each gang"
    assert index.set_owner(KIND, a_team(perRole=True)) == pods, "other gangs"
    assert index.remove_owner(KIND, a_team("b0000000")) == [], "an earlier one of its name"
    assert index.remove_owner(KIND, a_team()) == pods
    assert index.remove_owner(KIND, a_team()) == []


def test_gangs_of_which_nothing_is_said_any_more_are_told_once() -> None:
    index = known(a_team())
    pods = [a_member(f"p{n}").build() for n in range(2)]
    for pod in pods:
        index.membership_of(pod)
    index.forget_pod(pods[0].metadata.uid)
    assert index.take_undefined() == []
    index.forget_pod(pods[1].metadata.uid)
    assert (index.take_undefined(), index.take_undefined()) == (["default/team-t-a0000000"], [])
    index.membership_of(pods[0])
    index.remove_owner(KIND, a_team())
    index.membership_of(pods[0])
    assert index.take_undefined() == ["default/team-t-a0000000"]
    index.set_owner(KIND, a_team())
    index.membership_of(pods[0])
    assert index.take_undefined() == []


def test_only_what_counts_is_kept_of_a_pod_that_has_ended() -> None:
    index = known(a_team())
    running = a_member().needs(cpu=1).on("n")
    for pod, containers in ((running, 1), (running.in_phase("Succeeded"), 0)):
        index.membership_of(pod.build())
        (kept,) = index.set_owner(KIND, a_team(wait=containers + 1))
        assert kept.spec.node_name == "n"
        assert len(kept.spec.containers) == containers
        assert kept.status.phase == pod.build().status.phase


def test_nothing_is_left_when_all_pods_are_gone() -> None:
    index = known(a_team())
    index.set_served(KIND, served=False)
    for n, listed in enumerate((True, False)):
        index.membership_of(a_member(f"p{n}").build(), listed=listed)
    assert len(index) > 0
    for n in range(2):
        index.forget_pod(a_member(f"p{n}").build().metadata.uid)
        index.check_consistent()
    assert len(index) == 0
