"""Pods with volumes from their creation to their Binding, and what may go wrong on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.builders import PodBuilder, a_node, a_pod
from tests.faults.injector import BINDINGS, WRITES, for_resource
from tests.faults.kinds import ConcurrentAction, Delay, DropConnection, Reply
from tests.simulation.harnesses.gangs import members
from tests.simulation.harnesses.simulation import MERGE, VIRTUAL_TIME, SimulationHarness
from tests.simulation.harnesses.volumes import VOLUMES, VolumeHarness
from tests.storage import a_claim, a_class, a_volume

pytestmark = VIRTUAL_TIME

HAND, LATE = a_class("hand", by="kubernetes.io/no-provisioner"), a_class()
HAND_CLAIM = a_claim(of="hand")
VOLUME_WRITES = WRITES & for_resource("persistentvolumes")
CLAIM_WRITES = WRITES & for_resource("persistentvolumeclaims")


@pytest.fixture
def storage(sim: SimulationHarness) -> Iterator[VolumeHarness]:
    """Three nodes in zones of their own, two classes, and a controller that looks after volumes."""
    storage = VolumeHarness(sim)
    sim.create(HAND, LATE, *(a_node(f"n{n}").in_zone(f"z{n}").offers(cpu=4) for n in range(3)))
    yield storage
    storage.check()


def web(number: int = 0) -> PodBuilder:
    """A pod with a claim of its own."""
    return a_pod(f"web-{number}").needs(cpu=1).with_claim(f"data-{number}")


async def test_pods_get_volumes_of_their_own_where_these_are(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    for number in range(6):
        sim.create(a_volume(f"disk-{number}", of="hand").usable_in(f"z{number % 3}"))
        sim.create(a_claim(f"data-{number}", of="hand"), web(number))
    async with storage.loop.running(), sim.scheduler():
        await sim.until_settled(6)
    assert {storage.volume_of(f"data-{n}") for n in range(6)} == {f"disk-{n}" for n in range(6)}


async def test_a_pod_waits_for_a_volume_and_is_placed_when_there_is_one(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    sim.create(a_claim("data-0", of="hand"), web())
    text = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
    async with storage.loop.running(), sim.scheduler():
        await sim.until(lambda: sim.message("web-0").startswith(text))
        sim.create(a_volume(of="hand").usable_in("z2"))
        await sim.until_settled(1)
    assert sim.node_of("web-0") == "n2"


async def test_volumes_are_made_where_the_pods_are(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    for number in range(9):
        sim.create(a_claim(f"data-{number}"), web(number))
    async with storage.loop.running(), sim.scheduler():
        await sim.until_settled(9)
    nodes = {sim.node_of(f"web-{n}") for n in range(9)}
    assert nodes == {"n0", "n1", "n2"}, "nobody was kept from spreading"


async def test_ephemeral_volumes_are_claimed_then_made(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    spec = HAND_CLAIM.manifest()["spec"] | {"storageClassName": "late"}
    for number in range(6):
        sim.create(a_pod(f"job-{number}").needs(cpu=1).with_scratch("tmp", **spec))
    async with storage.loop.running(), sim.scheduler():
        await sim.until_settled(6)
    assert storage.volume_of("job-0-tmp") == "made-for-job-0-tmp"


async def test_an_immediate_claim_is_waited_for(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    storage.enabled = False
    sim.create(a_class("now", by="kubernetes.io/no-provisioner").immediate())
    sim.create(a_claim("data-0", of="now"), web(), a_volume(of="now").usable_in("z1"))
    async with storage.loop.running(), sim.scheduler():
        await sim.until(lambda: "unbound immediate" in sim.message("web-0"))
        storage.enabled = True
        storage.loop.wake()
        await sim.until_settled(1)
    assert sim.node_of("web-0") == "n1"


async def test_where_no_volume_can_be_made_the_pod_goes_elsewhere(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    sim.create(a_claim("data-0"), web())
    storage.failing["n0"] = 1
    text = (
        'running PreBind plugin "VolumeBinding": binding volumes: '
        'selectedNode annotation reset for PVC "data-0"'
    )
    async with storage.loop.running(), sim.scheduler():
        await sim.until(lambda: sim.message("web-0") == text)
        await sim.until_settled(1)


async def test_a_volume_that_is_never_made_gives_the_node_back(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    storage.enabled = False
    sim.create(a_claim("data-0"), web())
    text = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    async with storage.loop.running(), sim.scheduler() as scheduler:
        await sim.until(lambda: storage.selected("data-0") != "")
        await asyncio.sleep(590)
        assert scheduler.engine.cluster.assumed
        assert sim.message("web-0") == ""
        await sim.until(lambda: sim.message("web-0") == text)
        storage.enabled = True
        storage.loop.wake()
        await sim.until_settled(1)


async def test_a_volume_that_somebody_else_takes_is_not_taken_from_him(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    sim.create(
        a_volume("mine", of="hand").usable_in("z0"), HAND_CLAIM, a_claim("data-0", of="hand")
    )
    sim.create(web(), a_volume("other", of="hand", size="20Gi").usable_in("z1"))
    uid = storage.claim("data")["metadata"]["uid"]
    taken = {"spec": {"claimRef": {"namespace": "default", "name": "data", "uid": uid}}}
    hit = sim.faults.inject(
        VOLUME_WRITES,
        ConcurrentAction(lambda: sim.request("PATCH", f"{VOLUMES}/mine", taken, MERGE)),
        times=1,
    )
    async with storage.loop.running(), sim.scheduler():
        await sim.until_settled(1)
    assert len(hit.matched) == 1
    assert storage.volume_of("data") == "mine"
    assert storage.volume_of("data-0") == "other"


@pytest.mark.parametrize(
    "fault", [DropConnection.BEFORE, DropConnection.AFTER, Reply(503), Delay(3)], ids=str
)
@pytest.mark.parametrize("made", [False, True], ids=["found", "made"])
async def test_a_write_that_goes_wrong_is_made_good(
    sim: SimulationHarness,
    storage: VolumeHarness,
    fault: DropConnection | Reply | Delay,
    made: bool,
) -> None:
    sim.create(a_claim("data-0", of="late" if made else "hand"), web())
    if not made:
        sim.create(a_volume(of="hand").usable_in("z1"))
    writes = CLAIM_WRITES if made else VOLUME_WRITES
    sim.faults.inject(writes, fault, times=2)
    async with storage.loop.running(), sim.scheduler():
        await sim.until_settled(1)


async def test_without_the_right_to_write_volumes_the_pod_is_told(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    sim.create(a_claim("data-0"), web())
    rule = sim.faults.inject(CLAIM_WRITES, Reply(403, "Forbidden", "claims are not yours"))
    async with storage.loop.running(), sim.scheduler():
        await sim.until(lambda: "claims are not yours" in sim.message("web-0"))
        rule.stop()
        await sim.until_settled(1)


@pytest.mark.parametrize("made", [False, True], ids=["found", "made"])
@pytest.mark.parametrize("after", [0, 1], ids=["after the write", "before the binding"])
async def test_a_new_leader_goes_on_with_the_volumes_of_the_old(
    sim: SimulationHarness, storage: VolumeHarness, made: bool, after: int
) -> None:
    sim.create(a_claim("data-0", of="late" if made else "hand"), web())
    if not made:
        sim.create(a_volume(of="hand").usable_in("z1"))
    moment = BINDINGS if after else (CLAIM_WRITES if made else VOLUME_WRITES)
    hit = sim.faults.inject(
        moment, ConcurrentAction(lambda: sim.kill("one"), after=not after), times=1
    )
    async with storage.loop.running(), sim.scheduler("one"):
        await sim.until(lambda: len(hit.matched) == 1)
        async with sim.scheduler("two"):
            await sim.until_settled(1)
    assert len(sim.cluster.objects("persistentvolumes")) == 1


async def test_a_pod_deleted_while_it_waits_leaves_the_volume_to_the_next(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    storage.enabled = False
    sim.create(a_claim("data-0"), web())
    async with storage.loop.running(), sim.scheduler() as scheduler:
        await sim.until(lambda: storage.selected("data-0") != "")
        selected = storage.selected("data-0")
        sim.delete("pod", "web-0")
        await sim.until(lambda: not scheduler.engine.cluster.assumed)
        sim.create(web())
        storage.enabled = True
        await sim.until_settled(1)
    assert sim.node_of("web-0") == selected, "the claim had been handed to the provisioner"


async def test_two_pods_share_a_claim_that_is_made_for_the_first(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    sim.create(a_claim("data-0"), *(a_pod(f"p{n}").needs(cpu=1).with_claim("data-0") for n in "ab"))
    async with storage.loop.running(), sim.scheduler():
        await sim.until_settled(2)
    assert sim.node_of("pa") == sim.node_of("pb")


async def test_a_claim_for_one_pod_goes_from_one_to_the_next(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    sim.create(a_claim("data-0").with_spec(accessModes=["ReadWriteOncePod"]))
    sim.create(web(), a_pod("next").needs(cpu=1).with_claim("data-0"))
    async with storage.loop.running(), sim.scheduler():
        await sim.until(lambda: sim.bound() == 1)
        await sim.until(lambda: "ReadWriteOncePod" in sim.message("next") + sim.message("web-0"))
        first = "web-0" if sim.node_of("web-0") else "next"
        sim.delete("pod", first)
        await sim.until_settled(1)


async def test_a_gang_binds_when_the_volumes_of_its_members_are(
    sim: SimulationHarness, storage: VolumeHarness
) -> None:
    for number, pod in enumerate(members("g", 6)):
        sim.create(a_claim(f"data-{number}"), pod.with_claim(f"data-{number}"))
    async with storage.loop.running(), sim.scheduler():
        await sim.until_settled(6)
