"""Whatever one tenant's objects hold, another tenant's jobs run to their end."""

from __future__ import annotations

import random
from copy import deepcopy
from itertools import product
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.odd_values import ODD, spoil
from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.quarantine.harness import CULPRIT, DEEP, DIGITS, Object, TwoTenants
from tests.simulation.quarantine.valid import objects, statuses

pytestmark = VIRTUAL_TIME

KINDS = sorted(objects())
#: Beside wrong types: what is too large, too long, or too deep.
_MONSTERS: list[Any] = [
    *(2**31, 2**53, 2**63, -(2**63), 1e300, 10**9),
    *(DEEP, DIGITS, "9" * 5_000, "x" * 100_000, "[" * 5_000, '{"a":' * 3_000),
    *("0-999999," * 200, "1e999999", "P1Y", "\x00\x1b[2J", "0001-01-01T00:00:00Z"),
    *([{"name": str(n)} for n in range(3_000)], {str(n): "1" for n in range(3_000)}),
]
_ODD = [*ODD, *_MONSTERS]


@pytest.mark.parametrize("kind", KINDS)
async def test_spoilt_objects(kind: str) -> None:
    await judge(kind, seed=1, number=60)


@pytest.mark.parametrize("kind", KINDS)
async def test_spoilt_statuses(kind: str) -> None:
    await judge(kind, seed=2, number=40, part="status")


async def judge(kind: str, *, seed: int, number: int, part: str = "") -> None:
    """Spoilt objects come, are edited, and go; nobody else notices."""
    tenants, rng = TwoTenants(seed), random.Random(f"{kind} {seed}")
    with capture_logs() as logs:
        await _play(tenants, kind, rng, number, part)
    faults = [line for line in logs if line["event"] == "object.quarantined"]
    ours = [line for line in faults if not line["error"].startswith("UnreadableError")]
    assert not [(line["error"], line["place"]) for line in ours]


async def _play(tenants: TwoTenants, kind: str, rng: random.Random, number: int, part: str) -> None:
    async with tenants.at_work():
        for n in range(number):
            tenants.create(spoilt(kind, f"bad-{n}", rng, part))
        await tenants.neighbour_ends("after")
        for n in range(0, number, 2):
            tenants.replace(spoilt(kind, f"bad-{n}", rng, part))
        await tenants.neighbour_ends("after-edits")
        for n in range(0, number, 3):
            tenants.delete(spoilt(kind, f"bad-{n}", rng, part))
        await tenants.neighbour_ends("after-deletions")


def spoilt(kind: str, name: str, rng: random.Random, part: str) -> Object:
    """An object of the kind of which one field is odd: of its spec, its status or annotations."""
    obj = deepcopy(objects()[kind])
    obj["metadata"]["name"] = name
    obj["status"] = deepcopy(statuses()[kind])
    for field in ("status",) if part else ("spec", "target", "action"):
        if field in obj:
            obj[field] = spoil(obj[field], rng, _ODD)
    notes = obj["metadata"].get("annotations")
    if notes and rng.random() < 0.3:
        notes[rng.choice(list(notes))] = str(rng.choice(_ODD))
    return obj


async def test_an_object_nested_by_thousands_is_told_to_its_owner() -> None:
    tenants = TwoTenants()
    async with tenants.at_work():
        for kind in ("Job", "TYJob"):
            obj = objects()[kind]
            part = obj["spec"]["tasks"][0] if kind == "Job" else obj["spec"]["leader"]
            part["template"]["spec"]["deep"] = DEEP
            tenants.create(obj)
        await tenants.neighbour_ends("after")
        for kind in ("Job", "TYJob"):
            assert tenants.told(kind, "bad") == [
                "it cannot be read, and what was known of it holds on: it is nested too deeply"
            ]
        assert tenants.quarantined()["Job"] == 1
        for kind in ("Job", "TYJob"):
            tenants.replace(objects()[kind])
        await tenants.neighbour_ends("after-edits")
        assert tenants.quarantined()["Job"] == 0
        assert CULPRIT in {pod["metadata"]["namespace"] for pod in tenants.cluster.objects("pods")}


#: Moments at both ends of the calendar, some of which no calendar in UTC has; and durations.
_MOMENTS = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999999-14:00",
)
_SECONDS = (0, 2**31 - 1, 2**31, 2**63 - 1, -(2**63))


def _moments_replaced(value: Any, moment: str, seconds: int, key: str = "") -> Any:
    """The value with each time in it, and each number of seconds, replaced."""
    if isinstance(value, dict):
        return {k: _moments_replaced(v, moment, seconds, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_moments_replaced(v, moment, seconds) for v in value]
    if isinstance(value, str) and value.startswith("2026-"):
        return moment
    return seconds if "econds" in key and isinstance(value, int) else value


@pytest.mark.parametrize("kind", KINDS)
async def test_moments_at_the_ends_of_the_calendar_and_endless_durations(kind: str) -> None:
    tenants = TwoTenants()
    with capture_logs() as logs:
        async with tenants.at_work():
            for n, (moment, seconds) in enumerate(product(_MOMENTS, _SECONDS)):
                for state in ("Completed", "Running", "Failed", "Terminating"):
                    obj = deepcopy(objects()[kind])
                    obj["metadata"]["name"] = f"bad-{n}-{state.lower()}"
                    obj["status"] = deepcopy(statuses()[kind])
                    obj["metadata"].pop("annotations", None)
                    if kind == "Job":
                        obj["status"]["state"]["phase"] = state
                    if kind == "TYJob":
                        obj["status"]["stage"] = state
                    tenants.create(_moments_replaced(obj, moment, seconds))
            await tenants.neighbour_ends("after", within=600)
    faults = [line for line in logs if line["event"] == "object.quarantined"]
    ours = [line for line in faults if not line["error"].startswith("UnreadableError")]
    assert not [(line["error"], line["place"]) for line in ours]
