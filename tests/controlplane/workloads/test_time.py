"""Reservations and planned starts with the real API server's clock; kubelets are the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from arranger.embedded.bundled_crds import bundled_crds
from tests.controlplane.daemon import Daemon, install_rbac, manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, a_pod, until

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

PODS = "/api/v1/namespaces/default/pods"
GANGS = "/apis/arranger.io/v1alpha1/namespaces/default/gangs"
RESERVATIONS = "/apis/arranger.io/v1alpha1/reservations"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GANG = "gang.scheduling.koordinator.sh/"


def in_seconds(seconds: float) -> str:
    """A time from now on, as the API writes it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A node of three CPUs."""
    skip_without_binary()
    async with ControlPlane() as running:
        await install_rbac(running)
        await running.apply(bundled_crds())
        await running.apply(manifests("manifests/60-controllers-rbac.yaml"))
        for path in (GANGS, RESERVATIONS):
            await running.until_served(path)
        await running.post("/api/v1/nodes", a_node("n1", cpu="3"))
        yield running


async def _until_bound(plane: ControlPlane, *names: str) -> None:
    async def bound() -> bool:
        return all([(await plane.get(f"{PODS}/{n}"))["spec"].get("nodeName") for n in names])

    await until(bound, what=f"bindings of {names}")


async def _until_told(plane: ControlPlane, name: str, words: str) -> None:
    async def told() -> bool:
        found = (await plane.get(f"{PODS}/{name}"))["status"].get("conditions") or ()
        return any(words in each.get("message", "") for each in found)

    await until(told, what=f"{words} of {name}")


async def test_a_reservation_for_tomorrow_is_moved_to_now(plane: ControlPlane) -> None:
    day = 86_400.0
    spec = {
        "nodes": {"names": ["n1"]},
        "window": {"start": in_seconds(day), "end": in_seconds(day + 3600)},
        "maintenance": True,
    }
    kind = {"apiVersion": "arranger.io/v1alpha1", "kind": "Reservation"}
    await plane.post(RESERVATIONS, {**kind, "metadata": {"name": "upkeep"}, "spec": spec})
    scheduler = await Daemon.start(plane)
    path = f"{RESERVATIONS}/upkeep"

    async def until_phase(phase: str) -> None:
        async def reached() -> bool:
            return (await plane.get(path)).get("status", {}).get("phase") == phase

        await until(reached, what=phase)

    await plane.post(PODS, a_pod("before", cpu="1"))
    await _until_bound(plane, "before")
    await until_phase("Pending")

    ends = in_seconds(12)
    await plane.merge(path, {"spec": {"window": {"start": in_seconds(-60), "end": ends}}})
    await until_phase("Active")
    await plane.post(PODS, a_pod("later", cpu="1"))
    await _until_told(plane, "later", "reserved by Reservation upkeep")
    assert not (await plane.get(f"{PODS}/later"))["spec"].get("nodeName")
    await _until_bound(plane, "later")
    assert datetime.now(UTC) >= datetime.fromisoformat(ends)
    await until_phase("Ended")
    assert await scheduler.stop() == 0, scheduler.log_lines()


async def test_promised_starts_of_two_gangs_are_kept_and_only_who_ends_in_time_goes_before(
    plane: ControlPlane,
) -> None:
    gangs = {"starvationAfterSeconds": 1, "plannedGangs": 2}
    scheduler = await Daemon.start(plane, config={"gangs": gangs})
    controllers = await Daemon.controllers(plane)
    first, second = ([f"{gang}-{n}" for n in range(3)] for gang in ("train", "next"))

    async def submit(name: str, cpu: str, limit: int, gang: str = "") -> None:
        pod = a_pod(name, cpu=cpu)
        pod["spec"]["activeDeadlineSeconds"] = limit
        if gang:
            notes = {f"{GANG}name": gang, f"{GANG}min-available": "3"}
            pod["metadata"]["annotations"] = notes
        await plane.post(PODS, pod)

    async def start(*names: str) -> datetime:
        """Their kubelet starts them; returns when."""
        status = {"phase": "Running", "startTime": in_seconds(0)}
        for name in names:
            await plane.merge(f"{PODS}/{name}/status", {"status": status})
        return datetime.fromisoformat(status["startTime"])

    async def end(at: datetime, *names: str) -> None:
        """Their kubelet ends them then."""
        await asyncio.sleep(max(0.0, (at - datetime.now(UTC)).total_seconds()))
        for name in names:
            await plane.merge(f"{PODS}/{name}/status", {"status": {"phase": "Failed"}})

    async def until_promised(gang: str, at: datetime) -> None:
        async def promised() -> bool:
            return bool((await _gang(plane, gang)).get("plannedStart"))

        await until(promised, what=f"a planned start of {gang}")
        status = await _gang(plane, gang)
        assert (status["startBasis"], status["plannedStart"]) == ("KnownEnds", _text(at))

    await submit("long", "2", 25)
    await _until_bound(plane, "long")
    due = await start("long") + timedelta(seconds=25)
    for name in first:
        await submit(name, "900m", 10, gang="train")
    await until_promised("train", due)
    for name in second:
        await submit(name, "900m", 3600, gang="next")
    await until_promised("next", due + timedelta(seconds=10))
    await _until_told(plane, "next-0", "known ends")

    await submit("slow", "500m", 3600)
    await submit("quick", "500m", 5)
    await _until_bound(plane, "quick")
    assert not (await plane.get(f"{PODS}/slow"))["spec"].get("nodeName")
    await plane.merge(f"{PODS}/quick/status", {"status": {"phase": "Failed"}})

    await end(due, "long")
    await _until_bound(plane, *first)
    assert (datetime.now(UTC) - due).total_seconds() < 5
    due = await start(*first) + timedelta(seconds=10)
    await end(due, *first)
    await _until_bound(plane, *second)
    assert (datetime.now(UTC) - due).total_seconds() < 5
    for daemon in (scheduler, controllers):
        assert await daemon.stop() == 0, daemon.log_lines()


async def test_who_may_not_be_there_leaves_when_the_window_opens(plane: ControlPlane) -> None:
    scheduler = await Daemon.start(plane)
    for name, notes in (("mine", {}), ("saves", {"arranger.io/checkpoint-before-eviction": "5s"})):
        pod = a_pod(name, cpu="1")
        pod["metadata"]["annotations"] = notes
        await plane.post(PODS, pod)
        await _until_bound(plane, name)
        running = {"phase": "Running", "startTime": in_seconds(0)}
        await plane.merge(f"{PODS}/{name}/status", {"status": running})
    opens = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=10)
    spec = {
        "nodes": {"resources": {"cpu": 2}},
        "window": {"start": _text(opens), "duration": "1h"},
        "maintenance": True,
        "evict": True,
    }
    kind = {"apiVersion": "arranger.io/v1alpha1", "kind": "Reservation"}
    await plane.post(RESERVATIONS, {**kind, "metadata": {"name": "upkeep"}, "spec": spec})

    async def conditions(name: str) -> dict[str, tuple[str, str]]:
        found = (await plane.get(f"{PODS}/{name}"))["status"].get("conditions") or ()
        return {each["type"]: (each["status"], each.get("reason", "")) for each in found}

    async def noticed() -> bool:
        notes = (await plane.get(f"{PODS}/saves"))["metadata"]["annotations"]
        told = "arranger.io/EvictionNotice" in await conditions("saves")
        return told and "arranger.io/eviction-deadline" in notes  # a second write

    async def leaves() -> bool:
        pods = [await plane.get(f"{PODS}/{name}") for name in ("mine", "saves")]
        return all(pod["metadata"].get("deletionTimestamp") for pod in pods)

    await until(noticed, what="a notice")
    assert datetime.now(UTC) < opens
    assert "arranger.io/EvictionNotice" not in await conditions("mine")
    notes = (await plane.get(f"{PODS}/saves"))["metadata"]["annotations"]
    assert datetime.fromisoformat(notes["arranger.io/eviction-deadline"]) == opens
    assert not await leaves()
    await until(leaves, what="that both leave")
    assert 0 <= (datetime.now(UTC) - opens).total_seconds() < 5
    for name in ("mine", "saves"):
        assert (await conditions(name))["DisruptionTarget"] == ("True", "NodeReserved")
    assert await scheduler.stop() == 0, scheduler.log_lines()


async def test_a_victim_that_asks_for_time_has_it_and_is_told(plane: ControlPlane) -> None:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    await plane.post(CLASSES, {**kind, "metadata": {"name": "high"}, "value": 9})
    scheduler = await Daemon.start(plane)
    victim, taker = a_pod("victim", cpu="3"), a_pod("taker", cpu="3")
    victim["metadata"]["annotations"] = {"arranger.io/checkpoint-before-eviction": "6s"}
    taker["spec"]["priorityClassName"] = "high"
    await plane.post(PODS, victim)
    await _until_bound(plane, "victim")
    running = {"phase": "Running", "startTime": in_seconds(0)}
    await plane.merge(f"{PODS}/victim/status", {"status": running})
    await plane.post(PODS, taker)

    async def seen() -> dict[str, Any]:
        found = await plane.get(f"{PODS}/victim")
        conditions = found["status"].get("conditions") or ()
        told = [c for c in conditions if c["type"] == "arranger.io/EvictionNotice"]
        notes = found["metadata"]["annotations"]
        deadline = notes.get("arranger.io/eviction-deadline")
        return {"told": told, "deadline": deadline} if told and deadline else {}

    async def leaves() -> bool:
        code, found = await plane.request("GET", f"{PODS}/victim")
        return code == 404 or bool(found["metadata"].get("deletionTimestamp"))

    async def told() -> bool:
        return bool(await seen())

    await until(told, what="a notice")
    notice = await seen()
    began = datetime.fromisoformat(notice["told"][0]["lastTransitionTime"])
    deadline = datetime.fromisoformat(notice["deadline"])
    assert 5 <= (deadline - began).total_seconds() <= 9
    assert not await leaves()
    await until(leaves, what="the eviction")
    assert -0.5 <= (datetime.now(UTC) - deadline).total_seconds() < 5
    assert await scheduler.stop() == 0, scheduler.log_lines()


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


async def _gang(plane: ControlPlane, name: str) -> dict[str, Any]:
    code, found = await plane.request("GET", f"{GANGS}/{name}")
    status: dict[str, Any] = found.get("status", {}) if code == 200 else {}
    return status
