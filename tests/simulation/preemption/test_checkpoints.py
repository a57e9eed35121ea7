"""Victims that ask for time to save their state, by the whole scheduler in virtual time.

That nobody is deleted before its time is judged by the specification in every simulation; here also
that everybody is in the end, and that the owner is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from arranger.api.timestamps import second_time
from arranger.embedded.virtual_time import virtual_now
from tests.builders import PodBuilder, a_pod
from tests.faults.injector import RequestMatcher, for_resource, from_user
from tests.faults.kinds import DropConnection, Reply
from tests.queueing import gpu_node, inference, training
from tests.simulation.harnesses.preemption import DELETES, PreemptionHarness, pod, with_priority
from tests.simulation.harnesses.queues import CONFIG as QUEUES
from tests.simulation.harnesses.queues import QueueHarness
from tests.simulation.harnesses.simulation import CONFIG, VIRTUAL_TIME, Object

pytestmark = VIRTUAL_TIME

ASKS = "arranger.io/checkpoint-before-eviction"
SAVED = "arranger.io/checkpointed-at"
DEADLINE = "arranger.io/eviction-deadline"
STATUSES = for_resource("pods") & RequestMatcher(lambda call: call.path.endswith("/status"))
NOTICES = STATUSES & RequestMatcher(lambda call: "EvictionNotice" in str(call.json))


def patient(name: str, asked: str = "60s", priority: int = 0) -> PodBuilder:
    return pod(name, priority).annotated({ASKS: asked})


def notice(sim: PreemptionHarness, name: str) -> str:
    """The status of the notice's condition; "" where there is none."""
    found = (c for c in sim.pod(name)["status"].get("conditions", []))
    return next((c["status"] for c in found if c["type"] == "arranger.io/EvictionNotice"), "")


def notes(sim: PreemptionHarness, name: str) -> Object:
    return dict(sim.pod(name)["metadata"].get("annotations") or {})


def reasons(sim: PreemptionHarness, name: str) -> list[str]:
    events = sim.cluster.objects("events", "events.k8s.io")
    return [e["reason"] for e in events if e["regarding"]["name"] == name]


async def seconds_until(sim: PreemptionHarness, reached: Callable[[], bool]) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await sim.until(reached, within=3000)
    return loop.time() - began


async def run(sim: PreemptionHarness, *victims: PodBuilder) -> None:
    """The victims run, and have for a while."""
    sim.create(*victims)
    await sim.until(lambda: sim.bound() == len(victims))
    await asyncio.sleep(30)


async def give_notice(sim: PreemptionHarness) -> None:
    """``low`` runs, asks for a minute, and is given it for ``high``."""
    await run(sim, patient("low"))
    sim.create(pod("high", 9))
    await sim.until(lambda: notice(sim, "low") == "True")


def gone(sim: PreemptionHarness, *names: str) -> Callable[[], bool]:
    return lambda: set(names) <= set(sim.evicted())


async def test_a_victim_gets_the_time_that_it_asks_for_and_is_told(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    async with sim.scheduler(), sim.kubelets():
        await give_notice(sim)
        await sim.until(lambda: DEADLINE in notes(sim, "low"))
        assert "EvictionNotice" in reasons(sim, "low")
        assert sim.nominated("high") == "n0"
        sim.create(pod("thief", 5))
        assert 58 <= await seconds_until(sim, gone(sim, "low")) <= 63
        await sim.until_bound("high", "n0")
        assert sim.evicted() == ["low"]
        assert "Preempted" in reasons(sim, "low")


async def test_who_has_saved_its_state_is_deleted_at_once(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    async with sim.scheduler(), sim.kubelets():
        await give_notice(sim)
        await asyncio.sleep(10)
        told = {SAVED: second_time(virtual_now())}
        sim.patch("pod", "low", {"metadata": {"annotations": told}})
        assert await seconds_until(sim, gone(sim, "low")) <= 2
        await sim.until_bound("high", "n0")


@pytest.mark.parametrize(
    "said", ["yesterday", "", "2020-01-01T00:00:00Z", "-1", pytest.param("9" * 100_000, id="long")]
)
async def test_an_old_or_unreadable_checkpoint_says_nothing(
    sim: PreemptionHarness, said: str
) -> None:
    sim.nodes(1)
    async with sim.scheduler(), sim.kubelets():
        await give_notice(sim)
        sim.patch("pod", "low", {"metadata": {"annotations": {SAVED: said}}})
        assert 55 <= await seconds_until(sim, gone(sim, "low")) <= 63


@pytest.mark.parametrize(
    "said",
    [
        "a while",
        "-5m",
        "0",
        "",
        "1e9",
        "999999999h",
        "0.1s",
        "1000h",
        pytest.param("6" * 9999, id="long"),
    ],
)
async def test_what_cannot_be_read_gives_no_time_and_what_is_much_the_maximum(
    sim: PreemptionHarness, said: str
) -> None:
    sim.nodes(1)
    async with sim.scheduler(), sim.kubelets():
        await run(sim, patient("low", said))
        sim.create(pod("high", 9))
        least, most = (598, 606) if said == "1000h" else (0, 5)
        assert least <= await seconds_until(sim, gone(sim, "low")) <= most


async def test_the_maximum_is_configured_and_nothing_gives_nobody_time(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(1)
    config = CONFIG.model_copy(update={"max_checkpoint_seconds": 20.0})
    async with sim.scheduler(config=config), sim.kubelets():
        await run(sim, patient("low"))
        sim.create(pod("high", 9))
        assert 19 <= await seconds_until(sim, gone(sim, "low")) <= 25


async def test_nobody_needs_the_place_any_more(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    async with sim.scheduler(), sim.kubelets():
        await give_notice(sim)
        await asyncio.sleep(20)
        sim.delete("pod", "high")
        await sim.until(lambda: notice(sim, "low") == "False", within=5)
        await asyncio.sleep(300)
        assert sim.evicted() == []
        assert DEADLINE not in notes(sim, "low")
        assert "EvictionWithdrawn" in reasons(sim, "low")
        sim.create(pod("again", 9))
        await sim.until(lambda: notice(sim, "low") == "True")
        assert 58 <= await seconds_until(sim, gone(sim, "low")) <= 63
        await sim.until_bound("again", "n0")


async def test_the_taker_finds_another_place(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    async with sim.scheduler(), sim.kubelets():
        await give_notice(sim)
        sim.nodes_named("n1", 1)
        await sim.until_bound("high", "n1")
        await sim.until(lambda: notice(sim, "low") == "False", within=5)
        await asyncio.sleep(300)
        assert sim.evicted() == []


async def test_another_taker_does_not_begin_the_time_anew(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    async with sim.scheduler(), sim.kubelets():
        await run(sim, patient("low"))
        sim.create(pod("high", 5))
        await sim.until(lambda: notice(sim, "low") == "True")
        await asyncio.sleep(30)
        sim.create(pod("highest", 9))
        assert 27 <= await seconds_until(sim, gone(sim, "low")) <= 33
        await sim.until_bound("highest", "n0")


async def test_a_victim_that_ends_by_itself_is_not_deleted(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    async with sim.scheduler(), sim.kubelets():
        await give_notice(sim)
        sim.delete("pod", "low")
        await sim.until_bound("high", "n0", within=10)
        await asyncio.sleep(120)
        assert sim.evicted() == []


@pytest.mark.parametrize("after", [0.05, 10, 55, 90])
async def test_whoever_leads_next_goes_on_with_the_clock(
    sim: PreemptionHarness, after: float
) -> None:
    sim.nodes(1)
    async with sim.kubelets():
        async with sim.scheduler("a"):
            await give_notice(sim)
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(min(after, 50))
            sim.kill("a")
        await asyncio.sleep(max(after - 50, 0))
        async with sim.scheduler("b"):
            await sim.until(gone(sim, "low"), within=120)
            lasted = asyncio.get_running_loop().time() - began
            assert 58 <= lasted <= max(63, after + 30)
            await sim.until_bound("high", "n0")


async def test_after_a_restart_it_stays_if_nobody_needs_the_place(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    async with sim.kubelets():
        async with sim.scheduler("a"):
            await give_notice(sim)
            sim.kill("a")
        sim.delete("pod", "high")
        async with sim.scheduler("b"):
            await sim.until(lambda: notice(sim, "low") == "False")
            await asyncio.sleep(120)
    assert sim.evicted() == []


@pytest.mark.parametrize("said", ["9999-01-01T00:00:00Z", "never", "1970-01-01T00:00:00Z"])
async def test_a_deadline_that_its_owner_has_written_is_not_believed(
    sim: PreemptionHarness, said: str
) -> None:
    sim.nodes(1)
    async with sim.kubelets():
        async with sim.scheduler("a"):
            await run(sim, patient("low"))
            sim.create(pod("high", 9))
            await sim.until(lambda: DEADLINE in notes(sim, "low"))
            sim.patch("pod", "low", {"metadata": {"annotations": {DEADLINE: said}}})
            sim.kill("a")
        async with sim.scheduler("b"):
            assert 25 <= await seconds_until(sim, gone(sim, "low")) <= 63


async def test_a_notice_that_is_refused_evicts_nobody(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    async with sim.kubelets(), sim.scheduler("one"):
        await run(sim, patient("low"))
        sim.faults.inject(NOTICES & from_user("one"), Reply(403), times=1)
        sim.create(pod("high", 9))
        await sim.until(lambda: notice(sim, "low") == "True")
        assert 58 <= await seconds_until(sim, gone(sim, "low")) <= 63
        await sim.until_bound("high", "n0")


async def test_a_notice_whose_answer_is_lost_counts_from_when_it_is_known(
    sim: PreemptionHarness,
) -> None:
    sim.nodes(1)
    async with sim.kubelets(), sim.scheduler("one"):
        await run(sim, patient("low"))
        sim.faults.inject(NOTICES & from_user("one"), DropConnection.AFTER, times=3)
        sim.create(pod("high", 9))
        await sim.until(lambda: notice(sim, "low") == "True")
        assert 58 <= await seconds_until(sim, gone(sim, "low")) <= 75
        await sim.until_bound("high", "n0")


async def test_a_delete_that_is_refused_lets_the_taker_look_again(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    async with sim.kubelets(), sim.scheduler("one"):
        await run(sim, patient("low"))
        sim.faults.inject(DELETES & from_user("one"), Reply(403), times=1)
        sim.create(pod("high", 9))
        await sim.until(gone(sim, "low"), within=300)
        await sim.until_bound("high", "n0")


async def test_a_run_time_that_is_over_before_is_not_extended(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    async with sim.kubelets(), sim.scheduler("one"):
        await run(sim, patient("low", "5m").annotated({"arranger.io/max-run-time": "90s"}))
        sim.create(pod("high", 9))
        await sim.until(lambda: notice(sim, "low") == "True")
        assert await seconds_until(sim, gone(sim, "low")) <= 65


# --- gangs ------------------------------------------------------------------------------------


def gang(name: str, members: int, asked: tuple[str, ...], priority: int = 0) -> list[PodBuilder]:
    pods = [a_pod(f"{name}-{n}").needs(cpu=1).in_gang(name, members) for n in range(members)]
    said = [*asked, *[""] * members]
    asking = [p.annotated({ASKS: said[n]}) if said[n] else p for n, p in enumerate(pods)]
    return with_priority(priority, *asking)


async def test_a_gang_leaves_together_after_the_longest_time(sim: PreemptionHarness) -> None:
    sim.nodes(1, 1)
    async with sim.kubelets(), sim.scheduler():
        await run(sim, *gang("low", 2, ("30s", "90s")))
        sim.create(*gang("high", 2, (), 9))
        await sim.until(lambda: notice(sim, "low-0") == notice(sim, "low-1") == "True")
        told = {SAVED: second_time(virtual_now())}
        sim.patch("pod", "low-0", {"metadata": {"annotations": told}})
        began = asyncio.get_running_loop().time()
        assert 85 <= await seconds_until(sim, gone(sim, "low-0")) <= 95
        await sim.until(gone(sim, "low-1"), within=2)
        assert asyncio.get_running_loop().time() - began < 96
        await sim.until(lambda: sim.bound() == 2 and not sim.exists("low-0"))


async def test_a_gang_that_has_saved_its_state_leaves_at_once(sim: PreemptionHarness) -> None:
    sim.nodes(1, 1)
    async with sim.kubelets(), sim.scheduler():
        await run(sim, *gang("low", 2, ("90s", "")))
        sim.create(*gang("high", 2, (), 9))
        await sim.until(lambda: notice(sim, "low-0") == notice(sim, "low-1") == "True")
        told = {SAVED: second_time(virtual_now())}
        sim.patch("pod", "low-0", {"metadata": {"annotations": told}})
        assert await seconds_until(sim, gone(sim, "low-0", "low-1")) <= 3


async def test_a_gang_stays_when_the_gang_that_takes_is_gone(sim: PreemptionHarness) -> None:
    sim.nodes(1, 1)
    async with sim.kubelets(), sim.scheduler():
        await run(sim, *gang("low", 2, ("60s", "60s")))
        sim.create(*gang("high", 2, (), 9))
        await sim.until(lambda: notice(sim, "low-0") == notice(sim, "low-1") == "True")
        for n in range(2):
            sim.delete("pod", f"high-{n}")
        await sim.until(lambda: notice(sim, "low-0") == notice(sim, "low-1") == "False", within=5)
        await asyncio.sleep(300)
    assert sim.evicted() == []


@pytest.mark.parametrize("after", [0.05, 30, 80])
async def test_a_gang_leaves_together_whoever_leads(sim: PreemptionHarness, after: float) -> None:
    sim.nodes(1, 1)
    async with sim.kubelets():
        async with sim.scheduler("a"):
            await run(sim, *gang("low", 2, ("60s", "60s")))
            sim.create(*gang("high", 2, (), 9))
            await sim.until(lambda: notice(sim, "low-0") == notice(sim, "low-1") == "True")
            await asyncio.sleep(min(after, 50))
            sim.kill("a")
        await asyncio.sleep(max(after - 50, 0))
        async with sim.scheduler("b"):
            await sim.until(gone(sim, "low-0", "low-1"), within=120)
            await sim.until(lambda: sim.bound() == 2 and not sim.exists("low-0"))


# --- queues -----------------------------------------------------------------------------------


async def test_who_gives_way_to_another_queue_has_time_as_well() -> None:
    sim = QueueHarness()
    sim.queues()
    sim.create(gpu_node("n0").offers(memory="512Gi", pods=110))
    async with sim.scheduler(config=QUEUES), sim.kubelets():
        sim.create(training("t", 8).annotated({ASKS: "60s"}))
        await sim.until(lambda: sim.bound() == 1)
        await asyncio.sleep(30)
        sim.create(inference("i", 8))
        await sim.until(lambda: notice(sim, "t") == "True")
        assert 58 <= await seconds_until(sim, lambda: sim.evicted() == ["t"]) <= 63
        await sim.until(lambda: sim.node_of("i") == "n0")
    sim.check()


async def test_the_notice_of_another_scheduler_is_left_alone(sim: PreemptionHarness) -> None:
    sim.nodes(1)
    told = {
        "type": "arranger.io/EvictionNotice",
        "status": "True",
        "reason": "PreemptionByScheduler",
    }
    theirs = patient("low").on("n0").with_spec(schedulerName="theirs")
    sim.create(theirs)
    sim.patch("pod", "low", {"status": {"conditions": [told]}}, sub="/status")
    async with sim.scheduler(), sim.kubelets():
        await asyncio.sleep(120)
    assert notice(sim, "low") == "True"
