"""Devices with the real resourceclaim controller, which makes claims and cleans up behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane.daemon import Daemon, install_rbac
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, a_pod, until

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"
GANG = "gang.scheduling.koordinator.sh/"


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """Two nodes with two large cards each and a small one, and a template for a large one."""
    skip_without_binary()
    async with ControlPlane(controllers=True) as running:
        await install_rbac(running)
        await running.post_all("/api/v1/nodes", [a_node(f"n{n}") for n in range(2)])
        for n in range(2):
            await running.post(f"{API}/resourceslices", _cards(f"n{n}"))
        await running.apply([_class(), _template()])
        yield running


def _cards(node: str) -> Object:
    devices = [
        {
            "name": f"card-{n}",
            "attributes": {"model": {"string": "a100"}, "firmware": {"version": "2.10.0"}},
            "capacity": {"memory": {"value": memory}},
        }
        for n, memory in enumerate(("20Gi", "80Gi", "80Gi"))
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
    return _object("ResourceSlice", f"{node}-cards", spec)


def _class() -> Object:
    chosen = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "a100"'
    return _object("DeviceClass", "gpu", {"selectors": [{"cel": {"expression": chosen}}]})


def _template() -> Object:
    large = (
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0 && '
        f'device.attributes["{DRIVER}"].firmware.isGreaterThan(semver("2.9.0"))'
    )
    selectors = [{"cel": {"expression": large}}]
    exactly = {"deviceClassName": "gpu", "selectors": selectors}
    spec = {"devices": {"requests": [{"name": "card", "exactly": exactly}]}}
    template = _object("ResourceClaimTemplate", "large", {"spec": spec})
    template["metadata"]["namespace"] = "default"
    return template


def _object(kind: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _worker(name: str, gang: Mapping[str, str] | None = None) -> Object:
    """A pod with a large card."""
    pod = a_pod(name)
    pod["metadata"]["annotations"] = {GANG + key: value for key, value in (gang or {}).items()}
    pod["spec"]["resourceClaims"] = [{"name": "card", "resourceClaimTemplateName": "large"}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "card"}]
    return pod


async def _bound(plane: ControlPlane) -> dict[str, str]:
    """Pod → its node."""
    pods = (await plane.get(PODS))["items"]
    return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if "nodeName" in p["spec"]}


async def _cards_of(plane: ControlPlane) -> dict[str, str]:
    """Pod → the card that its claim has, all of them different and on the pods' nodes."""
    bound, cards = await _bound(plane), {}
    for claim in (await plane.get(CLAIMS))["items"]:
        status = claim.get("status", {})
        if "allocation" not in status:
            continue
        (user,) = status["reservedFor"]
        (result,) = status["allocation"]["devices"]["results"]
        assert result["device"] in ("card-1", "card-2"), "a large one"
        assert bound.get(user["name"], result["pool"]) == result["pool"]
        cards[user["name"]] = f"{result['pool']}/{result['device']}"
    assert len(set(cards.values())) == len(cards), f"given twice: {cards}"
    return cards


async def _until_bound(plane: ControlPlane, count: int) -> None:
    async def reached() -> bool:
        return len(await _bound(plane)) == count

    await until(reached, what=f"{count} bound pods")


async def _message(plane: ControlPlane, name: str) -> str:
    pod = await plane.get(f"{PODS}/{name}")
    return " ".join(c.get("message", "") for c in pod["status"].get("conditions", []))


async def _end(plane: ControlPlane, *names: str) -> None:
    for name in names:
        status, answer = await plane.request(
            "DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0, "kind": "DeleteOptions"}
        )
        assert status == 200, answer


async def test_cards_are_given_once_whoever_restarts(plane: ControlPlane) -> None:
    first = await Daemon.start(plane, "first")
    names = [f"w{n}" for n in range(5)]
    await plane.post_all(PODS, [_worker(name) for name in names])
    await _until_bound(plane, 4)
    (late,) = set(names) - set(await _bound(plane))

    async def told() -> bool:
        return "2 cannot allocate all claims" in await _message(plane, late)

    await until(told, what="the reason of the one too many")
    cards = await _cards_of(plane)
    assert len(cards) == 4
    await first.kill()

    second = await Daemon.start(plane, "second")
    gone = names[0] if names[0] != late else names[1]
    await _end(plane, gone)
    await _until_bound(plane, 4)

    async def moved() -> bool:
        return late in await _bound(plane)

    await until(moved, what="the one too many on the card that is free")
    after = await _cards_of(plane)
    assert after[late] == cards[gone]
    assert {name: card for name, card in after.items() if name != late} == {
        name: card for name, card in cards.items() if name != gone
    }, "nobody else's card has changed"
    assert await second.stop() == 0, second.log_lines()


async def test_a_gang_gets_all_of_its_cards_or_none(plane: ControlPlane) -> None:
    daemon = await Daemon.start(plane)
    await plane.post_all(PODS, [_worker("a"), _worker("b")])
    await _until_bound(plane, 2)
    gang = {"name": "g", "min-available": "3"}
    await plane.post_all(PODS, [_worker(f"g{n}", gang) for n in range(3)])

    async def told() -> bool:
        texts = [await _message(plane, f"g{n}") for n in range(3)]
        return any("cannot allocate all claims" in text for text in texts)

    await until(told, what="the gang's reason")
    assert sorted(await _cards_of(plane)) == ["a", "b"]
    await _end(plane, "a")
    await _until_bound(plane, 4)
    assert sorted(await _cards_of(plane)) == ["b", "g0", "g1", "g2"]
    assert await daemon.stop() == 0, daemon.log_lines()


async def test_whatever_we_write_is_taken_by_the_api_server(plane: ControlPlane) -> None:
    """Alternatives, configuration, tolerations, access for administration; two pods share it.

    What the driver is told is posted with spaces in it, which the server's JSON loses.
    """
    told = {"opaque": {"driver": DRIVER, "parameters": {"kind": "Told", "mode": "shared"}}}
    await plane.merge(f"{API}/deviceclasses/gpu", {"spec": {"config": [told]}})
    admin = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await plane.merge("/api/v1/namespaces/default", admin)
    options = [
        {"name": "four", "deviceClassName": "gpu", "count": 4},
        {"name": "two", "deviceClassName": "gpu", "count": 2},
    ]
    tolerations = [{"key": "sick", "operator": "Exists", "effect": "NoSchedule"}]
    watched = {"deviceClassName": "gpu", "allocationMode": "All", "adminAccess": True}
    requests = [
        {"name": "some", "firstAvailable": options},
        {"name": "one", "exactly": {"deviceClassName": "gpu", "tolerations": tolerations}},
    ]
    model = f"{DRIVER}/model"
    claim = _object("ResourceClaim", "all-kinds", {"devices": {"requests": requests}})
    claim["spec"]["devices"] |= {
        "constraints": [{"requests": ["some", "one"], "matchAttribute": model}],
        "config": [{"requests": ["some/two"], **told}, told],
    }
    await plane.post(CLAIMS, claim)
    monitor = {"devices": {"requests": [{"name": "cards", "exactly": watched}]}}
    await plane.post(CLAIMS, _object("ResourceClaim", "monitor", monitor))
    daemon = await Daemon.start(plane)
    for name in ("a", "b"):
        pod = a_pod(name)
        pod["spec"]["resourceClaims"] = [
            {"name": each, "resourceClaimName": each} for each in ("all-kinds", "monitor")
        ]
        await plane.post(PODS, pod)
    await _until_bound(plane, 2)
    assert len(set((await _bound(plane)).values())) == 1
    found = (await plane.get(f"{CLAIMS}/all-kinds"))["status"]
    assert {user["name"] for user in found["reservedFor"]} == {"a", "b"}
    results = found["allocation"]["devices"]["results"]
    assert [each["request"] for each in results] == ["some/two", "some/two", "one"]
    assert len({each["device"] for each in results}) == 3
    config = found["allocation"]["devices"]["config"]
    sources = [(each["source"], each.get("requests")) for each in config]
    assert sources == [
        ("FromClass", ["some/two", "one"]),
        ("FromClaim", ["some/two"]),
        ("FromClaim", None),
    ]
    seen = (await plane.get(f"{CLAIMS}/monitor"))["status"]["allocation"]["devices"]["results"]
    assert [each["adminAccess"] for each in seen] == [True] * 3
    assert await daemon.stop() == 0, daemon.log_lines()
