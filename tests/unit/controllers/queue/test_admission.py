"""Which PodGroups without pods may have them."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.controllers.queue.admission import PodGroupAdmission
from tests.builders import a_node, a_pod
from tests.unit.controllers.queue.test_status import a_book, a_queue

GROUP = "scheduling.k8s.io/group-name"
CLOSED = {"arranger.io/queue-state": "Closed"}


def a_group(
    name: str = "g", phase: str = "", *, namespace: str = "default", **spec: Any
) -> VolcanoPodGroup:
    minimum = spec.pop("wants", None)
    if minimum is not None:
        spec["minResources"] = minimum
    meta = {"name": name, "namespace": namespace}
    body = {"metadata": meta, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(body, VolcanoPodGroup)


NODE = a_node("n").offers(cpu=10)
#: What there is, the PodGroup, and a part of why it is not admitted; "" if it is.
CASES: dict[str, tuple[list[Any], VolcanoPodGroup, str]] = {
    "no queues at all": ([NODE], a_group(queue="any"), ""),
    "the default queue need not be made": ([a_queue("other")], a_group(), ""),
    "a queue that is there": ([a_queue("q")], a_group(queue="q"), ""),
    "one that is not": ([a_queue("q")], a_group(queue="typo"), "does not exist"),
    "one that is closed": ([a_queue("q", notes=CLOSED)], a_group(queue="q"), "is not open"),
    "one that others are part of": (
        [a_queue("q"), a_queue("r", parent="q")],
        a_group(queue="q"),
        "1 other queue is part of it",
    ),
    "the root": ([a_queue("q")], a_group(queue="root"), "the root of all queues"),
    "as much as the cluster may be promised": ([NODE], a_group(wants={"cpu": "12"}), ""),
    "more than the cluster may be promised": (
        [NODE],
        a_group(wants={"cpu": "13"}),
        "Insufficient cpu in the cluster for its minResources",
    ),
    "beside what is used": (
        [NODE, a_pod("p").needs(cpu=5).on("n")],
        a_group(wants={"cpu": "8"}),
        "Insufficient cpu in the cluster",
    ),
    "beside what waits": ([NODE, a_pod("p").needs(cpu=5)], a_group(wants={"cpu": "8"}), ""),
    "beside what was promised": (
        [NODE, a_group("other", "Inqueue", wants={"cpu": "5"})],
        a_group(wants={"cpu": "8"}),
        "Insufficient cpu in the cluster",
    ),
    "what runs and has less than it wants": (
        [
            NODE,
            a_group("other", "Running", wants={"cpu": "5"}),
            a_pod("p").needs(cpu=2).on("n").annotated({GROUP: "other"}),
        ],
        a_group(wants={"cpu": "8"}),
        "Insufficient cpu in the cluster",
    ),
    "what runs and has what it wants is promised no more": (
        [
            NODE,
            a_group("other", "Running", wants={"cpu": "4"}),
            a_pod("p").needs(cpu=4).on("n").annotated({GROUP: "other"}),
        ],
        a_group(wants={"cpu": "8"}),
        "",
    ),
    "what has ended is promised no more": (
        [NODE, a_group("other", "Completed", wants={"cpu": "5"})],
        a_group(wants={"cpu": "8"}),
        "",
    ),
    "what has its pods is promised no more": (
        [
            NODE,
            a_group("other", "Inqueue", wants={"cpu": "5"}),
            a_pod("p").annotated({GROUP: "other"}),
        ],
        a_group(wants={"cpu": "8"}),
        "",
    ),
    "within the limit of its queue": (
        [NODE, a_queue("q", capability={"cpu": "4"})],
        a_group(queue="q", wants={"cpu": "4"}),
        "",
    ),
    "beyond the limit of its queue": (
        [NODE, a_queue("q", capability={"cpu": "4"})],
        a_group(queue="q", wants={"cpu": "5"}),
        "Queue <q> has insufficient cpu quota for its minResources",
    ),
    "beyond the limit of a queue above": (
        [
            NODE,
            a_queue("top", capability={"cpu": "6"}),
            a_queue("q", parent="top"),
            a_queue("r", parent="top"),
            a_pod("p").needs(cpu=3).on("n").annotated({"scheduling.volcano.sh/queue-name": "r"}),
        ],
        a_group(queue="q", wants={"cpu": "4"}),
        "Queue <top> has insufficient cpu quota",
    ),
    "beside what its queue has promised": (
        [
            NODE,
            a_queue("q", capability={"cpu": "4"}),
            a_group("other", "Inqueue", queue="q", wants={"cpu": "3"}),
        ],
        a_group(queue="q", wants={"cpu": "2"}),
        "Queue <q> has insufficient cpu quota",
    ),
    "whatever another queue has promised": (
        [
            NODE,
            a_queue("q", capability={"cpu": "4"}),
            a_queue("r"),
            a_group("other", "Inqueue", queue="r", wants={"cpu": "3"}),
        ],
        a_group(queue="q", wants={"cpu": "4"}),
        "",
    ),
    "whatever was promised in another namespace": (
        [
            NODE,
            a_queue("q", capability={"cpu": "12"}),
            a_group("other", "Inqueue", namespace="tenant", queue="q", wants={"cpu": "12"}),
        ],
        a_group(queue="q", wants={"cpu": "8"}),
        "",
    ),
    "whatever one that runs in another namespace wants beyond its pods": (
        [
            NODE,
            a_queue("q", capability={"cpu": "12"}),
            a_group("other", "Running", namespace="tenant", queue="q", wants={"cpu": "12"}),
            a_pod("p").in_namespace("tenant").needs(cpu=1).on("n").annotated({GROUP: "other"}),
        ],
        a_group(queue="q", wants={"cpu": "8"}),
        "",
    ),
    "a promise that was given is kept": (
        [NODE, a_queue("q", capability={"cpu": "4"})],
        a_group(phase="Inqueue", queue="q", wants={"cpu": "9"}),
        "",
    ),
    "but not in a queue that was closed": (
        [NODE, a_queue("q", notes=CLOSED)],
        a_group(phase="Inqueue", queue="q"),
        "is not open",
    ),
    "what cannot be read counts as nothing": ([NODE], a_group(wants={"cpu": "many"}), ""),
}


@pytest.mark.parametrize(("there", "group", "why"), CASES.values(), ids=CASES)
def test_who_is_admitted(there: list[Any], group: VolcanoPodGroup, why: str) -> None:
    found = PodGroupAdmission(a_book(*there)).why_not(group)
    assert bool(found) is bool(why)
    assert why in found


def test_room_comes_back_when_pods_and_nodes_change() -> None:
    pod = a_pod("p").needs(cpu=5).on("n")
    book = a_book(NODE, pod)
    admission, group = PodGroupAdmission(book), a_group(wants={"cpu": "8"})
    assert admission.why_not(group)
    book.on_pod_deleted(pod.build().metadata.uid)
    assert not admission.why_not(group)
    book.on_node_deleted("n")
    assert admission.why_not(group)
    book.on_node_updated(a_node("n").offers(cpu=7).build())
    assert not admission.why_not(group)


@pytest.mark.parametrize("seed", range(40))
def test_after_any_history_they_are_admitted_as_by_one_who_sees_only_its_end(seed: int) -> None:
    rng = random.Random(seed)
    queues = [a_queue("q", capability={"cpu": "9"}), a_queue("r"), a_queue("s", parent="r")]
    book = a_book(*queues)
    nodes: dict[str, Any] = {}
    groups: dict[str, VolcanoPodGroup] = {}
    pods: dict[str, Any] = {}
    for _ in range(60):
        name, gone = str(rng.randrange(4)), rng.random() < 0.3
        match rng.choice(("node", "group", "pod", "pod")):
            case "node" if gone and nodes.pop(name, None) is not None:
                book.on_node_deleted(name)
            case "node":
                nodes[name] = a_node(name).offers(cpu=rng.randint(1, 6))
                book.on_node_updated(nodes[name].build())
            case "group" if gone and groups.pop(name, None) is not None:
                book.on_pod_group_deleted(f"default/{name}")
            case "group":
                phase = rng.choice(("", "Pending", "Inqueue", "Running", "Completed"))
                wants = {"cpu": str(rng.randint(1, 8)), **({"memory": "1"} if gone else {})}
                queue = rng.choice(("", "q", "r", "s"))
                groups[name] = a_group(name, phase, queue=queue, wants=wants)
                book.on_pod_group_updated(groups[name])
            case _ if gone and (pod := pods.pop(name, None)) is not None:
                book.on_pod_deleted(pod.build().metadata.uid)
            case _:
                pod = a_pod(f"p-{name}").needs(cpu=rng.randint(1, 4))
                pod = pod.on("0") if rng.random() < 0.6 else pod
                pods[name] = pod.annotated({GROUP: str(rng.randrange(4))})
                book.on_pod_updated(pods[name].build())
    fresh = a_book(*queues, *nodes.values(), *groups.values(), *pods.values())
    asking = [a_group("new", queue=q, wants={"cpu": str(n)}) for q in "qs" for n in range(1, 30)]
    for group in (*asking, *groups.values()):
        found = PodGroupAdmission(book).why_not(group)
        assert found == PodGroupAdmission(fresh).why_not(group)
    assert book.promises.total == fresh.promises.total
    for entry in (*pods.values(),):
        book.on_pod_deleted(entry.build().metadata.uid)
    for name in groups:
        book.on_pod_group_deleted(f"default/{name}")
    for name in nodes:
        book.on_node_deleted(name)
    nothing = (book.total_requests, book.total_allocatable, book.promises.total)
    assert nothing == ({}, {}, {}), "it remembers what is gone"
