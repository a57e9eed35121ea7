"""What a writer asks of the server, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from arranger.controllers.runtime.writer import StatusError, Writer, slow_start
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from tests.faults.injector import WRITES, FaultInjector
from tests.faults.kinds import Reply

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def writer() -> Writer:
    return Writer(InProcessTransport(EmbeddedCluster(rng=random.Random(1))))


def a_map(data: str = "1") -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m", "namespace": "default"},
        "data": {"k": data},
    }


async def test_what_is_there_already_is_read(writer: Writer) -> None:
    first = msgspec.json.decode(await writer.create_or_get(MAPS, a_map()))
    again = msgspec.json.decode(await writer.create_or_get(MAPS, a_map("2")))
    assert again == first
    with pytest.raises(StatusError) as raised:
        await writer.create(MAPS, a_map())
    assert raised.value.conflict
    assert "already exists" in raised.value.message


async def test_a_change_of_an_older_state_is_a_conflict(writer: Writer) -> None:
    created = msgspec.json.decode(await writer.create(MAPS, a_map()))
    version = created["metadata"]["resourceVersion"]
    change = {"data": {"k": "2"}}
    changed = await writer.patch(f"{MAPS}/m", change, resource_version=version)
    assert msgspec.json.decode(changed)["data"] == {"k": "2"}
    with pytest.raises(StatusError) as raised:
        await writer.patch(f"{MAPS}/m", {"data": {"k": "3"}}, resource_version=version)
    assert raised.value.conflict
    await writer.patch(f"{MAPS}/m", {"data": {"k": None}})
    assert not msgspec.json.decode(await writer.get(f"{MAPS}/m")).get("data")


async def test_only_the_object_that_is_meant_is_deleted(writer: Writer) -> None:
    created = msgspec.json.decode(await writer.create(MAPS, a_map()))
    await writer.delete(f"{MAPS}/m", uid="another")
    assert await writer.get(f"{MAPS}/m")
    await writer.delete(f"{MAPS}/m", uid=created["metadata"]["uid"])
    await writer.delete(f"{MAPS}/m", uid=created["metadata"]["uid"])
    with pytest.raises(StatusError) as raised:
        await writer.get(f"{MAPS}/m")
    assert raised.value.not_found


async def test_a_conflict_about_what_is_as_it_was_meant_is_told() -> None:
    faults = FaultInjector()
    writer = Writer(InProcessTransport(EmbeddedCluster(rng=random.Random(1)), hook=faults))
    meta = msgspec.json.decode(await writer.create(MAPS, a_map()))["metadata"]
    uid, version = meta["uid"], meta["resourceVersion"]
    for known in ("", version):
        faults.inject(WRITES, Reply(409, "Conflict"), times=1)
        with pytest.raises(StatusError):
            await writer.delete(f"{MAPS}/m", uid=uid, resource_version=known)
    await writer.patch(f"{MAPS}/m", {"data": {"k": "2"}})
    await writer.delete(f"{MAPS}/m", uid=uid, resource_version=version)  # the watch will tell
    assert await writer.get(f"{MAPS}/m")


async def test_what_the_server_would_refuse_again_is_invalid(writer: Writer) -> None:
    with pytest.raises(StatusError) as raised:
        await writer.create(MAPS, {**a_map(), "metadata": {"name": "Not a name"}})
    assert raised.value.invalid


async def test_batches_double_and_end_with_the_first_that_fails() -> None:
    sizes: list[int] = []
    under_way: list[asyncio.Future[None]] = []

    async def create(number: int) -> bool:
        under_way.append(asyncio.get_running_loop().create_future())
        await under_way[-1]
        return number != 100

    async def answer() -> None:
        """The server answers when no more requests come."""
        while True:
            known = len(under_way)
            for _ in range(5):
                await asyncio.sleep(0)
            if under_way and known == len(under_way):
                sizes.append(known)
                for each in under_way:
                    each.set_result(None)
                under_way.clear()

    server = asyncio.create_task(answer())
    assert not await slow_start(create, range(1000))
    assert sizes == [1, 2, 4, 8, 16, 32, 32, 32]
    assert await slow_start(create, range(3))
    assert await slow_start(create, ())
    server.cancel()


async def test_an_error_is_raised_when_its_batch_has_ended() -> None:
    ended: list[int] = []

    async def create(number: int) -> bool:
        if number == 1:
            raise StatusError(500, "not well")
        await asyncio.sleep(0)
        ended.append(number)
        return True

    with pytest.raises(StatusError):
        await slow_start(create, range(10))
    assert ended == [0, 2]
