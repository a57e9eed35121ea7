"""Commands of ``bus.volcano.sh`` for Jobs and Queues, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.faults.injector import WRITES, for_resource, from_user
from tests.faults.kinds import DropConnection, Reply, RequestFault
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.jobs import GROUP_GROUP, JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME

#: Who cannot delete Commands.
THEIR_DELETES = WRITES & for_resource("commands") & from_user("jobs")


async def _obeyed(sim: JobHarness) -> None:
    await sim.until(lambda: not sim.commands())


async def test_a_job_is_suspended_and_resumed(sim: JobHarness) -> None:
    sim.job("j", task())
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        sim.command("AbortJob", "j")
        await sim.until_phase("j", "Aborted")
        assert sim.pods_of_job("j") == {}
        await _obeyed(sim)
        sim.command("ResumeJob", "j")
        await sim.until_phase("j", "Running")
        await _obeyed(sim)
        events = sim.events_about("j")
        assert events["CommandIssued"] == "Start to execute command ResumeJob"
        assert events["ExecuteAction"] == "Start to execute action ResumeJob"
        assert sim.status("j")["retryCount"] == 0


@pytest.mark.parametrize(
    ("action", "end"),
    [("TerminateJob", "Terminated"), ("CompleteJob", "Completed"), ("RestartJob", "Running")],
)
async def test_every_action_on_the_whole_job(sim: JobHarness, action: str, end: str) -> None:
    sim.job("j", task())
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        sim.command(action, "j")
        await _obeyed(sim)
        await sim.until(lambda: sim.status("j")["version"] == 1)
        await sim.until_phase("j", end)


async def test_commands_are_obeyed_one_after_the_other(sim: JobHarness) -> None:
    sim.job("j", task())
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        sim.command("AbortJob", "j")
        await asyncio.sleep(1.1)
        sim.command("ResumeJob", "j")
        sim.command("SyncJob", "j")
        await _obeyed(sim)
        await sim.until_phase("j", "Running")
        assert sim.phases_of("j").count("Restarting") == 1


async def test_a_command_that_came_while_nobody_looked_is_obeyed(sim: JobHarness) -> None:
    sim.job("j", task())
    async with sim.at_work():
        await sim.until_phase("j", "Running")
    sim.command("AbortJob", "j")
    async with sim.at_work():
        await sim.until_phase("j", "Aborted")
        await _obeyed(sim)


#: What is no wish that could be fulfilled → the event about it, if there is somebody to hear it.
DROPPED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no action at all": ("", {}, "InvalidAction"),
    "no action that there is": ("Explode" * 50, {}, "InvalidAction"),
    "an action on a part": ("RestartTask", {}, "InvalidAction"),
    "an action on queues": ("CloseQueue", {}, "InvalidAction"),
    "an earlier job of the name": ("AbortJob", {"uid": "earlier"}, ""),
    "a job that is not there": ("AbortJob", {"name": "nobody"}, ""),
}


@pytest.mark.parametrize(("action", "target", "event"), DROPPED.values(), ids=DROPPED)
async def test_a_command_that_makes_no_sense_goes_without_effect(
    sim: JobHarness, action: str, target: dict[str, Any], event: str
) -> None:
    sim.job("j", task())
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        sim.command(action, "j", target)
        await _obeyed(sim)
        await asyncio.sleep(10)
        assert sim.phase("j") == "Running"
        told = sim.events_about("j").keys() & {"CommandIssued", "InvalidAction"}
        assert told == ({event} if event else set())


async def test_a_command_for_anything_else_is_left_alone(sim: JobHarness) -> None:
    sim.job("j", task())
    sim.job("theirs", task(), schedulerName="volcano")
    sim.command("AbortJob", "j", {"kind": "Pod", "apiVersion": "v1"})
    sim.command("AbortJob", "theirs")
    sim.cluster.create(
        {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": "c"},
            "action": "AbortJob",
        }
    )
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        await asyncio.sleep(10)
        assert len(sim.commands()) == 3
        assert sim.phase("theirs") == ""


async def test_a_job_that_has_ended_is_told_nothing_any_more(sim: JobHarness) -> None:
    sim.job("j", task(runs=5))
    async with sim.at_work():
        await sim.until_phase("j", "Completed")
        sim.command("RestartJob", "j")
        await _obeyed(sim)
        assert sim.phase("j") == "Completed"
        assert "CommandIssued" in sim.events_about("j")


async def test_an_invalid_job_obeys_once_it_is_corrected(sim: JobHarness) -> None:
    sim.job("j", task())
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        sim.edit("j", {"spec": {"plugins": {"ssh": []}}})
        await sim.until(lambda: sim.reason("j")[0] == "Invalid")
        sim.command("RestartJob", "j")
        await asyncio.sleep(10)
        assert sim.commands() == ["RestartJob"]
        sim.edit("j", {"spec": {"plugins": None}})
        await _obeyed(sim)
        await sim.until(lambda: "Restarting" in sim.events_about("j"))


@pytest.mark.parametrize("how", ["command", "annotation"])
@pytest.mark.parametrize("begun", [False, True])
async def test_an_invalid_job_may_be_stopped(sim: JobHarness, how: str, *, begun: bool) -> None:
    bad: dict[str, Any] = {"plugins": {"ssh": []}}
    sim.job("j", task(), **({} if begun else bad))
    async with sim.at_work():
        if begun:
            await sim.until_phase("j", "Running")
            sim.edit("j", {"spec": bad})
        await sim.until(lambda: sim.reason("j")[0] == "Invalid")
        if how == "command":
            sim.command("AbortJob", "j")
        else:
            sim.annotate("j", "AbortJob")
        await sim.until_phase("j", "Aborted")
        await sim.until(lambda: not sim.pods_of_job("j"))
        await _obeyed(sim)
        assert sim.reason("j")[0] == "Invalid"


#: What may happen to the request that deletes a Command.
FAULTS: dict[str, RequestFault] = {
    "it never arrives": DropConnection.BEFORE,
    "the answer is lost": DropConnection.AFTER,
    "the server is unwell": Reply(500),
    "a right is missing": Reply(403),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_whatever_becomes_of_the_deletion_a_command_is_obeyed_once(
    sim: JobHarness, fault: RequestFault
) -> None:
    sim.job("j", task())
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        sim.job_faults.inject(THEIR_DELETES, fault, times=3)
        sim.command("RestartJob", "j")
        await _obeyed(sim)
        await asyncio.sleep(10)
        await sim.until_phase("j", "Running")
        assert sim.status("j")["version"] == 1


async def test_a_job_is_cared_for_though_its_command_cannot_be_deleted(sim: JobHarness) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task())
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        denied = sim.job_faults.inject(THEIR_DELETES, FAULTS["a right is missing"])
        sim.command("RestartJob", "j")
        await sim.until(lambda: sim.status("j")["version"] == 1)
        await sim.until_phase("j", "Running")
        sim.evict("j-w-0", grace=0)
        await sim.until(lambda: sim.status("j")["running"] == 2, within=120)
        sim.annotate("j", "AbortJob")
        await sim.until_phase("j", "Aborted", within=120)
        assert (sim.status("j")["version"], sim.pods_of_job("j")) == (2, {})
        assert sim.commands() == ["RestartJob"]
        denied.stop()
        await sim.until(lambda: not sim.commands(), within=300)


@pytest.mark.parametrize(
    "before", [True, False], ids=["before the decision", "before the deletion"]
)
async def test_a_command_outlives_its_controller_and_is_obeyed_once(
    sim: JobHarness, before: bool
) -> None:
    sim.job("j", task())
    async with sim.kubelets(), sim.scheduler():
        async with sim.controllers("one"):
            await sim.until_phase("j", "Running")
            if not before:
                sim.job_faults.inject(
                    WRITES & for_resource("commands") & from_user("one"), DropConnection.BEFORE
                )
            else:
                sim.kill("one")
            sim.command("RestartJob", "j")
            if not before:
                await sim.until(lambda: sim.status("j")["version"] == 1)
                sim.kill("one")
        await sim.until(lambda: sim.commands() == ["RestartJob"])
        async with sim.controllers("two"):
            await _obeyed(sim)
            await sim.until(lambda: sim.status("j")["version"] == 1)
            await sim.until_phase("j", "Running")
            await asyncio.sleep(10)
            assert sim.status("j")["version"] == 1


async def test_two_controllers_obey_a_command_once(sim: JobHarness) -> None:
    sim.job("j", task())
    async with (
        sim.kubelets(),
        sim.scheduler(),
        sim.controllers("one"),
        sim.controllers("two"),
    ):
        await sim.until_phase("j", "Running")
        sim.command("RestartJob", "j")
        await _obeyed(sim)
        await sim.until_phase("j", "Running")
        await asyncio.sleep(10)
        assert sim.status("j")["version"] == 1


# --- queues --------------------------------------------------------------------------------------


def _state(sim: JobHarness, name: str) -> str:
    queues = sim.cluster.objects("queues", GROUP_GROUP)
    (found,) = (q for q in queues if q["metadata"]["name"] == name)
    return str((found.get("status") or {}).get("state") or "")


def _told(sim: JobHarness, name: str) -> dict[str, str]:
    events = sim.cluster.objects("events", "events.k8s.io")
    return {e["reason"]: e["note"] for e in events if e["regarding"]["name"] == name}


async def test_a_queue_is_closed_and_opened(sim: JobHarness) -> None:
    sim.cluster.create(a_queue_manifest("research"))
    sim.job("j", task(), queue="research")
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        sim.command_queue("CloseQueue", "research")
        await _obeyed(sim)
        await sim.until(lambda: _state(sim, "research") == "Closing")
        sim.command("TerminateJob", "j")
        await sim.until(lambda: _state(sim, "research") == "Closed")
        sim.command_queue("OpenQueue", "research")
        await _obeyed(sim)
        await sim.until(lambda: _state(sim, "research") == "Open")
        assert (
            _told(sim, "research").items()
            >= {
                "CloseQueue": "Close queue succeed",
                "OpenQueue": "Open queue succeed",
            }.items()
        )


async def test_what_a_queues_owner_has_written_is_changed_with_its_state(sim: JobHarness) -> None:
    note = "arranger.io/queue-state"
    sim.cluster.create(a_queue_manifest("research", notes={note: "Open"}))
    async with sim.at_work():
        await sim.until(lambda: _state(sim, "research") == "Open")
        sim.command_queue("CloseQueue", "research")
        await sim.until(lambda: _state(sim, "research") == "Closed")
        await _obeyed(sim)
        [queue] = sim.cluster.objects("queues", GROUP_GROUP)
        assert queue["metadata"]["annotations"][note] == "Closed"


#: What no queue does → the event about it; "" where there is no such queue.
QUEUES_DO_NOT: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "close the root": ("CloseQueue", "root", {}, "CloseQueue"),
    "open below one that is closed": ("OpenQueue", "child", {}, "OpenQueue"),
    "abort": ("AbortJob", "research", {}, "InvalidAction"),
    "anything when it is not there": ("CloseQueue", "nobody", {}, ""),
    "what an earlier one was told": ("CloseQueue", "research", {"uid": "earlier"}, ""),
}


@pytest.mark.parametrize(
    ("action", "name", "target", "event"), QUEUES_DO_NOT.values(), ids=QUEUES_DO_NOT
)
async def test_queues_do_not(
    sim: JobHarness, action: str, name: str, target: dict[str, Any], event: str
) -> None:
    for queue in (
        a_queue_manifest("root"),
        a_queue_manifest("research"),
        a_queue_manifest("closed", notes={"arranger.io/queue-state": "Closed"}),
        a_queue_manifest("child", parent="closed", notes={"arranger.io/queue-state": "Closed"}),
    ):
        sim.cluster.create(queue)
    async with sim.at_work():
        await sim.until(lambda: _state(sim, "child") == _state(sim, "closed") == "Closed")
        before = {n: _state(sim, n) for n in ("root", "research", "child")}
        sim.command_queue(action, name, target)
        await _obeyed(sim)
        await asyncio.sleep(5)
        assert {n: _state(sim, n) for n in before} == before
        assert (event in _told(sim, name)) is bool(event)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_whatever_becomes_of_the_deletion_a_queue_is_closed(
    sim: JobHarness, fault: RequestFault
) -> None:
    sim.cluster.create(a_queue_manifest("research"))
    async with sim.at_work():
        await sim.until(lambda: _state(sim, "research") == "Open")
        sim.job_faults.inject(THEIR_DELETES, fault, times=3)
        sim.command_queue("CloseQueue", "research")
        await sim.until(lambda: _state(sim, "research") == "Closed")
        await _obeyed(sim)


async def test_whose_commands_cannot_be_deleted_the_queue_is_closed_and_opened_all_the_same(
    sim: JobHarness,
) -> None:
    sim.cluster.create(a_queue_manifest("research"))
    sim.job("j", task(), queue="research")
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        denied = sim.job_faults.inject(THEIR_DELETES, FAULTS["a right is missing"])
        sim.command_queue("CloseQueue", "research")
        await sim.until(lambda: _state(sim, "research") == "Closing")
        sim.annotate("j", "TerminateJob")
        await sim.until(lambda: _state(sim, "research") == "Closed")
        await asyncio.sleep(1.1)
        sim.command_queue("OpenQueue", "research")
        await sim.until(lambda: _state(sim, "research") == "Open")
        await asyncio.sleep(600)
        assert (_state(sim, "research"), len(sim.commands())) == ("Open", 2)
        denied.stop()
        await _obeyed(sim)
        assert _state(sim, "research") == "Open"


async def test_commands_for_queues_are_heard_in_some_namespaces_only(sim: JobHarness) -> None:
    sim.cluster.create(a_queue_manifest("research"))
    sim.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}})
    [queue] = sim.cluster.objects("queues", GROUP_GROUP)
    uid = queue["metadata"]["uid"]
    target = {"apiVersion": f"{GROUP_GROUP}/v1beta1", "kind": "Queue", "name": "research"}
    sim.cluster.create(
        {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": "c", "namespace": "tenant"},
            "action": "CloseQueue",
            "target": {**target, "uid": uid},
        }
    )
    async with sim.at_work():
        await sim.until(lambda: _state(sim, "research") == "Open")
        await asyncio.sleep(10)
        assert (_state(sim, "research"), sim.commands()) == ("Open", ["CloseQueue"])
